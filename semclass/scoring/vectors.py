"""Similarity of passages with a question, as products of integers.

Vectors of sentences are odd numbers within +-3 with a scale for each. A question's vector is rounded to 20 bits, written
as three rows of 7 bits each, so that its products with all sentences are sums of integers: exact, and the same by every
route and in every order of the sums. What the rounding changes of a cosine is about 1e-7, as much as that of float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core.tools import Once
from semclass.core.types import DoubleArray, FloatArray, IntArray, Ragged
from semclass.scoring.approximation import Approximation
from semclass.scoring.dense import dense_scores
from semclass.scoring.matmul import SMALL_ZERO, int_products, product_with, transposed
from semclass.scoring.quantisation import from_quarter_bytes
from semclass.scoring.reduction import CLUSTERED, Reduced
from semclass.scoring.topk import is_most, nth_at_least, unit

WIDE = 16_384
"""Sentences of one product with weights that are laid out for it: the result stays in the cache."""

BLOCK = 2_048
"""Sentences of one product with weights as they are."""

LAID_OUT = 4_096
"""Sentences of a segment from which their vectors are laid out for products: once, in some milliseconds a thousand."""

LARGEST = 63
"""Largest absolute value of a digit of a question's components."""

BASE, DIGITS = 2 * LARGEST + 1, 3
"""Base and number of these digits."""


