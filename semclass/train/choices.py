"""What cross-validation chooses among where the caller of a text classifier names no views."""

from __future__ import annotations

from collections.abc import Sequence

from semclass.core.types import Encoder
from semclass.train.fit import Choice
from semclass.train.solvers import affordable_kind

CHOICES = (
    Choice({"pooled": 1.0}, "logistic"),
    Choice({"pooled": 2.0, "layers": 1.0}, "logistic"),
    Choice({"layers": 1.0}, "auto"),
)
"""What the head may read where the caller names no views. Topics and intents are in ``pooled``, types of questions in
``layers``: accuracy over ``pooled``, both and ``layers`` is 0.781, 0.774 and 0.649 with 5 messages of each bank intent;
0.677, 0.765 and 0.833 with 500 questions of six classes. Over ``pooled`` a kernel machine gained half a point at a log loss
that was a seventh higher."""

SEVERAL = (
    Choice({"pooled": 1.0, "surface": 1.0, "entities": 1.0}, "logistic"),
    Choice({"pooled": 2.0, "layers": 1.0}, "logistic"),
)
"""The same where a text may have several labels. Whether a passage tells a name, a number or a place shows in its spelling
and its entities: with 480 of them log loss is 0.276, over `CHOICES` 0.394, 0.377 and 0.357."""


def choices_of(
    views: Sequence[str] | None, names: tuple[str, ...], encoder: Encoder, kind: str, multi_label: bool, examples: int
) -> tuple[tuple[str, ...], list[Choice] | None]:
    """Views to encode, and what to choose among over them; None where there is nothing to choose."""
    if views is not None or not {"pooled", "layers"} <= set(names):
        return names, None
    offered: tuple[Choice, ...] = CHOICES
    if multi_label and "entities" in encoder.views:
        offered, names = SEVERAL, (*names, "surface", "entities")
    kinds = [choice.kind if kind == "auto" else kind for choice in offered]
    return names, [Choice(one.weights, affordable_kind(k, examples)) for one, k in zip(offered, kinds, strict=True)]
