"""BM25 over the encoder's word pieces, computed from counts when a question is asked.

score(q, d) = sum over the terms t of q of  idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl)),
idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5)),  k1 = 1.5, b = 0.75:
the inverse document frequency of Lucene, which is never negative, with the term frequency part of Robertson et al.
(1994) that keeps the factor (k1 + 1), as the weight w = 0.1 of the reference system is meant for scores on that scale.

Using the encoder's pieces makes one tokenisation serve everything, fixes the vocabulary for good, and needs no list of
stop words or stemmer. Pieces without a letter or digit are no terms.

What is kept are counts and lengths, which stay true when passages come and go; N, df and avgdl are :class:`Statistics` of
the passages that are there now, in one segment or in many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.files import Files
from semclass.core.types import DoubleArray, FloatArray, IntArray, Ragged
from semclass.scoring.topk import is_most, nth_at_least, top_k

K1 = 1.5
B = 0.75

BLOCK = 1 << 18
"""Postings that are looked at together: bounds memory, changes no value."""

RUN = 16_000
"""Postings that are scored together, changes no value: what is computed of them stays in the cache, and is too small for
an allocator to give it back to the system each time."""

FREQUENT = 8
"""A term is frequent if more than one passage of so many has it: then a byte a passage is no more than its postings are."""


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

    Stored in the smallest types that hold it, this takes 3 to 5 bytes for each distinct term of a passage.

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

    @cached_property
    def ends(self) -> IntArray:
        """`starts` ready to be computed with, int64 of shape (vocabulary + 1,)."""
        return np.asarray(self.starts, np.int64)

    @property
    def document_frequencies(self) -> IntArray:
        """In how many passages each term is, int64 of shape (vocabulary,)."""
        return np.diff(self.ends)

    @cached_property
    def longest(self) -> int:
        """Terms of the longest passage."""
        return int(self.lengths.max(initial=0))

    def is_frequent(self, term: int) -> bool:
        """Whether a term is in so many passages that looking it up pays a byte for each passage."""
        return int(self.ends[term + 1] - self.ends[term]) * FREQUENT > len(self)

    def counts_at(self, term: int, rows: IntArray) -> npt.NDArray[Any]:
        """How often passages have a term; `rows` are their places, shape (m,)."""
        if self.is_frequent(term):
            return np.asarray(self._column(term)[rows])
        here = slice(self.ends[term], self.ends[term + 1])
        passages, counts = self.passages[here], self.counts[here]
        if not len(passages):
            return np.zeros(len(rows), np.uint8)
        # the needles in the type of the haystack, which would be converted whole otherwise
        places = np.searchsorted(passages, rows.astype(passages.dtype)).clip(max=len(passages) - 1)
        return np.asarray(counts[places] * (passages[places] == rows))

    def _column(self, term: int) -> npt.NDArray[Any]:
        """How often each passage has a frequent term, made when it is first asked for; shape (n,)."""
        column = self._columns.get(term)
        if column is None:
            here = slice(self.ends[term], self.ends[term + 1])
            column = np.zeros(len(self), self.counts.dtype)
            column[self.passages[here]] = self.counts[here]
            self._columns[term] = column
        return column

    @cached_property
    def _columns(self) -> dict[int, npt.NDArray[Any]]:
        return {}


@dataclass(frozen=True)
class Removed:
    """What passages of a segment took along when they were removed.

    Attributes
    ----------
    rows
        Their places in the segment, rising, int64 of shape (m,).
    document_frequencies
        In how many of them each term is, int64 of shape (vocabulary,).
    terms
        How many terms they have together, repetitions included.
    """

    rows: IntArray
    document_frequencies: IntArray
    terms: int


@dataclass(frozen=True)
class Statistics:
    """What BM25 has to know of all passages that are there.

    Attributes
    ----------
    passages
        N, their number.
    average
        avgdl, how many terms they have on average, above 0.
    document_frequencies
        In how many of them each term is, int64 of shape (vocabulary,).
    is_term
        Which word pieces count, bool of shape (vocabulary,).
    """

    passages: int
    average: float
    document_frequencies: IntArray
    is_term: npt.NDArray[np.bool_]

    @cached_property
    def idf(self) -> FloatArray:
        """Inverse document frequency by word piece, 0 for those that are no terms; float32 of shape (vocabulary,)."""
        return idf_table(self.document_frequencies, self.passages) * self.is_term

    def norms(self, longest: int) -> FloatArray:
        """k1 * (1 - b + b * length / avgdl) for each length from 0 to `longest`, float32 of shape (longest + 1,)."""
        return (K1 * (1 - B + B * np.arange(longest + 1) / self.average)).astype(np.float32)


def removed(found: Postings, rows: npt.NDArray[Any]) -> Removed:
    """Count what passages take along that are removed from a segment.

    Parameters
    ----------
    found
        Postings of the segment.
    rows
        Places of the passages, of any order, shape (m,).

    Returns
    -------
    Removed
        All postings are looked at once.
    """
    rows = np.unique(np.asarray(rows, np.int64))
    gone = np.zeros(len(found), np.bool_)
    gone[rows] = True
    frequencies = np.zeros(len(found.is_term), np.int64)
    for begin in range(0, len(found.passages) if len(rows) else 0, BLOCK):
        places = begin + np.flatnonzero(gone[found.passages[begin : begin + BLOCK]])
        terms = np.searchsorted(found.ends, places, side="right") - 1
        frequencies += np.bincount(terms, minlength=len(frequencies))
    return Removed(rows, frequencies, int(found.lengths[rows].sum(dtype=np.int64)))


def statistics(parts: Sequence[Postings], without: Sequence[Removed | None] | None = None) -> Statistics:
    """Count over the segments of an index.

    Parameters
    ----------
    parts
        Postings of each segment, at least one.
    without
        What was removed from each; None for a segment of which all is there, or for all of them.

    Returns
    -------
    Statistics
        Of the passages that are there.
    """
    gone = [part for part in without or () if part is not None]
    passages = sum(len(part) for part in parts) - sum(len(part.rows) for part in gone)
    terms = sum(int(part.lengths.sum(dtype=np.int64)) for part in parts) - sum(part.terms for part in gone)
    frequencies = np.sum([part.document_frequencies for part in parts], axis=0)
    for part in gone:
        frequencies = frequencies - part.document_frequencies
    # passages without a single term have no postings to be scored
    return Statistics(passages, max(terms / max(passages, 1), 1e-9), frequencies, np.asarray(parts[0].is_term))


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


def scores(parts: Sequence[Postings], known: Statistics, terms: npt.NDArray[Any]) -> FloatArray:
    """Score every passage for a question.

    Parameters
    ----------
    parts
        Postings of each segment.
    known
        What the scores are computed with.
    terms
        Word-piece ids of the question, shape (n_terms,); one that comes twice counts twice.

    Returns
    -------
    ndarray
        float32 of shape (n_passages,), >= 0: the segments one after another, those of removed passages among them.
    """
    found = np.zeros(sum(len(part) for part in parts), np.float32)
    asked, first = weighted(known, terms), 0
    for part in parts:
        norms = known.norms(part.longest)
        _add(part, norms, asked, found[first : first + len(part)])
        first += len(part)
    return found


def weighted(known: Statistics, terms: npt.NDArray[Any]) -> list[tuple[int, np.float32]]:
    """Terms of a question with idf times their number in it, those first that are in the fewest passages.

    That order is the order of every sum, so that a score is the same to the last bit however it is come by.
    """
    ids, numbers = np.unique(terms, return_counts=True)
    frequency = known.document_frequencies[ids]
    order = np.argsort(frequency, kind="stable")
    order = order[frequency[order] > 0]
    weights = known.idf[ids] * numbers.astype(np.float32)
    return list(zip(ids[order].tolist(), weights[order], strict=True))


def _add(part: Postings, norms: FloatArray, asked: Sequence[tuple[int, np.float32]], found: FloatArray) -> None:
    """Add the scores of terms to those of all passages of a segment."""
    for run in _runs(part, asked):
        here = [slice(begin, end) for _, begin, end in run]
        # one conversion to the type that places have, instead of one at each access
        passages = np.concatenate([part.passages[some] for some in here], dtype=np.intp)
        counts = np.concatenate([part.counts[some] for some in here])
        weights = np.repeat(
            np.array([weight for weight, _, _ in run], np.float32), [some.stop - some.start for some in here]
        )
        # one after another, so that a passage that several of the terms are in gets its shares in their order
        np.add.at(found, passages, _share(counts, part.lengths.take(passages, mode="clip"), norms, weights))


def _runs(part: Postings, asked: Sequence[tuple[int, np.float32]]) -> Iterator[list[tuple[np.float32, int, int]]]:
    """Weight, begin and end of the postings of terms, in order, :data:`RUN` postings at a time."""
    run: list[tuple[np.float32, int, int]] = []
    room = RUN
    for term, weight in asked:
        begin, end = int(part.ends[term]), int(part.ends[term + 1])
        while end - begin >= room:
            yield [*run, (weight, begin, begin + room)]
            begin, run, room = begin + room, [], RUN
        if begin < end:
            run.append((weight, begin, end))
            room -= end - begin
    if run:
        yield run


def _share(
    counts: npt.NDArray[Any], lengths: npt.NDArray[Any], norms: FloatArray, weight: np.float32 | FloatArray
) -> FloatArray:
    """What a term adds to the scores of passages that have it `counts` times, float32 of the same shape."""
    frequency = counts.astype(np.float32)
    below = norms.take(lengths, mode="clip")
    below += frequency
    frequency *= np.float32(K1 + 1)
    frequency /= below
    frequency *= weight
    return frequency


def merge(
    parts: Sequence[Postings], keep: Sequence[npt.NDArray[np.bool_] | None] | None = None, *, folder: Path | None = None
) -> Postings:
    """Postings of the passages of several segments, in order: the same as counted at once.

    Parameters
    ----------
    parts
        Postings of each segment, at least one.
    keep
        Which passages of each are kept, bool of shape (len(part),); None for all of a segment, or for all of them.
    folder
        Where the result is written, as :func:`save` does, and opened again; a new folder. If None it is in memory.

    Returns
    -------
    Postings
        Beside it, memory is taken for :data:`BLOCK` postings at a time.
    """
    keep = [None] * len(parts) if keep is None else keep
    frequencies = [_frequencies(part, kept) for part, kept in zip(parts, keep, strict=True)]
    starts: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.sum(frequencies, axis=0))])
    lengths = np.concatenate(
        [part.lengths if kept is None else part.lengths[kept] for part, kept in zip(parts, keep, strict=True)]
    )
    total = int(starts[-1])
    types = {
        "counts": np.min_scalar_type(max(int(part.counts.max(initial=0)) for part in parts)),
        "passages": np.min_scalar_type(max(len(lengths) - 1, 0)),
    }
    if folder is None:
        arrays = {name: np.empty(total, dtype) for name, dtype in types.items()}
    else:
        folder.mkdir()
        arrays = {name: _mapped(folder / f"{name}.npy", dtype, total) for name, dtype in types.items()}
    begin, first = starts[:-1].copy(), 0
    for part, kept in zip(parts, keep, strict=True):
        number = None if kept is None else np.cumsum(kept) - 1
        for some in range(0, len(part.passages), BLOCK):
            passages = part.passages[some : some + BLOCK]
            counts = part.counts[some : some + BLOCK]
            terms = np.searchsorted(part.ends, np.arange(some, some + len(passages)), side="right") - 1
            if kept is not None and number is not None:
                stays = kept[passages]
                passages, counts, terms = number[passages[stays]], counts[stays], terms[stays]
            # terms rise, so that the place of a posting within its term is its distance from the term's first one here
            numbers = np.bincount(terms, minlength=len(begin))
            before = np.cumsum(numbers) - numbers
            places = begin[terms] + np.arange(len(terms)) - before[terms]
            arrays["counts"][places] = counts
            arrays["passages"][places] = passages.astype(np.int64) + first
            begin += numbers
        first += len(part) if kept is None else int(kept.sum())
    found = Postings(
        counts=arrays["counts"],
        passages=arrays["passages"],
        starts=starts.astype(np.min_scalar_type(total)),
        lengths=_smallest(lengths),
        is_term=np.asarray(parts[0].is_term),
    )
    if folder is None:
        return found
    for name in ("starts", "lengths", "is_term"):
        np.save(folder / f"{name}.npy", getattr(found, name), allow_pickle=False)
    for array in arrays.values():
        array.flush()  # type: ignore[attr-defined]
    return load(Files(folder, mapped=True))


def _mapped(path: Path, dtype: npt.DTypeLike, total: int) -> npt.NDArray[Any]:
    """Give a new file, memory-mapped, that has its space on the disk: where it had none, a write would end the process."""
    array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(total,))
    with path.open("r+b") as file:
        size = path.stat().st_size
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # macOS, Windows
            file.seek(size - array.nbytes)
            for begin in range(0, array.nbytes, BLOCK):
                file.write(bytes(min(BLOCK, array.nbytes - begin)))
    return array


def impacts(found: Postings, first: int, last: int, average: float) -> tuple[Ragged, FloatArray]:
    """What each term of some passages adds to a score per unit of inverse document frequency, passage by passage.

    Parameters
    ----------
    found
        Postings.
    first, last
        The passages from `first` on, before `last`.
    average
        Terms of an average passage, avgdl, at least 1e-9.

    Returns
    -------
    tuple
        Ragged int64 terms of each passage, rising; and tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl)) of each,
        float32 of the shape of their values.
    """
    places = np.flatnonzero((found.passages >= first) & (found.passages < last))
    owner = found.passages[places].astype(np.int64) - first
    order = np.argsort(owner, kind="stable")
    places, owner = places[order], owner[order]
    terms = np.searchsorted(found.ends, places, side="right") - 1
    norm = (K1 * (1 - B + B * found.lengths[first:last] / average)).astype(np.float32)
    counts = found.counts[places].astype(np.float32)
    offsets = np.searchsorted(owner, np.arange(last - first + 1))
    return Ragged(terms, offsets), np.asarray(counts * np.float32(K1 + 1) / (counts + norm[owner]))


def _frequencies(part: Postings, kept: npt.NDArray[np.bool_] | None) -> IntArray:
    """In how many of the passages that are kept each term is."""
    if kept is None:
        return part.document_frequencies
    return part.document_frequencies - removed(part, np.flatnonzero(~kept)).document_frequencies


def _smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(np.min_scalar_type(values.max(initial=0)))


PARTS = ("counts", "passages", "starts", "lengths", "is_term")
"""Arrays of postings, each a file."""


def save(found: Postings, folder: Path) -> None:
    """Write postings into a folder, which is made."""
    folder.mkdir()
    for name in PARTS:
        np.save(folder / f"{name}.npy", getattr(found, name), allow_pickle=False)


def load(files: Files, folder: str = "") -> Postings:
    """Read postings from a folder among some files."""
    return Postings(*(files.array(f"{folder}{name}.npy") for name in PARTS))


def scores_at(
    parts: Sequence[Postings], known: Statistics, terms: npt.NDArray[Any], rows: npt.NDArray[Any]
) -> FloatArray:
    """Score some passages for a question: the same numbers as of :func:`scores`, to the last bit.

    Parameters
    ----------
    parts, known, terms
        As for :func:`scores`.
    rows
        Places of passages, rising, shape (m,).

    Returns
    -------
    ndarray
        float32 of shape (m,).
    """
    found, first = np.zeros(len(rows), np.float32), 0
    if not len(rows):
        return found
    asked = weighted(known, terms)
    for part in parts:
        here = slice(*np.searchsorted(rows, [first, first + len(part)]))
        some, norms = rows[here] - first, known.norms(part.longest)
        if is_most(len(some), len(part)):
            every = np.zeros(len(part), np.float32)
            _add(part, norms, asked, every)
            found[here] = every[some]
        else:
            for term, weight in asked if len(some) else ():
                _complete(part, norms, term, weight, some, found[here])
        first += len(part)
    return found


def _complete(
    part: Postings, norms: FloatArray, term: int, weight: np.float32, rows: IntArray, found: FloatArray
) -> None:
    """Add the scores of a term to those of some passages of a segment."""
    counts = part.counts_at(term, rows)
    found += _share(counts, part.lengths[rows], norms, weight)


def best(
    parts: Sequence[Postings],
    known: Statistics,
    terms: npt.NDArray[Any],
    n: int,
    allowed: npt.NDArray[np.bool_] | None = None,
) -> tuple[IntArray, FloatArray]:
    """Find the passages with the n best scores without scoring all of them.

    Terms in few passages are summed first. A passage that is so far behind the n-th best sum that the other terms cannot
    bring it back, were they at their upper bounds, is dropped, and these terms are only looked up where they matter: the
    idea of MaxScore (Turtle & Flood 1995), which changes no result.

    Parameters
    ----------
    parts, known, terms
        As for :func:`scores`.
    n
        How many, at least 1.
    allowed
        Which passages may be found, bool of shape (n_passages,); all if None.

    Returns
    -------
    tuple of ndarray
        Places, int64 of shape (m,), and scores, float32 of shape (m,): best first, equal ones in their order. m is less
        than n where fewer passages have a term of the question.
    """
    asked, first, least = weighted(known, terms), 0, 0.0
    rows, found = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for part in parts:
        here = None if allowed is None else allowed[first : first + len(part)]
        places, values = _best(part, known.norms(part.longest), asked, n, here, least)
        rows, found = np.concatenate([rows, places + first]), np.concatenate([found, values])
        order = top_k(found, n)
        rows, found = rows[order], found[order]
        if len(rows) == n:  # what is behind them is not looked for in the next segments
            least = max(least, float(found[-1]))
        first += len(part)
    return rows, found


def _best(
    part: Postings,
    norms: FloatArray,
    asked: Sequence[tuple[int, np.float32]],
    n: int,
    allowed: npt.NDArray[np.bool_] | None,
    least: float,
) -> tuple[IntArray, FloatArray]:
    """Passages of a segment, rising, among which those are of its n best whose scores are at least `least`; and scores."""
    asked = [(term, weight) for term, weight in asked if part.ends[term] < part.ends[term + 1]]
    bounds = _bounds(asked)
    if bounds[0] < least:
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    frequent = [part.is_frequent(term) for term, _ in asked]
    rare = frequent.index(True) if True in frequent else len(asked)
    found = np.zeros(len(part), np.float32)
    if allowed is not None:
        np.copyto(found, -np.inf, where=~allowed)
    _add(part, norms, asked[:rare], found)
    rows: IntArray | None = None
    for place, (term, weight) in enumerate(asked[rare:], rare):
        if rows is not None or least <= bounds[place]:
            least = max(least, float(nth_at_least(found, n)))
        if least > bounds[place]:
            stay = np.flatnonzero(found >= least - bounds[place])
            rows, found = (stay if rows is None else rows[stay]), found[stay]
        if rows is None:
            _add(part, norms, [(term, weight)], found)
        else:
            _complete(part, norms, term, weight, rows, found)
    if rows is not None or least <= 0:
        least = max(least, float(nth_at_least(found, n)), float(np.finfo(np.float32).tiny))
    stay = np.flatnonzero(found >= least)
    return (stay if rows is None else rows[stay]), found[stay]


def _bounds(asked: Sequence[tuple[int, np.float32]]) -> list[float]:
    """What the terms from each one on add to a score at most, and after the last; n_terms + 1 of them."""
    # no share is above k1 + 1; a little more, as shares and sums are rounded
    tops = np.array([*((K1 + 1) * float(weight) for _, weight in asked), 0.0])
    bounds = np.cumsum(tops[::-1])[::-1]
    # numbers of Python: an array of float32 is compared with them as it is, not widened first
    return [float(bound) for bound in 1.0001 * bounds + bounds[0] * len(asked) * np.finfo(np.float32).eps]


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
