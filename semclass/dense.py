"""Similarity of passages with a question, as products of integers.

Vectors of passages are int8 with a scale for each. A question's vector is rounded to 20 bits, written as three rows of 7
bits each, so that its products with all passages are sums of integers: exact, the same on every way that they are come by,
whatever the order of the sums. What the rounding changes of a cosine is about 1e-7, as much as that of float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.products import SMALL_ZERO, int_products, product_with, transposed
from semclass.ranking import is_most, nth_at_least, unit
from semclass.types import DoubleArray, FloatArray, IntArray

BLOCK = 16_384
"""Passages of one product with weights that are laid out for it: their result stays in the cache."""

ROWS = 2_048
"""Passages of one product with weights as they are."""

LAID_OUT = 4_096
"""Passages of a segment from which its vectors are laid out for products: once, in a millisecond for each thousand."""

LARGEST = 63
"""Largest absolute value of a digit of a question's components."""

BASE = 2 * LARGEST + 1
"""How many of one digit are one of the digit before."""

DIGITS = 3
"""Digits of a question's components."""


T = TypeVar("T")


class Once(cached_property[T]):
    """A ``cached_property`` that one thread makes while others wait: what is laid out takes as much memory as vectors."""

    lock = RLock()

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Make the value if there is none; once there, it is found without coming here."""
        with self.lock:
            return super().__get__(instance, owner)


class Nearest(Protocol):
    """Finds passages that are probably the most similar to a question, without looking at all of each."""

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Places of about n passages, rising: `question` is a vector (dim,), `allowed` bool of shape (n_passages,)."""
        ...


@dataclass(frozen=True)
class Vectors:
    """Vectors of the passages of a segment, ready to be compared with questions; many threads may share one.

    Attributes
    ----------
    codes
        int8 or float32 of shape (n, dim); of unit length, once multiplied, where the similarity is ``"cosine"``.
    levels
        What each int8 row is to be multiplied with, float32 of shape (n,).
    similarity
        ``"cosine"``, ``"ip"`` or ``"l2"``, see :func:`semclass.ranking.similarity`.
    index
        What finds similar passages without comparing all; None where all are compared.
    """

    codes: npt.NDArray[Any]
    levels: FloatArray
    similarity: str = "cosine"
    index: Nearest | None = None

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.codes)

    def scores(self, question: FloatArray) -> DoubleArray:
        """Similarity of every passage with a question's vector (dim,), float64 of shape (n,)."""
        question = self._prepared(question)
        if self.codes.dtype != np.int8:
            products = np.concatenate(
                [np.zeros(0, np.float32), *(_float_products(some, question) for some in self._rows())]
            )
            return self._similarity(question, products.astype(np.float64), slice(None))
        asked = Question.of(question)
        # a graph for each block costs as many bytes again as the vectors: where there is an index, all are seldom compared
        if self.index is None and len(self.codes) >= LAID_OUT:
            parts = [asked.value_of(session.run(None, {"a": asked.rows})[0]) for session in self._sessions]
        else:
            parts = [asked.value_of(_products(some, asked)) for some in self._rows()]
        sums = np.concatenate([np.zeros(0), *parts])
        return self._similarity(question, sums * self.levels, slice(None))

    def scores_at(self, question: FloatArray, rows: IntArray) -> DoubleArray:
        """Similarity of some passages, float64 of shape (m,): the same numbers as of :meth:`scores`, to the last bit."""
        # of most passages, taking them together takes longer than to compare with all; not so where none are laid out
        if len(rows) == len(self) or (self.index is None and is_most(len(rows), len(self))):
            return self.scores(question)[rows]
        question = self._prepared(question)
        if self.codes.dtype != np.int8:
            products = _float_products(self.codes[rows], question).astype(np.float64)
            return self._similarity(question, products, rows)
        asked = Question.of(question)
        parts = [
            asked.value_of(_products(self.codes[rows[begin : begin + ROWS]], asked))
            for begin in range(0, len(rows), ROWS)
        ]
        return self._similarity(question, np.concatenate([np.zeros(0), *parts]) * self.levels[rows], rows)

    def _prepared(self, question: FloatArray) -> FloatArray:
        return unit(question) if self.similarity == "cosine" else question

    def _rows(self) -> Iterator[npt.NDArray[Any]]:
        return (self.codes[begin : begin + ROWS] for begin in range(0, len(self.codes), ROWS))

    def _similarity(self, question: FloatArray, products: DoubleArray, rows: slice | IntArray) -> DoubleArray:
        if self.similarity != "l2":
            return products
        return np.asarray(1 + products - (self._squares[rows] + float(question @ question)) / 2)

    @Once
    def _squares(self) -> DoubleArray:
        """Squared lengths, float64 of shape (n,)."""
        parts = [np.zeros(0)]
        for rows in self._rows():
            block = rows.astype(np.float32)
            parts.append(np.einsum("nd,nd->n", block, block).astype(np.float64))
        return np.asarray(np.concatenate(parts) * self.levels.astype(np.float64) ** 2)

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        """Products with each block of passages, which are laid out for it: half a second for 100,000."""
        return [
            product_with(transposed(self.codes[begin : begin + BLOCK])) for begin in range(0, len(self.codes), BLOCK)
        ]


