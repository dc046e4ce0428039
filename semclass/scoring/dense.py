"""Dense scores: the similarity of a question with the excerpts of each passage.

The score of a passage is the mean of two cosines with the question: the cosine of its best excerpt, and the cosine of the
mean of its excerpts (:data:`MEAN_WEIGHT`).

The vector of an excerpt is stored as odd numbers from -3 to 3, with a scale. A question's vector is rounded to 20 bits and
written as three rows of 7 bits. So its products with all excerpts are sums of integers: they are exact, whatever the
route and the order of the sums. The rounding changes a cosine by about 1e-7, as much as float32 does.
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
from semclass.scoring.approximation import CLUSTERED_FROM, ApproximateScores, Reduced
from semclass.scoring.vectors import (
    ZERO,
    float_products,
    from_quarter_bytes,
    nth_at_least,
    product_with,
    unit,
)

MEAN_WEIGHT = 0.5
"""Weight of the mean of a passage's excerpts in its dense score. The rest is the weight of the best excerpt.

nDCG@10 of the dense score alone with the weights 1, 0 and 0.5: docs .705, .764, .748; codebase .559, .570, .565; cacm
.426, .418, .420; cranfield .364, .368, .374.
"""

LAYOUT_BLOCK = 16_384
"""Number of excerpts of one product whose weights are arranged for it. The result fits into the cache."""

PRODUCT_BLOCK = 2_048
"""Number of excerpts of one product whose weights are not arranged for it."""

LAYOUT_FROM = 4_096
"""Number of excerpts of a segment from which their vectors are arranged for products, once, in some ms per thousand."""

MAX_DIGIT = 63
"""Largest absolute value of a digit of a question's components."""

BASE, DIGITS = 2 * MAX_DIGIT + 1, 3
"""Base of the digits, and number of digits of a component."""


def shares_of(vectors: FloatArray, words: FloatArray, offsets: IntArray) -> FloatArray:
    """Compute the factor of each excerpt in its passage's mean, by square roots of numbers of words, float32 (m,)."""
    weights, starts = np.sqrt(words), offsets[:-1]
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    sums = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
    mean = np.add.reduceat(weights * lengths, starts) / np.add.reduceat(weights, starts)
    factors = mean / np.maximum(np.sqrt(np.einsum("nd,nd->n", sums, sums)), np.float32(1e-12))
    return np.asarray(weights * np.repeat(factors, np.diff(offsets)), np.float32)


