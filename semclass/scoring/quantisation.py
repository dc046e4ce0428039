"""Vectors in few bytes: product quantisation, and half a byte for each component with a scale for each row.

Product quantisation (Jégou, Douze & Schmid 2011) splits a vector into parts of equal width and keeps, for each part, the
number of the nearest of 256 centroids: a byte a part. The centroids belong to the encoder, and ship with the models.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import EncoderMismatchError
from semclass.core.types import FloatArray

CENTROIDS = 256
"""Centroids of a part: what a byte can number."""

LEVELS, LEVEL = 16, 0.335
"""Levels of a component, and the width of one in standard deviations: the best for normal values (Max 1960)."""

BLOCK = 128
"""Vectors encoded at a time: their distances stay in the cache, and too few for a product on many threads."""


@dataclass(frozen=True)
class Codebook:
    """Centroids of a product quantiser, float32 of shape (parts, 256, width); many threads may share one."""

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
        room = np.empty((BLOCK, CENTROIDS), np.float32)
        for start in range(0, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK].reshape(-1, self.parts, self.centroids.shape[2])
            near = room[: len(block)]
            for part, table in enumerate(tables):
                np.matmul(block[:, part], table, out=near)
                near -= half[part]
                codes[start : start + BLOCK, part] = near.argmax(axis=1)
        return codes

    def decode(self, codes: npt.NDArray[Any]) -> FloatArray:
        """Vectors (n, dim) from codes (n, parts), of unit length only nearly."""
        rows = self.centroids.reshape(-1, self.centroids.shape[2])
        places = codes + np.arange(0, len(rows), CENTROIDS)
        return np.take(rows, places, axis=0).reshape(len(codes), self.parts * self.centroids.shape[2])


@dataclass(frozen=True)
class Codebooks:
    """The codebook of token vectors that belongs to an encoder."""

    fingerprint: str  # SHA-256 of the table, cut to 12 digits
    tokens: Codebook

    @classmethod
    def load(cls, folder: str | Path, *, encoder: str, interaction: str) -> Codebooks:
        """Read ``models/codebooks``; those of another encoder, or of other token vectors, are refused."""
        artifact = artifacts.load(folder, "codebooks")
        made_with, used = (artifact.field("encoder"), artifact.field("interaction")), (encoder, interaction)
        if made_with != used:
            raise EncoderMismatchError(
                f"the codebooks in {artifact.folder} belong to encoder {made_with[0]} with token vectors of "
                f"{made_with[1]}, but are used with {used[0]} and {used[1]}; make others with training/train_codebooks.py"
            )
        table = Codebook(artifact.array("tokens.npy").astype(np.float32))
        return cls(str(artifact.manifest["files"]["tokens.npy"]["sha256"])[:12], table)


def to_half_bytes(vectors: FloatArray) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Round vectors (n, dim) to :data:`LEVELS` levels: uint8 (n, dim / 2), and a scale for each, float32 (n,).

    A byte holds a component of the first half and, above it, one of the second; `dim` is even. Vectors keep their lengths.
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    steps = LEVEL * lengths / np.float32(max(vectors.shape[1], 1) ** 0.5)
    steps = np.where(steps > 0, steps, np.float32(1))
    levels = (np.floor(vectors / steps[:, None]) + LEVELS // 2).clip(0, LEVELS - 1).astype(np.uint8)
    half = levels.shape[1] // 2
    codes = levels[:, :half] | levels[:, half:] << 4
    odd = from_half_bytes(codes).astype(np.float32)
    return codes, np.asarray(lengths / np.sqrt(np.einsum("nd,nd->n", odd, odd)), np.float32)


def from_half_bytes(codes: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """What the scales of :func:`to_half_bytes` are multiplied with: odd numbers within +-15, int8 (n, dim)."""
    half = codes.shape[-1]
    found = np.empty((*codes.shape[:-1], 2 * half), np.uint8)
    np.bitwise_and(codes, LEVELS - 1, out=found[..., :half])
    np.right_shift(codes, 4, out=found[..., half:])
    numbers = found.view(np.int8)
    numbers *= 2
    numbers -= LEVELS - 1
    return numbers
