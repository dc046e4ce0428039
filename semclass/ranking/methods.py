"""The methods of ranking, by name. Each is an object that defines its inputs, and how it finds and orders passages.

The default method also estimates the certainty of its first hit, and the probability that a passage answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from semclass.core.types import FloatArray
from semclass.heads.head import log_odds
from semclass.index.candidates import AROUND, Candidates, Query, Scoring, sum_of, summed
from semclass.ranking.features import COLUMN, evidence_of
from semclass.ranking.models import OTHER, Models, Needs, Weights
from semclass.ranking.thesis import THESIS, BySignal
from semclass.scoring.fusion import fused

COVERAGE = "coverage"
"""Share of a question, 0 to 1, from which BM25 has its full weight in convex fusion.

The share is the best BM25 score of any passage, divided by the highest score that a passage can reach for the question.
With a smaller share, the weight is smaller in proportion. Models for several languages set `COVERAGE`. With the default,
0, BM25 always has its full weight.
"""

DEFAULT = "default"
"""Default method of a search, chosen by ``python -m bench retrieval``, with each set left out in turn."""

BY_WORDS: Mapping[str, float] = {"alpha": 0.15, "sparse": 0.0}
"""Weights of the convex fusion for passages in other languages, because their vectors and learnt words are unreliable."""

NEIGHBOURS_BY_WORDS = 0.5
"""Weight of the pair feature ``neighbours`` in other languages, by ``python -m bench languages``."""

CERTAINTIES = ("strong", "likely", "weak")
"""Values of :func:`certainty`. A ``"strong"`` first hit is right in at least 85 % of cases, and a ``"likely"`` one more
often than not. A ``"weak"`` one is no better than the next hit, or is not about the question.
"""

CERTAINTY_DEPTH = 10  #: number of first places in which another passage may provide more of the answer
MAX_BEHIND = 2.0  #: maximum lead of another passage, in log-odds of providing the answer, if the first hit is strong

STRONG, LIKELY, NEAR, RELEVANT = 0.3, 0.1, 0.45, 0.04
"""Thresholds of the certainties: the smallest for which the statements on `CERTAINTIES` also hold for manuals.

`STRONG` and `LIKELY` are thresholds of the lead. ``python -m bench carry`` shows how often each certainty is right. A
first passage is not about the question if its cosine is below `NEAR` and its relevance is below `RELEVANT`.
"""

LEAD_WEIGHT = 2.0
"""Weight of the lead in the log-odds of ``answerable``. Beyond 2 the gain is small: ``bench/results/abstain.md``.
"""

_MIN_PROBABILITY = 1e-6  # how near to 0 and 1 a probability may come for log-odds


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
        return Scoring(shares, "convex", weights.get(COVERAGE, 0.0), AROUND)

    def order(self, models: Models, query: Query, candidates: Candidates, weights: Weights) -> Candidates:
        """Sort by the fused scores."""
        return replace(candidates, order=np.argsort(-candidates.score, kind="stable"))


@dataclass(frozen=True)
class ByEvidence:
    """Adds the evidence of pair features to a convex fusion.

    Passages in a language that the models do not read are ranked by the words that they share with the question. Weights
    of the search take precedence over this.
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
        features = models.pairs.features(query, candidates)
        language = None if models.language is None else models.language.language(query, candidates)
        if language == OTHER:
            if all(weights[name] == models.weights[name] for name in self.weights):
                return by_words(candidates, features)
            language = None  # weights that were tuned on this very text know better
        relevance, evidence = models.pairs.relevance(features), evidence_of(features, candidates)
        parts = {name: weights["evidence"] * part for name, part in evidence.items()}
        ranked = summed(candidates, parts, {"relevance": relevance})
        if not len(ranked):
            return replace(ranked, answerable=0.0, language=language)
        # with evidence of weight 1, the unit of the lead is the same for all weights
        score, first, others, word = candidates.score + sum_of(evidence), ranked.order[0], ranked.order[1:], None
        lead = float(score[first] - score[others].max()) if len(others) else 0.0
        if len(others) and len(candidates.evidence.provides.values):
            provided = features[:, COLUMN["provided"]]
            behind = float(provided[others[: CERTAINTY_DEPTH - 1]].max() - provided[first])
            word = certainty(lead, behind, float(candidates.dense[first]), float(relevance[first]))
        return replace(ranked, certainty=word, answerable=answerable(lead, relevance[first]), language=language)


def by_words(candidates: Candidates, features: FloatArray) -> Candidates:
    """Fuse candidates again, with more weight on BM25, and add the evidence."""
    weights = {"dense": BY_WORDS["alpha"], "bm25": 1 - BY_WORDS["alpha"]}
    parts = fused({"dense": candidates.dense, "bm25": candidates.bm25}, "convex", weights)
    fused_again = replace(candidates, score=sum_of(parts), parts=parts, language=OTHER)
    return summed(
        fused_again, {"meaning": NEIGHBOURS_BY_WORDS * features[:, COLUMN["neighbours"]].astype(np.float64)}, {}
    )


def answerable(lead: float, relevance: float) -> float:
    """Return the probability that the first passage answers the question, which grows with its `lead`."""
    odds = float(log_odds(np.asarray(relevance), _MIN_PROBABILITY))
    return float(1 / (1 + np.exp(-odds - LEAD_WEIGHT * lead)))


def certainty(lead: float, behind: float, near: float, relevance: float) -> str:
    """Return one of `CERTAINTIES` for the first of several passages.

    `lead` is its score minus the best score of the others. `behind` is the most by which another of the first passages
    provides more of the answer, in log-odds. `near` is its cosine with the question, and `relevance` its probability of
    answering.
    """
    if lead < LIKELY or (near < NEAR and relevance < RELEVANT):
        return "weak"
    return "strong" if lead >= STRONG and behind <= MAX_BEHIND else "likely"


Method: TypeAlias = Fusion | ByEvidence | BySignal
"""A method of ranking: its `name`, the names of its `weights`, and how it ranks.

`needs` names the parts of question and passages that it reads. `scoring` scores passages before re-ranking. `candidates` is
the default number of passages to re-rank, or 0 for none, and `order` re-ranks them. If `is_sum` is true, a boost can be
added.
"""

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
"""Each method by its name. ``bm25`` and ``dense`` rank by one score each, and ``bm25`` encodes no question. ``convex`` and
``rrf`` fuse three scores. The methods from ``hybrid`` on use the sum of the reference thesis, dense + w * BM25.
"""

RERANKING = tuple(method.name for method in METHODS.values() if method.candidates)  #: methods that re-rank candidates
WEIGHTS = (*dict.fromkeys(name for method in METHODS.values() for name in method.weights), COVERAGE)


def method_for(models: Models, name: str) -> Method:
    """Return a method. Without a pair head, ``default`` becomes ``convex``. Refuse a method whose heads are missing."""
    method = METHODS[name]
    if name == DEFAULT and models.pair_heads is None:
        return CONVEX
    models.check(method.needs)
    return method
