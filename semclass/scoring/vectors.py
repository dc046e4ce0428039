"""Vectors: their norms, their products, the best of their scores, and their storage in few bytes.

Matrix products run on one thread, whatever the environment variables are. For larger products, the BLAS of numpy starts as
many threads as there are processors, in every thread of a service, and all of them wait for each other. So onnxruntime
computes the products. Its graphs have one node each, and are written here byte by byte.

Products of integers are exact. Processors without VNNI add pairs of products in 16 bits. Operands must be so small that
this sum cannot overflow: 2 * 127 * 127 is below 2**15.

Product quantisation (Jégou, Douze & Schmid 2011) splits a vector into parts of equal width. For each part, it stores the
number of the nearest of 256 centroids in one byte. A token's vector is stored as its difference from the usual vector of
its word piece. The tables of centroids and usual vectors belong to the encoder, and ship with the models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core import artifacts
from semclass.core.artifacts import session_options
from semclass.core.types import FloatArray, IntArray

ZERO = 64
"""The byte that stands for 0 in rows of :func:`product_with`, which are unsigned."""

_FLOAT, _UINT8, _INT8, _INT32 = 1, 2, 3, 6
_KINDS = {"float32": _FLOAT, "uint8": _UINT8, "int8": _INT8}

_OWN = "com.microsoft"
"""The domain of onnxruntime's own operators."""

GROUPS_PER_SCORE, MAX_GROUP_SIZE = 8, 64
"""Number of groups of scores for each requested score, and the largest size of a group."""


def unit(vectors: FloatArray) -> FloatArray:
    """Scale vectors to length 1 along the last axis. A vector of zeros stays unchanged."""
    norm = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))
    return np.asarray(vectors / np.maximum(norm, np.float32(1e-12))[..., None])


def top_k(scores: npt.NDArray[np.floating], k: int) -> IntArray:
    """Return the places of the k largest scores, best first, ties in their order, int64 of shape (min(k, n),)."""
    if k >= len(scores):
        return np.argsort(-scores, kind="stable")
    # ties at the cut are broken by place, not by chance
    rows = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def nth_at_least(scores: npt.NDArray[Any], n: int) -> Any:
    """Return a lower bound of the n-th largest score (n >= 1), usually a close one. With fewer, return the least number."""
    if len(scores) < n:
        return -np.inf if scores.dtype.kind == "f" else np.iinfo(scores.dtype).min
    width = min(max(len(scores) // (GROUPS_PER_SCORE * n), 1), MAX_GROUP_SIZE)
    count = len(scores) // width
    # the n-th largest maximum of small groups
    largest = scores if width == 1 else scores[: count * width].reshape(width, count).max(axis=0)
    return np.partition(largest, count - n)[count - n]


def float_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Compute the inner products of rows, left @ right.T: float32 (m, n) from float32 (m, dim) and (n, dim)."""
    if not left.size or not right.size:
        return np.zeros((len(left), len(right)), np.float32)
    return np.asarray(_gemm().run(None, {"a": left, "b": right})[0])


@cache
def _gemm() -> onnxruntime.InferenceSession:
    return _session("Gemm", _FLOAT, _input("a", _FLOAT) + _input("b", _FLOAT), numbers={"transB": 1})


def product_with(weights: npt.NDArray[np.int8]) -> onnxruntime.InferenceSession:
    """Return a session for ``a`` @ int8 weights (dim, n), int32 (m, n). ``a``, uint8 (m, dim), is below 128; 64 means 0."""
    held = {"b": weights, "zero": np.array(ZERO, np.uint8)}
    return _session("MatMulInteger", _INT32, _input("a", _UINT8, weights.shape[0]), held)


def half_byte_product_with(weights: npt.NDArray[np.uint8]) -> onnxruntime.InferenceSession:
    """Return a session that multiplies ``a``, float32 (m, dim), by half-byte weights, uint8 (n, dim // 2) with 8 for 0."""
    n, dim = len(weights), 2 * weights.shape[1]
    initializers: dict[str, npt.NDArray[Any]] = {"b": weights.reshape(n, 1, -1), "scales": np.ones(n, np.float32)}
    numbers = {"K": dim, "N": n, "bits": 4, "block_size": dim, "accuracy_level": 4}
    return _session("MatMulNBits", _FLOAT, _input("a", _FLOAT, dim), initializers, numbers)


def _session(
    operator: str,
    result: int,
    inputs: bytes,
    initializers: Mapping[str, npt.NDArray[Any]] | None = None,
    numbers: Mapping[str, int] | None = None,
) -> onnxruntime.InferenceSession:
    """Open a model of one node that gives a matrix ``c``, by onnx.proto (IR version 8, operator set 17)."""
    options = session_options(1)
    for name, array in (initializers or {}).items():
        options.add_external_initializers([name], [onnxruntime.OrtValue.ortvalue_from_numpy(array)])
        inputs += _held(name, array)
    node = b"".join(_field(1, name) for name in ("a", *(initializers or ["b"])))
    for name, value in (numbers or {}).items():
        node += _field(5, _field(1, name) + _field(3, value) + _field(20, 2))  # of the type INT
    node += _field(2, "c") + _field(4, operator)
    if operator == "MatMulNBits":
        node += _field(7, _OWN)
    graph = _field(1, node) + _field(2, "product") + inputs
    graph += _field(12, _field(1, "c") + _field(2, _field(1, _field(1, result))))
    model = _field(1, 8) + _field(8, _field(2, 17)) + _field(8, _field(1, _OWN) + _field(2, 1)) + _field(7, graph)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _held(name: str, array: npt.NDArray[Any]) -> bytes:
    shape = b"".join(_field(1, size) for size in array.shape)
    place = _field(13, _field(1, "location") + _field(2, "memory")) + _field(14, 1)
    return _field(5, shape + _field(2, _KINDS[array.dtype.name]) + _field(8, name) + place)


def _input(name: str, kind: int, columns: int | None = None) -> bytes:
    rows = _field(1, _field(2, f"{name}_rows"))
    wide = _field(1, _field(2, f"{name}_columns") if columns is None else _field(1, columns))
    return _field(11, _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, rows + wide))))


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


