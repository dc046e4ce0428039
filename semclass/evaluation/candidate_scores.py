"""What the methods of re-ranking are made of, for many questions at once.

One pass over the questions stores the components of every candidate; each method, with each weight, is then a few
operations on arrays, and a search over a thousand weights takes no longer than the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, IntArray
from semclass.index.records import Query
from semclass.ranking.methods import Method
from semclass.ranking.retriever import HybridRetriever

CUTOFF = 10
"""Places that count in MRR@10."""


@dataclass(frozen=True)
class Components:
    """Candidates of q questions, d of each, in the order before re-ranking. All float64 of shape (q, d), but `rows`.

    Attributes
    ----------
    rows
        Their places in the index, int64 of shape (q, d).
    dense, bm25
        Similarity of the vectors, and BM25 score.
    score
        What they are ordered by, largest first: the two, fused.
    match_soft, match_hard
        Class match as re-ranking has it, see :meth:`semclass.Models.signals`.
    entailment, entails
        P(passage answers question) from the two texts, and 1 where it reaches the head's threshold, else 0.
    learned
        The learned head's probability, which takes the d candidates together into account.
    """

    rows: IntArray
    dense: DoubleArray
    bm25: DoubleArray
    score: DoubleArray
    match_soft: DoubleArray
    match_hard: DoubleArray
    entailment: DoubleArray
    entails: DoubleArray
    learned: DoubleArray

    def __len__(self) -> int:
        """Count the questions."""
        return len(self.rows)

    def signal(self, method: Method) -> DoubleArray:
        """The signal of a method; its 0/1 label where the method is hard."""
        names = {"class": ("match_soft", "match_hard"), "entailment": ("entailment", "entails")}
        found: DoubleArray = getattr(self, names[method.signal][method.hard])
        return found

    def keys(self, method: Method, weight: float = 0.0) -> DoubleArray:
        """What a method sorts by, largest first, (q, d); equal keys keep the order before; `weight` is of its signal."""
        if method.rerank is None:
            return self.score
        if method.rerank == "learned":
            return self.learned
        if method.rerank == "stable":
            return self.signal(replace(method, hard=True))
        return np.asarray(self.score + weight * self.signal(method))

    def order(self, method: Method, weight: float = 0.0) -> IntArray:
        """Places in the old order by a method, best first, int64 of shape (q, d)."""
        return np.argsort(-self.keys(method, weight), axis=1, kind="stable")


def collect(
    retriever: HybridRetriever,
    queries: Iterable[Query],
    depth: int,
    method: Method,
    *,
    weights: Mapping[str, float] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Components:
    """Find every question's candidates and compute all their components, each once."""
    columns: dict[str, list[npt.NDArray[Any]]] = {item.name: [] for item in fields(Components)}
    used = retriever.used(weights)
    for query in queries:
        found = retriever.candidates(query, depth, method, weights=used)
        parts = {"rows": found.rows, "dense": found.dense, "bm25": found.bm25, "score": found.score}
        for name, values in {**parts, **retriever.models.signals(query, found)}.items():
            columns[name].append(values)
        if progress is not None:
            progress(1)
    d = min(depth, len(retriever.index))
    stacked: dict[str, Any] = {
        name: np.array(rows, np.int64 if name == "rows" else np.float64).reshape(-1, d)
        for name, rows in columns.items()
    }
    return Components(**stacked)


def reciprocal_ranks(keys: DoubleArray, relevant: npt.NDArray[np.bool_], cutoff: int = CUTOFF) -> DoubleArray:
    """Reciprocal rank of the best relevant candidate of each question."""
    best = np.where(relevant, keys, -np.inf).argmax(axis=1)[:, None]  # the first of the best
    top = np.take_along_axis(keys, best, axis=1)
    before = (keys > top) | ((keys == top) & (np.arange(keys.shape[1]) < best))
    rank = 1 + before.sum(axis=1)
    return np.where(relevant.any(axis=1) & (rank <= cutoff), 1 / rank, 0.0)


def ranks_along(
    base: DoubleArray, signal: DoubleArray, relevant: npt.NDArray[np.bool_], weights: DoubleArray
) -> IntArray:
    """Rank of the best relevant candidate in the order of base + weight * signal, for every weight at once.

    As the weight grows, a candidate overtakes another at most once: where base + weight * signal of the two are equal.
    So no order is ever made; each pair of a relevant candidate and another is counted from, or up to, one weight on.
    Exhaustive search thus costs little more than looking at every candidate once.
    """
    q, d = base.shape
    best = np.full((q, len(weights)), d + 1, np.int64)
    ordinal = np.cumsum(relevant, axis=1)
    for number in range(
        1, int(ordinal[:, -1].max(initial=0)) + 1
    ):  # the first relevant candidate of each, the second ...
        rows = np.flatnonzero(ordinal[:, -1] >= number)
        place = ((ordinal[rows] == number) & relevant[rows]).argmax(axis=1)[:, None]
        steps = _overtakings(base[rows], signal[rows], place, weights)
        best[rows] = np.minimum(best[rows], 1 + np.cumsum(steps, axis=1))
    return best


def _overtakings(base: DoubleArray, signal: DoubleArray, place: IntArray, weights: DoubleArray) -> IntArray:
    """How many more candidates stand before the one in `place` at each weight than at the weight before; (q, w)."""
    q, d = base.shape
    ahead = base - np.take_along_axis(base, place, axis=1)  # of the candidate in `place`, without the signal
    faster = signal - np.take_along_axis(signal, place, axis=1)
    wins_ties = np.arange(d) < place
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        meet = np.where(faster != 0, -ahead / faster, 0.0)
    # the first weight at which the two are no longer ordered as they are at weight 0: a faster one is before from its
    # meeting on, and a slower one after; at the meeting itself, the earlier candidate is before
    begins = np.where(faster > 0, wins_ties, ~wins_ties)
    change = np.where(begins, np.searchsorted(weights, meet, "left"), np.searchsorted(weights, meet, "right"))
    always = (ahead > 0) | ((ahead == 0) & wins_ties)
    # a candidate that moves no faster stays where it is
    start = np.where(faster > 0, change, 0)
    stop = np.where(faster < 0, change, np.where((faster > 0) | always, len(weights), 0))
    steps = np.zeros((q, len(weights) + 1), np.int64)
    row = np.broadcast_to(np.arange(q)[:, None], (q, d))
    others = np.arange(d) != place
    np.add.at(steps, (row[others], start[others]), 1)
    np.add.at(steps, (row[others], stop[others]), -1)
    return steps[:, :-1]
