"""Vectors in few bytes: product quantisation, and a quarter of a byte for each component with a scale for each row.

Product quantisation (Jégou, Douze & Schmid 2011) splits a vector into parts of equal width and keeps, for each part, the
number of the nearest of 256 centroids: a byte a part. It keeps what is left of a token's vector once the usual one of its
word piece is taken away. Both tables belong to the encoder, and ship with the models.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.types import FloatArray

CENTROIDS = 256
"""Centroids of a part: what a byte can number."""

COMPONENTS, LEVELS, LEVEL = 4, 4, 0.996
"""Components in a byte; levels of a component, and their width in standard deviations, best for normal values (Max 1960).
A rotation before leaves as much error, and centroids of parts hardly less."""

SCALE = 127
"""Vectors in int8 without a scale of their own hold round(127 * component); no component is above 1."""

ENCODED_VECTORS = 128
"""Vectors encoded at a time: their distances stay in the cache, and too few for a product on many threads."""


@dataclass(frozen=True)
class Codebook:
    """Centroids of a product quantiser, float32 of shape (parts, 256, width). Threads may share one instance."""

    centroids: FloatArray

    @property
    def parts(self) -> int:
        """Bytes of a code."""
        return int(self.centroids.shape[0])

    def encode(self, vectors: FloatArray) -> npt.NDArray[np.uint8]:
        """Number of the nearest centroid of each part, the first of equally near ones: (n, dim) gives uint8 (n, parts)."""
        codes = np.empty((len(vectors), self.parts), np.uint8)
        # |x - c|**2 / 2 without the part that all centroids share; its largest negative is the nearest
        half = np.einsum("pcw,pcw->pc", self.centroids, self.centroids) / 2
        tables = [np.ascontiguousarray(table.T) for table in self.centroids]
        room = np.empty((ENCODED_VECTORS, CENTROIDS), np.float32)
        for start in range(0, len(vectors), ENCODED_VECTORS):
            block = vectors[start : start + ENCODED_VECTORS].reshape(-1, self.parts, self.centroids.shape[2])
            near = room[: len(block)]
            for part, table in enumerate(tables):
                np.matmul(block[:, part], table, out=near)
                near -= half[part]
                codes[start : start + ENCODED_VECTORS, part] = near.argmax(axis=1)
        return codes

    def decode(self, codes: npt.NDArray[Any]) -> FloatArray:
        """Vectors (n, dim) from codes (n, parts), of unit length only nearly."""
        rows = self.centroids.reshape(-1, self.centroids.shape[2])
        places = codes + np.arange(0, len(rows), CENTROIDS)
        return np.take(rows, places, axis=0).reshape(len(codes), self.parts * self.centroids.shape[2])


@dataclass(frozen=True)
class Codebooks:
    """Compression of the token vectors of an encoder: usual vectors of word pieces, and codes of the rest."""

    fingerprint: str  # SHA-256 of each of the two tables, cut to 6 digits
    pieces: npt.NDArray[np.int8]  # usual vectors times SCALE, (m, dim); the last is also that of all further pieces
    rest: Codebook  # of a token's vector minus the usual one of its piece

    @classmethod
    def load(cls, folder: str | Path, *, encoder_fingerprint: str) -> Codebooks:
        """Read ``models/codebooks``; those of another encoder are refused."""
        shapes = {"pieces.npy": (None, None), "rest.npy": (None, CENTROIDS, None)}
        artifact = artifacts.load_artifact(folder, "codebooks", encoder=encoder_fingerprint, arrays=shapes)
        pieces, rest = artifact.arrays["pieces.npy"], Codebook(artifact.arrays["rest.npy"].astype(np.float32))
        hashes = (str(artifact.manifest["files"][name]["sha256"]) for name in ("pieces.npy", "rest.npy"))
        return cls("".join(name[:6] for name in hashes), pieces, rest)

    def usual(self, pieces: npt.NDArray[Any]) -> FloatArray:
        """The usual vectors of some word pieces, float32 (n, dim)."""
        found = self.pieces.take(pieces, axis=0, mode="clip")
        return np.divide(found, np.float32(SCALE), dtype=np.float32)

    def encode(self, vectors: FloatArray, pieces: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Codes of the vectors (n, dim) of tokens with these word pieces, uint8 (n, parts)."""
        return self.rest.encode(vectors - self.usual(pieces))

    def decode(self, codes: npt.NDArray[Any], pieces: npt.NDArray[Any]) -> FloatArray:
        """Vectors (n, dim) again, of unit length only nearly."""
        vectors = self.usual(pieces)
        vectors += self.rest.decode(codes)
        return vectors


def to_quarter_bytes(vectors: FloatArray) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Round vectors (n, dim) to :data:`LEVELS` levels: uint8 (n, dim / 4), and a scale for each, float32 (n,).

    A byte holds one component of each quarter of a vector, the first quarter in its low bits; `dim` is a multiple of 4.
    The scale keeps a vector's inner product with itself, so that products with others are right on average.
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    steps = LEVEL * lengths / np.float32(max(vectors.shape[1], 1) ** 0.5)
    steps = np.where(steps > 0, steps, np.float32(1))
    levels = (np.floor(vectors / steps[:, None]) + LEVELS // 2).clip(0, LEVELS - 1).astype(np.uint8)
    first, second, third, last = np.split(levels, COMPONENTS, axis=1)
    codes = first | second << 2 | third << 4 | last << 6
    along = np.einsum("nd,nd->n", vectors, from_quarter_bytes(codes), dtype=np.float32)
    return codes, np.asarray(lengths**2 / np.where(along > 0, along, 1), np.float32)


SCALE_BYTES = 2
"""Bytes of a scale, a float16, behind the quarter bytes of its vector."""


def to_scaled_bytes(vectors: FloatArray) -> npt.NDArray[np.uint8]:
    """Quarter bytes and scale of each vector in one row, uint8 (n, dim / 4 + SCALE_BYTES)."""
    codes, scales = to_quarter_bytes(vectors)
    return np.concatenate([codes, scales.astype("<f2")[:, None].view(np.uint8)], axis=1)


def from_scaled_bytes(rows: npt.NDArray[Any]) -> FloatArray:
    """Return the vectors of rows of :func:`to_scaled_bytes`, float32 (n, dim)."""
    scales = np.ascontiguousarray(rows[:, -SCALE_BYTES:]).view("<f2").astype(np.float32)
    return np.asarray(from_quarter_bytes(rows[:, :-SCALE_BYTES]) * scales)


def from_quarter_bytes(codes: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Levels of :func:`to_quarter_bytes` without the scales: odd numbers within +-3, int8 (n, dim)."""
    quarter = codes.shape[-1]
    found = np.empty((*codes.shape[:-1], COMPONENTS * quarter), np.uint8)
    for place in range(COMPONENTS):
        np.right_shift(codes, 2 * place, out=found[..., place * quarter : (place + 1) * quarter])
    found &= LEVELS - 1
    numbers = found.view(np.int8)
    numbers *= 2
    numbers -= LEVELS - 1
    return numbers
