"""The methods of ranking, by name.

A method says how the scores of vectors and of BM25 become one, and what re-orders the first candidates. ``default`` is the
best that is known; the others are its parts, its alternatives, and the methods of the reference thesis. The functions that
re-order are in ``semclass/ranking/order.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from semclass.core.checks import check_choice
from semclass.core.errors import InputError
from semclass.index.records import Scoring
from semclass.scoring import FUSIONS


@dataclass(frozen=True)
class Method:
    """One way to rank.

    Attributes
    ----------
    fusion
        How the scores of vectors and of BM25 become one: ``"convex"``, ``"linear"`` or ``"rrf"``, see
        :mod:`semclass.scoring.fusion`.
    alpha
        Weight of the vectors in convex fusion, 0 to 1; None: that of the retriever.
    match
        Class match that is added to the score of every passage, ``"soft"`` or ``"hard"``, see
        :func:`semclass.scoring.topk.class_match`; None: nothing is.
    kind
        How candidates are re-ordered: ``"evidence"``, ``"learned"``, ``"sum"`` or ``"partition"``, see
        ``semclass/ranking/order.py`` and ``thesis.py``; None: they keep their order.
    signal
        What the order goes by, one of ``semclass.ranking.order.SIGNALS``; empty without a kind.
    weight
        Name of the weight of the signal in a sum; empty where there is no sum.
    candidates
        Passages that are re-ranked, unless a search says otherwise.
    joint_top_k
        How many of the first are then read together with the question, see ``semclass/ranking/deep.py``.
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
        """Names of the weights that count in it."""
        fused = {"linear": ("bm25",), "convex": ("alpha",) if self.alpha is None else ()}.get(self.fusion, ())
        matched = () if self.match is None else (f"match_{self.match}",)
        added = (self.weight,) if self.weight else ()
        return (*fused, *matched, *added, *(("deep",) if self.joint_top_k else ()))

    @cached_property
    def is_sum(self) -> bool:
        """Whether it ranks by a sum, to which something can be added."""
        return self.kind is None or bool(self.weight)

    @cached_property
    def uses_classes(self) -> bool:
        """Whether it matches classes, so that it needs the class heads."""
        return self.match is not None or self.signal in ("match_soft", "match_hard")

    @cached_property
    def uses_pairs(self) -> bool:
        """Whether a head that judges question and passage together re-orders, so that it needs the pair heads."""
        return self.kind is not None and not self.signal.startswith("match_")

    @cached_property
    def uses_evidence(self) -> bool:
        """Whether it adds evidence, as ``default`` does: its result has a language, and says whether it is answerable."""
        return self.signal == "evidence"

    def scoring(self, weights: Mapping[str, float]) -> Scoring:
        """How passages are scored before they are re-ordered."""
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
"""Each method by its name. ``deep`` is the default for those who have some tens of milliseconds more. ``bm25`` and
``dense`` are the two lists, ``convex`` and ``rrf`` their plain fusions. From ``hybrid`` on, methods go by the reference
thesis's sum, dense + w * BM25, and re-rank ten candidates as it did."""

DOCUMENT = "document"
"""Weight of how well the first passage of a passage's document fits, see ``semclass/index/records.py``.

It counts in convex fusion, and is 0 unless one is given: with 0.4, nDCG@10 on chunks of source files rises by 2.1 points,
on privacy policies it does not, and documentation that has headings loses a little: ``bench/results/context.md``."""

DEFAULT = "default"
"""Method of a search. Fusion, evidence and number of candidates were chosen over sets of all kinds, each left out in turn:
``python -m bench retrieval`` and ``python -m bench.evidence_weights``."""

RERANKING = tuple(name for name, method in METHODS.items() if method.kind is not None)
"""Methods that re-order candidates."""

PROMPTED = ("pointwise", "listwise")
"""How a language model ranks: by yes or no to each passage, or by naming those that answer, best first, in one call."""

WEIGHTS = (*dict.fromkeys(name for method in METHODS.values() for name in method.weights), DOCUMENT)
"""Names of all weights."""


def find_method(name: str, fusion: str | None = None, *, reranking: bool = False) -> Method:
    """Give a method by its name, with another fusion if one is named; ``bm25`` and ``dense`` have none to change."""
    check_choice(name, RERANKING if reranking else tuple(METHODS), "method")
    check_choice(fusion, (None, *FUSIONS), "fusion")
    method = METHODS[name]
    return method if fusion is None or method.alpha is not None else replace(method, fusion=fusion)


def weight_of(weights: Mapping[str, float], name: str) -> float:
    """Give a weight by its name; an InputError if no models bring it."""
    if name not in weights:
        raise InputError(
            f"{name!r} has no default weight, because these models have no pair heads; give weights={{{name!r}: ...}}"
        )
    return weights[name]
