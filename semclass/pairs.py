"""Pair features: what a question and its candidate passages have in common, as numbers that a linear head reads.

All candidates of a question are described in one pass over their concatenated token vectors. Notation in the formulas:

* i runs over the question's word pieces, j over the passage's; c_ij is the cosine of their token vectors;
* w_i is the inverse document frequency (idf) of piece i, 0 for pieces that are no terms, and v_i = w_i / sum(w), over
  the pieces that a sum runs over: all for matches, those with token vectors for cosines (the encoder reads no more);
* m_i = max_j c_ij, and [i in p] is 1 if piece i itself is among the passage's pieces, else 0;
* B is a block of 16 consecutive tokens, counted from the passage's beginning. A window of 32 or 64 tokens is 2 or 4
  neighbouring blocks, so windows overlap; one at the end may be shorter;
* z(x) is (x - mean) / (standard deviation + floor) over the candidates of the question.

Sums of m_i are the late interaction of Khattab & Zaharia (2020, ColBERT), here weighted by idf and also taken over
windows: an answer stands in a few neighbouring sentences, while a long passage mentions many words somewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.candidates import Candidates, Query
from semclass.errors import InputError
from semclass.ranking import unit
from semclass.types import DoubleArray, FloatArray, IntArray, Ragged

BLOCK = 16
"""Tokens in a block."""

TEXT_FEATURES = (
    "cosine",
    "cosine_16",
    "cosine_32",
    "cosine_64",
    "cosine_even",
    "cosine_even_32",
    "cosine_unmatched",
    "overlap",
    "overlap_32",
    "overlap_64",
    "unmatched",
    "unmatched_max",
    "phrase",
    "phrase_even",
    "mean_32",
    "peak",
    "dense",
    "match",
)
"""Features of a question and one passage, which do not depend on the other candidates; see :func:`pair_features`."""

CANDIDATE_FEATURES = (
    "dense_z",
    "bm25_z",
    "cosine_z",
    "cosine_32_z",
    "cosine_even_z",
    "overlap_z",
    "match_z",
    "dense_gap",
    "bm25_gap",
    "overlap_rare",
    "advantage",
    "vote",
)
"""Features that compare a passage with the other candidates of the question; see :func:`pair_features`."""

PAIR_FEATURES = TEXT_FEATURES + CANDIDATE_FEATURES
"""Names of the columns that :func:`pair_features` gives, in order."""

FEATURE_GROUPS = {
    **dict.fromkeys(("dense", "dense_z", "dense_gap", "bm25_z", "bm25_gap"), "retrieval"),
    **dict.fromkeys(
        (
            *("cosine", "cosine_16", "cosine_32", "cosine_64", "cosine_even", "cosine_even_32", "cosine_unmatched"),
            *("mean_32", "peak", "cosine_z", "cosine_32_z", "cosine_even_z", "advantage", "vote"),
        ),
        "meaning",
    ),
    **dict.fromkeys(
        (
            *("overlap", "overlap_32", "overlap_64", "overlap_z", "overlap_rare"),
            *("unmatched", "unmatched_max", "phrase", "phrase_even"),
        ),
        "words",
    ),
    **dict.fromkeys(("match", "match_z"), "classes"),
}
"""What kind of evidence each feature is: an explanation gives one number for each group."""

INT8_SCALE = np.float32(127)
"""What components of int8 token vectors were multiplied with."""

COSINE_FLOOR = 0.01
"""Added to the standard deviation of cosines, shares and probabilities, so that equal candidates give 0, not noise."""

BM25_FLOOR = 0.1
"""The same for BM25 scores, which are about ten times as large."""

VOTE_SHARPNESS = 10.0
"""Factor of the cosines in ``vote``."""


@dataclass(frozen=True)
class _Blocks:
    """Blocks of 16 consecutive items of each row of a ragged array.

    Attributes
    ----------
    rows
        Rows that have items, int64 of shape (r,).
    starts
        First item of each block, int64 of shape (b,).
    first
        First block of each of `rows`, int64 of shape (r,).
    after
        The next block of the same row, or the block itself at the row's end; int64 of shape (b,).
    """

    rows: IntArray
    starts: IntArray
    first: IntArray
    after: IntArray


def _blocks(offsets: IntArray) -> _Blocks:
    lengths = np.diff(offsets)
    rows = np.flatnonzero(lengths)
    count = -(-lengths[rows] // BLOCK)
    ends = np.cumsum(count)
    first = ends - count
    place = np.arange(ends[-1] if len(ends) else 0)
    starts = np.repeat(offsets[rows] - BLOCK * first, count) + BLOCK * place
    return _Blocks(rows, starts, first, np.minimum(place + 1, np.repeat(ends - 1, count)))


def _best(scores: npt.NDArray[Any], blocks: _Blocks, n: int) -> DoubleArray:
    """Largest score among the blocks of each row; 0 for a row without items. Gives shape (n,)."""
    best = np.zeros(n)
    if len(blocks.rows):
        best[blocks.rows] = np.maximum.reduceat(scores, blocks.first)
    return best


def _spread(values: DoubleArray, floor: float) -> DoubleArray:
    """z-score over the candidates."""
    centred = values - values.mean()
    return np.asarray(centred / (np.sqrt(np.mean(centred * centred)) + floor))


def pair_features(query: Query, candidates: Candidates) -> FloatArray:
    """Describe each candidate of a question.

    The columns are :data:`PAIR_FEATURES`. From the two texts alone:

    ``cosine``
        sum_i v_i m_i.
    ``cosine_16``, ``cosine_32``, ``cosine_64``
        max over windows W of that size of sum_i v_i max_{j in W} c_ij.
    ``cosine_even``, ``cosine_even_32``
        The same as ``cosine`` and ``cosine_32`` with equal weights 1/q: what kind of answer is asked for stands in
        words like *who*, which idf hides.
    ``cosine_unmatched``
        sum_i v_i m_i (1 - [i in p]).
    ``overlap``, ``overlap_32``, ``overlap_64``
        sum_i v_i [i in p], and the largest for a window in place of p.
    ``unmatched``, ``unmatched_max``
        sum_i w_i (1 - [i in p]) and max_i w_i (1 - [i in p]), in units of idf.
    ``phrase``, ``phrase_even``
        Sum over the neighbours (i, i + 1) of the question that are neighbours in the passage of
        min(w_i, w_{i+1}) / sum(w), and of 1/m.
    ``mean_32``
        max over windows W of the mean over j in W of the cosine of token j with the sum of the question's token vectors.
    ``peak``
        max_j sum_i v_i max(c_ij, 0).
    ``dense``
        Similarity of the pooled vectors, as the index has it: their cosine, or their inner product or distance, of which a
        head is then trained.
    ``match``
        <P(class | question), P(class | passage)>.

    Among the candidates of the question:

    ``dense_z``, ``bm25_z``, ``cosine_z``, ``cosine_32_z``, ``cosine_even_z``, ``overlap_z``, ``match_z``
        z-scores.
    ``dense_gap``, ``bm25_gap``
        Score minus the best candidate's, <= 0; that of BM25 divided by 10.
    ``overlap_rare``
        sum_i v_i [i in p] (1 - share of the candidates that hold piece i).
    ``advantage``
        sum_i v_i max(m_i - mean of m_i over the candidates, 0).
    ``vote``
        sum_i v_i softmax over the candidates of 10 m_i: every question piece has its idf to give to candidates.

    Parameters
    ----------
    query
        The question.
    candidates
        n passages.

    Returns
    -------
    ndarray
        float32 of shape (n, len(PAIR_FEATURES)), finite; the order of candidates only orders the rows. A passage
        without tokens has cosines of 0.

    Raises
    ------
    InputError
        If the token vectors of question and passages differ in dimension.
    """
    if not len(candidates.terms):
        return np.zeros((0, len(PAIR_FEATURES)), np.float32)
    idf = candidates.idf[query.terms]
    present, columns = _lexical(query.terms, candidates.terms, idf)
    columns |= _semantic(query.tokens, candidates.tokens, idf[: len(query.tokens)], present[: len(query.tokens)])
    columns["dense"] = candidates.dense
    columns["match"] = candidates.probabilities.astype(np.float64) @ query.probabilities
    for name in ("dense", "cosine", "cosine_32", "cosine_even", "overlap", "match"):
        columns[f"{name}_z"] = _spread(columns[name], COSINE_FLOOR)
    columns["bm25_z"] = _spread(candidates.bm25, BM25_FLOOR)
    columns["dense_gap"] = candidates.dense - candidates.dense.max()
    columns["bm25_gap"] = (candidates.bm25 - candidates.bm25.max()) / 10
    return np.stack([columns[name] for name in PAIR_FEATURES], axis=1).astype(np.float32)


def _shares(idf: FloatArray) -> FloatArray:
    """Weights v_i: idf divided by its sum; all 0 for a question without terms."""
    return np.asarray(idf / np.maximum(idf.sum(), np.float32(1e-6)))


def _lexical(
    question: npt.NDArray[Any], passages: Ragged, idf: FloatArray
) -> tuple[npt.NDArray[np.bool_], dict[str, npt.NDArray[Any]]]:
    """Features of exact matches; gives [i in p] of shape (m, n) beside them."""
    n, m, total = len(passages), len(question), len(passages.values)
    share = _shares(idf)
    owner = np.repeat(np.arange(n), passages.lengths())
    # matches are few, so everything below works on their places and not on the whole table of m x total
    place = np.flatnonzero(question[:, None] == passages.values[None, :])
    row, column = np.divmod(place, max(total, 1))
    present = np.zeros((m, n), np.bool_)
    present[row, owner[column]] = True
    blocks = _blocks(passages.offsets)
    held = np.zeros((m, len(blocks.starts)), np.bool_)
    held[row, np.searchsorted(blocks.starts, column, side="right") - 1] = True
    held_32 = held | held[:, blocks.after]
    held_64 = held_32 | held_32[:, blocks.after[blocks.after]]
    missing = idf[:, None] * ~present
    # a match one row and one column further is the next piece of the question at the next place of the passage
    inner = column + 1 < total
    row, column, following = row[inner], column[inner], place[inner] + total + 1
    phrase = (owner[column] == owner[column + 1]) & np.isin(following, place)
    phrases = np.zeros((max(m - 1, 0), n), np.bool_)
    phrases[row[phrase], owner[column[phrase]]] = True
    return present, {
        "overlap": share @ present,
        "overlap_32": _best(share @ held_32, blocks, n),
        "overlap_64": _best(share @ held_64, blocks, n),
        "overlap_rare": (share * (1 - present.mean(axis=1))) @ present,
        "unmatched": missing.sum(axis=0),
        "unmatched_max": missing.max(axis=0, initial=0.0),
        "phrase": np.minimum(share[:-1], share[1:]) @ phrases,
        "phrase_even": phrases.sum(axis=0) / max(m, 1),
    }


def _semantic(
    question: FloatArray, passages: Ragged, idf: FloatArray, present: npt.NDArray[np.bool_]
) -> dict[str, npt.NDArray[Any]]:
    """Features of token vectors."""
    n, q = len(passages), len(question)
    if passages.values.shape[1] != question.shape[1]:
        raise InputError(
            f"token vectors of the passages have {passages.values.shape[1]} dimensions, the question's "
            f"{question.shape[1]}; both must come from one encoder"
        )
    share = _shares(idf)
    blocks = _blocks(passages.offsets)
    rows, after = blocks.rows, blocks.after
    after_2 = after[after]
    best, peak = np.zeros((q, n), np.float32), np.zeros(n)
    in_16, sums = np.zeros((q, len(after)), np.float32), np.zeros(len(after))
    sizes = np.diff(blocks.starts, append=len(passages.values))
    if len(rows) and q:
        scale = 1 / INT8_SCALE if passages.values.dtype == np.int8 else np.float32(1)
        # one more row: the direction of the question as a whole
        sides = np.concatenate([question, unit(question.sum(axis=0))[None]]) * scale
        table = sides @ passages.values.astype(np.float32).T
        cosines = table[:-1]
        in_16 = np.maximum.reduceat(cosines, blocks.starts, axis=1)
        best[:, rows] = np.maximum.reduceat(in_16, blocks.first, axis=1)
        peak[rows] = np.maximum.reduceat(share @ np.maximum(cosines, 0), passages.offsets[rows])
        sums = np.add.reduceat(table[-1], blocks.starts)
    in_32 = np.maximum(in_16, in_16[:, after])
    in_64 = np.maximum(in_32, in_32[:, after_2])
    joined = np.arange(len(after)) != after
    means = (sums + joined * sums[after]) / (sizes + joined * sizes[after])
    advantage = np.maximum(best - best.mean(axis=1, keepdims=True), 0)
    votes = np.exp(VOTE_SHARPNESS * (best - best.max(axis=1, keepdims=True)))
    even = np.full(q, 1 / max(q, 1), np.float32)
    return {
        "cosine": share @ best,
        "cosine_16": _best(share @ in_16, blocks, n),
        "cosine_32": _best(share @ in_32, blocks, n),
        "cosine_64": _best(share @ in_64, blocks, n),
        "cosine_even": even @ best,
        "cosine_even_32": _best(even @ in_32, blocks, n),
        "cosine_unmatched": share @ (best * ~present),
        "mean_32": _best(means, blocks, n),
        "peak": peak,
        "advantage": share @ advantage,
        "vote": share @ (votes / votes.sum(axis=1, keepdims=True)),
    }
