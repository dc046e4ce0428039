"""What travels through ranking: a question, encoded once, and its candidate passages, which become hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, FloatArray, IntArray, Passage
from semclass.index.passage_encoder import Evidence, PassageEncoder
from semclass.scoring.fusion import ALPHA, only_of


@dataclass(frozen=True)
class Query:
    """A question, encoded once."""

    text: str
    pooled: FloatArray  #: vector of the whole question as the encoder gives it, of any length, (dim,)
    probabilities: DoubleArray  #: P(class | question), (n_classes,); empty where it was not asked for
    fine: DoubleArray  #: P(fine class | question), (n_fine_classes,); empty where it was not asked for
    tokens: FloatArray  #: unit token vectors, (q, token_dim); none where they were not asked for
    weights: FloatArray  #: how much each of them counts, (q,), >= 0, sums to 1
    terms: npt.NDArray[Any]  #: word-piece ids, (m,), m >= q
    question_mask: npt.NDArray[
        np.bool_
    ]  #: which of them stand in the sentences that ask, (m,); none if it asks nothing
    need_vector: FloatArray  #: what it asks for, (d,), see :class:`semclass.core.types.Encoding`; empty if unknown
    expects: FloatArray  #: unit vectors that token vectors of an answer are near to, (k, token_dim); none likewise
    query_used: str  #: the part of the text that was read, see :mod:`semclass.heads.asked`

    def check(self, *, classes: bool = False, tokens: bool = False) -> None:
        """Raise an InputError if the question was encoded without what is needed: its ranking would be another."""
        missing = {"classes": classes and not len(self.probabilities)}
        missing["tokens"] = tokens and len(self.terms) > 0 and not len(self.tokens)
        if names := [name for name, lacks in missing.items() if lacks]:
            raise InputError(
                f"the question {short(self.text)} is without {' and '.join(names)}; for this method encode it with "
                + ", ".join(f"{name}=True" for name in names)
            )


@dataclass(frozen=True)
class Scoring:
    """How passages are scored before they are re-ranked: fused scores of vectors and of BM25 + lambda * match."""

    bm25_weight: float  #: w of "linear" fusion, dense + w * BM25; at least 0
    match: str | None = None  #: class match in the score, "soft" or "hard", see semclass.scoring.topk.class_match
    match_weight: float = 0.0  #: lambda, at least 0; without `match` it does not count
    fusion: str = "linear"  #: one of semclass.scoring.FUSIONS
    alpha: float = ALPHA  #: weight of the vectors in "convex" fusion, from 0 to 1
    document: float = (
        0.0  #: of the scores of a document's first passage, added to those of all its passages, at least 0
    )

    @property
    def alone(self) -> str | None:
        """The only scores that count, ``"dense"`` or ``"bm25"``; None if both do."""
        return only_of(self.fusion, self.alpha)


@dataclass(frozen=True)
class Candidates:
    """n passages, in the order of the first stage. A ranking of them fills `order`, `components` and `features`."""

    rows: IntArray  #: number of each in its index, or its place in the list that was handed in, (n,)
    dense: DoubleArray  #: similarity of the vectors, see :mod:`semclass.scoring.dense`, (n,)
    bm25: DoubleArray  #: BM25 score, (n,)
    match: DoubleArray | None  #: class match in the first stage, (n,); None without
    parts: dict[str, DoubleArray]  #: what `score` is the sum of, weights included, each (n,); empty for a head's score
    score: DoubleArray  #: what they are ranked by, (n,)
    probabilities: FloatArray  #: P(class | passage), (n, n_classes); without columns where it was not asked for
    thresholds: DoubleArray  #: probability from which a passage has a class, (n_classes,)
    evidence: Evidence  #: what re-ranking compares; vectors of sentences are of unit length
    idf: FloatArray  #: inverse document frequency of each word piece, (vocabulary,); 0 for pieces that are no terms
    passages: tuple[Passage, ...] | None = None  #: the passages; None: the index is asked for them by `rows`
    order: IntArray | None = None  #: places by `score` after re-ranking, best first, (n,); None: as they stand
    components: Mapping[str, DoubleArray] = field(default_factory=dict)  #: signals of re-ranking, each (n,)
    features: FloatArray | None = None  #: pair features that a head's score was made of, (n, n_features)
    certainty: str | None = None  #: how sure the first place is, in a word; None where that was not measured
    answerable: float | None = None  #: P(one of them answers the question); None where no head tells
    language: str | None = None  #: of the passages, "en" or "other"; None where nothing tells

    def __len__(self) -> int:
        """Count them."""
        return len(self.rows)

    @property
    def places(self) -> IntArray:
        """Places, best first, (n,)."""
        return np.arange(len(self)) if self.order is None else self.order


FOLDER = "folder"
"""Kind of the indices that are searched in this process."""


class SearchIndex(Protocol):
    """What a retriever searches: an index in this process, or one that a server keeps.

    The members are those of :class:`semclass.PassageIndex`. `rows` number passages within one index; they need be no
    places. Every index computes every fusion of :mod:`semclass.scoring.fusion`.
    """

    @property
    def encoder(self) -> str:
        """Fingerprint of the encoder that made the vectors."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the passage classes."""

    @property
    def similarity(self) -> str:
        """How vectors are compared, see :func:`semclass.scoring.topk.SIMILARITIES`."""

    @property
    def codebooks(self) -> str:
        """Fingerprint of the codebooks that token vectors were written with; empty if with none."""

    @property
    def heads(self) -> Mapping[str, str]:
        """Fingerprints of the heads that labelled the passages, by the field that each fills."""

    @property
    def tuned(self) -> Mapping[str, Any]:
        """What ``semclass tune`` found."""

    @property
    def kind(self) -> str:
        """`FOLDER`, or the name of the server that keeps it: a search waits for that one, and does not compute."""

    def __len__(self) -> int:
        """Count the passages."""

    def check_passage_encoder(self, passage_encoder: PassageEncoder) -> None:
        """Refuse models that make other arrays than this index holds, though their fingerprints are the same."""

    def candidates(
        self,
        query: Query,
        n: int,
        scoring: Scoring,
        *,
        passage_encoder: PassageEncoder | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Score passages and give the n best, see :meth:`semclass.PassageIndex.candidates`."""

    def passages(self, rows: IntArray) -> list[Passage]:
        """Read passages back; `rows` as in :class:`Candidates`."""


def sum_of(parts: Mapping[str, DoubleArray]) -> DoubleArray:
    """Score of each passage from its parts, added in their order."""
    first, *others = parts.values()
    return reduce(np.add, others, first)


def summed(
    candidates: Candidates, added: Mapping[str, DoubleArray], components: Mapping[str, DoubleArray]
) -> Candidates:
    """Rank candidates by their scores with some parts added."""
    score = candidates.score + sum_of(added)
    order = np.argsort(-score, kind="stable")
    parts = {**candidates.parts, **added}
    return replace(candidates, order=order, score=score, parts=parts, components=components, certainty=None)
