"""Vectors in few bytes: product quantisation, and int8 with a scale for each row.

Product quantisation (Jégou, Douze & Schmid 2011) splits a vector into parts of equal width and keeps, for each part, the
number of the nearest of 256 centroids: a byte a part. The centroids belong to the encoder, and ship with the models.
"""

from __future__ import annotations

import hashlib
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

INT8_LEVELS = 127
"""Largest absolute value of a component in int8."""

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
    """The codebooks of token vectors and of sentence vectors that belong to an encoder."""

    fingerprint: str  # SHA-256 over the tables, cut to 12 digits
    tokens: Codebook
    sentences: Codebook

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
        names = ("tokens.npy", "sentences.npy")
        hashes = " ".join(str(artifact.manifest["files"][name]["sha256"]) for name in names)
        tokens, sentences = (Codebook(artifact.array(name).astype(np.float32)) for name in names)
        return cls(hashlib.sha256(hashes.encode()).hexdigest()[:12], tokens, sentences)


def to_int8(vectors: FloatArray) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Round vectors (n, dim) to 255 levels of their largest component: int8 (n, dim), and a level's value, float32 (n,)."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    level = np.where(largest > 0, largest / INT8_LEVELS, 1.0).astype(np.float32)
    # a subnormal row may have a level of 0, and all of its components are as good as 0
    safe = np.where(level > 0, level, np.float32(1))
    return np.rint(vectors / safe[:, None]).astype(np.int8), safe


def from_int8(values: npt.NDArray[Any], level: FloatArray) -> FloatArray:
    """Vectors, float32 (n, dim), from what :func:`to_int8` gave."""
    return values.astype(np.float32) * level[:, None]
