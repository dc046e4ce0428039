"""Approximate search: which excerpts of a large segment are worth an exact comparison with a question.

Below :data:`REDUCED_FROM` excerpts (100,000), all are compared exactly, because this takes only some milliseconds.

1. **Reduction.** A comparison costs the time of reading the vectors from memory. So a larger segment also stores each
   vector on its 64 principal components, half a byte for each: 32 bytes instead of 96. The passages with the best reduced
   scores, three times as many as requested, are then compared exactly (:class:`ApproximateScores`).
2. **Clusters.** From :data:`CLUSTERED_FROM` excerpts (a million) on, the reduced vectors lie cluster by cluster, found by
   k-means, and a question is compared with the likely clusters only (:meth:`Reduced.nearest`). Each cluster's share of the
   best products is estimated from the mean and the variance of its vectors, and clusters are compared until they are
   expected to hold :data:`COVERAGE` of them.

The costs are 36 bytes an excerpt, and a few missed passages (:data:`semclass.index.passage_index.OVERFETCH`). The gain is
most of the time: a search of a million passages takes 13 instead of 47 ms (``docs/decisions/settled.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core.tools import Once
from semclass.core.types import FloatArray, IntArray, offsets_of
from semclass.scoring.vectors import from_quarter_bytes, half_byte_product_with, nth_at_least

REDUCED_FROM = 100_000
"""Excerpts of a segment from which reduced vectors are stored."""

CLUSTERED_FROM = 1_000_000
"""Excerpts of a segment from which only likely clusters are compared. Comparing all of 400,000 takes 2 ms."""

DIMENSIONS = 64
"""Dimensions of reduced vectors."""

LEVELS, LEVEL_WIDTH = 16, 0.335
"""Number of levels of a dimension, and width of a level in standard deviations, best for normal values (Max 1960)."""

OVERFETCH = 3
"""Number of excerpts that are returned for each requested excerpt, so that most of the nearest are among them."""

PCA_SAMPLE = 50_000
"""Excerpts from which the principal components and the clusters are computed."""

REDUCTION_BLOCK, KMEANS_BLOCK, PRODUCT_BLOCK = 2_048, 4_096, 65_536
"""Excerpts that are reduced at a time, assigned to clusters at a time, and compared in one product."""

CLUSTER_SIZE = 16_384
"""Mean excerpts of a cluster: a product with a cluster has the fixed cost of some thousand vectors."""

KMEANS_ROUNDS, COVERAGE = 8, 0.98
"""Rounds of k-means, and estimated share of the nearest passages in the clusters that are compared.

On a million synthetic passages (``docs/decisions/settled.md``), a search compares 44 % of the passages for questions with
an answer among them (squad4), and 65 % for other questions (pubmedqa). It finds 0.983 and 0.864 of the ten best by
vectors; comparing all passages finds 0.992 and 0.873.
"""

CUTOFFS = 32
"""Number of cutoffs that are tried for the smallest product among the nearest passages."""

MAX_WANTED_SHARE = 1 / 16
"""Largest share of the excerpts that a search by clusters may request. A larger share would need nearly all clusters."""

UNFILTERED_SHARE = 0.97
"""Share of allowed excerpts that a search by clusters needs. It is met if some passages were deleted, but none filtered.

