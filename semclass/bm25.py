"""BM25 over the encoder's word pieces, computed by bm25s with one fixed variant.

score(q, d) = sum over the terms t of q of  idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl)),
idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5)),  k1 = 1.5, b = 0.75:
the inverse document frequency of Lucene, which is never negative, with the term frequency part of Robertson et al.
(1994) that keeps the factor (k1 + 1), as the weight w = 0.1 of the reference system is meant for scores on that scale.

Using the encoder's pieces makes one tokenisation serve everything, fixes the vocabulary for good, and needs no list of
stop words or stemmer. Pieces without a letter or digit are no terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import numpy.typing as npt

from semclass.types import DoubleArray, FloatArray, IntArray, Ragged

K1 = 1.5
B = 0.75

BLOCK = 1 << 18
"""Postings whose scores are computed at a time when an index is opened."""


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


@dataclass(frozen=True)
class Postings:
    """What BM25 scores are computed from: the passages of each term, and how often they have it.

    Stored in the smallest types that hold it, this takes 3 to 5 bytes for each distinct term of a passage, where the scores
    themselves take 8; they are made from it when an index is opened, and come out the same to the last bit.

    Attributes
    ----------
    counts
        How often a passage has a term, at least 1; unsigned, of shape (p,), one term's passages after another's.
    passages
        Which passage that is, rising within a term; unsigned, of shape (p,).
    starts
        Where each term's passages begin, unsigned, of shape (vocabulary + 1,).
    lengths
        How many terms each passage has, repetitions included; unsigned, of shape (n,).
    is_term
        Which word pieces count, bool of shape (vocabulary,).
    """

    counts: npt.NDArray[Any]
    passages: npt.NDArray[Any]
    starts: npt.NDArray[Any]
    lengths: npt.NDArray[Any]
    is_term: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.lengths)

    @property
    def document_frequencies(self) -> IntArray:
        """In how many passages each term is, int64 of shape (vocabulary,)."""
        starts: IntArray = self.starts.astype(np.int64)
        return np.asarray(starts[1:] - starts[:-1])

    @property
    def idf(self) -> FloatArray:
        """Inverse document frequency by word piece, 0 for those that are no terms; float32 of shape (vocabulary,)."""
        return idf_table(self.document_frequencies, len(self)) * self.is_term


def postings(terms: Ragged, is_term: npt.NDArray[np.bool_]) -> Postings:
    """Count the terms of passages.

    Parameters
    ----------
    terms
        Ragged word-piece ids of n passages.
    is_term
        bool of shape (vocabulary,): which pieces count.

    Returns
    -------
    Postings
        Without a loop over passages: 100,000 of 150 pieces take a few seconds.
    """
    counted = is_term[terms.values]
    # sorting is what takes the time, and 16 bits are sorted by counting
    pieces = terms.values[counted].astype(np.min_scalar_type(len(is_term)))
    owner = np.repeat(np.arange(len(terms)), terms.lengths())[counted]
    order = np.argsort(pieces, kind="stable")
    pieces, passages = pieces[order], owner[order]
    differs = (np.diff(pieces) != 0) | (np.diff(passages) != 0)
    first = np.concatenate([np.arange(min(1, len(pieces))), np.flatnonzero(differs) + 1])
    starts = np.zeros(len(is_term) + 1, np.int64)
    starts[1:] = np.cumsum(np.bincount(pieces[first], minlength=len(is_term)))
    return Postings(
        counts=_smallest(np.diff(first, append=len(pieces))),
        passages=_smallest(passages[first]),
        starts=_smallest(starts),
        lengths=_smallest(np.bincount(owner, minlength=len(terms))),
        is_term=is_term,
    )


def model(found: Postings) -> bm25s.BM25:
    """Compute the score of every term in every passage that has it.

    Parameters
    ----------
    found
        Postings of at least one passage.

    Returns
    -------
    bm25s.BM25
        Ready to score questions.
    """
    average = max(float(found.lengths.mean()), 1e-9)  # passages without a single term have no postings to be scored
    norm = (K1 * (1 - B + B * found.lengths / average)).astype(np.float32)
    starts, idf = found.starts.astype(np.int64), found.idf
    data = np.empty(len(found.counts), np.float32)
    # term after term in blocks, so that what is needed in between stays small beside what is made
    for first, last in _blocks(starts):
        here = slice(starts[first], starts[last])
        counts = found.counts[here].astype(np.float32)
        parts = counts * np.float32(K1 + 1) / (counts + norm[found.passages[here]])
        np.multiply(np.repeat(idf[first:last], np.diff(starts[first : last + 1])), parts, out=data[here])
    library = bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", backend="numpy")
    library.scores = {
        "data": data,
        "indices": found.passages.astype(np.int32),
        "indptr": starts,
        "num_docs": len(found),
    }
    library.nonoccurrence_array = None  # what the other variants of BM25 need
    return library


def _blocks(starts: IntArray) -> Iterator[tuple[int, int]]:
    """First term, and the one after the last, of each block of about `BLOCK` postings; shape of `starts`: (terms + 1,)."""
    cuts = np.unique(np.searchsorted(starts, np.arange(0, starts[-1] + BLOCK, BLOCK)).clip(0, len(starts) - 1))
    return zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)


def _smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(np.min_scalar_type(values.max(initial=0)))


_PARTS = ("counts", "passages", "starts", "lengths", "is_term")


def save(found: Postings, folder: Path) -> None:
    """Write postings into a folder, which is made."""
    folder.mkdir()
    for name in _PARTS:
        np.save(folder / f"{name}.npy", getattr(found, name), allow_pickle=False)


def load(folder: Path) -> Postings:
    """Open postings, memory-mapped."""
    return Postings(*(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _PARTS))


def scores(library: bm25s.BM25, terms: npt.NDArray[Any]) -> FloatArray:
    """Score every passage for a question.

    Parameters
    ----------
    library
        What :func:`model` gives.
    terms
        Word-piece ids of the question, shape (n_terms,); one that comes twice counts twice.

    Returns
    -------
    ndarray
        float32 of shape (n_passages,), >= 0.
    """
    return np.asarray(library.get_scores_from_ids(terms), np.float32)


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