@dataclass(frozen=True)
class Question:
    """A question's vector in integers: step * (digits[0] + digits[1] / BASE + digits[2] / BASE**2 ...).

    Attributes
    ----------
    digits
        Within +-LARGEST, int8 of shape (n_digits, dim).
    step
        What makes them the vector again.
    """

    digits: npt.NDArray[np.int8]
    step: float

    @classmethod
    def of(cls, vector: FloatArray, digits: int = DIGITS) -> Question:
        """Round a vector (dim,)."""
        step = max(float(np.abs(vector).max(initial=0)) / LARGEST, np.finfo(np.float32).tiny)
        left, found = vector.astype(np.float64) / step, np.empty((digits, len(vector)), np.int8)
        for digit in found:
            digit[:] = np.rint(left).clip(-LARGEST, LARGEST)
            left = (left - digit) * BASE
        return cls(found, step)

    @property
    def rows(self) -> npt.NDArray[np.uint8]:
        """The digits as :func:`product_with` takes them, uint8 of shape (n_digits, dim)."""
        return np.asarray(self.digits + np.int8(SMALL_ZERO)).astype(np.uint8)

    def value_of(self, products: npt.NDArray[np.int32]) -> DoubleArray:
        """Products with the vector from products (n_digits, n) with its digits, float64 of shape (n,)."""
        found = products[0].astype(np.float64)
        for row in products[1:]:
            found *= BASE
            found += row  # whole numbers below 2**53
        return np.asarray(found * (self.step / BASE ** (len(products) - 1)))


def _products(codes: npt.NDArray[np.int8], asked: Question) -> npt.NDArray[np.int32]:
    """Products of some passages, int8 of shape (m, dim), with the digits of a question, int32 of shape (n_digits, m)."""
    return np.asarray(int_products(codes, asked.digits.T.copy()).T)


def _float_products(vectors: FloatArray, question: FloatArray) -> FloatArray:
    """Products of vectors (m, dim) with a question's, float32 of shape (m,): the same number for a row whatever m is."""
    return np.asarray(np.einsum("nd,d->n", vectors, question))


MANY = 200_000
"""Passages of a segment from which reduced vectors are kept: to compare with all of fewer takes some milliseconds."""

DIMENSIONS = 96
"""Dimensions that :class:`Reduced` keeps by default."""

REDUCED_BLOCK = 32_768
"""Passages of one product of reduced vectors."""

GROUP = 32
"""Passages of which the best one is compared first."""

SAMPLE = 50_000
"""Passages from which the directions of reduced vectors are found."""