Where a filter kept 20 % of a million passages, clusters found 0.843 of the ten best, and comparing all found 1.000.
"""


@dataclass(frozen=True)
class Reduced:
    """Reduced vectors of the n excerpts of a segment, cluster by cluster. Threads may share one instance."""

    axes: FloatArray  # principal components times the width of a level, (dim, DIMENSIONS); zeros beyond `dim`
    mean: FloatArray  # of the vectors, subtracted before the reduction, (dim,)
    levels: npt.NDArray[np.uint8]  # two levels a byte, see ``half_byte_product_with``, (n, DIMENSIONS // 2)
    starts: IntArray  # the first row of each cluster, and n, int64 (n_clusters + 1,); no cluster is empty
    places: npt.NDArray[np.int32]  # the excerpt of each row of `levels`, ascending within a cluster, (n,)
    means: FloatArray  # of the levels of each cluster, (n_clusters, DIMENSIONS)
    variances: FloatArray  # of the levels of each cluster, (n_clusters, DIMENSIONS)

    def project(self, question: FloatArray) -> tuple[FloatArray, np.float32]:
        """Return a factor (DIMENSIONS,) and a summand: levels @ factor + summand is nearly excerpts @ question."""
        factor = np.einsum("d,dk->k", question, self.axes)  # a matmul would take BLAS threads
        # a level stands for the value half a level above it
        return factor, np.float32(np.einsum("d,d->", question, self.mean) + factor.sum() / 2)

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Return the places of at least OVERFETCH * n allowed excerpts with the largest products, ascending."""
        query, _ = self.project(question)
        wanted, total = n * OVERFETCH, len(self.levels)
        number = total if allowed is None else int(np.count_nonzero(allowed))
        clusters = all_clusters = np.arange(len(self.means))
        # the passages that a filter allows may lie in clusters far from the question
        if number >= UNFILTERED_SHARE * total and wanted <= MAX_WANTED_SHARE * total:
            clusters = self._likely_clusters(query, wanted)
        rows = self._best(query, clusters, wanted, allowed)
        if len(rows) < min(wanted, number):
            rows = self._best(query, all_clusters, wanted, allowed)
        return np.sort(self.places[rows]).astype(np.int64)

    def _likely_clusters(self, query: FloatArray, n: int) -> IntArray:
        """Clusters, ascending, that are expected to hold COVERAGE of the n largest products."""
        counts, means, deviations = np.diff(self.starts), self.means @ query, np.sqrt(self.variances @ query**2)
        # products are sums of many components, so they are taken to be normal in each cluster
        deviations = np.maximum(deviations, np.finfo(np.float32).eps * max(float(np.abs(means).max()), 1.0))
        least, most = float((means - 3 * deviations).min()), float((means + 5 * deviations).max())
        cutoffs = np.linspace(least, most, CUTOFFS, dtype=np.float32)
        x = ((cutoffs[:, None] - means) / deviations).clip(-8, 8)
        # share of a standard normal distribution above x, to 0.0002 (Bowling et al. 2009)
        above = np.asarray(1 / (1 + np.exp(x * (0.07056 * x * x + 1.5976))))
        enough = np.flatnonzero(above @ counts >= min(n, int(counts.sum())))
        shares = np.asarray(above[enough[-1] if len(enough) else 0])  # of the highest cutoff that n products exceed
        order = np.argsort(-shares, kind="stable")
        expected, sizes = np.cumsum((shares * counts)[order]), np.cumsum(counts[order])
        last = max(np.searchsorted(expected, COVERAGE * expected[-1]), np.searchsorted(sizes, min(n, sizes[-1])))
        return np.sort(order[: int(last) + 1])

    def _best(self, query: FloatArray, clusters: IntArray, n: int, allowed: npt.NDArray[np.bool_] | None) -> IntArray:
        """Rows of `levels` in some clusters that have the n largest products, or a few more."""
        feed = {"a": query[None]}
        products = np.concatenate([self._sessions[cluster].run(["c"], feed)[0][0] for cluster in clusters.tolist()])
        if allowed is None:
            best = np.flatnonzero(products >= nth_at_least(products, n))
        else:
            rows = self._allowed_in(clusters, allowed)
            best = rows[products[rows] >= nth_at_least(products[rows], n)]
        ends = np.cumsum(np.diff(self.starts)[clusters])
        return np.asarray(best + (self.starts[clusters + 1] - ends)[np.searchsorted(ends, best, side="right")])

    def _allowed_in(self, clusters: IntArray, allowed: npt.NDArray[np.bool_]) -> IntArray:
        if len(clusters) == len(self.means):
            return np.asarray(self._row_of[np.flatnonzero(allowed)], np.int64)
        spans = [self.places[slice(*self.starts[cluster : cluster + 2].tolist())] for cluster in clusters.tolist()]
        # no place is out of bounds, and checking that takes as long again
        return np.flatnonzero(np.concatenate([allowed.take(span, mode="clip") for span in spans]))

    @Once
    def _row_of(self) -> npt.NDArray[np.int32]:
        rows = np.empty(len(self.levels), np.int32)
        rows[self.places] = np.arange(len(rows), dtype=np.int32)
        return rows

    @Once
    def _sessions(self) -> list[onnxruntime.InferenceSession]:
        return [half_byte_product_with(self.levels[begin:end]) for begin, end in pairwise(self.starts.tolist())]


