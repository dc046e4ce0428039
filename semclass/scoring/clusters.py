"""Clusters of vectors that are near to each other, and which of them to compare with a question.

A fixed number of nearest clusters finds nearly all for a question that the passages answer, and far less for one whose
nearest passages are anywhere. So each cluster's share of the nearest passages is estimated from the mean and the spread of
its vectors, and clusters are compared until they hold most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semclass.core.types import FloatArray, IntArray

CELL = 16_384
"""Vectors of a cluster, on average: a product with a cluster has the fixed cost of some thousand vectors."""

ROUNDS = 8
"""Rounds of k-means."""

BLOCK = 4_096
"""Vectors that are compared with centres at a time."""

COVERED = 0.98
"""Estimated share of the nearest passages that is in the clusters that are compared.

Of a million made passages (``bench/results/growth.md``), 44 % are compared for questions that they answer (squad4), 65 %
for questions of another domain (pubmedqa). That finds 0.983 and 0.864 of the ten best by vectors, where comparing all finds
0.992 and 0.873; with 0.95 it would be 32 % and 0.970 for the first.
"""

BARS = 32
"""Values that are tried for the least product of a nearest passage."""


@dataclass(frozen=True)
class Clusters:
    """Means and variances of the vectors of each cluster by dimension, float32 of shape (n_cells, dim)."""

    means: FloatArray
    variances: FloatArray

    def __len__(self) -> int:
        """Count the clusters."""
        return len(self.means)

    def probed(self, question: FloatArray, counts: IntArray, n: int) -> IntArray:
        """Places of the clusters, rising, that hold most of the n largest products; `counts` are their sizes."""
        wanted = min(n, int(counts.sum()))
        shares = _shares_above(self.means @ question, np.sqrt(self.variances @ question**2), counts, wanted)
        order = np.argsort(-shares, kind="stable")
        expected, there = np.cumsum((shares * counts)[order]), np.cumsum(counts[order])
        last = max(np.searchsorted(expected, COVERED * expected[-1]), np.searchsorted(there, wanted))
        return np.sort(order[: int(last) + 1])


def _shares_above(means: FloatArray, deviations: FloatArray, counts: IntArray, n: int) -> FloatArray:
    """Share of each cluster's products above a bar that about n products are above, float32 of shape (n_cells,).

    Products are taken to be normal in each cluster: they are sums of many components.
    """
    deviations = np.maximum(deviations, np.finfo(np.float32).eps * max(float(np.abs(means).max()), 1.0))
    least, most = float((means - 3 * deviations).min()), float((means + 5 * deviations).max())
    bars = np.linspace(least, most, BARS, dtype=np.float32)
    shares = _above((bars[:, None] - means) / deviations)
    enough = np.flatnonzero(shares @ counts >= n)
    return np.asarray(shares[enough[-1] if len(enough) else 0])


def _above(values: FloatArray) -> FloatArray:
    """Share of a standard normal distribution above some values, to 0.0002 (Bowling et al. 2009)."""
    x = values.clip(-8, 8)
    return np.asarray(1 / (1 + np.exp(x * (0.07056 * x * x + 1.5976))))


def centres_of(vectors: FloatArray, n: int) -> FloatArray:
    """Centres of at most n clusters by k-means (Lloyd 1982), float32 of shape (n_cells, dim); reproducible."""
    # spread over the vectors as they come, and different: equal centres would leave clusters empty
    starts = np.unique(vectors[np.linspace(0, len(vectors) - 1, min(n, len(vectors))).astype(np.int64)], axis=0)
    centres = np.ascontiguousarray(starts, np.float32)
    for _ in range(ROUNDS):
        clusters = nearest_of(centres, vectors)
        order, counts = np.argsort(clusters, kind="stable"), np.bincount(clusters, minlength=len(centres))
        kept = np.flatnonzero(counts)
        sums = np.add.reduceat(vectors[order], (np.cumsum(counts) - counts)[kept], axis=0)
        centres = np.asarray(sums / counts[kept, None], np.float32)
    return centres


def nearest_of(centres: FloatArray, vectors: FloatArray) -> npt.NDArray[np.int32]:
    """The nearest centre of each vector (m, dim), int32 of shape (m,)."""
    squares = np.einsum("nd,nd->n", centres, centres) / 2
    found = np.empty(len(vectors), np.int32)
    for begin in range(0, len(vectors), BLOCK):
        here = slice(begin, begin + BLOCK)
        found[here] = (vectors[here] @ centres.T - squares).argmax(axis=1)
    return found
