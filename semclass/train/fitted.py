"""A fitted head as plain arrays, and its scores in numpy: the reference that its network is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray
from semclass.train.calibration import probabilities_of

SMALLEST = 1e-12  # least scale, so that a column of zeros can be divided by its own


@dataclass(frozen=True)
class Quantised:
    """A matrix of shape (rows, columns) in 8 bits, ``values * scale``."""

    values: npt.NDArray[np.int8]
    scale: FloatArray  # (columns,)

    @classmethod
    def of(cls, matrix: npt.NDArray[np.floating[Any]]) -> Quantised:
        """Round each column to levels symmetric about 0."""
        scale = np.maximum(np.abs(matrix).max(axis=0) / 127, SMALLEST).astype(np.float32)
        return cls(np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8), scale)

    def dense(self) -> DoubleArray:
        """The matrix, float64."""
        return self.values.astype(np.float64) * self.scale.astype(np.float64)


@dataclass(frozen=True)
class Projection:
    """From the concatenated views (n, dim) to coordinates (n, components)."""

    matrix: Quantised
    offset: FloatArray

    def __call__(self, dense: FloatArray | DoubleArray) -> DoubleArray:
        """Project (n, dim) views to float64 (n, components)."""
        return np.asarray(dense, np.float64) @ self.matrix.dense() - self.offset


@dataclass(frozen=True)
class FittedHead:
    """A fitted head as plain arrays; :func:`semclass.train.export.head_to_onnx` writes it as a network."""

    kind: str  # "logistic", "kernel" or "svm"
    link: str  # "softmax" or "sigmoid"
    classes: tuple[str, ...]  # names of the output columns
    inputs: Mapping[str, int]  # dimension of each view, in the order in which they are concatenated
    weights: FloatArray | DoubleArray  # (dim, scores), of a kernel head (landmarks, scores)
    bias: FloatArray | DoubleArray  # (scores,)
    # probabilities are link(slope * scores + intercept); several sigmoid columns have theirs in weights and bias
    slope: float = 1.0
    intercept: float = 0.0
    # kernel head: coordinates of a text, those of the training texts, and the kernel's width
    projection: Projection | None = None
    landmarks: Quantised | None = None
    gamma: float = 0.0
    # where some texts are rejected: log of the sum of the exponentials of the calibrated scores, from which a text is not
    ood_threshold: float | None = None
    # (n, classes): probabilities of training texts by heads that did not see them; nan for texts that were fitted on only
    out_of_fold: DoubleArray | None = None
    # of the cross-validation, in JSON types: candidates, chosen, its accuracy, log_loss, calibration_error ...
    report: Mapping[str, Any] = field(default_factory=dict)


def head_scores(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """A head's uncalibrated scores, float64 of shape (n, scores), from views (n, dim) by name."""
    dense = np.concatenate([views[name] for name in head.inputs], axis=1).astype(np.float64)
    if head.projection is None or head.landmarks is None:
        features: DoubleArray = dense
    else:
        features = np.exp(-head.gamma * squared_distances(head.projection(dense), head.landmarks.dense()))
    scores: DoubleArray = features @ head.weights.astype(np.float64) + head.bias
    return scores


def head_probabilities(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """A head's calibrated probabilities, float64 of shape (n, classes), from views (n, dim) by name."""
    return probabilities_of(head.slope * head_scores(head, views) + head.intercept, head.link)


def support_of(scores: DoubleArray) -> DoubleArray:
    """How much speaks for any class at all, (n,), from calibrated scores (n, classes).

    The negative energy of Liu et al. 2020, "Energy-based Out-of-distribution Detection".
    """
    most = scores.max(axis=1)
    support: DoubleArray = most + np.log(np.exp(scores - most[:, None]).sum(axis=1))
    return support


def squared_distances(left: DoubleArray, right: DoubleArray) -> DoubleArray:
    """Squared Euclidean distances between rows, (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    distances: DoubleArray = np.maximum(squares - 2 * left @ right.T, 0.0)
    return distances
