"""Sentence vectors in fewer dimensions, to find the sentences of a large segment that are worth an exact comparison.

Comparing takes as long as reading them from memory does: half a byte for each of a few dimensions finds more than a byte
for each of half as many. Only the clusters that are likely to hold the nearest passages are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core.files import Files
from semclass.core.tools import Once
from semclass.core.types import FloatArray, IntArray, offsets_of
from semclass.scoring.clusters import CELL, Clusters, centres_of, nearest_of
from semclass.scoring.matmul import half_byte_product_with
from semclass.scoring.quantisation import from_quarter_bytes
from semclass.scoring.topk import nth_at_least

MANY = 200_000
"""Sentences of a segment from which reduced vectors are kept: comparing all of fewer takes some milliseconds."""

CLUSTERED = 2_000_000
"""Sentences of a segment from which only clusters of them are looked at, and their passages scored: of 400,000, comparing
the reduced vectors of all takes two milliseconds, and finds more."""

BLOCK = 2_048
"""Sentences that are reduced at a time."""

DIMENSIONS = 64
"""Dimensions of reduced vectors."""

LEVELS, LEVEL = 16, 0.335
"""Levels of a dimension, and the width of one in standard deviations: the best for normal values (Max 1960)."""

WIDER = 3
"""How many times as many sentences as requested are given, so that as many of the nearest are among them."""

SAMPLE = 50_000
"""Sentences from which the axes and the clusters are found."""

SPARING = 16
"""Clusters are left out if at most one of so many sentences is looked for: more are in nearly all clusters."""

NEARLY_ALL = 0.97
"""Share of the passages from which the allowed ones are where all are: some were removed, none filtered out.

