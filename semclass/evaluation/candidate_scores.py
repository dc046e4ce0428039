"""What the methods of re-ranking are made of, for many questions at once, so that every weight costs only a sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

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
    """Candidates of q questions, d of each, best first: of shape (q, d), see :meth:`semclass.Models.signals`."""

    rows: IntArray  # places in the index
    score: DoubleArray  # dense and BM25, fused
    match_soft: DoubleArray
    match_hard: DoubleArray
    entailment: DoubleArray
    entails: DoubleArray
    evidence: DoubleArray
    learned: DoubleArray

    def __len__(self) -> int:
        """Count the questions."""
        return len(self.rows)

    def signal(self, method: Method) -> DoubleArray:
        """The signal of a method; its 0/1 label where the method is hard or stable."""
        if method.rerank == "evidence":
            return self.evidence
        soft, hard = {
            "class": (self.match_soft, self.match_hard),
            "entailment": (self.entailment, self.entails),
        }[method.signal]
        return hard if method.hard or method.rerank == "stable" else soft

    def keys(self, method: Method, weight: float = 0.0) -> DoubleArray:
        """What a method sorts by, largest first, (q, d); equal keys keep the order before; `weight` is of its signal."""
        if method.rerank is None:
            return self.score
        if method.rerank == "learned":
            return self.learned
        if method.rerank == "stable":
            return self.signal(method)
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
) -> Components:
    """Find every question's candidates and compute all their components, each once."""
    used = retriever.used(weights)
    made = []
    for query in queries:
        found = retriever.candidates(query, depth, method, weights=used)
        made.append(Components(found.rows, found.score, **retriever.models.signals(query, found)))
    return Components(*(np.stack([getattr(one, item.name) for one in made]) for item in fields(Components)))


def reciprocal_ranks(keys: DoubleArray, relevant: npt.NDArray[np.bool_]) -> DoubleArray:
    """Reciprocal rank of the best relevant candidate of each question."""
    best = np.where(relevant, keys, -np.inf).argmax(axis=1)[:, None]  # the first of the best
    top = np.take_along_axis(keys, best, axis=1)
    before = (keys > top) | ((keys == top) & (np.arange(keys.shape[1]) < best))
    rank = 1 + before.sum(axis=1)
    return np.where(relevant.any(axis=1) & (rank <= CUTOFF), 1 / rank, 0.0)
