"""Finding candidates: the passages with the best scores, without scoring all of many.

Of a small corpus every passage is scored. Of a large one, those that are best by vectors alone and those that are best by
BM25 alone are scored, and it is checked that no other passage can be better: the threshold of Fagin, Lotem & Naor (2003).
If one could be, more are looked at. Without an index of vectors the result is therefore that of scoring all; with one, it
is that of scoring all whose vectors the index finds, and how many it misses is measured where it is described.

Fusions that are not linear (:mod:`semclass.scoring.fusion`) look at nothing but two lists, the best by vectors and by
BM25, so that there is nothing to check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.index.records import Query, Scoring, sum_of
from semclass.scoring import bm25
from semclass.scoring.bm25 import Statistics
from semclass.scoring.fusion import DEPTH, fused
from semclass.scoring.postings import Postings
from semclass.scoring.topk import class_match, nth_at_least, top_k
from semclass.scoring.vectors import Vectors

EVERY = 50_000
"""Passages up to which each one is scored."""

FEW = 10_000
"""Passages up to which each one that a filter lets through is scored, however large the corpus is."""

FIRST = 128
"""How many are looked at first, by vectors and by BM25."""

WEIGHED = 0.05
"""Weight of BM25 from which its best are among the best of all, so that fewer of those by vectors do."""

ALONE = 4
"""How many times as many are looked at first where it is for the vectors to find all.

So it is with a smaller weight, and where hardly any passage has a term of the question.

