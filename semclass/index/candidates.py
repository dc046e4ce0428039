"""Finding candidates: the passages with the best scores, without scoring all of many.

Vectors and words find passages; learnt words score those that were found.

In a small index every passage is scored. In a large one, the best passages by vectors alone and by BM25 alone are scored,
and longer lists as long as another passage could be better: the threshold of Fagin, Lotem & Naor (2003). So the result is
that of scoring all passages, or all that reduced vectors find, see :mod:`semclass.scoring.approximation`.

Fusions that are not linear (:mod:`semclass.scoring.fusion`) read only the two lists, so there is nothing to check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, IntArray, Ragged
from semclass.index.passage_encoder import no_evidence
from semclass.index.records import Candidates, Query, Scoring, sum_of
from semclass.index.segment import Segment
from semclass.scoring import bm25, sparse
from semclass.scoring.bm25 import Statistics
from semclass.scoring.dense import Vectors
from semclass.scoring.fusion import DEPTH, pool
from semclass.scoring.postings import Postings
from semclass.scoring.topk import nth_at_least, top_k

EXHAUSTIVE_BELOW = 50_000
"""Passages of an index up to which all are scored."""

EXHAUSTIVE_FILTERED = 10_000
"""Passages that match a filter up to which all of them are scored, however large the index is."""

INITIAL_DEPTH = 128
"""Length of the first lists by vectors and by BM25."""

MIN_BM25_WEIGHT = 0.05
"""Weight of BM25 from which the list of BM25 finds many of the best passages, so that `INITIAL_DEPTH` suffices."""

DENSE_DEPTH_FACTOR = 4
"""Factor of `INITIAL_DEPTH` with a smaller weight, or where hardly any passage has a term of the question.

Of the ten best of a million made passages (``bench/results/growth.md``), a search with the weight 0.1 found all from 128,
for questions that they answer (squad4) and foreign ones (pubmedqa); without BM25 0.964 and 0.797, from 512 0.987 and 0.935.
"""

DEPTH_GROWTH = 4
"""Factor of the next depth, if the lists do not suffice."""

MAX_SCAN_RATIO = 64
"""Least ratio of passages to the depth of the lists: below it, scoring all passages is as quick."""

OVERFETCH = 2
"""Passages that reduced vectors find for each passage of the list by vectors.

