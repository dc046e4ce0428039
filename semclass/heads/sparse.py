"""Learnt words: word pieces that a text contains or implies, each with a weight (SPLADE, Formal et al. 2021).

A small network of its own reads the word pieces of a text and weighs every piece of the vocabulary, as a masked language
model does. The inner product of a question's and a passage's weights is a third signal beside vectors and words.

Only the passages that vectors and words find are scored, so rows of three bytes a term suffice. A list of passages by
learnt words alone finds nothing more (nDCG@10 of 19 sets 0.6618 with it, 0.6616 without).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core import artifacts
from semclass.core.artifacts import open_session
from semclass.core.types import DoubleArray, Encoder, FloatArray, IntArray, Ragged, offsets_of, places_within
from semclass.encoders.onnx_encoder import cut_windows

MAX_TERMS = 128
"""Maximum number of terms that are kept of a text. ``docs/decisions/signals.md`` shows the loss with fewer terms."""

WINDOW, MAX_WINDOWS = 254, 16  # word pieces that are read at a time, and of a text
GROUP = 16  # most places of which the network takes the maximum at once: over one long row it takes twice as long
KEPT = "kept.npy"

LARGEST = 4.0
"""Weight that is stored as the largest byte."""

COLUMNS = 3
"""Bytes of a term: two of its id, the low one first, and one of its weight."""


@dataclass(frozen=True)
class SparseHead:
    """Weighs the learnt words of texts. Threads may share one instance."""

    fingerprint: str
    network: onnxruntime.InferenceSession
    special: tuple[int, int]  # ids of the word pieces around each text
    kept: npt.NDArray[np.bool_]  # whether words are learnt from the place of a word piece, by id

    @classmethod
    def load(cls, folder: Path, encoder: Encoder, *, threads: int = 1) -> SparseHead:
        """Load the head. Raises an ArtifactError if it is damaged or was made for the word pieces of another encoder."""
        artifact = artifacts.load_artifact(folder, "sparse", encoder=encoder.fingerprint)
        first, last = artifact.field("special_ids")
        network = open_session(artifact, "network.onnx", threads, arena=True)
        return cls(
            str(artifact.manifest["files"]["network.onnx"]["sha256"])[:12],
            network,
            (int(first), int(last)),
            artifact.array(KEPT, (None,)),
        )

    def encode(self, pieces: Ragged) -> Ragged:
        """Compute the learnt words of n texts from their word pieces: id and weight, heaviest first, float32 (2,)."""
        windows = cut_windows(pieces.lengths(), WINDOW, MAX_WINDOWS)
        if not len(windows.owners):
            return no_sparse(len(pieces))
        read = windows.pieces(pieces)
        terms = np.zeros((len(read), MAX_TERMS), np.int64)
        weights = np.zeros((len(read), MAX_TERMS), np.float32)
        for row in range(len(read)):
            terms[row], weights[row] = self._run(read.row(row))
        there, owners = weights > 0, windows.owners
        if len(owners) > len(pieces):  # some are longer than a window
            return _heaviest(np.repeat(owners, there.sum(axis=1)), terms[there], weights[there], len(pieces))
        return Ragged(np.array([terms[there], weights[there]], np.float32).T, offsets_of(there.sum(axis=1)))

    def _run(self, pieces: IntArray) -> list[npt.NDArray[Any]]:
        """Heaviest terms of a window and their weights, (1, MAX_TERMS) each.

        Windows go one by one: what one weighs, the whole vocabulary at each place, stays in the processor's cache, so
        that ten passages take two thirds of the time that they take together.
        """
        ids = np.array([self.special[0], *pieces, self.special[1]], np.int64)
        kept = np.flatnonzero(self.kept[ids])
        groups = max(1, -(-len(kept) // GROUP))
        # behind the kept places, the first of them is repeated, which changes no maximum
        places = np.full(groups * max(1, -(-len(kept) // groups)), kept[0] if len(kept) else 0, np.int64)
        places[: len(kept)] = kept
        feeds = {"input_ids": ids[None], "attention_mask": np.ones((1, len(ids)), np.int64)}
        found: list[npt.NDArray[Any]] = self.network.run(
            ["terms", "weights"], {**feeds, "places": places.reshape(1, groups, -1)}
        )
        return found


def _heaviest(rows: IntArray, terms: IntArray, weights: FloatArray, n: int) -> Ragged:
    """Keep the heaviest terms of each row; of a term that comes twice, the larger weight."""
    order = np.lexsort((terms, -weights, rows))
    order = order[np.sort(np.unique(rows[order] << 16 | terms[order], return_index=True)[1])]
    counts = np.bincount(rows[order], minlength=n)
    kept = order[places_within(np.zeros_like(counts), counts) < MAX_TERMS]
    return Ragged(np.array([terms[kept], weights[kept]], np.float32).T, offsets_of(np.minimum(counts, MAX_TERMS)))


def no_sparse(n: int) -> Ragged:
    """Return n empty rows of learnt words."""
    return Ragged(np.zeros((0, 2), np.float32), np.zeros(n + 1, np.int64))


def pack(learnt: Ragged) -> Ragged:
    """Pack terms and their weights, uint8 of item shape (COLUMNS,)."""
    terms, weights = learnt.values.T
    ids = terms.astype("<u2").view(np.uint8).reshape(-1, 2)
    levels = np.rint(weights / LARGEST * 255).clip(1, 255).astype(np.uint8)
    return Ragged(np.concatenate([ids, levels[:, None]], axis=1), learnt.offsets)


def unpack(row: npt.NDArray[np.uint8]) -> dict[int, float]:
    """Return the weights of the terms of one packed passage."""
    ids = row[:, 0] + row[:, 1].astype(np.int64) * 256
    return dict(zip(ids.tolist(), (row[:, 2] * (LARGEST / 255)).tolist(), strict=True))


def scores(question: FloatArray, rows: Ragged) -> DoubleArray:
    """Return the inner products of a question, (m, 2), with n packed passages, float64 of shape (n,)."""
    (terms, weights), values = question.T, rows.values
    if not len(terms):
        return np.zeros(len(rows))
    table = np.zeros(1 << 16, np.float32)
    table[terms.astype(np.intp)] = weights * np.float32(LARGEST / 255)
    products = table[values[:, 0] + values[:, 1].astype(np.uint16) * np.uint16(256)] * values[:, 2]
    owner = np.repeat(np.arange(len(rows)), rows.lengths())
    return np.asarray(np.bincount(owner, products, minlength=len(rows)), np.float64)
