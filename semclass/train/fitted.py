"""A fitted head as plain arrays, and its scores in numpy: the reference that its network is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.inputs import PIECES
from semclass.train.calibration import probabilities_of

NGRAM_SLOTS = 65536  # size of the hash table of n-grams

NGRAM_POSITIONS = 4  # word pieces at the beginning that also count together with their position: "what" as first piece

HASH_PRIME = 2147483647
"""Modulus of the n-gram hashes (Carter and Wegman 1979): products with word-piece ids below 2**24 fit in 63 bits."""

UNIGRAM_HASH = (1103515245, 12345)
BIGRAM_HASH = (1664525, 22695477, 777)
POSITION_HASH = (69621, 40692003)

SMALLEST = 1e-12  # least scale, so that a column of zeros can be divided by its own


@dataclass(frozen=True)
class Quantised:
    """A matrix of shape (rows, columns) in few bits, ``values * scale``."""

    values: npt.NDArray[np.int8] | npt.NDArray[np.int16]
    scale: FloatArray  # (columns,)

    @classmethod
    def of(cls, matrix: npt.NDArray[np.floating[Any]], kind: type[np.int8 | np.int16] = np.int8) -> Quantised:
        """Round each column to levels symmetric about 0."""
        top = np.iinfo(kind).max
        scale = np.maximum(np.abs(matrix).max(axis=0) / top, SMALLEST).astype(np.float32)
        return cls(np.clip(np.rint(matrix / scale), -top, top).astype(kind), scale)

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
class Ngrams:
    """A linear function of hashed word-piece n-grams."""

    rows: npt.NDArray[np.int32]  # (NGRAM_SLOTS,): row of the weights for each hash slot; 0, of zeros, for rare n-grams
    weights: Quantised  # (1 + n-grams, scores), rounded after fitting: 16 bits keep scores within 1e-4


@dataclass(frozen=True)
class FittedHead:
    """A fitted head as plain arrays; :func:`semclass.train.export.head_to_onnx` writes it as a network."""

    kind: str  # "logistic", "svm" or "kernel ridge"
    link: str  # "softmax" or "sigmoid"
    classes: tuple[str, ...]  # names of the output columns
    inputs: Mapping[str, int]  # dimension of each view, in the order in which they are concatenated; not of pieces
    weights: FloatArray | DoubleArray  # (dim, scores), of a kernel head (landmarks, scores)
    bias: FloatArray | DoubleArray  # (scores,)
    # probabilities are link(slope * scores + intercept); several sigmoid columns have theirs in weights, ngrams and bias
    slope: float = 1.0
    intercept: float = 0.0
    # kernel head: coordinates of a text, those of the training texts, the kernel's width, what n-grams add to the scores
    projection: Projection | None = None
    landmarks: Quantised | None = None
    gamma: float = 0.0
    ngrams: Ngrams | None = None
    # where some texts are rejected: log of the sum of the exponentials of the calibrated scores, from which a text is not
    ood_threshold: float | None = None
    # (n, classes): probabilities of training texts by heads that did not see them; nan for texts that were fitted on only
    out_of_fold: DoubleArray | None = None
    # of the cross-validation, in JSON types: candidates, chosen, its accuracy, log_loss, calibration_error ...
    report: Mapping[str, Any] = field(default_factory=dict)


def head_scores(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """A head's uncalibrated scores, float64 of shape (n, scores), from views (n, dim) by name."""
    dense = np.concatenate([views[name] for name in head.inputs if name != PIECES], axis=1).astype(np.float64)
    if head.projection is None or head.landmarks is None:
        features: DoubleArray = dense
    else:
        features = np.exp(-head.gamma * squared_distances(head.projection(dense), head.landmarks.dense()))
    scores = features @ head.weights.astype(np.float64) + head.bias
    if head.ngrams is not None:
        slots, valid = ngram_slots(views[PIECES].astype(np.int64))
        weights = head.ngrams.weights
        total = weights.values.astype(np.float64)[head.ngrams.rows[slots] * valid].sum(axis=1)
        scores += total * weights.scale / np.sqrt(np.maximum(valid.sum(axis=1, keepdims=True), 1))
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


def ngram_slots(pieces: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Hash the n-grams of texts: word pieces, pairs of neighbours, and the first pieces with their position.

    Takes word-piece ids below 2**24, int64 of shape (n, length), padded with -1 at the end. Gives slots in
    [0, NGRAM_SLOTS), int64 of shape (n, features), and whether each is a feature or padding, bool.
    """
    shifted = pieces + 2
    before = np.concatenate([np.zeros((len(pieces), 1), np.int64), shifted[:, :-1]], axis=1)
    first = shifted[:, :NGRAM_POSITIONS]
    places = np.arange(1, first.shape[1] + 1)
    hashes = [
        shifted * UNIGRAM_HASH[0] + UNIGRAM_HASH[1],
        before * BIGRAM_HASH[0] + shifted * BIGRAM_HASH[1] + BIGRAM_HASH[2],
        first * POSITION_HASH[0] + places * POSITION_HASH[1],
    ]
    valid = np.concatenate([shifted, shifted, first], axis=1) > 1
    return np.concatenate(hashes, axis=1) % HASH_PRIME % NGRAM_SLOTS, valid
