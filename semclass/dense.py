"""Similarity of passages with a question, as products of integers.

Vectors of passages are int8 with a scale for each. A question's vector is rounded to 20 bits, written as three rows of 7
bits each, so that its products with all passages are sums of integers: exact, the same on every way that they are come by,
whatever the order of the sums. What the rounding changes of a cosine is about 1e-7, as much as that of float32.

The products are those of onnxruntime (MatMulInteger), whose threads are set here and not by the environment, as those of
numpy's BLAS are. The graphs have one node, and are written here byte by byte. Operands are kept so small that the 16 bits
in which processors without VNNI add up pairs of products cannot overflow: 2 * 127 * 127 and 2 * 255 * 63 are below 2**15.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.ranking import nth_at_least, unit
from semclass.sessions import session_options
from semclass.types import DoubleArray, FloatArray, IntArray

BLOCK = 16_384
"""Passages of one product with weights that are laid out for it: their result stays in the cache."""

ROWS = 2_048
"""Passages of one product with weights as they are."""

LARGEST = 63
"""Largest absolute value of a digit of a question's components."""

BASE = 2 * LARGEST + 1
"""How many of one digit are one of the digit before."""

DIGITS = 3
"""Digits of a question's components."""


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
        if self.index is None and len(self.codes) >= BLOCK:
            parts = [asked.value_of(session.run(None, {"a": asked.rows})[0]) for session in self._sessions]
        else:
            parts = [asked.value_of(_products(some, asked)) for some in self._rows()]
        sums = np.concatenate([np.zeros(0), *parts])
        return self._similarity(question, sums * self.levels, slice(None))

    def scores_at(self, question: FloatArray, rows: IntArray) -> DoubleArray:
        """Similarity of some passages, float64 of shape (m,): the same numbers as of :meth:`scores`, to the last bit."""
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

    @cached_property
    def _squares(self) -> DoubleArray:
        """Squared lengths, float64 of shape (n,)."""
        parts = [np.zeros(0)]
        for rows in self._rows():
            block = rows.astype(np.float32)
            parts.append(np.einsum("nd,nd->n", block, block).astype(np.float64))
        return np.asarray(np.concatenate(parts) * self.levels.astype(np.float64) ** 2)

    @cached_property
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
    unsigned = np.bitwise_xor(codes.view(np.uint8), np.uint8(ZERO))
    found: npt.NDArray[np.int32] = _product_of_rows().run(None, {"a": unsigned, "b": asked.digits.T.copy()})[0]
    return np.asarray(found.T)


def _float_products(vectors: FloatArray, question: FloatArray) -> FloatArray:
    """Products of vectors (m, dim) with a question's, float32 of shape (m,), without BLAS and its threads."""
    return np.asarray(np.einsum("nd,d->n", vectors, question))


def transposed(codes: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Codes (n, dim) as weights of a product, int8 of shape (dim, n), in memory that is given back when they are gone."""
    memory = np.frombuffer(mmap.mmap(-1, max(codes.size, 1)), np.int8, codes.size).reshape(codes.shape[::-1])
    for begin in range(0, len(codes), 256):  # stretches that stay in the cache
        memory[:, begin : begin + 256] = codes[begin : begin + 256].T
    return memory


def product_with(weights: npt.NDArray[np.int8]) -> onnxruntime.InferenceSession:
    """A session that multiplies rows ``a``, :attr:`Question.rows`, with weights (dim, n), into int32 (n_digits, n).

    The library lays the weights out anew, so that they are read from memory once for each question and in one go.
    """
    options = session_options(1)
    options.enable_cpu_mem_arena = False  # what a thread needs for a moment is given back
    options.add_external_initializers(["b"], [onnxruntime.OrtValue.ortvalue_from_numpy(weights)])
    graph = _graph(SMALL_ZERO, _tensor("a", _UINT8, ("digits", weights.shape[0])), weights=weights.shape)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=1)
def _product_of_rows() -> onnxruntime.InferenceSession:
    """A session that multiplies rows ``a``, uint8 of shape (n, dim), with columns ``b``, int8 of shape (dim, n_digits)."""
    options = session_options(1)
    options.enable_cpu_mem_arena = False
    graph = _graph(ZERO, _tensor("a", _UINT8, ("n", "dim")) + _tensor("b", _INT8, ("dim", "digits")))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


_UINT8, _INT8, _INT32 = 2, 3, 6

ZERO, SMALL_ZERO = 128, 64
"""The byte that stands for 0 in passages and in a question's digits, where a product wants unsigned numbers."""


def _graph(zero: int, inputs: bytes, weights: tuple[int, ...] | None = None) -> bytes:
    """An ONNX model of one MatMulInteger: c = (a - zero) b, with b an input, or int8 weights of some shape from outside.

    The field numbers are those of onnx.proto (ONNX, IR version 8, operator set 17).
    """
    node = _field(1, "a") + _field(1, "b") + _field(1, "zero") + _field(2, "c") + _field(4, "MatMulInteger")
    point = _field(2, _UINT8) + _field(8, "zero") + _field(9, bytes([zero]))
    graph = _field(1, node) + _field(2, "product") + _field(5, point)
    if weights is not None:
        # the place stands for memory that the session is given
        place = _field(13, _field(1, "location") + _field(2, "memory")) + _field(14, 1)
        graph += _field(5, b"".join(_field(1, size) for size in weights) + _field(2, _INT8) + _field(8, "b") + place)
    graph += inputs + _field(12, _field(1, "c") + _field(2, _field(1, _field(1, _INT32))))
    return _field(1, 8) + _field(8, _field(2, 17)) + _field(7, graph)


def _tensor(name: str, kind: int, shape: tuple[int | str, ...]) -> bytes:
    """An input of a graph; a size that is a name may be any."""
    sizes = b"".join(_field(1, _field(1 if isinstance(size, int) else 2, size)) for size in shape)
    return _field(11, _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, sizes))))


def _field(number: int, value: int | str | bytes) -> bytes:
    """A field of a protocol buffer message: a number, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """A number, seven bits a byte, the lowest first; all bytes but the last have the highest bit set."""
    digits = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])


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
        asked = Question.of(((question @ self.axes) * self.scales**2).astype(np.float32), digits=1)
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

    @cached_property
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


_PARTS = ("axes", "scales", "blocks", "n")


def save(found: Reduced, folder: Path) -> None:
    """Write reduced vectors into a folder, which is made."""
    folder.mkdir()
    for name in _PARTS:
        np.save(folder / f"{name}.npy", getattr(found, name), allow_pickle=False)


def load(folder: Path) -> Reduced:
    """Open reduced vectors, memory-mapped."""
    axes, scales, blocks, n = (
        np.asarray(np.load(folder / f"{name}.npy", mmap_mode=None if name == "n" else "r", allow_pickle=False))
        for name in _PARTS
    )
    return Reduced(axes, scales, blocks, int(n))
