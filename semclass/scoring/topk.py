"""Ordering and combining scores: pure functions over arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray, IntArray

BLOCK = 4096
"""Passages that are compared at a time: int8 rows are widened to float32, and so many of them stay in the cache."""

SAMPLE = 8192
"""Scores that are looked at to guess how large the first ones are, where there are many more."""

GROUPS, LARGEST = 8, 64
"""How many groups of scores are looked at for each one that is wanted, and how large they may be."""

MOST = 4
"""Of how many passages one is wanted, at most, where all are scored and those that are wanted taken."""

SIMILARITIES = ("cosine", "ip", "l2")
"""How vectors may be compared, under the names that vector stores use; see :func:`similarity`."""


def unit(vectors: FloatArray) -> FloatArray:
    """Vectors of length 1, along the last axis; a vector of zeros stays one."""
    norm = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))
    return np.asarray(vectors / np.maximum(norm, np.float32(1e-12))[..., None])


def similarity(
    passages: npt.NDArray[Any], question: FloatArray, kind: str, levels: FloatArray | None = None
) -> DoubleArray:
    """Compare passages with a question.

    Parameters
    ----------
    passages
        float32 of shape (n, dim), or int8 with `levels`.
    question
        float32 of shape (dim,).
    kind
        ``"cosine"``, ``q.p / (|q| |p|)``, for passages that have length 1 already, as an index keeps them; ``"ip"``, the
        inner product q.p; ``"l2"``, ``1 - |q - p|**2 / 2``, which falls as the distance grows. For vectors of length 1 all
        three are the same number, so that weights found with one serve the others.
    levels
        What each int8 row is to be multiplied with, float32 of shape (n,).

    Returns
    -------
    ndarray
        float64 of shape (n,); larger is more alike.
    """
    if kind == "cosine":
        question = unit(question)
    product = np.empty(len(passages), np.float32)
    squares = np.zeros(len(passages), np.float32)
    for begin in range(0, len(passages), BLOCK):
        here = slice(begin, begin + BLOCK)
        block = np.asarray(passages[here], np.float32)
        np.matmul(block, question, out=product[here])
        if kind == "l2":
            squares[here] = np.einsum("nd,nd->n", block, block)
    if levels is not None:
        product *= levels
        squares *= levels**2
    if kind != "l2":
        return product.astype(np.float64)
    return np.asarray(1 + product.astype(np.float64) - (squares.astype(np.float64) + float(question @ question)) / 2)


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
    if n > 4 * SAMPLE and (found := _above_most(scores, k)) is not None:
        return found
    # everything that reaches the k-th score takes part, so that ties at the cut are broken by place, not by chance
    cut = np.partition(scores, n - k)[n - k]
    return _sorted(scores, np.flatnonzero(scores >= cut))[:k]


def _above_most(scores: npt.NDArray[np.floating], k: int) -> IntArray | None:
    """What :func:`top_k` gives, from the few scores above a guess of the k-th; None if the guess was too high.

    Partitioning a million scores takes ten milliseconds, and ten times as long where most of them are equal, as BM25 scores
    are: 0. To compare them all with a number takes less than one.
    """
    sample = scores[:: len(scores) // SAMPLE]
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
    """Some places, best first."""
    return rows[np.argsort(-scores[rows], kind="stable")]


def nth_at_least(scores: npt.NDArray[Any], n: int) -> Any:
    """A number that the n-th largest of some scores is not below, and mostly near to.

    Parameters
    ----------
    scores
        Any dtype that has an order, shape (m,).
    n
        At least 1.

    Returns
    -------
    scalar
        The n-th largest of the largest scores of small groups, which is found in a fraction of the time that the n-th
        largest of all would take; the least possible value of the dtype if m < n.
    """
    if len(scores) < n:
        return -np.inf if scores.dtype.kind == "f" else np.iinfo(scores.dtype).min
    width = min(max(len(scores) // (GROUPS * n), 1), LARGEST)
    count = len(scores) // width
    largest = scores if width == 1 else scores[: count * width].reshape(width, count).max(axis=0)
    return np.partition(largest, count - n)[count - n]


def is_most(m: int, n: int) -> bool:
    """Whether m of n passages are so many that scoring all and taking these is quicker than scoring these."""
    return m * MOST > n


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
        # not a product of BLAS, whose last digits depend on how many rows there are
        match = np.einsum("nc,c->n", passages.astype(np.float64), question)
    return match
