"""The methods of ranking, by name.

A method says how the scores of vectors and of BM25 become one, and what re-orders the first candidates. ``default`` is the
best that is known; the others are its parts, its alternatives, and the methods of the reference thesis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from semclass.core.checks import check_choice, check_probability, check_weight
from semclass.core.errors import InputError
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
    rerank
        What re-orders the candidates. None: nothing. ``"stable"``: those with a positive label come first, else the order
        stays. ``"integrated"``: score + weight * signal. ``"evidence"``: score + weight * a weighted sum of pair features,
        see :data:`semclass.ranking.pair_model.EVIDENCE`. ``"learned"``: the probability of a head that sees all evidence.
    signal
        What ``"stable"`` and ``"integrated"`` go by: ``"entailment"``, P(passage answers question), or ``"class"``, the
        match of the class that the question asks for with those that the passage provides.
    hard
        Whether ``"integrated"`` adds the label, 0 or 1, in place of the probability.
    candidates
        Passages that are re-ranked, unless a search says otherwise.
    together
        How many of the first are then read together with the question, see ``semclass/ranking/deep.py``.
    """

    fusion: str = "linear"
    alpha: float | None = None
    match: str | None = None
    rerank: str | None = None
    signal: str = "entailment"
    hard: bool = False
    candidates: int = 10
    together: int = 0

    @cached_property
    def signal_weight(self) -> str:
        """Name of the weight of the signal, see :attr:`semclass.HybridRetriever.weights`."""
        if self.rerank == "evidence":
            return "evidence"
        return f"{self.signal}_hard" if self.hard else self.signal

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the weights that count in it."""
        fused = {"linear": ("bm25",), "convex": ("alpha",) if self.alpha is None else ()}.get(self.fusion, ())
        matched = () if self.match is None else (f"match_{self.match}",)
        added = (self.signal_weight,) if self.rerank in ("integrated", "evidence") else ()
        return (*fused, *matched, *added, *(("deep",) if self.together else ()))

    @cached_property
    def uses_classes(self) -> bool:
        """Whether it matches classes, so that it needs the class heads."""
        return self.match is not None or (self.rerank in ("stable", "integrated") and self.signal == "class")

    @cached_property
    def uses_pairs(self) -> bool:
        """Whether it asks a head that judges question and passage together."""
        return self.rerank is not None and (self.rerank == "learned" or self.signal == "entailment")


METHODS: Mapping[str, Method] = {
    "default": Method("convex", rerank="evidence", candidates=50),
    "deep": Method("convex", rerank="evidence", candidates=50, together=5),
    "bm25": Method("convex", alpha=0.0),
    "dense": Method("convex", alpha=1.0),
    "convex": Method("convex"),
    "rrf": Method("rrf"),
    "hybrid": Method(),
    "match-soft": Method(match="soft"),
    "match-hard": Method(match="hard"),
    "class-stable": Method(rerank="stable", signal="class"),
    "class-integrated": Method(rerank="integrated", signal="class"),
    "class-integrated-hard": Method(rerank="integrated", signal="class", hard=True),
    "entail-stable": Method(rerank="stable"),
    "entail-integrated": Method(rerank="integrated"),
    "entail-integrated-hard": Method(rerank="integrated", hard=True),
    "learned": Method(rerank="learned"),
}
"""Each method by its name. ``deep`` is the default for those who have some tens of milliseconds more. ``bm25`` and
``dense`` are the two lists, ``convex`` and ``rrf`` their plain fusions. From ``hybrid`` on, methods go by the reference
thesis's sum, dense + w * BM25, and re-rank ten candidates as it did."""

DOCUMENT = "document"
"""Weight of how well the first passage of a passage's document fits, see ``semclass/index/records.py``.

It counts in convex fusion, and is 0 unless one is given: with 0.4, nDCG@10 on chunks of source files rises by 2.1 points,
on privacy policies it does not, and documentation that has headings loses a little: ``python -m bench context``."""

DEFAULT = "default"
"""Method of a search. Fusion, evidence and number of candidates were chosen over sets of all kinds, each left out in turn:
``python -m bench retrieval`` and ``python -m bench.evidence_weights``."""

RERANKING = tuple(name for name, method in METHODS.items() if method.rerank is not None)
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
            f"no weight is known for {name!r}, as there are no pair heads that bring one; give weights={{{name!r}: ...}}"
        )
    return weights[name]


def check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Check weights that a caller gives: names of `WEIGHTS`, ``alpha`` from 0 to 1, others finite and not negative."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise InputError(f"weights must map names to numbers, such as {{'alpha': 0.6}}, not {weights!r}")
    for name in weights:
        check_choice(name, WEIGHTS, "a weight")
    return {
        name: check_probability(value, name) if name == "alpha" else check_weight(value, name)
        for name, value in weights.items()
    }
