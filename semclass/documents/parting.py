"""Finds places where the meanings of neighbouring sentences differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.linalg import norm

from semclass.core.types import FloatArray

Vectors: TypeAlias = Callable[[Sequence[str]], FloatArray]
"""Function that returns a vector for each of n texts, of shape (n, dim)."""

NEAR = 2
"""Sentences before and after a place that are compared. On articles of SQuAD cut to 100 words, 1, 2 and 3 did the same."""


def parts(vectors: FloatArray, counts: Sequence[int], size: int, *, small: Sequence[int], least: int) -> list[int]:
    """Cut n sentences where neighbours are least alike, into parts of at most a size; where each ends, from 1 to n.

    How much neighbours are alike is the cosine of the two sentences before a place with the two after it. Those that are
    less alike than the mean of all by a standard deviation are better apart, as in TextTiling (Hearst 1997). Of all ways
    to cut, found by dynamic programming, the one is taken in which the excess over that bound, summed over the cuts, is
    least: so sentences part at weak places, and seldom elsewhere.

    Parameters
    ----------
    vectors
        Of the sentences, of shape (n, dim), n >= 1.
    counts, size
        How much each sentence takes, and how much a part may; a sentence that takes more is a part of its own.
    small, least
        Words of each sentence; a part of fewer than `least` is avoided.
    """
    costs, before = [0.0], [0]
    joints = [*_excesses(vectors), 0.0]
    for end in range(1, len(counts) + 1):
        best, at, total, words = np.inf, end - 1, 0, 0
        for start in range(end - 1, -1, -1):
            total, words = total + counts[start], words + small[start]
            if total > size and start < end - 1:
                break
            cost = costs[start] + (words < least)
            if cost <= best:
                best, at = cost, start
        costs.append(best + joints[end - 1])
        before.append(at)
    ends = [len(counts)]
    while start := before[ends[-1]]:
        ends.append(start)
    return ends[::-1]


def _excesses(vectors: FloatArray) -> list[float]:
    """By how much the sentences before and after each of n - 1 places are more alike than the bound."""
    units = np.asarray(vectors, np.float64)
    units = units / np.maximum(norm(units, axis=1, keepdims=True), 1e-12)
    pairs = [
        (units[max(place - NEAR, 0) : place].sum(0), units[place : place + NEAR].sum(0))
        for place in range(1, len(units))
    ]
    alike = np.array([one @ other / max(float(norm(one) * norm(other)), 1e-12) for one, other in pairs])
    bound = alike.mean() - alike.std() if len(alike) else 0.0
    return [float(one) for one in alike - bound]
