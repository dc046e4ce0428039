"""Similarity of passages with a question, as products of integers.

Vectors of passages are int8 with a scale for each. A question's vector is rounded to 20 bits, written as three rows of 7
bits each, so that its products with all passages are sums of integers: exact, and the same by every route and in every
order of the sums. What the rounding changes of a cosine is about 1e-7, as much as that of float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.scoring.matmul import SMALL_ZERO, int_products, product_with, transposed
from semclass.scoring.topk import is_most, unit

if TYPE_CHECKING:
    from semclass.scoring.reduction import Reduced

BLOCK = 16_384
"""Passages of one product with weights that are laid out for it: the result stays in the cache."""

ROWS = 2_048
"""Passages of one product with weights as they are."""

LAID_OUT = 4_096
"""Passages of a segment from which its vectors are laid out for products: once, in a millisecond a thousand."""

LARGEST = 63
"""Largest absolute value of a digit of a question's components."""

BASE, DIGITS = 2 * LARGEST + 1, 3
"""Base and number of these digits."""


T = TypeVar("T")


class Once(cached_property[T]):
    """A ``cached_property`` that one thread makes while others wait, for values that take as much memory as the vectors."""

    lock = RLock()

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Make the value if there is none; later reads find it without coming here."""
        with self.lock:
            return super().__get__(instance, owner)


@dataclass(frozen=True)
class Vectors:
    """Vectors of the passages of a segment, ready to be compared with questions; many threads may share one."""

    codes: npt.NDArray[Any]  # int8 or float32 of shape (n, dim); for cosine of unit length once multiplied by `levels`
    levels: FloatArray  # scale of each row, float32 of shape (n,)
    similarity: str = "cosine"  # see :func:`semclass.scoring.topk.similarity`
    index: Reduced | None = None  # finds similar passages without comparing all; None to compare all

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.codes)

    def scores(self, question: FloatArray) -> DoubleArray:
        """Similarity of every passage with a question's vector (dim,), float64 of shape (n,)."""
        question = self._prepared(question)
        # a graph for each block costs as many bytes again as the vectors: where there is an index, all are seldom compared
        if self.codes.dtype == np.int8 and self.index is None and len(self.codes) >= LAID_OUT:
            digits, step = digits_of(question)
            rows = (digits + np.int8(SMALL_ZERO)).astype(np.uint8)
            parts = [value_of(session.run(None, {"a": rows})[0], step) for session in self._sessions]
        else:
            parts = self._products(question, self._blocks())
        return self._similarity(question, parts, slice(None))

    def scores_at(self, question: FloatArray, rows: IntArray) -> DoubleArray:
        """Similarity of some passages, float64 of shape (m,): the same numbers as of :meth:`scores`, to the last bit."""
        # of most passages, taking them together takes longer than to compare with all; not so where none are laid out
        if len(rows) == len(self) or (self.index is None and is_most(len(rows), len(self))):
            return self.scores(question)[rows]
        question = self._prepared(question)
        blocks = (self.codes[rows[begin : begin + ROWS]] for begin in range(0, len(rows), ROWS))
        return self._similarity(question, self._products(question, blocks), rows)

    def _prepared(self, question: FloatArray) -> FloatArray:
        return unit(question) if self.similarity == "cosine" else question

    def _blocks(self) -> Iterable[npt.NDArray[Any]]:
        return (self.codes[begin : begin + ROWS] for begin in range(0, len(self.codes), ROWS))

    def _products(self, question: FloatArray, blocks: Iterable[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Products of blocks of codes with a question."""
        if self.codes.dtype != np.int8:
            # not of BLAS: the same number for a row however many there are
            return [np.einsum("nd,d->n", block, question) for block in blocks]
        digits, step = digits_of(question)
        columns = digits.T.copy()
        return [value_of(int_products(block, columns).T, step) for block in blocks]

    def _similarity(
        self, question: FloatArray, products: Iterable[npt.NDArray[Any]], rows: slice | IntArray
    ) -> DoubleArray:
        scores = np.asarray(np.concatenate([np.zeros(0), *products]) * self.levels[rows], np.float64)
        if self.similarity != "l2":
            return scores
        return np.asarray(1 + scores - (self._squares[rows] + float(question @ question)) / 2)

    @Once
    def _squares(self) -> DoubleArray:
        """Squared lengths, float64 of shape (n,)."""
        floats = (block.astype(np.float32) for block in self._blocks())
        parts = [np.einsum("nd,nd->n", block, block) for block in floats]
        return np.asarray(np.concatenate([np.zeros(0), *parts]) * self.levels.astype(np.float64) ** 2)

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        """Products with each block of passages, which are laid out for it: half a second for 100,000."""
        return [
            product_with(transposed(self.codes[begin : begin + BLOCK])) for begin in range(0, len(self.codes), BLOCK)
        ]


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
