"""Pure functions that fuse the scores of three signals: vectors (``dense``), words (``bm25``), learnt words (``sparse``).

Larger scores are better. Scores may cover a whole corpus, or only the passages in some lists, as engines return them:

- An unknown score is NaN. Sums use the least known score of the system instead, because a passage that a system did not
  return is no better than the last passage that it returned. An unknown rank adds nothing.
- Except for vectors, a score of 0 is not a hit, because no term of the question occurs in the passage. The passage is
  not in the list of this signal, although its score is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from semclass.core.types import DoubleArray, IntArray
from semclass.scoring.vectors import top_k

FUSIONS = ("linear", "convex", "rrf")
"""Ways to fuse scores, see :func:`fused`."""

ALPHA, SPARSE_SHARE = 0.5, 0.5
"""Weight of the vectors in a convex combination, and share of learnt words in the rest. They come from a grid of 0.05 on
24 collections of ``sections``, ``qa`` and BEIR folders. Nearly every fold without one collection and its domain chooses
them.
"""

ALPHA_OF_TWO = 0.55
"""The weight of the vectors where there are no learnt words, chosen in the same way."""

SPARSE_TOP = 10.0
"""Score of learnt words that counts as 1 in a convex combination, unless a passage has a larger score. Otherwise the best
of a few passages would count as 1, even if it shares next to nothing with the question.
"""

DEPTH = 100
"""Number of passages that convex combination and reciprocal rank fusion read from each list."""

RRF_K = 60
"""Constant of reciprocal rank fusion, as in its paper. Ranks count from 1."""


def fused(
    scores: Mapping[str, DoubleArray],
    method: str,
    weights: Mapping[str, float],
    *,
    depth: int | None = None,
    tops: Mapping[str, float] | None = None,
) -> dict[str, DoubleArray]:
    """Fuse scores of n passages by signal, (n,) each, NaN where unknown, and return the summands of the fused score.

    - ``"linear"`` is the sum of weight * score, as in the reference system. It needs no list and no other passage, so
      shards of a corpus agree on the score.
    - ``"convex"`` is the sum of weight * N(score). N scales the scores of a signal to [0, 1] by (s - least) / (most -
      least), as if a passage had the score in `tops`. With fewer than 100 candidates, least is at most 0. See Bruch,
      Gai and Ingber, "An analysis of fusion functions for hybrid retrieval" (2023).
    - ``"rrf"`` is the sum of 1 / (60 + rank) over lists of `depth` (None: all) passages, with ranks from 1. See Cormack,
      Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods" (2009).
    """
    if method == "rrf":
        return {name: _reciprocal(_first(values, depth, _floor(name)), len(values)) for name, values in scores.items()}
    if method == "linear":
        return {name: weights[name] * _filled(values) for name, values in scores.items()}
    tops = tops or {}
    return {name: weights[name] * normalise(values, top=tops.get(name, -np.inf)) for name, values in scores.items()}


def pool(scores: Mapping[str, DoubleArray], depth: int = DEPTH) -> IntArray:
    """Return the rows of passages that are among the first `depth` of at least one signal, ascending."""
    return np.unique(np.concatenate([_first(values, depth, _floor(name)) for name, values in scores.items()]))


def _floor(signal: str) -> float:
    """Score above which a passage is in the list of a signal."""
    return -np.inf if signal == "dense" else 0.0


def normalise(scores: DoubleArray, *, top: float = -np.inf) -> DoubleArray:
    """Scale a system's scores for a question to the range 0 to 1, as if one was at least `top`. Unknown scores become 0."""
    unknown = np.isnan(scores)
    known = scores[~unknown]
    if not len(known):
        return np.zeros_like(scores)
    least, most = float(known.min()), max(float(known.max()), top)
    if len(scores) < DEPTH:
        least = min(least, 0.0)
    scaled = (scores - least) / (most - least) if most > least else (scores > 0).astype(np.float64)
    return np.where(unknown, 0.0, scaled)


def _reciprocal(first: IntArray, n: int) -> DoubleArray:
    added = np.zeros(n)
    added[first] = 1 / (RRF_K + np.arange(1, len(first) + 1))
    return added


def _filled(scores: DoubleArray) -> DoubleArray:
    """Scores with the least known one where one is not known; 0 if none is."""
    unknown = np.isnan(scores)
    if not unknown.any():
        return scores
    return np.where(unknown, 0.0 if unknown.all() else np.nanmin(scores), scores)


def _first(scores: DoubleArray, depth: int | None, above: float) -> IntArray:
    if np.isnan(np.min(scores, initial=np.inf)):  # quicker than looking for it in every place
        scores = np.where(np.isnan(scores), -np.inf, scores)
    first = top_k(scores, len(scores) if depth is None else depth)
    return first[scores[first] > above]
