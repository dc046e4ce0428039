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

from semclass.products import SMALL_ZERO, half_byte_product_with, int_products, product_with, transposed
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
        step = max(float(np.abs(vector).max(initial=0)) / LARGEST, np.finfo(np.float64).tiny)
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

DIMENSIONS = 64
"""Dimensions that :class:`Reduced` keeps."""

LEVEL = 0.335
"""Width of a level in standard deviations: the best of 16 equal levels for normal values (Max 1960)."""

LEVELS = 16
"""Levels of a component, two of which are kept in a byte."""

REDUCED_BLOCK = 131_072
"""Passages of one product of reduced vectors."""

WIDER = 3
"""How many times as many passages as asked for are given by half bytes, so that as many of the nearest are among them."""

GROUP = 32
"""Passages of which the best one is compared first."""

SAMPLE = 50_000
"""Passages from which the directions of reduced vectors are found."""


@dataclass(frozen=True)
class Reduced:
    """Vectors of passages in fewer dimensions, which are all looked at to find those that are worth a closer look.

    Looking at all takes as long as reading them takes: half a byte for each of a few dimensions finds more than a byte for
    each of half as many.

    Attributes
    ----------
    axes
        What a question's vector is to be multiplied with, float32 of shape (dim, DIMENSIONS): the directions in which the
        passages differ most (principal components), times the width of a level; zeros where there are no more.
    blocks
        Levels of the passages, two in a byte as :func:`semclass.products.half_byte_product_with` takes them, uint8 of
        shape (n_blocks, size, DIMENSIONS // 2); the last block is filled up.
    n
        How many passages there are.
    """

    axes: FloatArray
    blocks: npt.NDArray[np.uint8]
    n: int

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Places of WIDER * n passages or a few more, by the largest products, rising; fewer where fewer are allowed."""
        asked = np.einsum("d,dk->k", question, self.axes)[None]  # large enough for BLAS to take threads
        parts, size = [], self.blocks.shape[1]
        for place, session in enumerate(self._sessions):
            (products,) = session.run(None, {"a": asked})[0]
            here = slice(place * size, min((place + 1) * size, self.n))
            products[here.stop - here.start :] = -np.inf
            if allowed is not None:
                np.copyto(products[: here.stop - here.start], -np.inf, where=~allowed[here])
            parts.append(products)
        least = max(_nth_at_least(parts, n * WIDER), np.finfo(np.float32).min)
        found = [np.flatnonzero(products >= least) + place * size for place, products in enumerate(parts)]
        return np.concatenate(found)

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        return [half_byte_product_with(block) for block in self.blocks]


def _nth_at_least(parts: Sequence[FloatArray], n: int) -> float:
    """As :func:`semclass.ranking.nth_at_least`, of several arrays of one length, read while they are in the cache."""
    size = len(parts[0])
    if size % GROUP or n * 4 > len(parts) * size // GROUP:
        return float(nth_at_least(np.concatenate(parts), n))
    largest = np.concatenate([part.reshape(GROUP, -1).max(axis=0) for part in parts])
    return float(np.partition(largest, len(largest) - n)[len(largest) - n])


def reduce_vectors(codes: npt.NDArray[np.int8], levels: FloatArray) -> Reduced:
    """Reduce the vectors of a segment.

    Parameters
    ----------
    codes, levels
        As in :class:`Vectors`, int8; of at least one passage.

    Returns
    -------
    Reduced
        In memory: half a byte for each passage and dimension.
    """
    n = len(codes)
    some = np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)
    sample = codes[some] * levels[some, None]
    # what all passages have in common changes every product with a question by the same
    mean = sample.mean(axis=0)
    sample -= mean
    variances, directions = np.linalg.eigh(sample.T @ sample / len(sample))
    directions = directions[:, ::-1][:, :DIMENSIONS]
    widths = LEVEL * np.sqrt(np.maximum(variances[::-1][:DIMENSIONS], np.finfo(np.float32).tiny))
    size, kept = min(REDUCED_BLOCK, n), len(widths)
    blocks = np.full((-(-n // size), size, DIMENSIONS // 2), LEVELS // 2 * (LEVELS + 1), np.uint8)
    for begin in range(0, n, ROWS):
        end = min(begin + ROWS, n)
        reduced = (codes[begin:end] * levels[begin:end, None] - mean) @ (directions / widths)
        found = np.full((end - begin, DIMENSIONS), LEVELS // 2, np.uint8)
        found[:, :kept] = (np.floor(reduced) + LEVELS // 2).clip(0, LEVELS - 1)
        blocks.reshape(-1, DIMENSIONS // 2)[begin:end] = found[:, ::2] | found[:, 1::2] << 4
    axes = np.zeros((codes.shape[1], DIMENSIONS), np.float32)
    axes[:, :kept] = directions * widths
    return Reduced(axes, blocks, n)


PARTS = ("axes", "blocks", "n")
"""Arrays of reduced vectors, each a file."""


def save(found: Reduced, folder: Path) -> None:
    """Write reduced vectors into a folder, which is made."""
    folder.mkdir()
    for name in PARTS:
        np.save(folder / f"{name}.npy", getattr(found, name), allow_pickle=False)


def load(folder: Path) -> Reduced:
    """Open reduced vectors, memory-mapped."""
    axes, blocks, n = (
        np.asarray(np.load(folder / f"{name}.npy", mmap_mode=None if name == "n" else "r", allow_pickle=False))
        for name in PARTS
    )
    return Reduced(axes, blocks, int(n))
