"""Ordering and combining scores: pure functions over arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semclass.types import DoubleArray, IntArray


def top_k(scores: npt.NDArray[np.floating], k: int) -> IntArray:
    """Places of the k largest scores, best first; equal scores keep their order.

    Parameters
    ----------
    scores
        Any float dtype, shape (n,).
    k
        How many; n if larger.

    Returns
    -------
    ndarray
        int64 of shape (min(k, n),).
    """
    n = len(scores)
    if k >= n:
        return np.argsort(-scores, kind="stable")
    # everything that reaches the k-th score takes part, so that ties at the cut are broken by place, not by chance
    cut = np.partition(scores, n - k)[n - k]
    candidates = np.flatnonzero(scores >= cut)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:k]


def stable_partition(labels: npt.NDArray[np.bool_]) -> IntArray:
    """Order that puts the True items first and else changes nothing.

    Parameters
    ----------
    labels
        bool of shape (n,), in the order to re-rank.

    Returns
    -------
    ndarray
        int64 of shape (n,), places in the old order.
    """
    return np.argsort(~labels, kind="stable")


def class_match(
    question: DoubleArray, passages: npt.NDArray[np.floating], thresholds: DoubleArray, kind: str
) -> DoubleArray:
    """How well passages provide what a question asks for.

    Parameters
    ----------
    question
        P(class | question), float64 of shape (n_classes,), sums to 1.
    passages
        P(class | passage), shape (n, n_classes), each in [0, 1].
    thresholds
        Probability from which a passage has a class, float64 of shape (n_classes,).
    kind
        ``"hard"``: 1 if the question's most probable class is among the passage's classes, else 0 (the reference
        system). ``"soft"``: the inner product of the two rows, the probability that the passage provides what is asked
        for if the two are independent.

    Returns
    -------
    ndarray
        float64 of shape (n,), in [0, 1].
    """
    match: DoubleArray
    if kind == "hard":
        asked = int(question.argmax())
        match = (passages[:, asked] >= thresholds[asked]).astype(np.float64)
    else:
        match = passages.astype(np.float64) @ question
    return match
