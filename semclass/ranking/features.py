"""Pair features: what a question and its candidate passages have in common, as numbers that a linear head reads.

All candidates of a question are described in one pass. Notation in the formulas:

* i runs over the q word pieces of the question that have token vectors, j over the token vectors of the passage; c_ij is
  their cosine, and m_i = max_j c_ij, or 0 if the passage has none;
* s_i is the share of piece i in the question as the encoder weighs it (:attr:`Query.weights`), and u_i its
  share by rarity: ln(1 + w) of the word that it stands in, divided among the word's pieces, scaled to sum 1;
* e runs over the vectors that the question expects of an answer, see :attr:`Query.expects`;
* k runs over the words of the question (see :mod:`semclass.encoders.words`); w_k is the largest inverse document
  frequency (idf) of its pieces, 0 for what are no terms, v_k = w_k / sum(w), and [k in p] is 1 if the passage has the
  word, else 0;
* z(x) is (x - mean) / (standard deviation + floor) over the candidates of the question.

Sums of m_i are the late interaction of Khattab & Zaharia (2020, ColBERT), with weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import FloatArray, IntArray, Ragged
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
    "provided": "answers",
    "expected": "answers",
    # of a passage among the candidates
    "dense_gap": "retrieval",
    "bm25_z": "retrieval",
    "sentence_z": "sentences",
    "cosine_rarity_z": "meaning",
    "advantage": "meaning",
    "overlap_z": "words",
    "overlap_rare": "words",
    "provided_z": "answers",
    "expected_z": "answers",
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

PROVIDED_FLOOR = 1.0
"""The same for ``provided``, which is a log-odds."""

_FLOORS = {
    "bm25": BM25_FLOOR,
    "sentence": COSINE_FLOOR,
    "cosine_rarity": COSINE_FLOOR,
    "overlap": COSINE_FLOOR,
    "provided": PROVIDED_FLOOR,
    "expected": COSINE_FLOOR,
}
"""What z-scores there are of, and their floors."""

_FLOOR_VALUES = np.array([*_FLOORS.values()], np.float32)


def pair_features(query: Query, candidates: Candidates, words: WordTable) -> FloatArray:
    """Describe each candidate of a question.

    The columns are :data:`PAIR_FEATURES`. From the two texts alone:

    ``dense``
        Cosine of the vectors, see :mod:`semclass.scoring.dense`.
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
    ``provided``
        Largest product of what the question asks for with what a sentence provides: high where one gives what is asked, low
        where they only resemble the question. 0 where the encoder does not tell, like the next.
    ``expected``
        mean_e max_j <e, token vector j>: whether something like what an answer consists of is there.

    Among the candidates of the question:

    ``dense_gap``
        ``dense`` minus that of the best candidate, <= 0.
    ``bm25_z``, ``sentence_z``, ``cosine_rarity_z``, ``overlap_z``, ``provided_z``, ``expected_z``
        z-scores.
    ``advantage``
        sum_i s_i max(m_i - mean of m_i over the candidates, 0).
    ``overlap_rare``
        sum_k v_k [k in p] (1 - share of the candidates that have word k).
    """
    n = len(candidates.evidence.pieces)
    if not n:
        return np.zeros((0, len(PAIR_FEATURES)), np.float32)
    asked, present = _compared_words(query, candidates, words)
    each = np.full(n, 1 / n, np.float32)
    classed = len(query.probabilities) > 0
    columns = {
        **_semantic(query, asked, candidates.evidence.tokens, present[asked.word], each),
        "dense": candidates.dense,
        "dense_gap": candidates.dense - candidates.dense.max(),
        "bm25": candidates.bm25,
        "match": candidates.probabilities.astype(np.float64) @ query.probabilities if classed else np.zeros(n),
        "sentence": _best_product(unit(query.pooled), candidates.evidence.sentences),
        "provided": _provided(query, candidates.evidence.provides),
        **_lexical(asked, present, each),
    }
    columns |= _spread(columns, each)
    return np.ascontiguousarray(np.array([columns[name] for name in PAIR_FEATURES], np.float32).T)


@dataclass(frozen=True)
class _Asked:
    """The words of a question."""

    weights: FloatArray  #: largest idf of the pieces of each, (words,)
    numbers: npt.NDArray[Any]  #: whether it is a term with a digit, (words,)
    word: IntArray  #: the word of each piece that has a token vector, (q,)
    rarity: npt.NDArray[Any]  #: share of that piece by rarity, (q,)


def _compared_words(query: Query, candidates: Candidates, table: WordTable) -> tuple[_Asked, npt.NDArray[np.bool_]]:
    """Words of the question, and whether each of n passages has them, (words, n)."""
    terms, m, passages, idf = query.terms, len(query.terms), candidates.evidence.pieces, candidates.idf
    # one pass over all texts, the question first
    pieces = np.concatenate([terms, passages.values], dtype=np.int64, casting="unsafe")
    every = words_of(Ragged(pieces, np.append(0, passages.offsets + m)), table)
    count = int(every.keys.offsets[1])
    keys, starts = every.keys.values, every.starts[:count]
    present = _present(keys[:count], Ragged(keys[count:], every.keys.offsets[1:] - count))
    if not count:
        nothing = np.zeros(0, np.float32)
        return _Asked(nothing, nothing, starts, nothing), present
    weights = np.maximum.reduceat(idf[terms], starts)
    numbers = np.maximum.reduceat(table.digits[terms], starts) & (weights > 0)
    word = np.searchsorted(starts, np.arange(m), side="right") - 1
    rarity = (np.log1p(weights) / np.bincount(word))[word[: len(query.tokens)]]
    rarity /= max(rarity.sum(), 1e-6)
    return _Asked(weights, numbers, word[: len(rarity)], rarity), present


def _present(asked: npt.NDArray[np.uint64], given: Ragged) -> npt.NDArray[np.bool_]:
    """Whether a passage has a word, bool of shape (words, n)."""
    present = np.zeros((len(asked), len(given)), np.bool_)
    # matches are few, so that working on their places is cheaper than on the whole table
    row, column = np.divmod(np.flatnonzero(asked[:, None] == given.values[None, :]), max(len(given.values), 1))
    present[row, np.searchsorted(given.offsets, column, side="right") - 1] = True
    return present


def _lexical(asked: _Asked, present: npt.NDArray[np.bool_], each: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """Features of equal words, `present` in a passage."""
    there, total = present.astype(np.float32), asked.weights.sum()
    share = asked.weights / max(total, 1e-6)
    rows = [share, share * (1 - there @ each), asked.numbers]
    overlap, overlap_rare, numbers = (_summed(row, there) for row in np.array(rows, np.float32))
    return {
        "overlap": overlap,
        "overlap_rare": overlap_rare,
        "unmatched": total * (1 - overlap),
        "numbers": asked.numbers.sum() - numbers,
    }


def _semantic(
    query: Query, asked: _Asked, passages: Ragged, present: npt.NDArray[np.bool_], each: FloatArray
) -> dict[str, npt.NDArray[Any]]:
    """Features of token vectors; `present` is of shape (q, n), `each` the share of each passage."""
    q, share = len(query.tokens), query.weights
    if passages.values.shape[1] != query.tokens.shape[1]:
        raise InputError(
            f"token vectors have {passages.values.shape[1]} dimensions for the passages and {query.tokens.shape[1]} "
            "for the question; encode both with the same encoder"
        )
    # one product for what the question says and what it expects
    cosines = float_products(np.concatenate([query.tokens, query.expects]), passages.values)
    largest = _largest(cosines, passages)
    best, expected = largest[:q], largest[q:]
    cosine, cosine_rarity = _summed(share, best), _summed(asked.rarity, best)
    columns = {
        "cosine": cosine,
        "cosine_rarity": cosine_rarity,
        "cosine_unmatched": _summed(share, best * ~present),
        "unmet": q * (1 - cosine),
        "unmet_rarity": q * (1 - cosine_rarity),
        "neighbours": cosine,
        "advantage": _summed(share, np.maximum(best - (best @ each)[:, None], 0)),
        "expected": expected.sum(axis=0) / max(len(expected), 1),
    }
    if q > 1:
        pairs = np.empty((q - 1, cosines.shape[1]), np.float32)
        np.add(cosines[: q - 1, :-1], cosines[1:q, 1:], out=pairs[:, :-1])
        lasts = passages.offsets[1:][passages.lengths() > 0] - 1
        pairs[:, lasts] = cosines[: q - 1, lasts]
        columns["neighbours"] = _summed(share[:-1] + share[1:], _largest(pairs, passages)) / 4
    return columns


def _provided(query: Query, sentences: Ragged) -> npt.NDArray[Any]:
    """What sentences provide of what is asked; 0 where the encoder does not tell."""
    known = len(query.need_vector) and len(sentences.values)
    return _best_product(query.need_vector, sentences) if known else np.zeros(len(sentences))


def _summed(weights: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Weighted sum of rows, (q,) and (q, n) to (n,): of equal columns to the last bit the same, as no matrix product is."""
    return np.asarray((weights[:, None] * rows).sum(axis=0))


def _best_product(vector: FloatArray, rows: Ragged) -> FloatArray:
    """Largest inner product of a vector with each row's items, 0 for rows without, (n,)."""
    return _largest(np.einsum("ij,j->i", rows.values, vector), rows)


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


def _spread(columns: Mapping[str, npt.NDArray[Any]], each: FloatArray) -> dict[str, FloatArray]:
    """z-scores over the candidates."""
    values = np.array([columns[name] for name in _FLOORS], np.float32)
    values -= (values @ each)[:, None]
    values /= (np.sqrt(values**2 @ each) + _FLOOR_VALUES)[:, None]
    return {f"{name}_z": row for name, row in zip(_FLOORS, values, strict=True)}
