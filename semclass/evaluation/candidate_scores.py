"""Computes the components of re-ranking methods for many questions at once. Trying a weight then costs only a sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, IntArray
from semclass.index.records import Query
from semclass.ranking.methods import Method
from semclass.ranking.order import SIGNALS, signals, sort_keys
from semclass.ranking.retriever import HybridRetriever

CUTOFF = 10
"""Number of places that count in MRR@10."""


@dataclass(frozen=True)
class Components:
    """The d candidates of each of q questions, best first, as arrays of shape (q, d)."""

    rows: IntArray  # places in the index
    score: DoubleArray  # dense and BM25, fused
    signals: Mapping[str, DoubleArray]  # by name, see :func:`semclass.ranking.order.signals`

    def __len__(self) -> int:
        """Count the questions."""
        return len(self.rows)

    def signal(self, method: Method) -> DoubleArray:
        """Return the signal of a re-ranking method, or else the scores."""
        return self.signals.get(method.signal, self.score)

    def keys(self, method: Method, weight: float = 0.0) -> DoubleArray:
        """Return the keys by which a method sorts, largest first, (q, d).

        Equal keys keep their order. `weight` is the weight of the signal.
        """
        return sort_keys(method, self.score, self.signal(method), weight)

    def order(self, method: Method, weight: float = 0.0) -> IntArray:
        """Return the places of the candidates in the order of a method, best first, int64 of shape (q, d)."""
        return np.argsort(-self.keys(method, weight), axis=1, kind="stable")


def collect(
    retriever: HybridRetriever,
    queries: Iterable[Query],
    depth: int,
    method: Method,
    *,
    weights: Mapping[str, float] | None = None,
) -> Components:
    """Find every question's candidates, and compute all components once."""
    used = retriever.used(weights)
    rows, scores, found = [], [], []
    for query in queries:
        candidates = retriever.candidates(query, depth, method, weights=used)
        rows.append(candidates.rows)
        scores.append(candidates.score)
        found.append(signals(retriever.models, query, candidates))
    return Components(
        np.stack(rows), np.stack(scores), {name: np.stack([each[name] for each in found]) for name in SIGNALS}
    )


def reciprocal_ranks(keys: DoubleArray, relevant: npt.NDArray[np.bool_]) -> DoubleArray:
    """Return the reciprocal rank of the best relevant candidate of each question."""
    best = np.where(relevant, keys, -np.inf).argmax(axis=1)[:, None]  # the first of the best
    top = np.take_along_axis(keys, best, axis=1)
    before = (keys > top) | ((keys == top) & (np.arange(keys.shape[1]) < best))
    rank = 1 + before.sum(axis=1)
    return np.where(relevant.any(axis=1) & (rank <= CUTOFF), 1 / rank, 0.0)
