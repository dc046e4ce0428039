"""Training texts in the coordinates that heads are fitted in; all settings share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.train.fitted import NGRAM_SLOTS, SMALLEST, Projection, Quantised, ngram_slots, squared_distances
from semclass.train.problem import Problem

NGRAM_WEIGHT = 0.4
"""Weight of the n-gram kernel beside the Gaussian one; both are 1 for a text with itself."""

NGRAM_TEXTS = 3
"""Training texts that an n-gram must occur in; rarer ones say what to memorise more than what to learn. On TREC 2 to 5 are
equally good (cross-validated coarse 94.1 to 94.2, fine 88.8 to 88.9), and 3 takes half the room of 2."""

NO_VARIANCE = 1e-10
"""Share of the first principal axis's variance below which an axis is rounding error."""


@dataclass(frozen=True)
class NgramSpace:
    """The n-grams of training texts."""

    rows: npt.NDArray[np.int32]  # (NGRAM_SLOTS,), see Ngrams
    features: Any  # sparse (n, 1 + n-grams)
    kernel: DoubleArray  # (n, n)
    scale: float  # the kernel of a text with itself is NGRAM_WEIGHT on average


@dataclass(frozen=True)
class Space:
    """n training texts as coordinates, and the distances between them where a kernel head is fitted."""

    projection: Projection
    landmarks: Quantised  # (n, components)
    squared: DoubleArray  # (n, n), or empty
    ngrams: NgramSpace | None


def space_of(problem: Problem, chosen: IntArray, components: int, kernel: bool) -> Space:
    """Compute what every setting shares, from the chosen texts alone."""
    projection = project(problem.dense[chosen], components, problem.blocks, problem.weight_of(chosen))
    landmarks = Quantised.of(projection(problem.dense[chosen]))
    if not kernel:
        return Space(projection, landmarks, np.zeros((0, 0)), None)
    points = landmarks.dense()
    ngrams = None if problem.pieces is None else _ngram_space(problem.pieces[chosen])
    return Space(projection, landmarks, squared_distances(points, points), ngrams)


def project(
    dense: FloatArray, components: int, blocks: Sequence[tuple[slice, float]], weight: DoubleArray | None = None
) -> Projection:
    """Standardise, rotate each block of columns to its principal axes, and scale to a mean squared distance of 1."""
    if weight is None:
        mean, spread = dense.mean(axis=0, dtype=np.float64), dense.std(axis=0, dtype=np.float64)
    else:
        mean = np.average(dense, axis=0, weights=weight)
        spread = np.sqrt(np.average((dense - mean) ** 2, axis=0, weights=weight))
    spread[spread < 1e-6] = 1.0  # a column that never varies says nothing; do not blow up its rounding errors
    standard = (dense - mean) / spread
    matrices, variance = [], 0.0
    for part, length in blocks:
        axes, variances = _principal_axes(standard[:, part], components, weight)
        rows = np.zeros((dense.shape[1], len(axes)))
        rows[part] = axes.T / spread[part, None] * length
        matrices.append(rows)
        variance += float(variances.sum()) * length**2
    # two independent rows are on average twice the total variance apart
    total = np.sqrt(max(2 * variance, SMALLEST))
    matrix = Quantised.of(np.concatenate(matrices, axis=1) / total)
    return Projection(matrix, (mean @ matrix.dense()).astype(np.float32))


def _principal_axes(
    standard: DoubleArray, components: int, weight: DoubleArray | None
) -> tuple[DoubleArray, DoubleArray]:
    """Principal axes, (components, columns), and their variances; directions in which nothing varies are left out."""
    rows, columns = standard.shape
    count = min(components, columns, rows - 1)
    if weight is None:
        pca = import_extra("sklearn.decomposition", "train").PCA
        fitted = pca(count, svd_solver="covariance_eigh" if rows > columns else "full").fit(standard)
        axes, variances = fitted.components_, fitted.explained_variance_
    else:
        # scikit-learn's has no weights; a text of weight 2 must be the same as that text twice
        examples = float(weight.sum())
        scaled = standard * np.sqrt(weight / max(examples - 1, examples / 2))[:, None]
        _, values, axes = np.linalg.svd(scaled if rows <= columns else np.linalg.qr(scaled, mode="r"))
        axes, variances = axes[:count], values[:count] ** 2
    kept = variances > NO_VARIANCE * max(float(variances[0]), SMALLEST)
    kept[0] = True
    return axes[kept], variances[kept]


def _ngram_space(pieces: IntArray) -> NgramSpace:
    """Count the n-grams that enough texts hold, and scale them."""
    slots, valid = ngram_slots(pieces)
    own = [np.unique(row[there]) for row, there in zip(slots, valid, strict=True)]
    seen = np.bincount(np.concatenate(own), minlength=NGRAM_SLOTS) >= NGRAM_TEXTS
    rows = np.where(seen, np.cumsum(seen), 0).astype(np.int32)
    raw = _ngram_features(slots, valid, rows)
    norm = raw.multiply(raw).sum() / len(pieces)
    scale = float(np.sqrt(NGRAM_WEIGHT / norm)) if norm > 0 else 0.0
    features = raw * scale
    return NgramSpace(rows, features, (features @ features.T).toarray(), scale)


def _ngram_features(slots: IntArray, valid: npt.NDArray[np.bool_], rows: npt.NDArray[np.int32]) -> Any:
    """Sparse (n, 1 + n-grams) matrix of n-gram counts, divided by the root of the text's number of n-grams."""
    sparse = import_extra("scipy.sparse", "train")
    value = 1 / np.sqrt(np.maximum(valid.sum(axis=1), 1))
    columns = (rows[slots] * valid).ravel()
    texts = np.repeat(np.arange(len(slots)), slots.shape[1])
    kept = columns > 0
    return sparse.csr_matrix((value[texts[kept]], (texts[kept], columns[kept])), (len(slots), int(rows.max()) + 1))
