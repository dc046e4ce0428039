"""Making one score of several: pure functions over arrays of scores, larger is better.

Two systems score passages: vectors (``dense``) and BM25. Scores may be those of a whole corpus, or of the passages that
one of two lists holds, as search engines return them. Two rules hold everywhere:

- A score that is not known is NaN. Sums take the worst that the system gave instead, for what a system did not return is no
  better than what it returned last; a rank that is not known adds nothing.
- A BM25 score of 0 is no hit: no term of the question occurs in the passage. So it has no place in BM25's list, though its
  score is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_choice, check_positive, check_probability, check_weight
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.scoring.topk import top_k

Row = TypeVar("Row", DoubleArray, IntArray)

METHODS = ("linear", "convex", "rrf")
"""Ways to fuse the scores of vectors and of BM25: :func:`linear`, :func:`convex` and :func:`rrf`."""

FUSION = "convex"
"""What is used where a caller names no method."""

KINDS = ("min-max", "from-zero", "z-score", "theoretical")
"""Ways to bring scores to one scale, see :func:`normalise`."""

ALPHA = 0.55
"""Weight of the vectors in a convex combination: best of 0, 0.05 ... 1 by MRR@10 on 1,000 questions of SQuAD's training
articles over passages of four sentences, with min-max over the first 100 of both systems."""

DEPTH = 100
"""Passages of each list that convex combination and reciprocal rank fusion look at."""

RRF_K = 60
"""Constant of reciprocal rank fusion, as in its paper, where ranks count from 1."""

DENSE_LOW, BM25_LOW = -1.0, 0.0
"""The least that a cosine and a BM25 score can be."""


def check_fusion(fusion: str, *, bm25_weight: float | None = None, alpha: float | None = None) -> None:
    """Refuse what is no method, or a weight that the method has not."""
    check_choice(fusion, METHODS, "fusion")
    for name, value, method in (("bm25_weight", bm25_weight, "linear"), ("alpha", alpha, "convex")):
        if value is not None and fusion != method:
            raise InputError(f"{name} is given with fusion={fusion!r}, which has none; it belongs to fusion={method!r}")


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


def normalise(scores: DoubleArray, kind: str, *, low: float | None = None, high: float | None = None) -> DoubleArray:
    """Bring the scores of one system for one question to a scale that other systems share.

    With s a score, and least, most, mean and deviation (of the population) those of all known scores:

    - ``"min-max"``: (s - least) / (most - least), from 0 to 1. Lee, "Analyses of multiple evidence combination" (1997).
      Where all are equal, a single candidate for example, they become 1 if they are above 0, else 0: a hit does not vanish
      for want of others, and what is no hit does not become one. An unknown score becomes 0.
    - ``"from-zero"``: min-max with a least of at most 0, which is what a passage scores that has nothing to do with the
      question, by the cosine about, and by BM25 exactly. Among few candidates all may have to do with it: then min-max
      makes as much of their small differences as of the large ones.
    - ``"z-score"``: (s - mean) / deviation. Montague and Aslam, "Relevance score normalization for metasearch" (2001).
      Where all are equal they become 0, the mean. An unknown score becomes the least of the others.
    - ``"theoretical"``: (s - low) / (high - low), where low is the least that the system *can* give, and high the most it
      can give, or the largest seen. Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid retrieval" (2023).
      What is as bad as can be is 0 for every question, so a list of poor candidates stays poor. Where all are equal to low
      they become 0. An unknown score becomes 0.

    Parameters
    ----------
    scores
        float64 of shape (n,), finite, or NaN where not known.
    kind
        One of `KINDS`. The order of the scores is kept by each.
    low, high
        Bounds; they take the place of least and most for ``"min-max"``, too. ``"theoretical"`` needs `low`, such as -1 for
        a cosine and 0 for BM25; ``"z-score"`` has none.

    Returns
    -------
    ndarray
        float64 of shape (n,), finite; 0 everywhere if no score is known.

    Raises
    ------
    InputError
        If the kind is none of these, or a bound is missing or has no use.
    """
    check_choice(kind, KINDS, "kind")
    if kind == "theoretical" and low is None:
        raise InputError("theoretical bounds need low, the least score that is possible: -1 for a cosine, 0 for BM25")
    if kind == "z-score" and not (low is None and high is None):
        raise InputError("low and high are bounds, which z-score does not have; leave them out")
    scores = np.asarray(scores, np.float64)
    unknown = np.isnan(scores)
    known = scores[~unknown]
    if not len(known):
        return np.zeros_like(scores)
    if kind == "z-score":
        deviation = known.std() if known.min() < known.max() else 0.0
        scaled = (scores - known.mean()) / deviation if deviation else np.zeros_like(scores)
        return np.where(unknown, scaled[~unknown].min(), scaled)
    least = float(known.min()) if low is None else low
    if kind == "from-zero":
        least = min(least, 0.0)
    most = float(known.max()) if high is None else high
    if most > least:
        scaled = (scores - least) / (most - least)
    else:
        scaled = (scores > (0.0 if low is None else low)).astype(np.float64)
    return np.where(unknown, 0.0, scaled)


def linear(dense: DoubleArray, bm25: DoubleArray, weight: float) -> DoubleArray:
    """Give dense + weight * bm25, the scores as they are: the sum of the reference system.

    It needs no list and no other passage, so that shards of a corpus agree on it. BM25 has no upper bound, so the weight is
    small: 0.1 in the reference system.

    Parameters
    ----------
    dense, bm25
        Scores of the same n passages, float64 of shape (n,); NaN where not known.
    weight
        w, at least 0.

    Returns
    -------
    ndarray
        float64 of shape (n,).
    """
    return _sum(_linear(dense, bm25, weight))


def convex(dense: DoubleArray, bm25: DoubleArray, alpha: float = ALPHA, kind: str = "min-max") -> DoubleArray:
    """Give alpha * N(dense) + (1 - alpha) * N(bm25), where N brings the scores of each to one scale.

    Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid retrieval" (2023); with ``"theoretical"`` it is what
    they call TM2C2: cosines are at least -1, BM25 scores at least 0, and the largest is the largest seen.

    Parameters
    ----------
    dense, bm25
        Scores of the same n passages, float64 of shape (n,); NaN where not known. Least, most, mean and deviation are those
        of these n, see :func:`pool`.
    alpha
        From 0, BM25 alone, to 1, vectors alone.
    kind
        One of `KINDS`, see :func:`normalise`.

    Returns
    -------
    ndarray
        float64 of shape (n,); from 0 to 1, but for ``"z-score"``.

    Raises
    ------
    InputError
        If alpha is not from 0 to 1, or the kind is none of these.
    """
    return _sum(_convex(dense, bm25, alpha, kind))


def ranks(scores: DoubleArray, depth: int | None = None, *, above: float = -np.inf) -> IntArray:
    """Place of every passage in the list of one system, from 1.

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
    first = _first(np.asarray(scores, np.float64), depth, above)
    places = np.zeros(len(scores), np.int64)
    places[first] = np.arange(1, len(first) + 1)
    return places