@dataclass(frozen=True)
class Reduced:
    """Vectors of passages in fewer dimensions, which are all looked at to find those that are worth a closer look.

    Attributes
    ----------
    axes
        What a vector is to be multiplied with, float32 of shape (dim, dimensions): the directions in which the passages
        differ most (principal components, not centred, as what matters are products), each divided by what its int8
        level stands for.
    scales
        What that is, float32 of shape (dimensions,).
    blocks
        The passages, int8 of shape (n_blocks, dimensions, size); the last one is filled up with zeros.
    n
        How many passages there are.
    """

    axes: FloatArray
    scales: FloatArray
    blocks: npt.NDArray[np.int8]
    n: int

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Places of at least n passages with the largest products, rising; fewer where fewer are allowed."""
        # the scales go to the question, so that the integers of all passages can be compared
        reduced = np.einsum("d,dk->k", question, self.axes)  # large enough for BLAS to take threads
        asked = Question.of((reduced * self.scales**2).astype(np.float32), digits=1)
        parts, size = [], self.blocks.shape[2]
        for place, session in enumerate(self._sessions):
            (products,) = session.run(None, {"a": asked.rows})[0]
            here = slice(place * size, min((place + 1) * size, self.n))
            products[here.stop - here.start :] = _LEAST
            if allowed is not None:
                np.copyto(products[: here.stop - here.start], _LEAST, where=~allowed[here])
            parts.append(products)
        least = max(_nth_at_least(parts, n), _LEAST + 1)
        found = [np.flatnonzero(products >= least) + place * size for place, products in enumerate(parts)]
        return np.concatenate(found)

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        return [product_with(block) for block in self.blocks]


_LEAST = int(np.iinfo(np.int32).min)


def _nth_at_least(parts: Sequence[npt.NDArray[np.int32]], n: int) -> int:
    """As :func:`semclass.ranking.nth_at_least`, of several arrays of one length, read while they are in the cache."""
    size = len(parts[0])
    if size % GROUP or n * 4 > len(parts) * size // GROUP:
        return int(nth_at_least(np.concatenate(parts), n))
    largest = np.concatenate([part.reshape(GROUP, -1).max(axis=0) for part in parts])
    return int(np.partition(largest, len(largest) - n)[len(largest) - n])


def reduce_vectors(codes: npt.NDArray[np.int8], levels: FloatArray, dimensions: int = DIMENSIONS) -> Reduced:
    """Reduce the vectors of a segment.

    Parameters
    ----------
    codes, levels
        As in :class:`Vectors`, int8; of at least one passage.
    dimensions
        How many to keep; all if the vectors have fewer.

    Returns
    -------
    Reduced
        In memory: `dimensions` bytes for each passage.
    """
    n = len(codes)
    some = np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)
    sample = codes[some] * levels[some, None]
    _, directions = np.linalg.eigh(sample.T @ sample)
    axes = directions[:, ::-1][:, :dimensions].astype(np.float32)
    scales = np.maximum(np.abs(sample @ axes).max(axis=0) / 127, np.finfo(np.float32).tiny).astype(np.float32)
    axes /= scales
    size = min(REDUCED_BLOCK, n)
    blocks = np.zeros((-(-n // size), axes.shape[1], size), np.int8)
    for begin in range(0, n, size):
        reduced = (codes[begin : begin + size] * levels[begin : begin + size, None]) @ axes
        blocks[begin // size, :, : len(reduced)] = np.rint(reduced).clip(-127, 127).astype(np.int8).T
    return Reduced(axes, scales, blocks, n)


PARTS = ("axes", "scales", "blocks", "n")
"""Arrays of reduced vectors, each a file."""


def save(found: Reduced, folder: Path) -> None:
    """Write reduced vectors into a folder, which is made."""
    folder.mkdir()
    for name in PARTS:
        np.save(folder / f"{name}.npy", getattr(found, name), allow_pickle=False)


def load(folder: Path) -> Reduced:
    """Open reduced vectors, memory-mapped."""
    axes, scales, blocks, n = (
        np.asarray(np.load(folder / f"{name}.npy", mmap_mode=None if name == "n" else "r", allow_pickle=False))
        for name in PARTS
    )
    return Reduced(axes, scales, blocks, int(n))
