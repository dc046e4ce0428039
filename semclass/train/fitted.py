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

NGRAM_SLOTS = 65536
"""Size of the hash table of n-grams."""

NGRAM_POSITIONS = 4
"""Word pieces at the beginning that also count together with their position: "what" as first piece."""

HASH_PRIME = 2147483647
"""Modulus of the n-gram hashes (Carter and Wegman 1979): products with word-piece ids below 2**24 fit in 63 bits."""

UNIGRAM_HASH = (1103515245, 12345)
BIGRAM_HASH = (1664525, 22695477, 777)
POSITION_HASH = (69621, 40692003)

SMALLEST = 1e-12
"""Least scale, so that a column of zeros can be divided by its own."""


@dataclass(frozen=True)
class Quantised:
    """A matrix in 8 bits, ``values * scale``: int8 of shape (rows, columns) and float32 of shape (columns,)."""

    values: npt.NDArray[np.int8]
    scale: FloatArray

    @classmethod
    def of(cls, matrix: npt.NDArray[np.floating[Any]]) -> Quantised:
        """Round a matrix of shape (rows, columns), each column to 255 levels symmetric about 0."""
        scale = np.maximum(np.abs(matrix).max(axis=0) / 127, SMALLEST).astype(np.float32)
        return cls(np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8), scale)

    def dense(self) -> DoubleArray:
        """Give the matrix as float64 of shape (rows, columns)."""
        return self.values.astype(np.float64) * self.scale.astype(np.float64)


@dataclass(frozen=True)
class Projection:
    """From the concatenated views (n, dim) to coordinates (n, components): ``x @ matrix - offset``."""

    matrix: Quantised
    offset: FloatArray

    def __call__(self, dense: FloatArray | DoubleArray) -> DoubleArray:
        """Project (n, dim) views to float64 (n, components)."""
        return np.asarray(dense, np.float64) @ self.matrix.dense() - self.offset


@dataclass(frozen=True)
class Ngrams:
    """A linear function of hashed word-piece n-grams.

    Attributes
    ----------
    rows
        int32 of shape (NGRAM_SLOTS,): row of `weights` for each hash slot; 0 for n-grams that too few training texts hold.
    weights
        int16 of shape (1 + n-grams, scores); row 0 is zero. Unlike the coordinates these are rounded after fitting, so
        they have 16 bits, which keep scores within 1e-4.
    scale
        float32 of shape (scores,): the weights are ``weights * scale``.
    """

    rows: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int16]
    scale: FloatArray

    @classmethod
    def of(cls, rows: npt.NDArray[np.int32], weights: DoubleArray) -> Ngrams:
        """Round weights of shape (1 + n-grams, scores), each column to 65,535 levels symmetric about 0."""
        scale = np.maximum(np.abs(weights).max(axis=0) / 32767, SMALLEST).astype(np.float32)
        return cls(rows, np.clip(np.rint(weights / scale), -32767, 32767).astype(np.int16), scale)


@dataclass(frozen=True)
class FittedHead:
    """A fitted head as plain arrays; :func:`semclass.train.export.head_to_onnx` writes it as a network.

    Attributes
    ----------
    kind
        ``"logistic"`` or ``"svm"``.
    link
        ``"softmax"`` or ``"sigmoid"``.
    classes
        Names of the output columns.
    inputs
        Name and dimension of each view, in the order in which they are concatenated; ``pieces`` is not concatenated.
    weights
        Floats of shape (dim, scores) for a logistic head, (landmarks, scores) for a kernel head; float32 in the network.
    bias
        Floats of shape (scores,); float32 in the network.
    slope, intercept
        Calibration: probabilities are link(slope * scores + intercept). Of a sigmoid head with several columns, which
        are calibrated each on their own, slopes and intercepts are part of `weights`, `ngrams` and `bias` instead.
    projection, landmarks, gamma
        Kernel head: coordinates of a text, those of the training texts (n, components), and the kernel's width.
    ngrams
        Kernel head with the view ``pieces``: what n-grams add to the scores.
    merge
        bool of shape (scores, classes): the scores of which the largest is a class's score; None where every score is
        a class.
    out_of_fold
        float64 of shape (n, classes): calibrated probabilities of the training texts, each from a head that was fitted
        without it; nan for texts that were fitted on only. None for a head that :func:`semclass.train.fit.fit_head` did
        not make.
    report
        Of the cross-validation, in JSON types: ``candidates`` (a row of figures each), ``chosen``, its ``accuracy``,
        ``log_loss``, ``calibration_error`` (and ``f1``) on held-out texts, ``uncalibrated_log_loss``, ``examples``,
        ``compared`` (texts that the candidates were compared on), ``folds`` and ``seed``.
    """

    kind: str
    link: str
    classes: tuple[str, ...]
    inputs: Mapping[str, int]
    weights: FloatArray | DoubleArray
    bias: FloatArray | DoubleArray
    slope: float = 1.0
    intercept: float = 0.0
    projection: Projection | None = None
    landmarks: Quantised | None = None
    gamma: float = 0.0
    ngrams: Ngrams | None = None
    merge: npt.NDArray[np.bool_] | None = None
    out_of_fold: DoubleArray | None = None
    report: Mapping[str, Any] = field(default_factory=dict)


def head_scores(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """Compute a head's scores in numpy.

    Parameters
    ----------
    head
        The head.
    views
        (n, dim) by name.

    Returns
    -------
    ndarray
        float64 of shape (n, scores), uncalibrated.
    """
    dense = np.concatenate([views[name] for name in head.inputs if name != PIECES], axis=1).astype(np.float64)
    if head.projection is None or head.landmarks is None:
        features: DoubleArray = dense
    else:
        features = np.exp(-head.gamma * squared_distances(head.projection(dense), head.landmarks.dense()))
    scores = features @ head.weights.astype(np.float64) + head.bias
    if head.ngrams is not None:
        slots, valid = ngram_slots(views[PIECES].astype(np.int64))
        rows = head.ngrams.rows[slots] * valid
        total = head.ngrams.weights.astype(np.float64)[rows].sum(axis=1)
        scores += total * head.ngrams.scale / np.sqrt(np.maximum(valid.sum(axis=1, keepdims=True), 1))
    return scores


def head_probabilities(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """Compute a head's calibrated probabilities in numpy, float64 of shape (n, classes)."""
    return probabilities_of(head.slope * merged(head_scores(head, views), head.merge) + head.intercept, head.link)


def merged(scores: DoubleArray, merge: npt.NDArray[np.bool_] | None) -> DoubleArray:
    """Give each superclass the largest of its classes' scores, (n, scores) to (n, classes); see `FittedHead.merge`."""
    if merge is None:
        return scores
    return np.stack([scores[:, members].max(axis=1) for members in merge.T], axis=1)


def squared_distances(left: DoubleArray, right: DoubleArray) -> DoubleArray:
    """Squared Euclidean distances between rows, (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    distances: DoubleArray = np.maximum(squares - 2 * left @ right.T, 0.0)
    return distances


def ngram_slots(pieces: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Hash the n-grams of texts: word pieces, pairs of neighbours, and the first pieces with their position.

    Parameters
    ----------
    pieces
        int64 of shape (n, length), word-piece ids below 2**24, padded with -1 at the end.

    Returns
    -------
    tuple
        Slots, int64 of shape (n, features) in [0, NGRAM_SLOTS), and whether the feature is there or padding, bool.
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
