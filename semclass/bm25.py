"""BM25 over the encoder's word pieces, computed by bm25s with one fixed variant.

score(q, d) = sum over the terms t of q of  idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl)),
idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5)),  k1 = 1.5, b = 0.75:
the inverse document frequency of Lucene, which is never negative, with the term frequency part of Robertson et al.
(1994) that keeps the factor (k1 + 1), as the weight w = 0.1 of the reference system is meant for scores on that scale.

Using the encoder's pieces makes one tokenisation serve everything, fixes the vocabulary for good, and needs no list of
stop words or stemmer. Pieces without a letter or digit are no terms.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import numpy.typing as npt

from semclass.types import DoubleArray, FloatArray, IntArray, Ragged

K1 = 1.5
B = 0.75


def idf_table(document_frequency: IntArray, n_passages: int) -> FloatArray:
    """Inverse document frequency, ln(1 + (N - df + 0.5) / (df + 0.5)).

    Parameters
    ----------
    document_frequency
        In how many passages each term is, int64 of shape (vocabulary,).
    n_passages
        N.

    Returns
    -------
    ndarray
        float32 of shape (vocabulary,), >= 0; a term in no passage gets the largest value.
    """
    return np.log1p((n_passages - document_frequency + 0.5) / (document_frequency + 0.5)).astype(np.float32)


def document_frequencies(terms: Ragged, vocabulary: int) -> IntArray:
    """Count in how many passages each term is, int64 of shape (vocabulary,)."""
    passage = np.repeat(np.arange(len(terms)), terms.lengths())
    pairs = np.unique(passage * vocabulary + terms.values)
    return np.bincount(pairs % vocabulary, minlength=vocabulary)


def build(terms: Ragged, is_term: npt.NDArray[np.bool_]) -> bm25s.BM25:
    """Index passages.

    Parameters
    ----------
    terms
        Ragged word-piece ids.
    is_term
        bool of shape (vocabulary,): which pieces count.

    Returns
    -------
    bm25s.BM25
        The index.
    """
    model = bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", backend="numpy")
    rows = [row[is_term[row]].tolist() for row in map(terms.row, range(len(terms)))]
    vocabulary = {str(piece): piece for piece in range(len(is_term))}
    model.index((rows, vocabulary), create_empty_token=False, show_progress=False)
    return model


def save(model: bm25s.BM25, folder: Path) -> None:
    """Write the index's arrays into a folder."""
    model.vocab_dict = {}  # terms are the encoder's ids already; the identity mapping would be half a megabyte
    model.save(str(folder), show_progress=False)


def load(folder: Path) -> bm25s.BM25:
    """Open an index's arrays, memory-mapped."""
    return bm25s.BM25.load(str(folder), mmap=True, load_vocab=False, show_progress=False)


def scores(model: bm25s.BM25, terms: npt.NDArray[Any]) -> FloatArray:
    """Score every passage for a question.

    Parameters
    ----------
    model
        The index.
    terms
        Word-piece ids of the question, shape (n_terms,); one that comes twice counts twice.

    Returns
    -------
    ndarray
        float32 of shape (n_passages,), >= 0.
    """
    return np.asarray(model.get_scores_from_ids(terms), np.float32)


def score_few(passages: Ragged, question: npt.NDArray[Any], idf: FloatArray) -> DoubleArray:
    """Score a few passages that are in no index, with given document frequencies.

    Parameters
    ----------
    passages
        Ragged word-piece ids of n passages.
    question
        Word-piece ids of the question, shape (m,).
    idf
        Inverse document frequency by word piece, 0 for pieces that are no terms; float32 of shape (vocabulary,).

    Returns
    -------
    ndarray
        float64 of shape (n,), >= 0. The average length is that of these passages.
    """
    owner = np.repeat(np.arange(len(passages)), passages.lengths())
    counted = idf[passages.values] > 0
    length = np.bincount(owner, counted, minlength=len(passages))
    norm = K1 * (1 - B + B * length / max(length.mean(), 1.0))
    equal = passages.values[None, :] == question[:, None]
    # rows of passages are neighbours, so differences of the running count are each passage's term frequencies
    running = np.concatenate([np.zeros((len(question), 1)), np.cumsum(equal, axis=1)], axis=1)
    frequency = np.diff(running[:, passages.offsets], axis=1)
    return np.asarray(idf[question].astype(np.float64) @ (frequency * (K1 + 1) / (frequency + norm)))
