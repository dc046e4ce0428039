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
from semclass.index.passage_encoder import PassageReader
from semclass.scoring.fusion import ALPHA


@dataclass(frozen=True)
class Query:
    """A question, encoded once.

    Attributes
    ----------
    text
        The question.
    pooled
        Vector of the whole question as the encoder gives it, of any length, float32 of shape (dim,).
    probabilities
        P(class | question), float64 of shape (n_classes,); empty where it was not asked for.
    fine
        P(fine class | question), float64 of shape (n_fine_classes,); empty where it was not asked for.
    tokens
        Unit token vectors, float32 of shape (q, token_dim); none where they were not asked for.
    weights
        How much each of them counts, float32 of shape (q,), >= 0, sums to 1.
    terms
        Word-piece ids, shape (m,), m >= q.
    """

    text: str
    pooled: FloatArray
    probabilities: DoubleArray
    fine: DoubleArray
    tokens: FloatArray
    weights: FloatArray
    terms: npt.NDArray[Any]

    def check(self, *, classes: bool = False, tokens: bool = False) -> None:
        """Refuse a question that was encoded without what it is now asked for: it would be ranked by something else.

        Raises
        ------
        InputError
            Naming what is not there, and how it comes there.
        """
        missing = {"classes": classes and not len(self.probabilities)}
        missing["tokens"] = tokens and len(self.terms) > 0 and not len(self.tokens)
        if names := [name for name, lacks in missing.items() if lacks]:
            raise InputError(
                f"{short(self.text)} was encoded without {' and '.join(names)}, which this method looks at; encode it with "
                + ", ".join(f"{name}=True" for name in names)
            )


@dataclass(frozen=True)
class Scoring:
    """How passages are scored before they are re-ranked: fused scores of vectors and of BM25 + lambda * match.

    Attributes
    ----------
    bm25_weight
        w of ``"linear"`` fusion, dense + w * BM25; at least 0.
    match
        Class match in the score, ``"soft"``, ``"hard"`` or None, see :func:`semclass.scoring.topk.class_match`.
    match_weight
        lambda, at least 0; nothing counts it without `match`.
    fusion
        One of :data:`semclass.scoring.fusion.METHODS`.
    alpha
        Weight of the vectors in ``"convex"`` fusion, from 0 to 1.
    """

    bm25_weight: float
    match: str | None = None
    match_weight: float = 0.0
    fusion: str = "linear"
    alpha: float = ALPHA


@dataclass(frozen=True)
class Candidates:
    """Passages to re-rank, in the order before re-ranking.

    Attributes
    ----------
    rows
        Number of each in its index, or its place in the list that was handed in; int64 of shape (n,).
    dense, bm25
        Similarity of the vectors, as the index has it, and BM25 score, float64 of shape (n,).
    match
        Class match, float64 of shape (n,); None where it was not asked for.
    parts
        What `score` is the sum of, weights included, by name; each float64 of shape (n,).
    score
        What they are ordered by, float64 of shape (n,).
    probabilities
        P(class | passage), float32 of shape (n, n_classes).
    thresholds
        Probability from which a passage has a class, float64 of shape (n_classes,).
    tokens
        Ragged unit token vectors, one for each of `terms`, float32.
    sentences
        Ragged unit vectors of the sentences, float32 of item shape (dim,); each passage has at least one.
    terms
        Ragged word-piece ids.
    idf
        Inverse document frequency of each word piece, float32 of shape (vocabulary,); 0 for pieces that are no terms.
    passages
        The passages themselves, from an index that hands them over with the scores; None: it is asked for them by `rows`.
    """

    rows: IntArray
    dense: DoubleArray
    bm25: DoubleArray
    match: DoubleArray | None
    parts: dict[str, DoubleArray]
    score: DoubleArray
    probabilities: FloatArray
    thresholds: DoubleArray
    tokens: Ragged
    sentences: Ragged
    terms: Ragged
    idf: FloatArray
    passages: tuple[Passage, ...] | None = None

    def __len__(self) -> int:
        """Count them."""
        return len(self.rows)


def no_evidence(n: int) -> tuple[Ragged, Ragged, Ragged]:
    """Tokens, sentences and terms of n candidates that nothing will look into: rows without anything."""
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
        reader: PassageReader | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Score passages and give the n best, see :meth:`semclass.PassageIndex.candidates`."""

    def passages(self, rows: IntArray) -> list[Passage]:
        """Read passages back; `rows` as in :class:`Candidates`."""


@dataclass(frozen=True)
class Order:
    """A new order of candidates.

    Attributes
    ----------
    order
        Places in the old order, best first; int64 of shape (n,).
    score
        New score of each candidate, in the *old* order, float64 of shape (n,).
    components
        Signals that were computed, by name, each float64 of shape (n,), in the old order.
    parts
        What `score` is the sum of, weights included, by name; float64 of shape (n,), in the old order. Empty for a score
        from a head, whose parts are worked out from `features` when they are asked for.
    features
        Pair features that a head made the score of, float32 of shape (n, n_features), in the old order; None for a sum.
    """

    order: IntArray
    score: DoubleArray
    components: dict[str, DoubleArray]
    parts: dict[str, DoubleArray]
    features: FloatArray | None = None


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
    """Describe the first k of a ranking.

    Parameters
    ----------
    passages
        One for each of `candidates`, in the old order.
    candidates
        What was ranked.
    found
        How.
    classes
        Names of the passage classes.
    k
        How many.
    explanations
        Of the first k in the new order, or None.

    Returns
    -------
    list of Hit
        Best first.
    """
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