Of the ten best by vectors alone of 100,000 made passages (``bench/results/growth.md``), a search finds 0.979 for questions
that they answer (squad4) and 0.858 for foreign ones (pubmedqa), from four times as many 0.986 and 0.912; with BM25 all.
"""


@dataclass(frozen=True)
class SearchedSegment:
    """The searched parts of a segment of n passages, which a :class:`semclass.index.segment.Segment` has as well."""

    vectors: Vectors
    postings: Postings
    sparse: Ragged

    def __len__(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True)
class Search:
    """A question to segments, at least one, and how their passages are scored. Rows are numbered through all segments."""

    segments: Sequence[SearchedSegment | Segment]
    query: Query
    terms: npt.NDArray[np.uint32]  # of the question, for BM25
    codes: npt.NDArray[np.uint32]  # those of them that are codes
    scoring: Scoring
    statistics: Statistics  # of the passages that are there
    thresholds: DoubleArray  # probability from which a passage has a class, (n_classes,)
    allowed: npt.NDArray[np.bool_] | None = None  # rows that may be found, deleted ones not among them; all if None


@dataclass(frozen=True)
class Scored:
    """Passages with their scores by vectors and by words."""

    rows: IntArray  # ascending, (m,)
    dense: DoubleArray  # similarity, (m,)
    bm25: DoubleArray  # (m,)


def find(search: Search, n: int) -> Candidates:
    """The passages with the n best scores, fewer if fewer are there; equal scores in the order of the rows."""
    total, allowed = sum(map(len, search.segments)), search.allowed
    if search.scoring.alone == "bm25":
        return ranked(search, _best_of_bm25(search, max(DEPTH, n), np.zeros(0, np.int64), np.zeros(0))[0], n)
    if allowed is not None and (number := int(np.count_nonzero(allowed))) <= max(EXHAUSTIVE_FILTERED, n):
        rows = np.flatnonzero(allowed)
        return ranked(search, Scored(rows, _dense(search, rows), _lexical(search, rows)), min(n, number))
    if search.scoring.fusion != "linear" and total > EXHAUSTIVE_BELOW:
        return ranked(search, lists(search, max(DEPTH, n)), n)
    postings = int(search.statistics.frequencies(np.unique(search.terms)).sum())
    by_both = search.scoring.weights["bm25"] >= MIN_BM25_WEIGHT and postings >= INITIAL_DEPTH
    depth = max(INITIAL_DEPTH if by_both else INITIAL_DEPTH * DENSE_DEPTH_FACTOR, DEPTH_GROWTH * n)
    while total > EXHAUSTIVE_BELOW and depth * MAX_SCAN_RATIO < total:
        scored, beyond = likely(search, depth, n)
        result = ranked(search, scored, n)
        if len(result) == n and result.score[-1] > beyond:
            return result
        depth *= DEPTH_GROWTH
    rows = np.arange(total) if allowed is None else np.flatnonzero(allowed)
    return ranked(search, Scored(rows, _dense(search, rows), _lexical(search, rows)), n)


def likely(search: Search, depth: int, n: int) -> tuple[Scored, float]:
    """Score the `depth` best passages by vectors alone and by BM25 alone, without those that cannot be among the n best.

    Also returns an upper bound of the scores of all other passages, if fewer than n of the scored ones exceed it.
    """
    rows, dense, similar = _similar(search, depth)
    weight = search.scoring.weights["bm25"]
    if weight <= 0:
        return Scored(rows, dense, _lexical(search, rows)), similar
    best, only = _best_of_bm25(search, depth, rows, dense)
    # with a shorter list, all other passages have no term of the question
    beyond = weight * (float(best.bm25.min()) if len(best.rows) == depth else 0.0)
    if len(best.rows) >= n:
        # passages by vectors alone that even the least BM25 score of the list would not lift among the n best
        score = best.dense + weight * best.bm25
        only &= dense + beyond >= np.partition(score, len(score) - n)[len(score) - n]
    return _with_lexical(search, best, rows[only], dense[only]), similar + beyond


def lists(search: Search, depth: int) -> Scored:
    """Score the `depth` best passages by vectors alone and by BM25 alone, as far as both lists have a weight."""
    rows, dense, _ = _similar(search, depth)
    if search.scoring.alone == "dense" and len(rows) >= depth:
        return Scored(rows, dense, _lexical(search, rows))
    best, only = _best_of_bm25(search, depth, rows, dense)
    return _with_lexical(search, best, rows[only], dense[only])


def _with_lexical(search: Search, best: Scored, rows: IntArray, dense: DoubleArray) -> Scored:
    """Add other passages, whose dense scores are known, to scored ones."""
    order = np.argsort(joined := np.concatenate([best.rows, rows]))
    lexical = np.concatenate([best.bm25, _lexical(search, rows)])
    return Scored(joined[order], np.concatenate([best.dense, dense])[order], lexical[order])


def _best_of_bm25(
    search: Search, depth: int, rows: IntArray, dense: DoubleArray
) -> tuple[Scored, npt.NDArray[np.bool_]]:
    """The best passages by BM25 alone, and which of some passages, whose dense scores are known, are not among them."""
    postings = [part.postings for part in search.segments]
    lexical, scores = bm25.best(postings, search.statistics, search.terms, depth, search.allowed)
    lexical, scores = lexical[order := np.argsort(lexical)], scores[order]
    here, there = np.intersect1d(lexical, rows, assume_unique=True, return_indices=True)[1:]
    similarity, new, only = np.empty(len(lexical)), np.ones(len(lexical), np.bool_), np.ones(len(rows), np.bool_)
    new[here], only[there], similarity[here] = False, False, dense[there]
    similarity[new] = _dense(search, lexical[new])
    return Scored(lexical, similarity, scores.astype(np.float64)), only


def _similar(search: Search, depth: int) -> tuple[IntArray, DoubleArray, float]:
    """Passages that are best by vectors alone, ascending, their similarity, and one that no other passage is above."""
    found, values, beyond, first = [], [], -np.inf, 0
    for part in search.segments:
        allowed = None if search.allowed is None else search.allowed[first : first + len(part)]
        if part.vectors.reduced is None:
            scores = part.vectors.scores(search.query.pooled)
            if allowed is not None:
                scores[~allowed] = -np.inf
            least, rows = float(nth_at_least(scores, depth)), np.arange(len(part))
        else:
            rows = part.vectors.nearest(search.query.pooled, OVERFETCH * depth, allowed)
            scores = part.vectors.scores_at(search.query.pooled, rows)
            least = float(-np.partition(-scores, depth - 1)[depth - 1]) if len(scores) >= depth else -np.inf
        chosen = np.flatnonzero(scores >= max(least, np.finfo(np.float64).min))
        found.append(rows[chosen] + first)
        values.append(scores[chosen])
        beyond = max(beyond, least)
        first += len(part)
    return np.concatenate(found), np.concatenate(values), beyond


def _dense(search: Search, rows: IntArray) -> DoubleArray:
    if not len(search.query.pooled):
        return np.full(len(rows), np.nan)
    dense, ends = np.empty(len(rows)), np.cumsum([0, *map(len, search.segments)])
    cuts = np.searchsorted(rows, ends).tolist()  # rows ascend
    for part, first, begin, end in zip(search.segments, ends.tolist(), cuts, cuts[1:], strict=False):
        if end > begin:
            dense[begin:end] = part.vectors.scores_at(search.query.pooled, rows[begin:end] - first)
    return dense


def _lexical(search: Search, rows: IntArray) -> DoubleArray:
    postings = [part.postings for part in search.segments]
    return bm25.scores_at(postings, search.statistics, search.terms, rows).astype(np.float64)


def sparse_scores(segments: Sequence[SearchedSegment | Segment], query: Query, rows: IntArray) -> DoubleArray:
    """Scores of ascending rows by learnt words."""
    found, first = [np.zeros(0)], 0
    if not len(query.sparse.terms.values):
        return np.zeros(len(rows))
    for part in segments:
        here = rows[slice(*np.searchsorted(rows, [first, first + len(part)]))] - first
        if len(here):
            found.append(sparse.scores(query.sparse, part.sparse.take(here)))
        first += len(part)
    return np.concatenate(found)


def ranked(search: Search, scored: Scored, n: int) -> Candidates:
    """Give the n best of scored passages, without the evidence that an index adds."""
    scoring, depth = search.scoring, max(DEPTH, n)
    listed = {"dense": scored.dense, "bm25": scored.bm25}
    if scoring.fusion == "linear":
        places = np.arange(len(scored.rows))
    elif scoring.alone is None or len(places := pool({scoring.alone: listed[scoring.alone]}, depth)) < depth:
        places = pool({name: values for name, values in listed.items() if not np.isnan(values).any()}, depth)
    rows, dense, lexical = scored.rows[places], scored.dense[places], scored.bm25[places]
    signals = {"dense": dense, "bm25": lexical, "sparse": np.zeros(len(rows))}
    if scoring.weights.get("sparse"):
        signals["sparse"] = sparse_scores(search.segments, search.query, rows)
    sums = scoring.parts(signals, search.statistics, search.terms, depth)
    score = sum_of(sums)
    best = top_k(score, n)
    return Candidates(
        rows=rows[best],
        dense=dense[best],
        bm25=lexical[best],
        sparse=signals["sparse"][best],
        codes=bm25.held([part.postings for part in search.segments], search.codes, rows)[best],
        parts={name: values[best] for name, values in sums.items()},
        score=score[best],
        probabilities=np.zeros((len(best), 0), np.float32),
        thresholds=search.thresholds,
        idf=np.zeros(0, np.float32),
        evidence=no_evidence(len(best)),
    )