@dataclass(frozen=True)
class ApproximateScores:
    """Scores passages by the reduced vectors of their excerpts. Passages with equally many excerpts share a product."""

    reduced: Reduced  # without clusters: the rows of `levels` are in the order of the excerpts
    mean_weight: float
    rows: IntArray  # the passages in the order of their scores, (n,)
    #: the product with a block, and for each number of excerpts their weights in the score, (excerpts, passages)
    blocks: list[tuple[onnxruntime.InferenceSession, list[FloatArray]]]

    @classmethod
    def of(cls, reduced: Reduced, shares: FloatArray, offsets: IntArray, *, mean_weight: float) -> ApproximateScores:
        """Arrange the excerpts of passages for scoring, with their `shares` in the means. A million take half a second."""
        blocks, rows = [], []
        for groups in _passages_by_length(np.diff(offsets)):
            places = [offsets[passages] + np.arange(count)[:, None] for count, passages in groups]
            levels = reduced.levels[np.concatenate([group.ravel() for group in places])]
            blocks.append((half_byte_product_with(levels), [mean_weight * shares[group] for group in places]))
            rows += [passages for _, passages in groups]
        return cls(reduced, mean_weight, np.concatenate(rows), blocks)

    def scores(self, question: FloatArray) -> FloatArray:
        """Return approximate scores of the passages in `rows` for a question's vector, float32 of shape (n,)."""
        query, summand = self.reduced.project(question)
        scores, end = np.empty(len(self.rows), np.float32), 0
        for session, weights in self.blocks:
            products = session.run(["c"], {"a": query[None]})[0][0]
            products += summand
            first = 0
            for shares in weights:
                similar = products[first : first + shares.size].reshape(shares.shape)
                begin, end, first = end, end + shares.shape[1], first + shares.size
                best = similar.max(axis=0, out=scores[begin:end])
                best *= 1 - self.mean_weight
                similar *= shares
                best += similar.sum(axis=0)
        return scores


