"""Pair features: what a question and its candidate passages have in common, as numbers that a linear head reads.

All candidates of a question are described in one pass. Notation in the formulas:

* i runs over the q word pieces of the question that have token vectors, j over the token vectors of the passage; c_ij is
  their cosine, and m_i = max_j c_ij, or 0 if the passage has none;
* s_i is the share of piece i in the question as its token vectors' model has it (:attr:`Query.weights`), and u_i its
  share by rarity: ln(1 + w) of the word that it stands in, divided among the word's pieces, scaled to sum 1;
* k runs over the words of the question (see :mod:`semclass.encoders.words`); w_k is the largest inverse document
  frequency (idf) of its pieces, 0 for what are no terms, v_k = w_k / sum(w), and [k in p] is 1 if the passage has the
  word, else 0;
* z(x) is (x - mean) / (standard deviation + floor) over the candidates of the question.

Sums of m_i are the late interaction of Khattab & Zaharia (2020, ColBERT), with weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, FloatArray, Ragged
from semclass.encoders.words import WordTable, words_of
from semclass.index.records import Candidates, Query
from semclass.scoring.matmul import float_products
from semclass.scoring.topk import unit

FEATURE_GROUPS = {
    # of a question and one passage
    "dense": "retrieval",
    "sentence": "sentences",
    "cosine": "meaning",
    "cosine_rarity": "meaning",
    "cosine_unmatched": "meaning",
    "neighbours": "meaning",
    "unmet": "meaning",
    "unmet_rarity": "meaning",
    "overlap": "words",
    "unmatched": "words",
    "numbers": "words",
    "match": "classes",
    # of a passage among the candidates
    "dense_gap": "retrieval",
    "bm25_z": "retrieval",
    "sentence_z": "sentences",
    "cosine_rarity_z": "meaning",
    "advantage": "meaning",
    "overlap_z": "words",
    "overlap_rare": "words",
}
"""What kind of evidence each feature is: an explanation gives one number for each group."""

PAIR_FEATURES = tuple(FEATURE_GROUPS)
"""Names of the columns that :func:`pair_features` gives, in order."""

TEXT_FEATURES = PAIR_FEATURES[: PAIR_FEATURES.index("dense_gap")]
"""Features of a question and one passage, which do not depend on the other candidates; see :func:`pair_features`."""

CANDIDATE_FEATURES = PAIR_FEATURES[len(TEXT_FEATURES) :]
"""Features that compare a passage with the other candidates of the question; see :func:`pair_features`."""

COSINE_FLOOR = 0.01
"""Added to the standard deviation of cosines and shares, so that equal candidates give 0, not noise."""

BM25_FLOOR = 0.1
"""The same for BM25 scores, which are about ten times as large."""


def pair_features(query: Query, candidates: Candidates, words: WordTable) -> FloatArray:
    """Describe each candidate of a question.

    The columns are :data:`PAIR_FEATURES`. From the two texts alone:

    ``dense``
        Similarity of the vectors, see :mod:`semclass.scoring.dense`: of cosines, or of inner products or distances, with
        which a head is then trained.
    ``sentence``
        Largest cosine of the question's vector with that of a sentence of the passage; 0 if it has none.
    ``cosine``, ``cosine_rarity``
        sum_i s_i m_i, and sum_i u_i m_i.
    ``cosine_unmatched``
        sum_i s_i m_i (1 - [k in p]), where k is the word of piece i.
    ``neighbours``
        sum_i (s_i + s_{i+1}) / 2 max_j (c_{i,j} + c_{i+1,j+1}) / 2 over i < q, where c is 0 beyond the passage's end: words
        in the question's order. ``cosine`` if q = 1.
    ``unmet``, ``unmet_rarity``
        q (1 - ``cosine``) and q (1 - ``cosine_rarity``): how much of the question is not there, in pieces.
    ``overlap``
        sum_k v_k [k in p].
    ``unmatched``
        sum_k w_k (1 - [k in p]), in units of idf.
    ``numbers``
        How many words of the question with a digit the passage has not.
    ``match``
        <P(class | question), P(class | passage)>; 0 without classes. ``learned`` as it ships gives it no weight, so that
        a question need not be classified for it.

    Among the candidates of the question:

    ``dense_gap``
        ``dense`` minus that of the best candidate, <= 0.
    ``bm25_z``, ``sentence_z``, ``cosine_rarity_z``, ``overlap_z``
        z-scores.
    ``advantage``
        sum_i s_i max(m_i - mean of m_i over the candidates, 0).
    ``overlap_rare``
        sum_k v_k [k in p] (1 - share of the candidates that have word k).
    """
    n, q = len(candidates.terms), len(query.tokens)
    if not n:
        return np.zeros((0, len(PAIR_FEATURES)), np.float32)
    asked = words_of(Ragged(query.terms, np.array([0, len(query.terms)])), words)
    idf = candidates.idf[query.terms].astype(np.float64)
    weights = np.maximum.reduceat(idf, asked.starts) if len(idf) else idf
    number = np.maximum.reduceat(words.digits[query.terms], asked.starts) if len(idf) else np.zeros(0, np.bool_)
    present = _present(asked.keys.values, words_of(candidates.terms, words).keys)
    ends = np.concatenate([asked.starts[1:], [len(query.terms)]])
    pieces = ends - asked.starts
    word = np.repeat(np.arange(len(weights)), pieces)[:q]
    rarity = (np.log1p(weights) / pieces)[word]
    rarity /= max(float(rarity.sum()), 1e-6)
    columns = _lexical(weights, number & (weights > 0), present)
    columns |= _semantic(query.tokens, query.weights, rarity, candidates.tokens, present[word])
    columns["dense"] = candidates.dense
    columns["sentence"] = _largest(
        float_products(unit(query.pooled)[None], candidates.sentences.values)[0], candidates.sentences
    )
    classed = len(query.probabilities) > 0
    columns["match"] = candidates.probabilities.astype(np.float64) @ query.probabilities if classed else np.zeros(n)
    for name in ("sentence", "cosine_rarity", "overlap"):
        columns[f"{name}_z"] = _spread(columns[name], COSINE_FLOOR)
    columns["dense_gap"] = candidates.dense - candidates.dense.max()
    columns["bm25_z"] = _spread(candidates.bm25, BM25_FLOOR)
    return np.ascontiguousarray(np.array([columns[name] for name in PAIR_FEATURES], np.float32).T)


def _present(asked: npt.NDArray[np.uint64], given: Ragged) -> npt.NDArray[np.bool_]:
    """Whether a passage has a word, bool of shape (words, n)."""
    present = np.zeros((len(asked), len(given)), np.bool_)
    # matches are few, so that working on their places is cheaper than on the whole table
    row, column = np.divmod(np.flatnonzero(asked[:, None] == given.values[None, :]), max(len(given.values), 1))
    present[row, np.searchsorted(given.offsets, column, side="right") - 1] = True
    return present


def _lexical(
    weights: DoubleArray, number: npt.NDArray[np.bool_], present: npt.NDArray[np.bool_]
) -> dict[str, npt.NDArray[Any]]:
    """Features of equal words."""
    share = weights / max(float(weights.sum()), 1e-6)
    return {
        "overlap": share @ present,
        "overlap_rare": (share * (1 - present.sum(axis=1) / present.shape[1])) @ present,
        "unmatched": weights @ ~present,
        "numbers": number.astype(np.float64) @ ~present,
    }


def _semantic(
    question: FloatArray, share: FloatArray, rarity: DoubleArray, passages: Ragged, present: npt.NDArray[np.bool_]
) -> dict[str, npt.NDArray[Any]]:
    """Features of token vectors; `present` is of shape (q, n)."""
    q = len(question)
    if passages.values.shape[1] != question.shape[1]:
        raise InputError(
            f"token vectors of the passages have {passages.values.shape[1]} dimensions, the question's "
            f"{question.shape[1]}; both must come from one model"
        )
    cosines = float_products(question, passages.values)
    best = _largest(cosines, passages)
    each = np.full(len(passages), 1 / len(passages), np.float32)
    columns = {
        "cosine": share @ best,
        "cosine_rarity": rarity @ best,
        "cosine_unmatched": share @ (best * ~present),
        "advantage": share @ np.maximum(best - (best @ each)[:, None], 0),
    }
    columns["unmet"] = q * (1 - columns["cosine"])
    columns["unmet_rarity"] = q * (1 - columns["cosine_rarity"])
    columns["neighbours"] = columns["cosine"]
    if q > 1:
        pairs = np.empty((q - 1, cosines.shape[1]), np.float32)
        np.add(cosines[:-1, :-1], cosines[1:, 1:], out=pairs[:, :-1])
        lasts = passages.offsets[1:][passages.lengths() > 0] - 1
        pairs[:, lasts] = cosines[:-1, lasts]
        columns["neighbours"] = (share[:-1] + share[1:]) @ _largest(pairs, passages) / 4
    return columns


def _largest(values: FloatArray, rows: Ragged) -> FloatArray:
    """Largest value of each row's items, 0 for rows without; from shape (..., total) to (..., n)."""
    lengths = rows.lengths()
    if lengths.all():
        return np.asarray(np.maximum.reduceat(values, rows.offsets[:-1], axis=-1))
    largest = np.zeros((*values.shape[:-1], len(rows)), np.float32)
    there = np.flatnonzero(lengths)
    if len(there):
        largest[..., there] = np.maximum.reduceat(values, rows.offsets[there], axis=-1)
    return largest


def _spread(values: npt.NDArray[Any], floor: float) -> DoubleArray:
    """z-score over the candidates."""
    centred = values - float(values.sum(dtype=np.float64)) / len(values)
    return np.asarray(centred / (math.sqrt(centred @ centred / len(values)) + floor))