def rrf(*lists: IntArray, k: int = RRF_K, weights: Sequence[float] | None = None) -> DoubleArray:
    """Sum weight / (k + rank) over several lists: reciprocal rank fusion.

    Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods"
    (2009), where ranks count from 1 and k is 60. Others differ: LangChain's EnsembleRetriever is the same, with weights;
    Haystack divides by 61 + rank from 0, which is the same, too; LlamaIndex by 60 + rank from 0, which is k = 59 here.

    Parameters
    ----------
    *lists
        Rank of each of n passages in each list, from 1, and 0 where it is not in the list, where it adds nothing; int64 of
        shape (n,), see :func:`ranks`.
    k
        At least 1. The larger, the less the first places stand out.
    weights
        One for each list, at least 0; 1 each if None.

    Returns
    -------
    ndarray
        float64 of shape (n,).

    Raises
    ------
    InputError
        If there is no list, or not one weight for each.
    """
    return np.asarray(sum(_reciprocal(lists, k, weights)))


def ensemble(
    scores: Sequence[DoubleArray] | npt.NDArray[np.float64],
    weights: Sequence[float] | None = None,
    *,
    kind: str | None = None,
) -> DoubleArray:
    """Average what several encoders, or several wordings of a question, say of the same passages.

    sum(weight_i * N(scores_i)) / sum(weight_i): a weighted mean, so that its scale is that of the scores, and it can take
    the place of ``dense`` in every function here. For wordings of a question under one encoder and the inner product, the
    mean of the scores is the score of the mean of the vectors. Without `kind` it is ranx's ``wsum``, divided by the sum
    of the weights.

    Parameters
    ----------
    scores
        m rows of float64, each of shape (n,); NaN where not known.
    weights
        m numbers of at least 0, not all 0; equal if None.
    kind
        How each row is brought to one scale before, see :func:`normalise`; None leaves them as they are, which is right
        for one encoder. ``"theoretical"`` takes them for cosines.

    Returns
    -------
    ndarray
        float64 of shape (n,).

    Raises
    ------
    InputError
        If there is no row, rows differ in length, or weights are not as above.
    """
    rows = _aligned([np.asarray(row, np.float64) for row in scores])
    shares = _shares(weights, len(rows))
    if not shares.sum() > 0:
        raise InputError("all weights are 0; at least one must be larger")
    if kind is None:
        scaled = [_filled(row) for row in rows]
    else:
        scaled = [normalise(row, kind, low=DENSE_LOW if kind == "theoretical" else None) for row in rows]
    return np.asarray(shares / shares.sum() @ np.stack(scaled))


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
    return np.union1d(_first(dense, limit, -np.inf), _first(bm25, limit, BM25_LOW))