def _passages_by_length(counts: IntArray) -> Iterator[list[tuple[int, IntArray]]]:
    """Blocks of passages by their number of excerpts, of PRODUCT_BLOCK excerpts or of one passage."""
    order = np.argsort(counts, kind="stable")
    block: list[tuple[int, IntArray]] = []
    room = PRODUCT_BLOCK
    for rows in np.split(order, np.flatnonzero(np.diff(counts[order])) + 1):
        count = int(counts[rows[0]])
        while len(rows):
            if block and room < count:
                yield block
                block, room = [], PRODUCT_BLOCK
            fit = max(room // count, 1)
            block.append((count, rows[:fit]))
            rows, room = rows[fit:], room - count * min(fit, len(rows))
    yield block


def reduce_vectors(codes: npt.NDArray[np.uint8], scales: FloatArray) -> Reduced:
    """Reduce the n >= 1 vectors of a segment, given as quarter bytes (n, dim / 4) and scales (n,)."""
    n = len(codes)

    def vectors(rows: slice | IntArray) -> FloatArray:
        return np.asarray(from_quarter_bytes(codes[rows]) * scales[rows, None])

    sample = vectors(np.linspace(0, n - 1, min(n, PCA_SAMPLE)).astype(np.int64))
    mean = sample.mean(axis=0)  # changes every product with a question by the same, so no level is spent on it
    sample -= mean
    variances, directions = np.linalg.eigh(sample.T @ sample / len(sample))
    directions = directions[:, ::-1][:, :DIMENSIONS]
    widths = LEVEL_WIDTH * np.sqrt(np.maximum(variances[::-1][:DIMENSIONS], np.finfo(np.float32).tiny))
    kept, rows = len(widths), np.empty((n, DIMENSIONS // 2), np.uint8)
    clusters = np.arange(n, dtype=np.int32) // CLUSTER_SIZE  # excerpts that are all compared stay in their order
    centres = centres_of(sample @ directions, max(round(n / CLUSTER_SIZE), 1)) if n >= CLUSTERED_FROM else None
    for begin in range(0, n, REDUCTION_BLOCK):
        end = min(begin + REDUCTION_BLOCK, n)
        projected = (vectors(slice(begin, end)) - mean) @ directions
        if centres is not None:
            clusters[begin:end] = nearest_centres(centres, projected)
        levels = np.full((end - begin, DIMENSIONS), LEVELS // 2, np.uint8)
        levels[:, :kept] = (np.floor(projected / widths) + LEVELS // 2).clip(0, LEVELS - 1)
        rows[begin:end] = levels[:, ::2] | levels[:, 1::2] << 4
    axes = np.zeros((len(mean), DIMENSIONS), np.float32)
    axes[:, :kept] = directions * widths
    places, counts = np.argsort(clusters, kind="stable").astype(np.int32), np.bincount(clusters)
    rows, starts = rows[places], offsets_of(counts[counts > 0])
    means, spread = np.empty((2, len(starts) - 1, DIMENSIONS), np.float32)
    for cluster, (begin, end) in enumerate(pairwise(starts.tolist())):
        for first, half in enumerate((rows[begin:end] & LEVELS - 1, rows[begin:end] >> 4)):
            means[cluster, first::2] = half.mean(axis=0) - LEVELS // 2
            spread[cluster, first::2] = half.var(axis=0)
    return Reduced(axes, mean, rows, starts, places, means, spread)


def centres_of(vectors: FloatArray, n: int) -> FloatArray:
    """Compute at most n centres by k-means (Lloyd 1982), reproducibly: float32 of shape (n_clusters, dim)."""
    # distinct starting points spread over the vectors: equal centres would leave clusters empty
    starts = np.unique(vectors[np.linspace(0, len(vectors) - 1, min(n, len(vectors))).astype(np.int64)], axis=0)
    centres = np.ascontiguousarray(starts, np.float32)
    for _ in range(KMEANS_ROUNDS):
        clusters = nearest_centres(centres, vectors)
        order, counts = np.argsort(clusters, kind="stable"), np.bincount(clusters, minlength=len(centres))
        kept = np.flatnonzero(counts)
        sums = np.add.reduceat(vectors[order], (np.cumsum(counts) - counts)[kept], axis=0)
        centres = np.asarray(sums / counts[kept, None], np.float32)
    return centres


def nearest_centres(centres: FloatArray, vectors: FloatArray) -> npt.NDArray[np.int32]:
    """Return the nearest centre of each vector (m, dim), int32 of shape (m,)."""
    squares = np.einsum("nd,nd->n", centres, centres) / 2
    nearest = np.empty(len(vectors), np.int32)
    for begin in range(0, len(vectors), KMEANS_BLOCK):
        here = slice(begin, begin + KMEANS_BLOCK)
        nearest[here] = (vectors[here] @ centres.T - squares).argmax(axis=1)
    return nearest
