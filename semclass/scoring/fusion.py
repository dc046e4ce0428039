"""One score of two: pure functions over the scores of vectors (``dense``) and of BM25, larger is better.

Scores may be those of a whole corpus, or of the passages in one of two lists, as search engines return them:

- An unknown score is NaN. Sums take the least known score of its system instead, for what a system did not return is no
  better than what it returned last; an unknown rank adds nothing.
- A BM25 score of 0 is no hit: no term of the question occurs in the passage. It has no place in BM25's list, though its
  score is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semclass.core.checks import check_choice, check_positive, check_probability, check_weight
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.scoring.topk import top_k

METHODS = ("linear", "convex", "rrf")
"""Ways to fuse the scores of vectors and of BM25, see :func:`fused`."""

KINDS = ("min-max", "from-zero")
"""Ways to bring scores to one scale, see :func:`normalise`."""

ALPHA = 0.55
"""Weight of the vectors in a convex combination: best of 0, 0.05 ... 1 by MRR@10 on 1,000 questions of SQuAD's training
articles over passages of four sentences, with min-max over the first 100 of both systems."""

DEPTH = 100
"""Passages of each list that convex combination and reciprocal rank fusion look at."""

RRF_K = 60
"""Constant of reciprocal rank fusion, as in its paper, where ranks count from 1."""


class Fused(NamedTuple):
    """Fused scores of n passages.

    Attributes
    ----------
    score
        float64 of shape (n,), the sum of the parts; -inf for a passage that is in neither list.
    parts
        What ``dense`` and ``bm25`` add to it, weights included, float64 of shape (n,); both -inf where the score is.
    """

    score: DoubleArray
    parts: dict[str, DoubleArray]


def fused(
    dense: DoubleArray,
    bm25: DoubleArray,
    method: str = "linear",
    *,
    weight: float = 0.1,
    alpha: float = ALPHA,
    depth: int | None = None,
) -> Fused:
    """Fuse the scores of vectors and of BM25, and say what each adds.

    - ``"linear"``: dense + weight * bm25, the sum of the reference system. It needs no list and no other passage, so that
      shards of a corpus agree on it. BM25 has no upper bound, so the weight is small: 0.1 in the reference system.
    - ``"convex"``: alpha * N(dense) + (1 - alpha) * N(bm25), where N is :func:`normalise` with the kind of
      :func:`kind_for`. Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid retrieval" (2023).
    - ``"rrf"``: the sum of 1 / (60 + rank) over both lists, with ranks from 1. Cormack, Clarke and Buettcher, "Reciprocal
      rank fusion outperforms Condorcet and individual rank learning methods" (2009).

    With `depth`, only passages in one of the two lists get a score, and only they decide what the smallest and largest
    score are; the score of a passage outside both is -inf. A passage in one list keeps its score by the other system, where
    it is known. Where the corpus is large, hand in the scores of ``rows = pool(dense, bm25, depth)`` alone: what comes back
    is the same, without the passages outside.

    Parameters
    ----------
    dense, bm25
        Scores of the same n passages, float64 of shape (n,); NaN where not known.
    method
        One of `METHODS`.
    weight
        Of ``"linear"``, at least 0.
    alpha
        Of ``"convex"``: from 0, BM25 alone, to 1, vectors alone.
    depth
        Length of each of the two lists; None ranks all n.

    Returns
    -------
    Fused
        Scores and their parts.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or the scores differ in length.
    """
    check_choice(method, METHODS, "method")
    dense, bm25 = np.asarray(dense, np.float64), np.asarray(bm25, np.float64)
    if dense.shape != bm25.shape or dense.ndim != 1:
        raise InputError(f"scores have the shapes {dense.shape}, {bm25.shape}; both must be rows of the same length")
    n = len(dense)
    rows = None if depth is None else pool(dense, bm25, depth)
    if rows is not None:
        dense, bm25 = dense[rows], bm25[rows]
    if method == "linear":
        pair = _filled(dense), check_weight(weight, "weight") * _filled(bm25)
    elif method == "convex":
        share, kind = check_probability(alpha, "alpha"), kind_for(len(dense))
        pair = share * normalise(dense, kind), (1 - share) * normalise(bm25, kind)
    else:
        pair = _reciprocal(ranks(dense, depth)), _reciprocal(ranks(bm25, depth, above=0.0))
    if rows is not None:
        pair = _spread(pair[0], rows, n), _spread(pair[1], rows, n)
    return Fused(pair[0] + pair[1], dict(zip(("dense", "bm25"), pair, strict=True)))


def normalise(scores: DoubleArray, kind: str) -> DoubleArray:
    """Bring the scores of one system for one question to a scale from 0 to 1, which other systems share.

    - ``"min-max"``: (s - least) / (most - least) over all known scores. Lee, "Analyses of multiple evidence combination"
      (1997). Where all are equal, a single candidate for example, they become 1 if they are above 0, else 0: a hit does not
      vanish for want of others, and what is no hit does not become one.
    - ``"from-zero"``: min-max with a least of at most 0, which is what a passage scores that has nothing to do with the
      question, by the cosine about, and by BM25 exactly. Among few candidates all may have to do with it: then min-max
      makes as much of their small differences as of the large ones.

    Parameters
    ----------
    scores
        float64 of shape (n,), finite, or NaN where not known.
    kind
        One of `KINDS`. Both keep the order of the scores.

    Returns
    -------
    ndarray
        float64 of shape (n,), in [0, 1]; 0 where a score is not known.

    Raises
    ------
    InputError
        If the kind is none of these.
    """
    check_choice(kind, KINDS, "kind")
    unknown = np.isnan(scores)
    known = scores[~unknown]
    if not len(known):
        return np.zeros_like(scores)
    least, most = float(known.min()), float(known.max())
    if kind == "from-zero":
        least = min(least, 0.0)
    scaled = (scores - least) / (most - least) if most > least else (scores > 0).astype(np.float64)
    return np.where(unknown, 0.0, scaled)


def kind_for(n: int) -> str:
    """How a search brings the scores of n candidates to one scale.

    Of seven sets, ``"from-zero"`` has the better nDCG@10 where lists of 5, 10, 20 or 50 are re-ranked, by 0.002 to 0.004 in
    the mean, and min-max where the candidates are those of two lists of 100, by 0.001 to 0.002.
    """
    return "min-max" if n >= DEPTH else "from-zero"


def ranks(scores: DoubleArray, depth: int | None = None, *, above: float = -np.inf) -> IntArray:
    """Rank of every passage in the list of one system, from 1.

    Parameters
    ----------
    scores
        float64 of shape (n,); NaN where not known.
    depth
        Length of the list; no limit if None.
    above
        Only larger scores are in the list, such as those above 0 for BM25.

    Returns
    -------
    ndarray
        int64 of shape (n,); 0 for what is not in the list. Equal scores are ranked in their order.
    """
    first = _first(scores, depth, above)
    places = np.zeros(len(scores), np.int64)
    places[first] = np.arange(1, len(first) + 1)
    return places


def pool(dense: DoubleArray, bm25: DoubleArray, depth: int = DEPTH) -> IntArray:
    """Places of the passages that are in one of the two lists, the first `depth` of each, ascending.

    Parameters
    ----------
    dense, bm25
        Scores of the same n passages, float64 of shape (n,); NaN where not known.
    depth
        Length of each list, at least 1.

    Returns
    -------
    ndarray
        int64 of shape (at most 2 * depth,).
    """
    limit = check_positive(depth, "depth")
    return np.union1d(_first(dense, limit, -np.inf), _first(bm25, limit, 0.0))


def line(dense: DoubleArray, bm25: DoubleArray, method: str) -> tuple[DoubleArray, DoubleArray]:
    """Write a method as base + weight * signal, so that every weight can be tried at once.

    Parameters
    ----------
    dense, bm25
        Scores of the same n passages, float64 of shape (n,); NaN where not known.
    method
        ``"linear"``, where the weight is that of BM25, or ``"convex"``, where it is alpha.

    Returns
    -------
    base, signal
        float64 of shape (n,): dense and bm25, or N(bm25) and N(dense) - N(bm25).

    Raises
    ------
    InputError
        If the method is none of the two.
    """
    check_choice(method, ("linear", "convex"), "method")
    if method == "linear":
        return _filled(dense), _filled(bm25)
    kind = kind_for(len(dense))
    base = normalise(bm25, kind)
    return base, normalise(dense, kind) - base


def _reciprocal(places: IntArray) -> DoubleArray:
    """What a list adds in reciprocal rank fusion."""
    return np.where(places > 0, 1 / (RRF_K + places), 0.0)


def _filled(scores: DoubleArray) -> DoubleArray:
    """Scores with the least known one where one is not known; 0 if none is."""
    unknown = np.isnan(scores)
    if not unknown.any():
        return scores
    return np.where(unknown, 0.0 if unknown.all() else np.nanmin(scores), scores)


def _first(scores: DoubleArray, depth: int | None, above: float) -> IntArray:
    """Places of the first scores that are known and larger than a bound, best first."""
    if np.isnan(np.min(scores, initial=np.inf)):  # quicker than looking for it in every place
        scores = np.where(np.isnan(scores), -np.inf, scores)
    found = top_k(scores, len(scores) if depth is None else depth)
    return found[scores[found] > above]


def _spread(part: DoubleArray, rows: IntArray, n: int) -> DoubleArray:
    """Put the values of some rows into n, the others being -inf."""
    whole = np.full(n, -np.inf)
    whole[rows] = part
    return whole
