"""Computes the dense score of a passage, from the similarities of a question with the passage's sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import FloatArray, IntArray

MEAN = 0.5
"""Weight of the mean of a passage's sentences in its dense score. The rest is the weight of the best sentence.

nDCG@10 of the dense score alone with the weights 1, 0 and 0.5: docs .672, .734, .733; codebase .549, .659, .644; cacm
.401, .394, .405; cranfield .361, .366, .369.
"""


def shares_of(vectors: FloatArray, words: FloatArray, offsets: IntArray) -> FloatArray:
    """Return the factors of the vectors of m sentences in the means of their passages, float32 of shape (m,).

    The mean of vectors s with w words has the direction of the sum of sqrt(w) * s, and the mean of their lengths. So
    the mean of vectors of length 1 has length 1. `vectors` has the shape (m, dim), `words` (m,), and `offsets`
    (passages + 1,).
    """
    weights, starts = np.sqrt(words), offsets[:-1]
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    sums = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
    mean = np.add.reduceat(weights * lengths, starts) / np.add.reduceat(weights, starts)
    factors = mean / np.maximum(np.sqrt(np.einsum("nd,nd->n", sums, sums)), np.float32(1e-12))
    return np.asarray(weights * np.repeat(factors, np.diff(offsets)), np.float32)


def dense_scores(mean: npt.NDArray[Any], similar: npt.NDArray[Any], offsets: IntArray) -> npt.NDArray[Any]:
    """Return the dense scores of n passages.

    They are computed from the similarities of the means, (n,), and of the sentences, (m,), with the same dtype.
    """
    best = np.maximum.reduceat(similar, offsets[:-1])
    best *= 1 - MEAN
    best += MEAN * mean
    return np.asarray(best)