# few bytes

CENTROIDS = 256
"""Number of centroids of a part, as many as a byte can number."""

COMPONENTS, LEVELS, LEVEL = 4, 4, 0.996
"""Components in a byte; levels of a component; width of a level in standard deviations, best for normal values (Max 1960).
A rotation beforehand does not reduce the error, and centroids of parts hardly reduce it."""

SCALE = 127
"""Factor of int8 vectors without a scale of their own. They hold round(127 * component), and no component is above 1."""

ENCODED_VECTORS = 128
"""Number of vectors that are encoded at a time. Their distances fit into the cache, and their product needs one thread."""


@dataclass(frozen=True)
class Codebooks:
    """Compresses token vectors by usual vectors of word pieces, and by a product quantiser of the differences."""

    fingerprint: str  # SHA-256 of each of the two tables, cut to 6 digits
    pieces: npt.NDArray[np.int8]  # usual vectors times SCALE, (m, dim); the last is also that of all further pieces
    centroids: FloatArray  # of a token's vector minus the usual one of its piece, float32 (parts, 256, width)

    @classmethod
    def load(cls, folder: str | Path, *, encoder_fingerprint: str) -> Codebooks:
        """Read ``models/codebooks``. Codebooks of another encoder are refused."""
        artifact = artifacts.load_artifact(folder, "codebooks", encoder=encoder_fingerprint)
        pieces = artifact.array("pieces.npy", (None, None))
        centroids = artifact.array("rest.npy", (None, CENTROIDS, None)).astype(np.float32)
        hashes = (str(artifact.manifest["files"][name]["sha256"]) for name in ("pieces.npy", "rest.npy"))
        return cls("".join(name[:6] for name in hashes), pieces, centroids)

    def usual(self, pieces: npt.NDArray[Any]) -> FloatArray:
        """Return the usual vectors of word pieces, float32 (n, dim)."""
        found = self.pieces.take(pieces, axis=0, mode="clip")
        return np.asarray(np.divide(found, np.float32(SCALE), dtype=np.float32))

    def encode(self, vectors: FloatArray, pieces: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Return the number of the nearest centroid of each part, the first in case of a tie, uint8 (n, parts)."""
        vectors = vectors - self.usual(pieces)
        parts, _, width = self.centroids.shape
        codes = np.empty((len(vectors), parts), np.uint8)
        # |x - c|**2 / 2 without the part that all centroids share; its largest negative is the nearest
        half = np.einsum("pcw,pcw->pc", self.centroids, self.centroids) / 2
        tables = [np.ascontiguousarray(table.T) for table in self.centroids]
        room = np.empty((ENCODED_VECTORS, CENTROIDS), np.float32)
        for start in range(0, len(vectors), ENCODED_VECTORS):
            block = vectors[start : start + ENCODED_VECTORS].reshape(-1, parts, width)
            near = room[: len(block)]
            for part, table in enumerate(tables):
                np.matmul(block[:, part], table, out=near)
                near -= half[part]
                codes[start : start + ENCODED_VECTORS, part] = near.argmax(axis=1)
        return codes

    def decode(self, codes: npt.NDArray[Any], pieces: npt.NDArray[Any]) -> FloatArray:
        """Restore vectors (n, dim), whose length is only about 1."""
        parts, _, width = self.centroids.shape
        places = codes + np.arange(0, parts * CENTROIDS, CENTROIDS)
        vectors = self.usual(pieces)
        vectors += np.take(self.centroids.reshape(-1, width), places, axis=0).reshape(len(codes), parts * width)
        return vectors


def to_quarter_bytes(vectors: FloatArray) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Round vectors (n, dim) to :data:`LEVELS` levels. Returns uint8 (n, dim / 4), four components a byte, and scales."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    steps = LEVEL * lengths / np.float32(max(vectors.shape[1], 1) ** 0.5)
    steps = np.where(steps > 0, steps, np.float32(1))
    levels = (np.floor(vectors / steps[:, None]) + LEVELS // 2).clip(0, LEVELS - 1).astype(np.uint8)
    first, second, third, last = np.split(levels, COMPONENTS, axis=1)
    codes = first | second << 2 | third << 4 | last << 6
    along = np.einsum("nd,nd->n", vectors, from_quarter_bytes(codes), dtype=np.float32)
    return codes, np.asarray(lengths**2 / np.where(along > 0, along, 1), np.float32)


SCALE_BYTES = 2
"""Bytes of a scale, a float16, which follows the quarter bytes of its vector."""


def to_scaled_bytes(vectors: FloatArray) -> npt.NDArray[np.uint8]:
    """Write the quarter bytes and the scale of each vector into one row, uint8 (n, dim / 4 + SCALE_BYTES)."""
    codes, scales = to_quarter_bytes(vectors)
    return np.concatenate([codes, scales.astype("<f2")[:, None].view(np.uint8)], axis=1)


def from_scaled_bytes(rows: npt.NDArray[Any]) -> FloatArray:
    """Restore the vectors from rows of :func:`to_scaled_bytes`, float32 (n, dim)."""
    scales = np.ascontiguousarray(rows[:, -SCALE_BYTES:]).view("<f2").astype(np.float32)
    return np.asarray(from_quarter_bytes(rows[:, :-SCALE_BYTES]) * scales)


def from_quarter_bytes(codes: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Return the levels of :func:`to_quarter_bytes` without the scales: odd numbers from -3 to 3, int8 (n, dim)."""
    quarter = codes.shape[-1]
    found = np.empty((*codes.shape[:-1], COMPONENTS * quarter), np.uint8)
    for place in range(COMPONENTS):
        np.right_shift(codes, 2 * place, out=found[..., place * quarter : (place + 1) * quarter])
    found &= LEVELS - 1
    numbers = found.view(np.int8)
    numbers *= 2
    numbers -= LEVELS - 1
    return numbers
