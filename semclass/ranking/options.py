"""The options of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

from semclass.core.checks import check_choice, check_positive, check_probability, check_weight
from semclass.core.errors import InputError
from semclass.ranking.methods import COVERAGE, DEFAULT, WEIGHTS, Method, find_method


class SearchKeywords(TypedDict, total=False):
    """The attributes of :class:`SearchOptions`, as keyword arguments of a search method."""

    method: str
    fusion: str | None
    weights: Mapping[str, float] | None
    candidates: int | None
    where: Mapping[str, Any] | None
    boost: Mapping[str, float] | Sequence[str] | None
    explain: bool


@dataclass(frozen=True)
class SearchOptions:
    """How a search ranks passages, and which passages it may find.

    You can also pass each of these attributes to a search method as a keyword argument.

    Attributes
    ----------
    method
        A method of :data:`semclass.ranking.methods.METHODS`. ``"default"`` is the recommended method.
    fusion
        How to fuse the scores of vectors and BM25, in place of the method's own fusion: ``"convex"``, ``"linear"`` or
        ``"rrf"``. See :mod:`semclass.scoring.fusion`.
    weights
        Weights by name, in place of the weights in :attr:`semclass.HybridRetriever.weights`. Weights that the method
        does not read have no effect. ``alpha`` and ``coverage`` are from 0 to 1, and all other weights are at least 0.
        ``document``, 0 by default, weights the scores of the first passage of the same document. Use it for
        chunks that do not name their topic. ``coverage`` is the share of the question's words that a passage must have
        for BM25 to have its full weight in convex fusion. It is 0 unless the models are for several languages.
    candidates
        How many passages to re-rank. Defaults to the number of the method. If `k` is larger, the other passages follow
        in their order before re-ranking, so that the first hits do not depend on `k`.
    where
        A filter over the metadata, such as ``{"page": {"$gte": 3}}``, see :mod:`semclass.index.filters`. The search
        filters before it ranks, so it returns `k` matching passages if the index holds as many.
    boost
        Names of heads that both the models and the index have, or weights by these names. A passage ranks higher if the
        head gives it the same label as the question, see ``semclass.ranking.boost``.
    explain
        Whether hits explain their scores, see :class:`semclass.Explanation`.

    Raises
    ------
    InputError, InputTypeError
        If a value is not allowed.
    """

    method: str = DEFAULT
    fusion: str | None = None
    weights: Mapping[str, float] | None = None
    candidates: int | None = None
    where: Mapping[str, Any] | None = None
    boost: Mapping[str, float] | Sequence[str] | None = None
    explain: bool = False

    def __post_init__(self) -> None:
        """Check what needs no models and no index."""
        self.how  # noqa: B018 - finds the method
        object.__setattr__(self, "weights", check_weights(self.weights))
        if self.candidates is not None:
            check_positive(self.candidates, "candidates")

    @cached_property
    def how(self) -> Method:
        """The method, with `fusion` if it is given."""
        return find_method(self.method, self.fusion)


def check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Check the weights of a caller.

    The names must be in `WEIGHTS`. ``alpha`` and ``coverage`` must be from 0 to 1, and all other weights finite and not
    negative.
    """
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise InputError(f"weights must map names to numbers, such as {{'alpha': 0.6}}, not {weights!r}")
    for name in weights:
        check_choice(name, WEIGHTS, "a weight")
    return {
        name: check_probability(value, name) if name in ("alpha", COVERAGE) else check_weight(value, name)
        for name, value in weights.items()
    }
