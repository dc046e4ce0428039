"""The methods of ranking, by name: objects that say what they read, how passages are found, and how they are ordered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from semclass.index.candidates import Candidates, Query, Scoring, sum_of, summed
from semclass.ranking.evidence import evidence_of
from semclass.ranking.models import Models, Needs, Weights
from semclass.ranking.statements import OTHER, answerable, by_words, certainty, standing
from semclass.ranking.thesis import THESIS

COVERAGE = "coverage"
"""Share of a question, 0 to 1, from which BM25 has its full weight in convex fusion.

The share is the best BM25 score, divided by the score of a passage that consists of the question. With a smaller share,
the weight is smaller in proportion. Models of several languages set it; the default, 0, always gives BM25 its full weight.
"""

DEFAULT = "default"
"""Default method of a search, chosen by ``python -m bench retrieval``, with each set left out in turn."""


class Method(Protocol):
    """A method of ranking. Its attributes are constants."""

    @property
    def name(self) -> str:
        """Key in `METHODS`."""

    @property
    def needs(self) -> Needs:
        """Parts of the question and of passages that the method reads, and its heads."""

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the weights that the method reads."""

    @property
    def candidates(self) -> int:
        """Number of passages that the method re-ranks, unless a search sets another number; 0 if it re-ranks none."""

    @property
    def is_sum(self) -> bool:
        """Whether the method ranks by a sum, to which a boost can be added."""

    def scoring(self, weights: Weights) -> Scoring:
        """Return how passages are scored before re-ranking."""

    def order(self, models: Models, query: Query, candidates: Candidates, weights: Weights) -> Candidates:
        """Rank n candidates: the same with ``order``, ``score`` and its parts. Ties keep their order."""


@dataclass(frozen=True)
class Fusion:
    """Ranks by a fusion of vectors, words and learnt words. See :mod:`semclass.scoring.fusion`."""

    name: str
    needs: Needs
    fusion: str = "convex"
    alone: str = ""  # the only signal of convex fusion
    candidates: ClassVar[int] = 0
    is_sum: ClassVar[bool] = True

    @property
    def weights(self) -> tuple[str, ...]:
        """The weight of the fusion, if it has one."""
        return {"linear": ("bm25",), "convex": () if self.alone else ("alpha", "sparse")}.get(self.fusion, ())

    def scoring(self, weights: Weights) -> Scoring:
        """Score by the fusion."""
        if self.fusion == "linear":
            return Scoring({"dense": 1.0, "bm25": weights["bm25"]})
        if self.fusion == "rrf":
            return Scoring(
                dict.fromkeys(("dense", "bm25", "sparse") if weights["sparse"] else ("dense", "bm25"), 1.0), "rrf"
            )
        if self.alone:
            return Scoring({"dense": 0.0, "bm25": 0.0, self.alone: 1.0}, "convex")
        words, learnt = 1 - weights["alpha"], weights["sparse"]
        shares = {"dense": weights["alpha"], "bm25": words * (1 - learnt), "sparse": words * learnt}
        return Scoring(shares, "convex", weights.get(COVERAGE, 0.0))

    def order(self, models: Models, query: Query, candidates: Candidates, weights: Weights) -> Candidates:
        """Keep the order."""
        return candidates


@dataclass(frozen=True)
class ByEvidence:
    """Adds the evidence of pair features to a convex fusion.

    Passages in a language that the models do not read are ranked by the words that they share with the question, unless
    the search has weights of its own.
    """

    name: str
    needs: Needs
    candidates: ClassVar[int] = 25  # with 50, no mean over domains changes by more than .0002
    is_sum: ClassVar[bool] = True

    @property
    def weights(self) -> tuple[str, ...]:
        """Weights of the fusion and of the evidence."""
        return (*CONVEX.weights, "evidence")

    def scoring(self, weights: Weights) -> Scoring:
        """Score by convex fusion."""
        return CONVEX.scoring(weights)

    def order(self, models: Models, query: Query, candidates: Candidates, weights: Weights) -> Candidates:
        """Add the evidence."""
        features, relevance = models.pairs.judge(query, candidates)
        language = None if models.language is None else models.language.language(query, candidates)
        if language == OTHER:
            if all(weights[name] == models.weights[name] for name in self.weights):
                return by_words(candidates, features)
            language = None  # weights that were tuned on this very text know better
        evidence = evidence_of(features, candidates)
        parts = {name: weights["evidence"] * part for name, part in evidence.items()}
        ranked = summed(candidates, parts, {"relevance": relevance})
        score = candidates.score + sum_of(evidence)
        word = None
        if len(ranked) > 1 and len(candidates.evidence.provides.values):
            word = certainty(standing(ranked.places, score, candidates.dense, relevance, features))
        probability = answerable(ranked.places, score, relevance)
        return replace(ranked, certainty=word, answerable=probability, language=language)


CONVEX = Fusion("convex", Needs(sparse=True))

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        ByEvidence(DEFAULT, Needs(tokens=True, sparse=True)),
        Fusion("bm25", Needs(vectors=False), alone="bm25"),
        Fusion("dense", Needs(), alone="dense"),
        CONVEX,
        Fusion("rrf", Needs(sparse=True), "rrf"),
        Fusion("hybrid", Needs(), "linear"),
        *THESIS,
    )
}
"""Each method by its name. ``bm25``, which encodes no question,
and ``dense`` rank by one score each, and ``convex`` and ``rrf`` fuse three. The methods from ``hybrid`` on use the sum of
the reference thesis, dense + w * BM25.
"""

RERANKING = tuple(method.name for method in METHODS.values() if method.candidates)  #: methods that re-rank candidates
WEIGHTS = (*dict.fromkeys(name for method in METHODS.values() for name in method.weights), COVERAGE)


def method_for(models: Models, name: str) -> Method:
    """Return a method, or ``convex`` in place of ``default`` without a pair head. Refuse one whose heads are missing."""
    method = METHODS[name]
    if name == DEFAULT and models.pair_heads is None:
        return CONVEX
    models.check(method.needs)
    return method
