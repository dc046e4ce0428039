"""The four re-ranking methods of the reference thesis: by class match or by entailment, with a partition or with a sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray
from semclass.index.candidates import Candidates, Query, Scoring, summed
from semclass.ranking.models import Models, Needs, Weights

Signal: TypeAlias = Callable[[Models, Query, Candidates, bool], tuple[DoubleArray, DoubleArray]]
"""Computes a signal of n candidates and its probabilities, each (n,). If the flag is set, the signal is 0 or 1."""


def class_match(
    question: DoubleArray, passages: npt.NDArray[np.floating], thresholds: DoubleArray, kind: str
) -> DoubleArray:
    """Return how well the classes of passages match the classes of a question, float64 of shape (n,), in [0, 1].

    `question` is P(class | question), (n_classes,), and `passages` is P(class | passage), (n, n_classes). `thresholds`
    holds the probabilities from which a passage has a class. As in the reference system, ``"hard"`` is 1 if the passage
    has the question's most probable class, else 0. ``"soft"`` is the inner product, P(both have one class) if they are
    independent.
    """
    if kind == "hard":
        asked = int(question.argmax())
        return np.asarray(passages[:, asked] >= thresholds[asked], np.float64)
    # not a product of BLAS, whose last digits depend on how many rows there are
    return np.asarray(np.einsum("nc,c->n", passages.astype(np.float64), question))


def class_signal(models: Models, query: Query, candidates: Candidates, hard: bool) -> tuple[DoubleArray, DoubleArray]:
    """Return how well the classes of question and passage match, see :func:`class_match`."""
    kind = "hard" if hard else "soft"
    match = class_match(query.probabilities, candidates.probabilities, candidates.thresholds, kind)
    return match, match


def entailment_signal(
    models: Models, query: Query, candidates: Candidates, hard: bool
) -> tuple[DoubleArray, DoubleArray]:
    """Return P(passage answers question). If `hard`, return 1 if it reaches the head's threshold, else 0."""
    relevance = models.pairs.relevance(models.pairs.features(query, candidates))
    label = (relevance >= models.pairs.entailment.thresholds[0]).astype(np.float64)
    return label if hard else relevance, relevance


@dataclass(frozen=True)
class BySignal:
    """Finds the ten best passages by dense + w * BM25, and adds weight * signal to their scores.

    Without a weight, it puts candidates with a positive signal first. Order within both groups, and scores, stay the same.
    """

    name: str
    needs: Needs
    signal_of: Signal
    component: str  # name of the probabilities in hits
    weight: str = ""  # name of the weight, and of the part in explanations
    hard: bool = False  # a label of 0 or 1 as the signal; sums are worse with labels
    candidates: ClassVar[int] = 10

    @property
    def weights(self) -> tuple[str, ...]:
        """Weights of BM25 and of the signal."""
        return ("bm25", self.weight) if self.weight else ("bm25",)

    @property
    def is_sum(self) -> bool:
        """Whether the method adds the signal."""
        return bool(self.weight)

    def scoring(self, weights: Weights) -> Scoring:
        """Score by the linear sum."""
        return Scoring({"dense": 1.0, "bm25": weights["bm25"]})

    def order(self, models: Models, query: Query, candidates: Candidates, weights: Weights) -> Candidates:
        """Sort by the sum, or partition the candidates."""
        signal, shown = self.signal_of(models, query, candidates, self.hard)
        if not self.weight:
            return replace(candidates, order=np.argsort(signal <= 0, kind="stable"), components={self.component: shown})
        return summed(candidates, {self.weight: weights[self.weight] * signal}, {self.component: shown})


_BY_CLASS = (Needs(classes=True), class_signal, "match")
_BY_ENTAILMENT = (Needs(tokens=True), entailment_signal, "relevance")

THESIS = (
    BySignal("class-stable", *_BY_CLASS, hard=True),
    BySignal("class-integrated", *_BY_CLASS, "class"),
    BySignal("entail-stable", *_BY_ENTAILMENT, hard=True),
    BySignal("entail-integrated", *_BY_ENTAILMENT, "entailment"),
)
