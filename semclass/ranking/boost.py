"""Ranks passages higher if a head of your own predicts the same label for them and for the question.

A passage's score grows by weight * P(label | question) * P(label | passage). The index stores label and P(label | passage).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from semclass.core.checks import check_weight, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Label, Passage
from semclass.heads.texts import TextModel
from semclass.index.candidates import Candidates, summed
from semclass.index.passage_encoder import PROBABILITY, check_heads
from semclass.index.remote import SearchIndex
from semclass.ranking.methods import Method

BOOST = 0.5
"""Default weight. If classes separate right from wrong passages, 0.5 to 1 was best: ``docs/decisions/settled.md``."""

CANDIDATES = 10  #: number of passages that a boost re-ranks after a method that re-ranks none


def read_boost(
    boost: Mapping[str, float] | Sequence[str] | None,
    heads: Mapping[str, TextModel],
    index: SearchIndex,
    method: Method,
) -> dict[str, float]:
    """Check the heads that boost, and return their weights. If `boost` is None, there are none."""
    if isinstance(boost, str) or not isinstance(boost, (Mapping, Iterable, type(None))):
        raise InputTypeError(
            f'boost must be names of heads, or weights by name such as {{"topic": 0.5}}, not {short(boost)}'
        )
    weights = boost if isinstance(boost, Mapping) else dict.fromkeys(boost or (), BOOST)
    if weights and not method.is_sum:
        raise InputError("boost needs a method that ranks by a sum, and this method does not; use method='default'")
    for name in weights:
        if name not in heads:
            raise InputError(
                f"boost names the head {name!r}, which is not loaded; name its folder with heads={{{name!r}: ...}} or "
                f"--head {name}=DIR. The index has labels by the heads: {', '.join(sorted(index.heads)) or 'none'}"
            )
        if name not in index.heads:
            raise InputError(f"the index has no labels by head {name!r}; rebuild it with --head {name}=DIR --replace")
        check_heads("the index", {name: index.heads[name]}, {name: heads[name].fingerprint})
    return {name: check_weight(weight, f"boost[{name!r}]") for name, weight in weights.items()}


def boosted(
    ranked: Candidates, passages: Sequence[Passage], labels: Mapping[str, Label], weights: Mapping[str, float]
) -> Candidates:
    """Add the gain of each candidate to its score, and rank again. `labels` holds the question's labels by head."""
    matches = {
        name: np.array([_match(labels[name], passage.metadata, name) for passage in passages]) for name in weights
    }
    gained = {f"boost:{name}": weight * matches[name] for name, weight in weights.items()}
    return summed(ranked, gained, {**ranked.components, **{f"boost:{name}": match for name, match in matches.items()}})


def _match(question: Label, metadata: Mapping[str, Any], name: str) -> float:
    """Return P(label | question) * P(label | passage) of the passage's best label, 0 for none."""
    value = metadata.get(name)
    labels: Iterable[Any] = value if isinstance(value, list) else [value]
    likely = max((question.probabilities.get(label, 0.0) for label in labels), default=0.0)
    return likely * float(metadata.get(name + PROBABILITY, 0.0))