An index of vectors misses the more, the fewer it is asked for. Of the ten best of a million made passages
(``bench.made_corpus``), a search with the weight 0.1 found all, for 160 questions that they answer (squad4) and 80 that
are foreign to them (pubmedqa), from 128 as from 512. Without BM25 it found 0.964 and 0.797 from 128, 0.987 and 0.935
from 512; with the weight 0.03, 0.997 and 0.995 from 128, 1.000 and 0.997 from 512.
"""

MORE = 4
"""How many times as many are looked at next, if these do not do."""

LOOKED_AT = 64
"""Of this many passages one is looked at, at most, by either way: instead of more, all are scored, which is as quick."""

TRUSTED = 4
"""Of this many passages that an index of vectors finds, one is taken to be among the best without exception."""


@dataclass(frozen=True)
class SearchedSegment:
    """What is searched of a segment.

    Attributes
    ----------
    vectors
        Of its n passages.
    postings
        Their terms.
    probabilities
        P(class | passage), float32 of shape (n, n_classes).
    """

    vectors: Vectors
    postings: Postings
    probabilities: FloatArray

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.vectors)


@dataclass(frozen=True)
class Found:
    """Passages with their scores, best first.

    Attributes
    ----------
    rows
        Places, the segments one after another, int64 of shape (m,).
    dense, bm25
        Similarity and BM25 score, float64 of shape (m,).
    match
        Class match, float64 of shape (m,); None where it was not asked for.
    parts
        What `score` is the sum of, weights included, by name; each float64 of shape (m,).
    score
        float64 of shape (m,).
    """

    rows: IntArray
    dense: DoubleArray
    bm25: DoubleArray
    match: DoubleArray | None
    parts: dict[str, DoubleArray]
    score: DoubleArray


@dataclass(frozen=True)
class Scored:
    """Passages with both their scores.

    Attributes
    ----------
    rows
        Places, rising, int64 of shape (m,).
    dense, bm25
        Similarity and BM25 score, float64 of shape (m,).
    """

    rows: IntArray
    dense: DoubleArray
    bm25: DoubleArray


@dataclass(frozen=True)
class Asked:
    """A question, and how passages are scored for it.

    Attributes
    ----------
    query
        The question.
    scoring
        How.
    known
        Statistics of the passages that are there.
    thresholds
        Probability from which a passage has a class, float64 of shape (n_classes,).
    allowed
        Which passages may be found, bool of shape (n_passages,), removed ones not among them; all if None.
    """

    query: Query
    scoring: Scoring
    known: Statistics
    thresholds: DoubleArray
    allowed: npt.NDArray[np.bool_] | None = None


def find(parts: Sequence[SearchedSegment], asked: Asked, n: int) -> Found:
    """Find the passages with the n best scores.

    Parameters
    ----------
    parts
        The segments, at least one.
    asked
        The question.
    n
        How many; fewer if fewer are there.

    Returns
    -------
    Found
        Best first; equal scores in the order of the passages.
    """
    total = sum(map(len, parts))
    if asked.allowed is not None and (number := int(np.count_nonzero(asked.allowed))) <= max(FEW, n):
        return best_of(parts, asked, np.flatnonzero(asked.allowed), min(n, number))
    if asked.scoring.fusion != "linear" and total > EVERY:
        return best_of(parts, asked, lists(parts, asked, max(DEPTH, n)), n)
    depth = max(_first(asked), MORE * n)
    while total > EVERY and depth * LOOKED_AT < total:
        scored, beyond = likely(parts, asked, depth, n)
        found = ranked(parts, asked, scored, n)
        if len(found.rows) == n and found.score[-1] > beyond:
            return found
        depth *= MORE
    rows = np.arange(total) if asked.allowed is None else np.flatnonzero(asked.allowed)
    return best_of(parts, asked, rows, n)


def _first(asked: Asked) -> int:
    """How many are looked at first."""
    found = int(asked.known.document_frequencies[np.unique(asked.query.terms)].sum())
    return FIRST if asked.scoring.bm25_weight >= WEIGHED and found >= FIRST else FIRST * ALONE


def likely(parts: Sequence[SearchedSegment], asked: Asked, depth: int, n: int) -> tuple[Scored, float]:
    """Score passages that are best by vectors alone or by BM25 alone; without those that cannot be among the n best.

    Returns
    -------
    tuple
        The passages, and a score that no passage is above that is neither among them nor behind n of them.
    """
    rows, dense, similar = _similar(parts, asked, depth)
    weight = asked.scoring.bm25_weight
    most = 0.0 if asked.scoring.match is None else asked.scoring.match_weight  # a match is at most 1
    if weight <= 0:
        return Scored(rows, dense, _lexical(parts, asked, rows)), similar + most
    lexical, scores = bm25.best([part.postings for part in parts], asked.known, asked.query.terms, depth, asked.allowed)
    # fewer than asked for: all others have no term of the question
    beyond = weight * (float(scores[-1]) if len(scores) == depth else 0.0)
    order = np.argsort(lexical)
    lexical, scores = lexical[order], scores[order]
    here, there = np.intersect1d(lexical, rows, assume_unique=True, return_indices=True)[1:]
    similarity, new, only = np.empty(len(lexical)), np.ones(len(lexical), np.bool_), np.ones(len(rows), np.bool_)
    new[here], only[there], similarity[here] = False, False, dense[there]
    similarity[new] = _dense(parts, asked, lexical[new])
    found = Scored(lexical, similarity, scores.astype(np.float64))
    if len(lexical) >= n:
        # of those that vectors alone find, BM25 looks at no more than it could lift, were they as good as its last
        score = similarity + weight * found.bm25
        only &= dense + beyond + most >= np.partition(score, len(score) - n)[len(score) - n]
    rest = Scored(rows[only], dense[only], _lexical(parts, asked, rows[only]))
    return _joined(found, rest), similar + beyond + most


def _joined(left: Scored, right: Scored) -> Scored:
    """Passages of both, of which none is in both."""
    rows = np.concatenate([left.rows, right.rows])
    order = np.argsort(rows)
    return Scored(
        rows[order],
        np.concatenate([left.dense, right.dense])[order],
        np.concatenate([left.bm25, right.bm25])[order],
    )


def lists(parts: Sequence[SearchedSegment], asked: Asked, depth: int) -> IntArray:
    """Passages among which the `depth` best by vectors alone and by BM25 alone are, rising."""
    lexical, _ = bm25.best([part.postings for part in parts], asked.known, asked.query.terms, depth, asked.allowed)
    return np.union1d(_similar(parts, asked, depth)[0], lexical)


def _similar(parts: Sequence[SearchedSegment], asked: Asked, depth: int) -> tuple[IntArray, DoubleArray, float]:
    """Passages that are best by vectors alone, rising, their similarity, and one that no other passage is above."""
    found, values, beyond, first = [], [], -np.inf, 0
    for part in parts:
        allowed = None if asked.allowed is None else asked.allowed[first : first + len(part)]
        if part.vectors.index is None:
            scores = part.vectors.scores(asked.query.pooled)
            if allowed is not None:
                scores[~allowed] = -np.inf
            least = float(nth_at_least(scores, depth))
            rows = np.flatnonzero(scores >= max(least, np.finfo(np.float64).min))
            scores = scores[rows]
        else:
            rows = part.vectors.index.nearest(asked.query.pooled, TRUSTED * depth, allowed)
            scores = part.vectors.scores_at(asked.query.pooled, rows)
            least = float(-np.partition(-scores, depth - 1)[depth - 1]) if len(scores) >= depth else -np.inf
            rows, scores = rows[scores >= least], scores[scores >= least]
        found.append(rows + first)
        values.append(scores)
        beyond = max(beyond, least)
        first += len(part)
    return np.concatenate(found), np.concatenate(values), beyond


def _dense(parts: Sequence[SearchedSegment], asked: Asked, rows: IntArray) -> DoubleArray:
    """Similarity of some passages, whose places are given rising."""
    dense = np.empty(len(rows))
    for part, here, places in _split(parts, rows):
        dense[here] = part.vectors.scores_at(asked.query.pooled, places)
    return dense


def _lexical(parts: Sequence[SearchedSegment], asked: Asked, rows: IntArray) -> DoubleArray:
    """BM25 scores of some passages, whose places are given rising."""
    return bm25.scores_at([part.postings for part in parts], asked.known, asked.query.terms, rows).astype(np.float64)


def best_of(parts: Sequence[SearchedSegment], asked: Asked, rows: IntArray, n: int) -> Found:
    """Score some passages, whose places are given rising, and give the n best."""
    return ranked(parts, asked, Scored(rows, _dense(parts, asked, rows), _lexical(parts, asked, rows)), n)


def ranked(parts: Sequence[SearchedSegment], asked: Asked, scored: Scored, n: int) -> Found:
    """Give the n best of scored passages."""
    rows, dense, lexical = scored.rows, scored.dense, scored.bm25
    scoring, matched = asked.scoring, None
    depth = None if scoring.fusion == "linear" else max(DEPTH, n)
    w, alpha = scoring.bm25_weight, scoring.alpha
    sums = fused(dense, lexical, scoring.fusion, weight=w, alpha=alpha, depth=depth).parts
    if scoring.match is not None:
        matched = np.empty(len(rows))
        for part, here, places in _split(parts, rows):
            probabilities = part.probabilities[places]
            matched[here] = class_match(asked.query.probabilities, probabilities, asked.thresholds, scoring.match)
        sums["match"] = scoring.match_weight * matched
    score = sum_of(sums)
    best = top_k(score, n)
    return Found(
        rows=rows[best],
        dense=dense[best],
        bm25=lexical[best],
        match=None if matched is None else matched[best],
        parts={name: values[best] for name, values in sums.items()},
        score=score[best],
    )


def _split(parts: Sequence[SearchedSegment], rows: IntArray) -> list[tuple[SearchedSegment, slice, npt.NDArray[Any]]]:
    """The segments that some passages are in, which of the passages, and their places in the segment."""
    ends = np.cumsum([0, *map(len, parts)])
    cuts = np.searchsorted(rows, ends).tolist()
    return [
        (part, slice(begin, end), rows[begin:end] - first)
        for part, first, begin, end in zip(parts, ends.tolist(), cuts, cuts[1:], strict=False)
        if end > begin
    ]