@dataclass(frozen=True)
class Vectors:
    """Vectors of the sentences of n passages, ready to be compared with questions. Threads may share one instance.

    A passage's similarity is the dense score (:mod:`semclass.scoring.dense`). That of its mean is the sum of those of its
    sentences times their shares, so that no mean is kept.
    """

    sentences: (
        Ragged  # quarter bytes or float32 of item shape (dim,); for cosine of unit length once multiplied by `scales`
    )
    scales: FloatArray  # of each sentence, float32 of shape (m,)
    shares: (
        FloatArray  # of each sentence in the mean, float32 of shape (m,), see :func:`semclass.scoring.dense.shares_of`
    )
    similarity: str = "cosine"  # see :data:`semclass.scoring.topk.SIMILARITIES`
    index: Reduced | None = None  # finds similar sentences without comparing all; None to compare all

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.sentences)

    def scores(self, question: FloatArray) -> DoubleArray:
        """Similarity of every passage with a question's vector (dim,), float64 of shape (n,)."""
        question = self._prepared(question)
        # a graph for each block costs more bytes than the vectors: where there is an index, all are seldom compared
        if self._coded and self.index is None and len(self.scales) >= LAID_OUT:
            digits, step = digits_of(question)
            rows = (digits + np.int8(SMALL_ZERO)).astype(np.uint8)
            parts = [value_of(session.run(None, {"a": rows})[0], step) for session in self._sessions]
        else:
            parts = self._products(question, self._blocks())
        return self._scores(question, parts, slice(None), self.sentences.offsets)

    def scores_at(self, question: FloatArray, rows: IntArray) -> DoubleArray:
        """Similarity of some passages, float64 of shape (m,): the same numbers as of :meth:`scores`, to the last bit."""
        # of most passages, taking them together takes longer than to compare with all; not so where none are laid out
        if len(rows) == len(self) or (self.index is None and is_most(len(rows), len(self))):
            return self.scores(question)[rows]
        question, found = self._prepared(question), self.sentences.take(rows)
        places = self.sentences.places(rows)
        blocks = (found.values[begin : begin + BLOCK] for begin in range(0, len(places), BLOCK))
        parts = self._products(question, blocks)
        return self._scores(question, parts, places, found.offsets)

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None) -> IntArray:
        """Rows of about 3 n passages, rising, among which the n most similar to a question's vector are likely to be.

        They are those with the best scores by reduced vectors of all sentences, or with the nearest of very many sentences.
        """
        index, offsets = cast("Reduced", self.index), self.sentences.offsets
        if len(self.scales) < CLUSTERED:
            rows, scores = self._approximation.rows, self._approximation.scores(self._prepared(question))
            if allowed is not None:
                scores[~allowed[rows]] = -np.inf
            return np.sort(rows[scores >= max(nth_at_least(scores, 3 * n), np.finfo(scores.dtype).min)])
        among = None if allowed is None else np.repeat(allowed, np.diff(offsets))
        places = index.nearest(question, n, among)
        return np.unique(np.searchsorted(offsets, places, side="right") - 1)

    @property
    def _coded(self) -> bool:
        return self.sentences.values.dtype == np.uint8

    def _prepared(self, question: FloatArray) -> FloatArray:
        return unit(question) if self.similarity == "cosine" else question

    def _blocks(self) -> Iterable[npt.NDArray[Any]]:
        rows, n = max(BLOCK * len(self) // max(len(self.scales), 1), 1), len(self)
        return (self.sentences.take(np.arange(begin, min(begin + rows, n))).values for begin in range(0, n, rows))

    def _products(self, question: FloatArray, blocks: Iterable[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Products of blocks of sentences with a question."""
        if not self._coded:
            # not of BLAS: the same number for a row however many there are
            return [np.einsum("nd,d->n", block, question) for block in blocks]
        digits, step = digits_of(question)
        columns = digits.T.copy()
        return [value_of(int_products(from_quarter_bytes(block), columns).T, step) for block in blocks]

    def _scores(
        self,
        question: FloatArray,
        products: Iterable[npt.NDArray[Any]],
        places: slice | IntArray,
        offsets: IntArray,
    ) -> DoubleArray:
        """Scores of passages from the products with their sentences, which are at some places."""
        if len(offsets) < 2:
            return np.zeros(0)
        similar = np.asarray(np.concatenate([np.zeros(0), *products]) * self.scales[places], np.float64)
        shares, starts = self.shares[places], offsets[:-1]
        means = np.add.reduceat(similar * shares, starts)
        if self.similarity == "l2":
            lengths, square = self._lengths[places], float(question @ question)
            similar += 1 - (lengths**2 + square) / 2
            # within a passage shares are as weights of the sentences: the length of the mean is the mean of the lengths
            total = np.maximum(np.add.reduceat(shares, starts), np.finfo(np.float32).tiny)
            means += 1 - ((np.add.reduceat(shares * lengths, starts) / total) ** 2 + square) / 2
        return dense_scores(means, similar, offsets)

    @Once
    def _lengths(self) -> DoubleArray:
        """Lengths of the sentences' vectors, float64 of shape (m,)."""
        floats = ((from_quarter_bytes(block) if self._coded else block).astype(np.float32) for block in self._blocks())
        parts = [np.sqrt(np.einsum("nd,nd->n", block, block)) for block in floats]
        return np.asarray(np.concatenate([np.zeros(0), *parts]) * self.scales)

    @Once
    def _approximation(self) -> Approximation:
        return Approximation.of(cast("Reduced", self.index), self.shares, self.sentences.offsets)

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        """Products with each block of sentences, which are laid out for it: half a second for 100,000."""
        values = self.sentences.values
        blocks = (from_quarter_bytes(values[begin : begin + WIDE]) for begin in range(0, len(values), WIDE))
        return [product_with(transposed(block)) for block in blocks]


def digits_of(vector: FloatArray) -> tuple[npt.NDArray[np.int8], float]:
    """A vector (dim,) as step * (digits[0] + digits[1] / BASE + digits[2] / BASE**2), int8 (DIGITS, dim); and the step."""
    step = max(float(np.abs(vector).max(initial=0)) / LARGEST, np.finfo(np.float64).tiny)
    left, digits = vector.astype(np.float64) / step, np.empty((DIGITS, len(vector)), np.int8)
    for digit in digits:
        digit[:] = np.rint(left).clip(-LARGEST, LARGEST)
        left = (left - digit) * BASE
    return digits, step


def value_of(products: npt.NDArray[np.int32], step: float) -> DoubleArray:
    """Products with a vector from products (DIGITS, n) with its digits, float64 of shape (n,)."""
    found = products[0].astype(np.float64)
    for row in products[1:]:
        found *= BASE
        found += row  # whole numbers below 2**53
    return np.asarray(found * (step / BASE ** (len(products) - 1)))
