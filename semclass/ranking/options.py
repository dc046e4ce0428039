"""The options of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from semclass.core.checks import check_choice, check_positive, check_weights
from semclass.ranking.methods import METHODS, WEIGHTS
from semclass.ranking.models import SHARES


class SearchKeywords(TypedDict, total=False):
    """The attributes of :class:`SearchOptions`, as keyword arguments of a search method."""

    method: str | None
    weights: Mapping[str, float] | None
    candidates: int | None
    where: Mapping[str, Any] | None
    boost: Mapping[str, float] | Sequence[str] | None
    texts: Sequence[str] | None
    explain: bool


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search: how it ranks passages, and which passages it may find.

    Each attribute is also a keyword argument of search methods. Values that are not allowed raise an ``InputError``.

    Attributes
    ----------
    method
        A method of :data:`semclass.ranking.methods.METHODS`. Defaults to :attr:`semclass.HybridRetriever.method`.
    weights
        Weights by name, in place of the weights in :attr:`semclass.HybridRetriever.weights`. Weights that the method
        does not read have no effect. ``alpha`` and ``coverage`` are from 0 to 1, and all other weights are at least 0.
        ``coverage`` is the share of the question's words that a passage must have for BM25 to have its full weight in
        convex fusion. It is 0 unless the models are for several languages.
    candidates
        How many passages to re-rank. Defaults to the number of the method. If `k` is larger, the other passages follow
        in their order before re-ranking, so that the first hits do not depend on `k`.
    where
        A filter over the metadata, such as ``{"page": {"$gte": 3}}``, see :mod:`semclass.index.filters`. The search
        filters before it ranks, so it returns `k` matching passages if the index holds that many.
    boost
        Names of heads that both the models and the index have, or weights by these names. A passage ranks higher if the
        head gives it the same label as the question, see ``semclass.ranking.boost``.
    texts
        Texts, such as imagined answers, whose mean vector takes the place of the question's vector in finding passages
        (HyDE). BM25 and re-ranking still read the question.
    explain
        Whether hits explain their scores, see :class:`semclass.Explanation`.
    """

    method: str | None = None
    weights: Mapping[str, float] | None = None
    candidates: int | None = None
    where: Mapping[str, Any] | None = None
    boost: Mapping[str, float] | Sequence[str] | None = None
    texts: Sequence[str] | None = None
    explain: bool = False

    def __post_init__(self) -> None:
        """Check what needs no models and no index."""
        if self.method is not None:
            check_choice(self.method, tuple(METHODS), "method")
        object.__setattr__(self, "weights", check_weights(self.weights or {}, WEIGHTS, SHARES))
        if self.candidates is not None:
            check_positive(self.candidates, "candidates")
