"""Computes similarities of vectors, the largest scores, and how well classes match."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray, IntArray

SAMPLED_SCORES = 8192
"""Number of scores from which the size of the largest scores is guessed, where there are many more."""

GROUPS_PER_SCORE, MAX_GROUP_SIZE = 8, 64
"""Number of groups of scores for each requested score, and the largest size of a group."""


def unit(vectors: FloatArray) -> FloatArray:
    """Scale vectors to length 1 along the last axis. A vector of zeros stays unchanged."""
    norm = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))
    return np.asarray(vectors / np.maximum(norm, np.float32(1e-12))[..., None])


def top_k(scores: npt.NDArray[np.floating], k: int) -> IntArray:
    """Places of the k largest scores, best first, equal ones in their order, int64 of shape (min(k, n),)."""
    n = len(scores)
    if k >= n:
        return np.argsort(-scores, kind="stable")
    if n > 4 * SAMPLED_SCORES and (found := _above_most(scores, k)) is not None:
        return found
    # ties at the cut are broken by place, not by chance
    cut = np.partition(scores, n - k)[n - k]
    return _sorted(scores, np.flatnonzero(scores >= cut))[:k]


def _above_most(scores: npt.NDArray[np.floating], k: int) -> IntArray | None:
    """Result of :func:`top_k` from the few scores above a guess of the k-th; None if the guess was too high.

    Comparing a million scores takes a millisecond, and partitioning them ten, or a hundred where most are 0.
    """
    sample = scores[:: len(scores) // SAMPLED_SCORES]
    rank = 10 + 4 * k * len(sample) // len(scores)  # with room, as a guess that is too low costs little
    if rank >= len(sample):
        return None
    guess = np.partition(sample, len(sample) - rank)[len(sample) - rank]
    above = np.flatnonzero(scores > guess)
    if len(above) >= k:
        return above[top_k(scores[above], k)]
    equal = np.flatnonzero(scores == guess)[: k - len(above)]
    return np.concatenate([_sorted(scores, above), equal]) if len(above) + len(equal) == k else None


def _sorted(scores: npt.NDArray[np.floating], rows: IntArray) -> IntArray:
    return rows[np.argsort(-scores[rows], kind="stable")]


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
    """Tell whether it is quicker to score all n passages than to score only m of them."""
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
