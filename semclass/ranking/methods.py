"""The methods of ranking, by name.

A method defines how the scores of vectors and BM25 are fused, and how the first candidates are re-ranked. ``default``
is recommended. The other methods are its parts, its alternatives, and the methods of the reference thesis. The
functions that re-rank are in ``semclass/ranking/order.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt

from semclass.core.checks import check_choice
from semclass.core.errors import InputError
from semclass.core.types import FloatArray
from semclass.index.records import Scoring
from semclass.scoring import FUSIONS
from semclass.scoring.bm25 import attainable


@dataclass(frozen=True)
class Method:
    """A method of ranking.

    Attributes
    ----------
    fusion
        How the method fuses the scores of vectors and BM25: ``"convex"``, ``"linear"`` or ``"rrf"``. See
        :mod:`semclass.scoring.fusion`.
    alpha
        Weight of the vectors in convex fusion, 0 to 1. If None, the method takes the weight of the retriever.
    match
        Class match that is added to the score of every passage, ``"soft"`` or ``"hard"``. See
        :func:`semclass.scoring.topk.class_match`. If None, no class match is added.
    kind
        How the method re-ranks candidates: ``"evidence"``, ``"learned"``, ``"sum"`` or ``"partition"``. See
        ``semclass/ranking/order.py`` and ``thesis.py``. If None, candidates keep their order.
    signal
        Signal by which the method re-ranks candidates, one of ``semclass.ranking.order.SIGNALS``. Empty without a
        `kind`.
    weight
        Name of the signal's weight in a sum. Empty without a sum.
    candidates
        How many passages the method re-ranks, unless a search sets another number.
    joint_top_k
        How many of the first passages the method then reads together with the question. See
        ``semclass/ranking/deep.py``.
    """

    fusion: str = "linear"
    alpha: float | None = None
    match: str | None = None
    kind: str | None = None
    signal: str = ""
    weight: str = ""
    candidates: int = 10
    joint_top_k: int = 0

    @cached_property
    def weights(self) -> tuple[str, ...]:
        """Names of the weights that the method reads."""
        fused = {"linear": ("bm25",), "convex": ("alpha",) if self.alpha is None else ()}.get(self.fusion, ())
        matched = () if self.match is None else (f"match_{self.match}",)
        added = (self.weight,) if self.weight else ()
        return (*fused, *matched, *added, *(("deep",) if self.joint_top_k else ()))

    @cached_property
    def is_sum(self) -> bool:
        """Whether the method ranks by a sum, to which a boost can be added."""
        return self.kind is None or bool(self.weight)

    @cached_property
    def uses_classes(self) -> bool:
        """Whether the method matches classes, and so needs the class heads."""
        return self.match is not None or self.signal in ("match_soft", "match_hard")

    @cached_property
    def uses_pairs(self) -> bool:
        """Whether the method re-ranks with a head that judges question and passage together.

        Such a method needs the pair heads.
        """
        return self.kind is not None and not self.signal.startswith("match_")

    @cached_property
    def uses_evidence(self) -> bool:
        """Whether the method adds evidence, as ``default`` does.

        Its results then have a `language` and a probability `answerable`.
        """
        return self.signal == "evidence"

    def scoring(self, weights: Mapping[str, float]) -> Scoring:
        """Return how passages are scored before re-ranking."""
        bm25, alpha = weights["bm25"], weights["alpha"] if self.alpha is None else self.alpha
        if self.match is not None:
            return Scoring(bm25, self.match, weight_of(weights, f"match_{self.match}"), self.fusion, alpha)
        both = self.fusion == "convex" and self.alpha is None
        return Scoring(bm25, fusion=self.fusion, alpha=alpha, document=weights.get(DOCUMENT, 0.0) if both else 0.0)


def _integrated(signal: str, weight: str) -> Method:
    return Method(kind="sum", signal=signal, weight=weight)


_EVIDENCE = Method("convex", kind="evidence", signal="evidence", weight="evidence", candidates=50)

METHODS: Mapping[str, Method] = {
    "default": _EVIDENCE,
    "deep": replace(_EVIDENCE, joint_top_k=5),
    "bm25": Method("convex", alpha=0.0),
    "dense": Method("convex", alpha=1.0),
    "convex": Method("convex"),
    "rrf": Method("rrf"),
    "hybrid": Method(),
    "match-soft": Method(match="soft"),
    "match-hard": Method(match="hard"),
    "class-stable": Method(kind="partition", signal="match_hard"),
    "class-integrated": _integrated("match_soft", "class"),
    "class-integrated-hard": _integrated("match_hard", "class_hard"),
    "entail-stable": Method(kind="partition", signal="entails"),
    "entail-integrated": _integrated("entailment", "entailment"),
    "entail-integrated-hard": _integrated("entails", "entailment_hard"),
    "learned": Method(kind="learned", signal="learned"),
}
"""Each method by its name. ``deep`` adds some tens of milliseconds to ``default``. ``bm25`` and ``dense`` rank by one
score each, and ``convex`` and ``rrf`` fuse both scores. The methods from ``hybrid`` on use the sum of the reference
thesis, dense + w * BM25, and re-rank ten candidates as the thesis did.
"""

DOCUMENT = "document"
"""Weight of the scores of the first passage of the same document, see ``semclass/index/records.py``.

The weight applies to convex fusion, and is 0 by default. With 0.4, nDCG@10 rises by 2.1 points on chunks of source
files, does not rise on privacy policies, and falls a little on documentation with headings, see
``bench/results/context.md``.
"""

COVERAGE = "coverage"
"""Share of a question, 0 to 1, from which BM25 has its full weight in convex fusion.

The share is the best BM25 score, divided by the score of a passage that consists of the question. With a smaller share,
the weight is smaller in proportion. The weight is 0 by default, so that BM25 always has its full weight. Models of
several languages set it, because a question in another language shares few words with any passage.
"""

DEFAULT = "default"
"""Default method of a search. Its fusion and number of candidates were chosen over sets of all kinds, with each set left
out in turn, by ``python -m bench retrieval``. ``training/fit_evidence.py`` fitted the weights of the evidence.
"""

RERANKING = tuple(name for name, method in METHODS.items() if method.kind is not None)
"""Methods that re-rank candidates."""

WEIGHTS = (*dict.fromkeys(name for method in METHODS.values() for name in method.weights), DOCUMENT, COVERAGE)
"""Names of all weights."""


def find_method(name: str, fusion: str | None = None, *, reranking: bool = False) -> Method:
    """Return a method by its name, with another fusion if you give one. ``bm25`` and ``dense`` have no fusion."""
    check_choice(name, RERANKING if reranking else tuple(METHODS), "method")
    check_choice(fusion, (None, *FUSIONS), "fusion")
    method = METHODS[name]
    return method if fusion is None or method.alpha is not None else replace(method, fusion=fusion)


def bm25_top_of(weights: Mapping[str, float], idf: FloatArray, terms: npt.NDArray[Any]) -> float:
    """Return the BM25 score that counts as 1 in convex fusion, for a question with these terms."""
    coverage = weights.get(COVERAGE, 0.0)
    return coverage * attainable(idf, terms) if coverage else 0.0


def weight_of(weights: Mapping[str, float], name: str) -> float:
    """Return a weight by its name. Raises an InputError if the models have no weight of this name."""
    if name not in weights:
        raise InputError(
            f"{name!r} has no default weight, because these models have no pair heads; give weights={{{name!r}: ...}}"
        )
    return weights[name]