def fused(
    dense: DoubleArray,
    bm25: DoubleArray,
    method: str = "linear",
    *,
    weight: float = 0.1,
    alpha: float = ALPHA,
    kind: str | None = "min-max",
    k: int = RRF_K,
    weights: Sequence[float] | None = None,
    depth: int | None = None,
) -> Fused:
    """Fuse the scores of vectors and of BM25 by any of the methods, and say what each adds.

    With `depth`, only passages in one of the two lists get a score, and only they have a say in what the smallest and
    largest score are; the score of a passage outside both is -inf. A passage in one list keeps its score by the other
    system, where it is known. Where the corpus is large, hand in the scores of ``rows = pool(dense, bm25, depth)`` alone:
    what comes back is the same, without the passages outside.

    Parameters
    ----------
    dense, bm25
        Scores of the same n passages, float64 of shape (n,); NaN where not known.
    method
        One of `METHODS`.
    weight
        Of ``"linear"``, see :func:`linear`.
    alpha, kind
        Of ``"convex"``, see :func:`convex`; a kind that is None is that of a search, see :func:`kind_for`.
    k, weights
        Of ``"rrf"``, see :func:`rrf`; weights of the vectors and of BM25.
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
    dense, bm25 = _aligned([np.asarray(dense, np.float64), np.asarray(bm25, np.float64)])
    n = len(dense)
    rows = None if depth is None else pool(dense, bm25, depth)
    if rows is not None:
        dense, bm25 = dense[rows], bm25[rows]
    pair: Sequence[DoubleArray]
    if method == "linear":
        pair = _linear(dense, bm25, weight)
    elif method == "convex":
        pair = _convex(dense, bm25, alpha, kind)
    else:
        pair = _reciprocal((ranks(dense, depth), ranks(bm25, depth, above=BM25_LOW)), k, weights)
    if rows is not None:
        pair = [_spread(part, rows, n) for part in pair]
    parts = dict(zip(("dense", "bm25"), pair, strict=True))
    return Fused(parts["dense"] + parts["bm25"], parts)


def kind_for(n: int) -> str:
    """How a search brings the scores of n candidates to one scale.

    Of seven sets, ``"from-zero"`` has the better nDCG@10 where lists of 5, 10, 20 or 50 are re-ranked, by 0.002 to 0.004 in
    the mean, and min-max where the candidates are those of two lists of 100, by 0.001 to 0.002.
    """
    return "min-max" if n >= DEPTH else "from-zero"


def line(
    dense: DoubleArray, bm25: DoubleArray, method: str, *, kind: str | None = "min-max"
) -> tuple[DoubleArray, DoubleArray]:
    """Write a method as base + weight * signal, so that every weight can be tried at once.

    Parameters
    ----------
    dense, bm25
        Scores of the same n passages, float64 of shape (n,); NaN where not known.
    method
        ``"linear"``, where the weight is that of BM25, or ``"convex"``, where it is alpha.
    kind
        Of ``"convex"``, see :func:`normalise`.

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
    vectors, words = _scaled(dense, bm25, kind)
    return words, vectors - words


