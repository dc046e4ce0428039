"""Similarity of passages with a question, as products of integers.

Vectors of passages are int8 with a scale for each. A question's vector is rounded to 20 bits, written as three rows of 7
bits each, so that its products with all passages are sums of integers: exact, the same on every way that they are come by,
whatever the order of the sums. What the rounding changes of a cosine is about 1e-7, as much as that of float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import RLock
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core.files import Files
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.scoring.clusters import CELL, Cells, centres_of, nearest_of
from semclass.scoring.matmul import SMALL_ZERO, half_byte_product_with, int_products, product_with, transposed
from semclass.scoring.topk import is_most, nth_at_least, unit

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
        ``"cosine"``, ``"ip"`` or ``"l2"``, see :func:`semclass.scoring.topk.similarity`.
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

WIDER = 3
"""How many times as many passages as asked for are given by half bytes, so that as many of the nearest are among them."""

SAMPLE = 50_000
"""Passages from which the directions of reduced vectors, and their cells, are found."""


SPARING = 16
"""Of so many passages one is looked for, at most, where cells are left out: the n best of more are in nearly all cells."""


NEARLY_ALL = 0.97
"""Share of the passages from which the allowed ones are where all are: what was removed, and not what a filter left out.

With a filter that keeps the 90 % of a million made passages that are farthest from a question along one direction, the
ten best by vectors alone were found as often as 0.980 by cells, and 0.997 by looking at all; with 20 %, 0.843 and 1.000.
"""


@dataclass(frozen=True)
class Reduced:
    """Vectors of passages in fewer dimensions, which are looked through to find those that are worth a closer look.

    Looking at them takes as long as reading them takes: half a byte for each of a few dimensions finds more than a byte for
    each of half as many. Those near to each other are beside each other, in cells, and for a question only the cells are
    looked at that are likely to hold what is looked for, see :mod:`semclass.scoring.clusters`.

    Attributes
    ----------
    axes
        What a question's vector is to be multiplied with, float32 of shape (dim, DIMENSIONS): the directions in which the
        passages differ most (principal components), times the width of a level; zeros where there are no more.
    levels
        Those of the passages, cell by cell, two in a byte as :func:`semclass.scoring.matmul.half_byte_product_with`
        takes them, uint8 of shape (n, DIMENSIONS // 2).
    starts
        Where each cell begins, and n, int64 of shape (n_cells + 1,); no cell is empty.
    places
        Which passage each row of `levels` is, rising within a cell, int32 of shape (n,); None where they are in order.
    cells
        What is known of the cells; None where all are to be looked at, as they are where `places` is None.
    """

    axes: FloatArray
    levels: npt.NDArray[np.uint8]
    starts: IntArray
    places: npt.NDArray[np.int32] | None = None
    cells: Cells | None = None

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Places of WIDER * n passages or a few more, by the largest products, rising; fewer where fewer are allowed."""
        asked = np.einsum("d,dk->k", question, self.axes)  # large enough for BLAS to take threads
        wanted, total = n * WIDER, len(self.levels)
        number = total if allowed is None else int(np.count_nonzero(allowed))
        # a filter may go by what passages are about, so that the best of them are in cells far from the question
        cells = self._looked_at(asked, wanted if number >= NEARLY_ALL * total else total)
        rows = self._best(asked, cells, wanted, allowed)
        if len(rows) < min(wanted, number):
            rows = self._best(asked, np.arange(len(self.starts) - 1), wanted, allowed)
        return rows if self.places is None else np.sort(self.places[rows]).astype(np.int64)

    def _looked_at(self, asked: FloatArray, n: int) -> IntArray:
        """Cells that are likely to hold the n best, rising."""
        counts = np.diff(self.starts)
        if self.cells is None or n * SPARING > len(self.levels):
            return np.arange(len(counts))
        return self.cells.worth_a_look(asked, counts, n)

    def _best(self, asked: FloatArray, cells: IntArray, n: int, allowed: npt.NDArray[np.bool_] | None) -> IntArray:
        """Rows of `levels` in some cells that have the n largest products, or a few more."""
        feed = {"a": asked[None]}
        products = np.concatenate([self._sessions[cell].run(["c"], feed)[0][0] for cell in cells.tolist()])
        among = None if allowed is None else self._among(cells, allowed)
        if among is not None:
            products = products[among]
        best = np.flatnonzero(products >= nth_at_least(products, n))
        if among is not None:
            best = among[best]
        ends = np.cumsum(np.diff(self.starts)[cells])
        return np.asarray(best + (self.starts[cells + 1] - ends)[np.searchsorted(ends, best, side="right")])

    def _among(self, cells: IntArray, allowed: npt.NDArray[np.bool_]) -> IntArray:
        """Which of the passages of some cells, one cell after another, are allowed."""
        if self.places is None or len(cells) == len(self.starts) - 1:
            rows = np.flatnonzero(allowed)
            return rows if self.places is None else self._row_of[rows].astype(np.int64)
        spans = [self.places[slice(*self.starts[cell : cell + 2].tolist())] for cell in cells.tolist()]
        # "clip", as no place is beyond: to check that takes as long again
        return np.flatnonzero(np.concatenate([allowed.take(span, mode="clip") for span in spans]))

    @Once
    def _row_of(self) -> npt.NDArray[np.int32]:
        """The row of `levels` of each passage, int32 of shape (n,): for filters, the first of which makes it."""
        found = np.empty(len(self.levels), np.int32)
        found[self.places] = np.arange(len(found), dtype=np.int32)
        return found

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        ends = self.starts.tolist()
        return [half_byte_product_with(self.levels[begin:end]) for begin, end in pairwise(ends)]


def reduce_vectors(codes: npt.NDArray[np.int8], levels: FloatArray) -> Reduced:
    """Reduce the vectors of a segment.

    Parameters
    ----------
    codes, levels
        As in :class:`Vectors`, int8; of at least one passage.

    Returns
    -------
    Reduced
        In memory: half a byte for each passage and dimension, and four bytes for its place.
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
    kept, centres = len(widths), centres_of(sample @ directions, max(round(n / CELL), 1))
    rows, cells = np.empty((n, DIMENSIONS // 2), np.uint8), np.empty(n, np.int32)
    for begin in range(0, n, ROWS):
        end = min(begin + ROWS, n)
        reduced = (codes[begin:end] * levels[begin:end, None] - mean) @ directions
        cells[begin:end] = nearest_of(centres, reduced)
        found = np.full((end - begin, DIMENSIONS), LEVELS // 2, np.uint8)
        found[:, :kept] = (np.floor(reduced / widths) + LEVELS // 2).clip(0, LEVELS - 1)
        rows[begin:end] = found[:, ::2] | found[:, 1::2] << 4
    axes = np.zeros((codes.shape[1], DIMENSIONS), np.float32)
    axes[:, :kept] = directions * widths
    places, counts = np.argsort(cells, kind="stable").astype(np.int32), np.bincount(cells)
    rows, starts = rows[places], np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[counts > 0])])
    return Reduced(axes, rows, starts, places, _known(rows, starts))


def _known(rows: npt.NDArray[np.uint8], starts: IntArray) -> Cells:
    """Means and variances of the levels of each cell."""
    means, variances = np.empty((2, len(starts) - 1, DIMENSIONS), np.float32)
    for cell, (begin, end) in enumerate(pairwise(starts.tolist())):
        for half, dimensions in (
            (rows[begin:end] & LEVELS - 1, slice(0, None, 2)),
            (rows[begin:end] >> 4, slice(1, None, 2)),
        ):
            means[cell, dimensions] = half.mean(axis=0) - LEVELS // 2
            variances[cell, dimensions] = half.var(axis=0)
    return Cells(means, variances)


PARTS = ("axes", "levels", "starts", "places", "means", "variances")
"""Arrays of reduced vectors, each a file."""

OLD_PARTS = ("axes", "blocks", "n")
"""Those of an index that was written before there were cells."""

OLD_BLOCK = 131_072
"""Passages of one product where there are no cells."""


def save(found: Reduced, folder: Path) -> None:
    """Write reduced vectors that have cells into a folder, which is made."""
    folder.mkdir()
    arrays = (
        found.axes,
        found.levels,
        found.starts,
        found.places,
        *(vars(found.cells).values() if found.cells else ()),
    )
    for name, array in zip(PARTS, arrays, strict=True):
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def load(files: Files, folder: str = "") -> Reduced:
    """Read reduced vectors from a folder among some files; of those without cells, all are looked at.

    Raises
    ------
    ValueError
        If those without cells are said to be more than there are.
    """
    if f"{folder}blocks.npy" not in files:
        axes, levels, starts, places, means, variances = (files.array(f"{folder}{name}.npy") for name in PARTS)
        return Reduced(axes, levels, starts, places, Cells(means, variances))
    axes, blocks, number = (files.array(f"{folder}{name}.npy") for name in OLD_PARTS)
    rows, n = blocks.reshape(-1, blocks.shape[-1]), int(number)
    if not 0 <= n <= len(rows):
        raise ValueError(f"{n} of {len(rows)} reduced vectors")
    return Reduced(axes, rows[:n], np.append(np.arange(0, n, OLD_BLOCK), n))
