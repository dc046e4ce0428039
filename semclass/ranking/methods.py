"""The methods of ranking, by name: objects that say what they read, how passages are found, and how they are ordered.

The default also says how certain its first hit is, and how probable it is that a passage answers.
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

The share is the best BM25 score of any passage, divided by the highest that a passage can reach for the question. With a
smaller share, the weight is smaller in proportion. Models of several languages set it; the default, 0, always gives BM25
its full weight.
"""

DEFAULT = "default"
"""Default method of a search, chosen by ``python -m bench retrieval``, with each set left out in turn."""

BY_WORDS: Mapping[str, float] = {"alpha": 0.15, "sparse": 0.0}
"""Weights of the convex fusion of passages in other languages, whose vectors and learnt words say little."""

NEIGHBOURS_BY_WORDS = 0.5
"""Weight of the pair feature ``neighbours`` in other languages, by ``python -m bench languages``."""

CERTAINTIES = ("strong", "likely", "weak")
"""The words. A ``"strong"`` first hit is right in at least 85 %, a ``"likely"`` one more often than not, and a
``"weak"`` one is no better than the next hit, or not about the question.
"""

CERTAINTY_DEPTH = 10  #: number of first places among which another passage may give more of the requested answer
MAX_BEHIND = 2.0  #: how much more of it, in log-odds, another passage may give if the first hit is to be strong

STRONG, LIKELY, NEAR, RELEVANT = 0.3, 0.1, 0.45, 0.04
"""Least values from which a word holds: the least at which the sentence on `CERTAINTIES` is true of manuals, too.

The first two bound the lead; ``python -m bench carry`` shows how often each word is right. A first passage below the last
two, its cosine and its relevance, is not about the question.
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
    """Return the probability that a passage answers: that the first does, the more the further it leads."""
    odds = float(log_odds(np.asarray(relevance), _MIN_PROBABILITY))
    return float(1 / (1 + np.exp(-odds - LEAD_WEIGHT * lead)))


def certainty(lead: float, behind: float, near: float, relevance: float) -> str:
    """Return one of `CERTAINTIES` for the first of several passages.

    `lead` is its score minus the best of the others, `behind` how much more of the requested answer another of the first
    passages gives, in log-odds, `near` its cosine with the question, and `relevance` its probability of answering.
    """
    if lead < LIKELY or (near < NEAR and relevance < RELEVANT):
        return "weak"
    return "strong" if lead >= STRONG and behind <= MAX_BEHIND else "likely"


Method: TypeAlias = Fusion | ByEvidence | BySignal
"""A method of ranking, with a `name`, and the names of the `weights` that it reads.

It says what it `needs` of question and passages, its `scoring` of passages before re-ranking, how many `candidates` it
re-ranks unless a search says so (0: none), how it puts these in `order`, and whether it `is_sum`, so that a boost can be
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