Clusters found 0.980 of the ten best of a million made passages where a filter kept the 90 % that are farthest from the
question in one direction, and 0.843 where it kept 20 %; comparing all finds 0.997 and 1.000.
"""


@dataclass(frozen=True)
class Reduced:
    """The n sentences of a segment, cluster by cluster. Threads may share one instance."""

    # principal components times the width of a level, float32 of shape (dim, DIMENSIONS); zeros where there are no more
    axes: FloatArray
    mean: FloatArray  # of the vectors, float32 of shape (dim,): what is reduced is the difference from it
    # two in a byte, as ``half_byte_product_with`` takes them, uint8 of shape (n, DIMENSIONS // 2)
    levels: npt.NDArray[np.uint8]
    starts: IntArray  # where each cluster begins, and n, int64 of shape (n_cells + 1,); no cluster is empty
    places: npt.NDArray[
        np.int32
    ]  # which sentence each row of `levels` is, rising within a cluster, int32 of shape (n,)
    clusters: Clusters  # statistics of the vectors of each cluster

    def projected(self, question: FloatArray) -> tuple[FloatArray, np.float32]:
        """What levels are multiplied with for nearly the products with a question's vector, and what is added to them."""
        query = np.einsum("d,dk->k", question, self.axes)  # a matmul would take BLAS threads
        # a level stands for what is half a level above it
        return query, np.float32(np.einsum("d,d->", question, self.mean) + query.sum() / 2)

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Places of WIDER * n sentences or a few more, by the largest products, rising; fewer where fewer are allowed."""
        query, _ = self.projected(question)
        wanted, total = n * WIDER, len(self.levels)
        number = total if allowed is None else int(np.count_nonzero(allowed))
        clusters = every = np.arange(len(self.starts) - 1)
        # a filter may go by what passages are about, so that the best of them are in clusters far from the question
        if number >= NEARLY_ALL * total and wanted * SPARING <= total:
            clusters = self.clusters.probed(query, np.diff(self.starts), wanted)
        rows = self._best(query, clusters, wanted, allowed)
        if len(rows) < min(wanted, number):
            rows = self._best(query, every, wanted, allowed)
        return np.sort(self.places[rows]).astype(np.int64)

    def _best(self, query: FloatArray, clusters: IntArray, n: int, allowed: npt.NDArray[np.bool_] | None) -> IntArray:
        """Rows of `levels` in some clusters that have the n largest products, or a few more."""
        feed = {"a": query[None]}
        products = np.concatenate([self._sessions[cluster].run(["c"], feed)[0][0] for cluster in clusters.tolist()])
        if allowed is None:
            best = np.flatnonzero(products >= nth_at_least(products, n))
        else:
            among = self._among(clusters, allowed)
            best = among[products[among] >= nth_at_least(products[among], n)]
        ends = np.cumsum(np.diff(self.starts)[clusters])
        return np.asarray(best + (self.starts[clusters + 1] - ends)[np.searchsorted(ends, best, side="right")])

    def _among(self, clusters: IntArray, allowed: npt.NDArray[np.bool_]) -> IntArray:
        """Which of the sentences of some clusters, one cluster after another, are allowed."""
        if len(clusters) == len(self.starts) - 1:
            return np.asarray(self._row_of[np.flatnonzero(allowed)], np.int64)
        spans = [self.places[slice(*self.starts[cluster : cluster + 2].tolist())] for cluster in clusters.tolist()]
        # "clip", as no place is beyond: to check that takes as long again
        return np.flatnonzero(np.concatenate([allowed.take(span, mode="clip") for span in spans]))

    @Once
    def _row_of(self) -> npt.NDArray[np.int32]:
        """The row of `levels` of each sentence, int32 of shape (n,); made for the first filter."""
        found = np.empty(len(self.levels), np.int32)
        found[self.places] = np.arange(len(found), dtype=np.int32)
        return found

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        ends = self.starts.tolist()
        return [half_byte_product_with(self.levels[begin:end]) for begin, end in pairwise(ends)]


def reduce_vectors(codes: npt.NDArray[np.uint8], scales: FloatArray) -> Reduced:
    """Reduce the vectors of a segment, at least one, as :class:`semclass.scoring.vectors.Vectors` holds them."""
    n = len(codes)

    def vectors(rows: slice | IntArray) -> FloatArray:
        return np.asarray(from_quarter_bytes(codes[rows]) * scales[rows, None])

    sample = vectors(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64))
    # what all sentences have in common changes every product with a question by the same
    mean = sample.mean(axis=0)
    sample -= mean
    variances, directions = np.linalg.eigh(sample.T @ sample / len(sample))
    directions = directions[:, ::-1][:, :DIMENSIONS]
    widths = LEVEL * np.sqrt(np.maximum(variances[::-1][:DIMENSIONS], np.finfo(np.float32).tiny))
    kept, rows = len(widths), np.empty((n, DIMENSIONS // 2), np.uint8)
    # those of which all are looked at stay in their order
    clusters = np.arange(n, dtype=np.int32) // CELL
    centres = centres_of(sample @ directions, max(round(n / CELL), 1)) if n >= CLUSTERED else None
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        reduced = (vectors(slice(begin, end)) - mean) @ directions
        if centres is not None:
            clusters[begin:end] = nearest_of(centres, reduced)
        found = np.full((end - begin, DIMENSIONS), LEVELS // 2, np.uint8)
        found[:, :kept] = (np.floor(reduced / widths) + LEVELS // 2).clip(0, LEVELS - 1)
        rows[begin:end] = found[:, ::2] | found[:, 1::2] << 4
    axes = np.zeros((len(mean), DIMENSIONS), np.float32)
    axes[:, :kept] = directions * widths
    places, counts = np.argsort(clusters, kind="stable").astype(np.int32), np.bincount(clusters)
    rows, starts = rows[places], offsets_of(counts[counts > 0])
    return Reduced(axes, mean, rows, starts, places, _known(rows, starts))


def _known(rows: npt.NDArray[np.uint8], starts: IntArray) -> Clusters:
    """Means and variances of the levels of each cluster."""
    means, variances = np.empty((2, len(starts) - 1, DIMENSIONS), np.float32)
    for cluster, (begin, end) in enumerate(pairwise(starts.tolist())):
        for first, half in enumerate((rows[begin:end] & LEVELS - 1, rows[begin:end] >> 4)):
            means[cluster, first::2] = half.mean(axis=0) - LEVELS // 2
            variances[cluster, first::2] = half.var(axis=0)
    return Clusters(means, variances)


PARTS = ("axes", "mean", "levels", "starts", "places", "means", "variances")
"""Arrays of reduced vectors, each a file."""


def save(found: Reduced, folder: Path) -> None:
    """Write reduced vectors into a new folder."""
    folder.mkdir()
    for name in PARTS:
        holder = found.clusters if name in ("means", "variances") else found
        np.save(folder / f"{name}.npy", getattr(holder, name), allow_pickle=False)


def load(files: Files, folder: str = "") -> Reduced:
    """Read reduced vectors from a folder among some files."""
    axes, mean, levels, starts, places, means, variances = (files.array(f"{folder}{name}.npy") for name in PARTS)
    return Reduced(axes, mean, levels, starts, places, Clusters(means, variances))