def _linear(dense: DoubleArray, bm25: DoubleArray, weight: float) -> tuple[DoubleArray, ...]:
    return _filled(dense), check_weight(weight, "weight") * _filled(bm25)


def _convex(dense: DoubleArray, bm25: DoubleArray, alpha: float, kind: str | None) -> tuple[DoubleArray, ...]:
    share = check_probability(alpha, "alpha")
    vectors, words = _scaled(dense, bm25, kind)
    return share * vectors, (1 - share) * words


def _scaled(dense: DoubleArray, bm25: DoubleArray, kind: str | None) -> tuple[DoubleArray, DoubleArray]:
    """Both scores on one scale; without a kind, as a search has it."""
    kind = kind or kind_for(len(dense))
    lows = (DENSE_LOW, BM25_LOW) if kind == "theoretical" else (None, None)
    return normalise(dense, kind, low=lows[0]), normalise(bm25, kind, low=lows[1])


def _reciprocal(lists: Sequence[IntArray], k: int, weights: Sequence[float] | None) -> list[DoubleArray]:
    """What each list adds in reciprocal rank fusion."""
    constant = check_positive(k, "k")
    shares = _shares(weights, len(_aligned(lists)))
    return [np.where(rank > 0, share / (constant + rank), 0.0) for rank, share in zip(lists, shares, strict=True)]


def _sum(pair: tuple[DoubleArray, ...]) -> DoubleArray:
    first, second = _aligned(pair)
    return np.asarray(first + second)


def _filled(scores: DoubleArray) -> DoubleArray:
    """Scores with the least that is known where one is not known; 0 if none is."""
    unknown = np.isnan(scores)
    if not unknown.any():
        return scores
    return np.where(unknown, 0.0 if unknown.all() else np.nanmin(scores), scores)


def _first(scores: DoubleArray, depth: int | None, above: float) -> IntArray:
    """Places of the first scores that are known and larger than a bound, best first."""
    if np.isnan(np.min(scores, initial=np.inf)):  # quicker than to look for it in every place
        scores = np.where(np.isnan(scores), -np.inf, scores)
    found = top_k(scores, len(scores) if depth is None else depth)
    return found[scores[found] > above]


def _spread(part: DoubleArray, rows: IntArray, n: int) -> DoubleArray:
    """Put the values of some rows into n, the others being -inf."""
    whole = np.full(n, -np.inf)
    whole[rows] = part
    return whole


def _shares(weights: Sequence[float] | None, n: int) -> DoubleArray:
    """One checked weight for each of n."""
    if weights is None:
        return np.ones(n)
    if len(weights) != n:
        raise InputError(f"there are {len(weights)} weights for {n} rows of scores or ranks; give one for each")
    return np.array([check_weight(weight, f"weights[{place}]") for place, weight in enumerate(weights)])


def _aligned(rows: Sequence[Row]) -> Sequence[Row]:
    """Refuse rows that are not about the same passages."""
    if not len(rows):
        raise InputError("there are no scores to fuse; give at least one row")
    shapes = {np.shape(row) for row in rows}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1:
        raise InputError(
            f"scores have the shapes {', '.join(map(str, sorted(shapes)))}; each must be one row of scores"
        )
    return rows
