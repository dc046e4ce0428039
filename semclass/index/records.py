"""What travels through ranking: an encoded question, its candidate passages, and a new order of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, Explanation, FloatArray, Hit, IntArray, Passage, Ragged
from semclass.index.passage_encoder import PassageEncoder
from semclass.scoring.fusion import ALPHA


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

    def check(self, *, classes: bool = False, tokens: bool = False) -> None:
        """Raise an InputError if the question was encoded without what is needed: its ranking would be another."""
        missing = {"classes": classes and not len(self.probabilities)}
        missing["tokens"] = tokens and len(self.terms) > 0 and not len(self.tokens)
        if names := [name for name, lacks in missing.items() if lacks]:
            raise InputError(
                f"{short(self.text)} was encoded without {' and '.join(names)}, which this method looks at; encode it with "
                + ", ".join(f"{name}=True" for name in names)
            )


@dataclass(frozen=True)
class Scoring:
    """How passages are scored before they are re-ranked: fused scores of vectors and of BM25 + lambda * match."""

    bm25_weight: float  #: w of "linear" fusion, dense + w * BM25; at least 0
    match: str | None = None  #: class match in the score, "soft" or "hard", see semclass.scoring.topk.class_match
    match_weight: float = 0.0  #: lambda, at least 0; without `match` it does not count
    fusion: str = "linear"  #: one of semclass.scoring.fusion.METHODS
    alpha: float = ALPHA  #: weight of the vectors in "convex" fusion, from 0 to 1


@dataclass(frozen=True)
class Candidates:
    """n passages to re-rank, in the order before re-ranking."""

    rows: IntArray  #: number of each in its index, or its place in the list that was handed in, (n,)
    dense: DoubleArray  #: similarity of the vectors, as the index has it, (n,)
    bm25: DoubleArray  #: BM25 score, (n,)
    match: DoubleArray | None  #: class match, (n,); None where it was not asked for
    parts: dict[str, DoubleArray]  #: what `score` is the sum of, weights included, by name; each (n,)
    score: DoubleArray  #: what they are ordered by, (n,)
    probabilities: FloatArray  #: P(class | passage), (n, n_classes)
    thresholds: DoubleArray  #: probability from which a passage has a class, (n_classes,)
    tokens: Ragged  #: unit token vectors, one for each of `terms`, float32
    sentences: Ragged  #: unit vectors of the sentences, float32 of item shape (dim,); each passage has at least one
    terms: Ragged  #: word-piece ids
    idf: FloatArray  #: inverse document frequency of each word piece, (vocabulary,); 0 for pieces that are no terms
    passages: tuple[Passage, ...] | None = None  #: the passages; None: the index is asked for them by `rows`

    def __len__(self) -> int:
        """Count them."""
        return len(self.rows)


def no_evidence(n: int) -> tuple[Ragged, Ragged, Ragged]:
    """Tokens, sentences and terms of n candidates that nothing will look at: empty rows."""
    nothing = Ragged(np.zeros((0, 0), np.float32), np.zeros(n + 1, np.int64))
    return nothing, nothing, nothing


class SearchIndex(Protocol):
    """What a retriever searches: an index in this process, or one that a server keeps.

    The members are those of :class:`semclass.PassageIndex`. `rows` number passages within one index; they need be no
    places. ``"linear"`` fusion is what every index computes: a retriever asks for another only where it is a
    :class:`semclass.PassageIndex`.
    """

    @property
    def encoder(self) -> str:
        """Fingerprint of the encoder that made the vectors."""

    @property
    def interaction(self) -> str:
        """What made the token vectors."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the passage classes."""

    @property
    def similarity(self) -> str:
        """How vectors are compared, see :func:`semclass.scoring.topk.similarity`."""

    @property
    def codebooks(self) -> str:
        """Fingerprint of the codebooks that token and sentence vectors were written with; empty if with none."""

    @property
    def tuned(self) -> Mapping[str, Any]:
        """What ``semclass tune`` found."""

    def __len__(self) -> int:
        """Count the passages."""

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


@dataclass(frozen=True)
class Order:
    """A new order of n candidates."""

    order: IntArray  #: places in the old order, best first, (n,)
    score: DoubleArray  #: new score of each candidate, in the old order, (n,)
    components: dict[str, DoubleArray]  #: signals that were computed, by name, in the old order, each (n,)
    #: what `score` is the sum of, weights included, by name, in the old order, each (n,). Empty for a score from a head,
    #: whose parts are worked out from `features` when they are asked for
    parts: dict[str, DoubleArray]
    features: FloatArray | None = None  #: pair features of a head's score, in the old order, (n, n_features); else None


def sum_of(parts: Mapping[str, DoubleArray]) -> DoubleArray:
    """Score of each passage from its parts, added in their order."""
    first, *others = parts.values()
    return reduce(np.add, others, first)


def make_hits(
    passages: Sequence[Passage],
    candidates: Candidates,
    found: Order,
    classes: Sequence[str],
    k: int,
    explanations: Sequence[Explanation] | None = None,
) -> list[Hit]:
    """The first k hits of a ranking; `passages` are those of `candidates`, `explanations` those of the first k."""
    columns: dict[str, list[float]] = {"dense": candidates.dense.tolist(), "bm25": candidates.bm25.tolist()}
    if candidates.match is not None:
        columns["match"] = candidates.match.tolist()
    columns |= {name: values.tolist() for name, values in found.components.items()}
    labelled = (candidates.probabilities >= candidates.thresholds).tolist()
    probabilities = candidates.probabilities.tolist()
    scores = found.score.tolist()
    hits = []
    for rank, place in enumerate(found.order[:k].tolist(), 1):
        passage = passages[place]
        hits.append(
            Hit(
                id=passage.id,
                text=passage.text,
                metadata=passage.metadata,
                score=scores[place],
                rank=rank,
                rank_before=place + 1,
                components={name: values[place] for name, values in columns.items()},
                labels=tuple(name for name, yes in zip(classes, labelled[place], strict=True) if yes),
                probabilities=dict(zip(classes, probabilities[place], strict=True)),
                explanation=None if explanations is None else explanations[rank - 1],
            )
        )
    return hits