@dataclass(frozen=True)
class Vectors:
    """Vectors of the excerpts of n passages, ready to be compared with questions. Threads may share one instance."""

    excerpts: Ragged  # quarter bytes or float32 of item shape (dim,), of unit length once multiplied by `scales`
    scales: FloatArray  # of each excerpt, float32 of shape (m,)
    shares: FloatArray  # of each excerpt in the mean, float32 of shape (m,), see :func:`shares_of`
    reduced: Reduced | None = None  # finds similar excerpts without comparing all; None to compare all

    def __len__(self) -> int:
        return len(self.excerpts)

    def scores(self, question: FloatArray) -> DoubleArray:
        """Score every passage for a question's vector (dim,), which may have any norm, float64 of shape (n,)."""
        question = unit(question)
        # a graph for each block costs more bytes than the vectors: reduced vectors make comparing all rare
        if self._coded and self.reduced is None and len(self.scales) >= LAYOUT_FROM:
            digits, step = digits_of(question)
            rows = (digits + np.int8(ZERO)).astype(np.uint8)
            products = [value_of(session.run(None, {"a": rows})[0], step) for session in self._sessions]
        else:
            products = self._products(question, self._blocks())
        return self._scores(products, slice(None), self.excerpts.offsets)

    def scores_at(self, question: FloatArray, rows: IntArray) -> DoubleArray:
        """Score the passages at `rows`, float64 of shape (m,). The results are exactly those of :meth:`scores`."""
        # comparing most passages takes longer than comparing all, unless none are laid out
        if len(rows) == len(self) or (self.reduced is None and 4 * len(rows) > len(self)):
            return self.scores(question)[rows]
        taken, places = self.excerpts.take(rows), self.excerpts.places(rows)
        blocks = (taken.values[begin : begin + PRODUCT_BLOCK] for begin in range(0, len(places), PRODUCT_BLOCK))
        return self._scores(self._products(unit(question), blocks), places, taken.offsets)

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None) -> IntArray:
        """Return the rows of about 3 n passages that likely include the n most similar, by reduced vectors. They ascend."""
        reduced, offsets = cast("Reduced", self.reduced), self.excerpts.offsets
        if len(self.scales) < CLUSTERED_FROM:
            rows, scores = self._approximate.rows, self._approximate.scores(unit(question))
            if allowed is not None:
                scores[~allowed[rows]] = -np.inf
            return np.sort(rows[scores >= max(nth_at_least(scores, 3 * n), np.finfo(scores.dtype).min)])
        allowed = None if allowed is None else np.repeat(allowed, np.diff(offsets))
        places = reduced.nearest(question, n, allowed)
        return np.unique(np.searchsorted(offsets, places, side="right") - 1)

    @property
    def _coded(self) -> bool:
        return self.excerpts.values.dtype == np.uint8

    def _blocks(self) -> Iterable[npt.NDArray[Any]]:
        rows, n = max(PRODUCT_BLOCK * len(self) // max(len(self.scales), 1), 1), len(self)
        return (self.excerpts.take(np.arange(begin, min(begin + rows, n))).values for begin in range(0, n, rows))

    def _products(self, question: FloatArray, blocks: Iterable[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        if not self._coded:
            # not of BLAS: the same number for a row however many there are
            return [np.einsum("nd,d->n", block, question) for block in blocks]
        digits, step = digits_of(question)
        rows = digits.astype(np.float32)  # whole numbers below 2**24: the sums are exact
        return [value_of(float_products(rows, from_quarter_bytes(block).astype(np.float32)), step) for block in blocks]

    def _scores(self, products: Iterable[npt.NDArray[Any]], places: slice | IntArray, offsets: IntArray) -> DoubleArray:
        if len(offsets) < 2:
            return np.zeros(0)
        similar = np.asarray(np.concatenate([np.zeros(0), *products]) * self.scales[places], np.float64)
        means = np.add.reduceat(similar * self.shares[places], offsets[:-1])
        best = np.maximum.reduceat(similar, offsets[:-1])
        best *= 1 - MEAN_WEIGHT
        best += MEAN_WEIGHT * means
        return np.asarray(best)

    @Once
    def _approximate(self) -> ApproximateScores:
        reduced = cast("Reduced", self.reduced)
        return ApproximateScores.of(reduced, self.shares, self.excerpts.offsets, mean_weight=MEAN_WEIGHT)

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        """Products with each block of excerpts, which are laid out for it: half a second for 100,000."""
        values = self.excerpts.values
        blocks = (
            from_quarter_bytes(values[begin : begin + LAYOUT_BLOCK]) for begin in range(0, len(values), LAYOUT_BLOCK)
        )
        return [product_with(np.ascontiguousarray(block.T)) for block in blocks]


def digits_of(vector: FloatArray) -> tuple[npt.NDArray[np.int8], float]:
    """Return int8 (DIGITS, dim) and a step: vector = step * (digits[0] + digits[1] / BASE + digits[2] / BASE**2)."""
    step = max(float(np.abs(vector).max(initial=0)) / MAX_DIGIT, np.finfo(np.float64).tiny)
    left, digits = vector.astype(np.float64) / step, np.empty((DIGITS, len(vector)), np.int8)
    for digit in digits:
        digit[:] = np.rint(left).clip(-MAX_DIGIT, MAX_DIGIT)
        left = (left - digit) * BASE
    return digits, step


def value_of(products: npt.NDArray[Any], step: float) -> DoubleArray:
    """Compute the products with a vector from the products (DIGITS, n) with its digits, float64 of shape (n,)."""
    values = products[0].astype(np.float64)
    for row in products[1:]:
        values *= BASE
        values += row  # whole numbers below 2**53
    return np.asarray(values * (step / BASE ** (len(products) - 1)))
