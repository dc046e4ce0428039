"""Defines the records of ranking: an encoded question, and its candidate passages, which become hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, FloatArray, IntArray, Passage
from semclass.index.passage_encoder import Evidence
from semclass.scoring.bm25 import Statistics, attainable
from semclass.scoring.fusion import SPARSE_TOP, fused
from semclass.scoring.sparse import SparseVectors, no_sparse


@dataclass(frozen=True)
class Query:
    """A question, encoded once."""

    text: str
    pooled: FloatArray  #: the encoder's vector of the whole question, of any length, (dim,); empty if not requested
    probabilities: DoubleArray  #: P(class | question), (n_classes,); empty if not requested
    tokens: FloatArray  #: unit token vectors, (q, token_dim); empty if not requested
    weights: FloatArray  #: weight of each token vector, (q,), >= 0, sums to 1
    terms: npt.NDArray[Any]  #: word-piece ids, (m,), m >= q
    need_vector: FloatArray  #: vector `asks` of :class:`semclass.core.types.Encoding`, (d,); empty if unknown
    expects: FloatArray  #: unit vectors near the token vectors of an answer, (k, token_dim); empty if unknown
    query_used: str  #: the part of the text that was read, see :mod:`semclass.heads.query_focus`
    sparse: SparseVectors = field(
        default_factory=partial(no_sparse, 1)
    )  #: learnt words of the question, one row; none if not requested

    def check(self, *, classes: bool = False, tokens: bool = False) -> None:
        """Raise an InputError if the question was encoded without needed classes or tokens."""
        missing = {"classes": classes and not len(self.probabilities)}
        missing["tokens"] = tokens and len(self.terms) > 0 and not len(self.tokens)
        if names := [name for name, lacks in missing.items() if lacks]:
            raise InputError(
                f"the question {short(self.text)} is without {' and '.join(names)}; for this method encode it with "
                + ", ".join(f"{name}=True" for name in names)
            )


@dataclass(frozen=True)
class Scoring:
    """Scoring of passages before re-ranking, by fused scores of signals."""

    weights: Mapping[str, float]  #: by signal: ``dense``, ``bm25``, ``sparse``
    fusion: str = "linear"  #: one of semclass.scoring.FUSIONS
    coverage: float = 0.0  #: see `semclass.ranking.methods.COVERAGE`

    @property
    def alone(self) -> str | None:
        """The only signal with a weight in a convex combination. None if several have one, or in another fusion."""
        signals = [name for name, weight in self.weights.items() if weight]
        return signals[0] if len(signals) == 1 and self.fusion == "convex" else None

    def parts(
        self,
        signals: Mapping[str, DoubleArray],
        known: Statistics,
        terms: npt.NDArray[np.uint32],
        depth: int | None = None,
    ) -> dict[str, DoubleArray]:
        """Return the weighted summands of the scores of n passages, (n,) each, for a question of some terms."""
        used = {name: signals[name] for name in self.weights}
        full = self.coverage * attainable(known, terms) if self.coverage else 0.0
        return fused(used, self.fusion, self.weights, depth=depth, tops={"bm25": full, "sparse": SPARSE_TOP}).parts


@dataclass(frozen=True)
class Candidates:
    """n passages in their order before re-ranking. Re-ranking fills the fields from `order` on."""

    rows: IntArray  #: row of each passage in its index, or its place in the given list, (n,)
    dense: DoubleArray  #: cosine of the vectors, see :mod:`semclass.scoring.dense`, (n,); NaN if the question has none
    bm25: DoubleArray  #: BM25 score, (n,)
    codes: (
        DoubleArray  #: share of the question's codes, see `semclass.encoders.stems.codes_of`, that it holds whole, (n,)
    )
    sparse: DoubleArray  #: inner product of learnt words, (n,); 0 without them
    parts: dict[str, DoubleArray]  #: weighted summands of `score`, each (n,)
    score: DoubleArray  #: passages are ranked by this number, (n,)
    probabilities: FloatArray  #: P(class | passage), (n, n_classes); without columns if not requested
    thresholds: DoubleArray  #: probability from which a passage has a class, (n_classes,)
    evidence: Evidence  #: input of re-ranking; vectors of sentences have unit length
    idf: FloatArray  #: inverse document frequency of the question's word pieces, (m,); 0 for those that are no terms
    passages: tuple[Passage, ...] | None = None  #: the passages; None: the index returns them by `rows`
    order: IntArray | None = None  #: places by `score` after re-ranking, best first, (n,); None: unchanged
    components: Mapping[str, DoubleArray] = field(default_factory=dict)  #: signals of re-ranking, each (n,)
    certainty: str | None = None  #: certainty of the first place, in a word; None if not measured
    answerable: float | None = None  #: P(the first place answers the question); None if not computed
    reused: npt.NDArray[np.bool_] | None = None  #: whether each text was encoded for an earlier question; None: stored
    language: str | None = None  #: language of the passages, "en" or "other"; None if not tested

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def places(self) -> IntArray:
        """Places, best first, (n,)."""
        return np.arange(len(self)) if self.order is None else self.order


def sum_of(parts: Mapping[str, DoubleArray]) -> DoubleArray:
    """Add the parts of each passage's score in their order."""
    return reduce(np.add, parts.values())


def summed(
    candidates: Candidates, added: Mapping[str, DoubleArray], components: Mapping[str, DoubleArray]
) -> Candidates:
    """Add some parts to the scores of candidates, and rank by the sums."""
    score = candidates.score + sum_of(added)
    order = np.argsort(-score, kind="stable")
    parts = {**candidates.parts, **added}
    return replace(candidates, order=order, score=score, parts=parts, components=components)
