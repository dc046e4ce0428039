"""Computes similarities of vectors, the largest scores, and how well classes match."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray, IntArray

GROUPS_PER_SCORE, MAX_GROUP_SIZE = 8, 64
"""Number of groups of scores for each requested score, and the largest size of a group."""


def unit(vectors: FloatArray) -> FloatArray:
    """Scale vectors to length 1 along the last axis. A vector of zeros stays unchanged."""
    norm = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))
    return np.asarray(vectors / np.maximum(norm, np.float32(1e-12))[..., None])


def top_k(scores: npt.NDArray[np.floating], k: int) -> IntArray:
    """Places of the k largest scores, best first, equal ones in their order, int64 of shape (min(k, n),)."""
    if k >= len(scores):
        return np.argsort(-scores, kind="stable")
    # ties at the cut are broken by place, not by chance
    rows = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def nth_at_least(scores: npt.NDArray[Any], n: int) -> Any:
    """Lower bound of the n-th largest score (n >= 1), usually close to it; the least number if there are fewer."""
    if len(scores) < n:
        return -np.inf if scores.dtype.kind == "f" else np.iinfo(scores.dtype).min
    width = min(max(len(scores) // (GROUPS_PER_SCORE * n), 1), MAX_GROUP_SIZE)
    count = len(scores) // width
    # the n-th largest maximum of small groups
    largest = scores if width == 1 else scores[: count * width].reshape(width, count).max(axis=0)
    return np.partition(largest, count - n)[count - n]


def is_most(m: int, n: int) -> bool:
    """Return whether it is quicker to score all n passages than to score only m of them."""
    return m * 4 > n


def class_match(
    question: DoubleArray, passages: npt.NDArray[np.floating], thresholds: DoubleArray, kind: str
) -> DoubleArray:
    """Return how well the classes of passages match the classes of a question, float64 of shape (n,), in [0, 1].

    `question` is P(class | question), (n_classes,), `passages` P(class | passage), (n, n_classes), and `thresholds` the
    probability from which a passage has a class. ``"hard"`` is 1 if the passage has the question's most probable class,
    or else 0, as in the reference system; ``"soft"`` the inner product: P(both have one class) if they are independent.
    """
    if kind == "hard":
        asked = int(question.argmax())
        return np.asarray(passages[:, asked] >= thresholds[asked], np.float64)
    # not a product of BLAS, whose last digits depend on how many rows there are
    return np.asarray(np.einsum("nc,c->n", passages.astype(np.float64), question))
