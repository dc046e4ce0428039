"""BM25 over the terms of :mod:`semclass.encoders.words`, computed from counts when a question arrives.

score(q, d) = sum over the terms t of q of  idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl)),
idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5)),  k1 = 1.5, b = 0.75.
The inverse document frequency is that of Lucene, which is never negative. The term frequency part is that of Robertson
et al. (1994), which keeps the factor (k1 + 1): the weight w = 0.1 of the reference system is meant for this scale.

N, df and avgdl are :class:`Statistics` of the current passages, in one segment or many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.files import Files, load_arrays
from semclass.core.types import FloatArray, IntArray, Ragged, offsets_of
from semclass.scoring.vectors import nth_at_least, top_k

# postings

READ_POSTINGS = 1 << 18
"""Number of postings that are processed at a time. It bounds memory, and changes no value."""

FREQUENT_SHARE = 8
"""A term in more than 1 / FREQUENT_SHARE of the passages is frequent: a byte a passage takes no more than its postings."""


@dataclass(frozen=True)
class Postings:
    """Counts from which the BM25 scores of the n passages of a segment are computed."""

    # how often a passage has a term, at least 1; unsigned (p,), one term's passages after another's
    counts: npt.NDArray[Any]
    passages: npt.NDArray[Any]  # which passage that is, rising within a term; unsigned (p,)
    terms: npt.NDArray[np.uint32]  # the terms that any passage has, rising, (t,)
    starts: npt.NDArray[Any]  # where each term's passages begin, unsigned (t + 1,)
    lengths: npt.NDArray[Any]  # number of terms of each passage, repetitions included; unsigned (n,)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> IntArray:
        """`starts` as int64, of shape (t + 1,)."""
        return np.asarray(self.starts, np.int64)

    @property
    def document_frequencies(self) -> IntArray:
        """Number of passages with each term, int64 of shape (t,)."""
        return np.diff(self.ends)

    def places_of(self, terms: npt.NDArray[Any]) -> IntArray:
        """Return the places of terms, or -1 for a term that no passage has."""
        places = np.searchsorted(self.terms, terms.astype(np.uint32))
        there = places < len(self.terms)
        there[there] = self.terms[places[there]] == terms[there]
        return np.where(there, places, -1)

    @cached_property
    def longest(self) -> int:
        """Number of terms of the longest passage."""
        return int(self.lengths.max(initial=0))

    def is_frequent(self, term: int) -> bool:
        """Return whether the term at a place is frequent enough for a column of counts, with a byte for each passage."""
        return int(self.ends[term + 1] - self.ends[term]) * FREQUENT_SHARE > len(self)

    def counts_at(self, term: int, rows: IntArray) -> npt.NDArray[Any]:
        """Return how often each of the passages at `rows`, shape (m,), has the term at a place."""
        here = slice(self.ends[term], self.ends[term + 1])
        passages, counts = self.passages[here], self.counts[here]
        if self.is_frequent(term):
            if term not in self._columns:  # made on first use
                column = np.zeros(len(self), counts.dtype)
                column[passages] = counts
                self._columns[term] = column
            return np.asarray(self._columns[term][rows])
        if not len(passages):
            return np.zeros(len(rows), np.uint8)
        # the needles in the type of the haystack, which would be converted whole otherwise
        places = np.searchsorted(passages, rows.astype(passages.dtype)).clip(max=len(passages) - 1)
        return np.asarray(counts[places] * (passages[places] == rows))

    @cached_property
    def _columns(self) -> dict[int, npt.NDArray[Any]]:
        return {}


@dataclass(frozen=True)
class Deleted:
    """Deleted passages of a segment, and their counts."""

    rows: IntArray  # their places in the segment, rising, int64 of shape (m,)
    document_frequencies: IntArray  # in how many of them each term of the segment is, int64 of shape (t,)
    terms: int  # number of their terms, repetitions included


def count_terms(terms: Ragged) -> Postings:
    """Count the terms of n passages, given with repetitions."""
    owner = np.repeat(np.arange(len(terms)), terms.lengths())
    order = np.argsort(terms.values, kind="stable")
    values, passages = terms.values[order], owner[order]
    new = np.append(True, np.diff(values) != 0)[: len(values)]
    first = np.flatnonzero(new | np.append(True, np.diff(passages) != 0)[: len(values)])
    return Postings(
        counts=_smallest(np.diff(first, append=len(values))),
        passages=_smallest(passages[first]),
        terms=values[new].astype(np.uint32),
        starts=_smallest(np.append(np.flatnonzero(new[first]), len(first))),
        lengths=_smallest(np.bincount(owner, minlength=len(terms))),
    )


def count_deleted(part: Postings, rows: npt.NDArray[Any]) -> Deleted:
    """Count the terms of passages that are removed from a segment. `rows` are their places, in any order."""
    rows = np.unique(np.asarray(rows, np.int64))
    deleted = np.zeros(len(part), np.bool_)
    deleted[rows] = True
    frequencies = np.zeros(len(part.terms), np.int64)
    for begin in range(0, len(part.passages) if len(rows) else 0, READ_POSTINGS):
        places = begin + np.flatnonzero(deleted[part.passages[begin : begin + READ_POSTINGS]])
        terms = np.searchsorted(part.ends, places, side="right") - 1
        frequencies += np.bincount(terms, minlength=len(frequencies))
    return Deleted(rows, frequencies, int(part.lengths[rows].sum(dtype=np.int64)))


def merge(
    parts: Sequence[Postings], keep: Sequence[npt.NDArray[np.bool_] | None] | None = None, *, folder: Path | None = None
) -> Postings:
    """Merge the postings of segments, as if all were counted at once. With a new `folder`, they are memory-mapped there."""
    keep = [None] * len(parts) if keep is None else keep
    pairs = list(zip(parts, keep, strict=True))
    union = np.unique(np.concatenate([part.terms for part in parts]))
    frequencies, places_in = np.zeros(len(union), np.int64), []
    for part, kept in pairs:
        own = part.document_frequencies
        if kept is not None:
            own = own - count_deleted(part, np.flatnonzero(~kept)).document_frequencies
        places_in.append(np.searchsorted(union, part.terms))
        frequencies[places_in[-1]] += own
    there = frequencies > 0  # the others are in deleted passages alone
    starts, number_of = offsets_of(frequencies[there]), np.cumsum(there) - 1
    lengths = np.concatenate([part.lengths if kept is None else part.lengths[kept] for part, kept in pairs])
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
    for (part, kept), known in zip(pairs, places_in, strict=True):
        # that passages will have, after `first`
        numbers = np.arange(len(part)) if kept is None else np.cumsum(kept) - 1
        for some in range(0, len(part.passages), READ_POSTINGS):
            here = slice(some, some + READ_POSTINGS)
            passages, counts = part.passages[here], part.counts[here]
            terms = np.searchsorted(part.ends, np.arange(some, some + len(passages)), side="right") - 1
            if kept is not None:
                stays = kept[passages]
                passages, counts, terms = passages[stays], counts[stays], terms[stays]
            terms = number_of[known[terms]]
            # terms rise, so that the place of a posting within its term is its distance from the term's first one here
            added = np.bincount(terms, minlength=len(begin))
            places = begin[terms] + np.arange(len(terms)) - (np.cumsum(added) - added)[terms]
            arrays["counts"][places] = counts
            arrays["passages"][places] = numbers[passages] + first
            begin += added
        first += len(part) if kept is None else int(kept.sum())
    made = Postings(**arrays, terms=union[there], starts=_smallest(starts), lengths=_smallest(lengths))
    if folder is None:
        return made
    for name in ("terms", "starts", "lengths"):
        np.save(folder / f"{name}.npy", getattr(made, name), allow_pickle=False)
    for array in arrays.values():
        array.flush()  # type: ignore[attr-defined]
    return load_arrays(Postings, Files(folder, mmap=True))


def _mapped(path: Path, dtype: np.dtype[Any], total: int) -> npt.NDArray[Any]:
    """A new memory-mapped file of zeros that are written first: a full disk, met through the map, kills the process."""
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (total,)}
        np.lib.format.write_array_header_1_0(file, header)
        for begin in range(0, total, READ_POSTINGS):
            file.write(bytes(min(READ_POSTINGS, total - begin) * dtype.itemsize))
    return np.lib.format.open_memmap(path, mode="r+")


def _smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(np.min_scalar_type(values.max(initial=0)))


# scores

K1 = 1.5
B = 0.75

SCORED_POSTINGS = 16_000
"""Number of postings that are scored together. Their results fit into the cache, and an allocator keeps their memory."""


@dataclass(frozen=True)
class Statistics:
    """Counts of all passages that BM25 needs."""

    passages: int  # N, their number
    average: float  # avgdl, their mean number of terms, above 0
    parts: Sequence[tuple[Postings, Deleted | None]]  # of each segment; document frequencies are looked up there

    def frequencies(self, terms: npt.NDArray[Any]) -> IntArray:
        """Count the passages that have each of the terms, int64 of shape (m,)."""
        total = np.zeros(len(terms), np.int64)
        for part, deleted in self.parts:
            places = part.places_of(terms)
            there = places >= 0
            here = places[there]
            total[there] += part.ends[here + 1] - part.ends[here]
            if deleted is not None:
                total[there] -= deleted.document_frequencies[here]
        return total

    def table(self) -> tuple[npt.NDArray[np.uint32], IntArray]:
        """Return all terms in ascending order, and the number of passages with each term."""
        terms = np.unique(np.concatenate([part.terms for part, _ in self.parts]))
        frequencies = self.frequencies(terms)
        return terms[frequencies > 0], frequencies[frequencies > 0]

    @classmethod
    def of(cls, passages: int, average: float, terms: npt.NDArray[Any], frequencies: npt.NDArray[Any]) -> Statistics:
        """Return the statistics of passages in another engine, from a table of their terms in ascending order."""
        none = np.zeros(0, np.uint8)
        return cls(passages, average, [(Postings(none, none, terms, offsets_of(frequencies), none), None)])

    def idf(self, terms: npt.NDArray[Any]) -> FloatArray:
        """Return the inverse document frequency of terms, float32 of shape (m,)."""
        return idf(self.frequencies(terms), self.passages)

    def norms(self, longest: int) -> FloatArray:
        """k1 * (1 - b + b * length / avgdl) for each length from 0 to `longest`, float32 of shape (longest + 1,)."""
        return _norms(np.arange(longest + 1), self.average)


def idf(frequencies: IntArray, passages: int) -> FloatArray:
    """Return the inverse document frequency of terms, float32, from the numbers of passages that contain them."""
    return np.log1p((passages - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)


def attainable(known: Statistics, terms: npt.NDArray[Any]) -> float:
    """Return an upper bound of the scores of passages for a question. Question terms that no passage has count, too."""
    return (K1 + 1) * float(known.idf(terms).sum(dtype=np.float64))


def _norms(lengths: npt.NDArray[Any], average: float) -> FloatArray:
    return (K1 * (1 - B + B * lengths / average)).astype(np.float32)


def statistics(parts: Sequence[Postings], without: Sequence[Deleted | None] | None = None) -> Statistics:
    """Count over at least one segment of an index. `without` holds the deleted passages of each segment, or None."""
    deleted = [part for part in without or () if part is not None]
    passages = sum(len(part) for part in parts) - sum(len(part.rows) for part in deleted)
    terms = sum(int(part.lengths.sum(dtype=np.int64)) for part in parts) - sum(part.terms for part in deleted)
    removed = [None] * len(parts) if without is None else without
    # passages without a single term have no postings to be scored
    return Statistics(passages, max(terms / max(passages, 1), 1e-9), list(zip(parts, removed, strict=True)))


def scores(parts: Sequence[Postings], known: Statistics, terms: npt.NDArray[Any]) -> FloatArray:
    """Score every passage for a question."""
    sums = np.zeros(sum(len(part) for part in parts), np.float32)
    query, first = weighted(known, terms), 0
    for part in parts:
        _add(part, known.norms(part.longest), _within(part, query), sums[first : first + len(part)])
        first += len(part)
    return sums


def weighted(known: Statistics, terms: npt.NDArray[Any]) -> list[tuple[int, np.float32]]:
    """Return the terms of a question and their weights (idf times count), rarest first. Scores are summed in this order."""
    ids, numbers = np.unique(terms, return_counts=True)
    frequency = known.frequencies(ids)
    order = np.argsort(frequency, kind="stable")
    order = order[frequency[order] > 0]
    weights = idf(frequency, known.passages) * numbers.astype(np.float32)
    return list(zip(ids[order].tolist(), weights[order], strict=True))


def _within(part: Postings, query: Sequence[tuple[int, np.float32]]) -> list[tuple[int, np.float32]]:
    """The terms of a question that a segment has, as places in its terms."""
    places = part.places_of(np.array([term for term, _ in query], np.uint32)).tolist()
    return [(place, weight) for place, (_, weight) in zip(places, query, strict=True) if place >= 0]


def _add(part: Postings, norms: FloatArray, query: Sequence[tuple[int, np.float32]], sums: FloatArray) -> None:
    for term, weight in query:
        end = int(part.ends[term + 1])
        for begin in range(int(part.ends[term]), end, SCORED_POSTINGS):
            here = slice(begin, min(begin + SCORED_POSTINGS, end))
            passages = part.passages[here].astype(np.intp)
            sums[passages] += _share(part.counts[here], part.lengths.take(passages, mode="clip"), norms, weight)


def _share(counts: npt.NDArray[Any], rows: npt.NDArray[Any], norms: FloatArray, weight: np.float32) -> FloatArray:
    """Summand of a term in the scores of passages with it `counts` times and the norms at `rows`, float32."""
    frequency = counts.astype(np.float32)
    below = norms.take(rows, mode="clip")
    below += frequency
    frequency *= np.float32(K1 + 1)
    frequency /= below
    frequency *= weight
    return frequency


def impacts(part: Postings, first: int, last: int, average: float) -> tuple[Ragged, FloatArray, Ragged]:
    """Return the terms of passages in [first, last), their scores per unit of idf, and the same terms with repetitions."""
    places = np.flatnonzero((part.passages >= first) & (part.passages < last))
    owner = part.passages[places].astype(np.int64) - first
    order = np.argsort(owner, kind="stable")
    places, owner = places[order], owner[order]
    terms, counts = part.terms[np.searchsorted(part.ends, places, side="right") - 1], part.counts[places]
    shares = _share(counts, owner, _norms(part.lengths[first:last], average), np.float32(1))
    lengths = np.bincount(owner, counts, minlength=last - first).astype(np.int64)
    ends = np.searchsorted(owner, np.arange(last - first + 1))
    return Ragged(terms, ends), shares, Ragged(np.repeat(terms, counts), offsets_of(lengths))


def scores_at(
    parts: Sequence[Postings], known: Statistics, terms: npt.NDArray[Any], rows: npt.NDArray[Any]
) -> FloatArray:
    """Score the passages at `rows`, which ascend. The results are exactly those of :func:`scores`."""
    sums, first = np.zeros(len(rows), np.float32), 0
    if not len(rows):
        return sums
    query = weighted(known, terms)
    for part in parts:
        here = slice(*np.searchsorted(rows, [first, first + len(part)]))
        some, norms = rows[here] - first, known.norms(part.longest)
        for term, weight in _within(part, query) if len(some) else ():
            sums[here] += _share(part.counts_at(term, some), part.lengths[some], norms, weight)
        first += len(part)
    return sums


def best(
    parts: Sequence[Postings],
    known: Statistics,
    terms: npt.NDArray[Any],
    n: int,
    allowed: npt.NDArray[np.bool_] | None = None,
) -> tuple[IntArray, FloatArray]:
    """Find the n best passages by MaxScore (Turtle & Flood 1995), which skips terms that cannot change the result."""
    query, first, least = weighted(known, terms), 0, 0.0
    rows, sums = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for part in parts:
        here = None if allowed is None else allowed[first : first + len(part)]
        places, values = _best(part, known.norms(part.longest), query, n, here, least)
        rows, sums = np.concatenate([rows, places + first]), np.concatenate([sums, values])
        order = top_k(sums, n)
        rows, sums = rows[order], sums[order]
        if len(rows) == n:  # what is behind them is not looked for in the next segments
            least = max(least, float(sums[-1]))
        first += len(part)
    return rows, sums


def _best(
    part: Postings,
    norms: FloatArray,
    query: Sequence[tuple[int, np.float32]],
    n: int,
    allowed: npt.NDArray[np.bool_] | None,
    least: float,
) -> tuple[IntArray, FloatArray]:
    """Passages of a segment, rising, that include those of its n best with scores of at least `least`; and their scores."""
    query = _within(part, query)
    bounds = _bounds(query)
    if bounds[0] < least:
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    frequent = [part.is_frequent(term) for term, _ in query]
    rare = frequent.index(True) if True in frequent else len(query)
    sums = np.zeros(len(part), np.float32)
    if allowed is not None:
        np.copyto(sums, -np.inf, where=~allowed)
    _add(part, norms, query[:rare], sums)
    rows: IntArray | None = None
    for place, (term, weight) in enumerate(query[rare:], rare):
        if rows is not None or least <= bounds[place]:
            least = max(least, float(nth_at_least(sums, n)))
        if least > bounds[place]:
            stay = np.flatnonzero(sums >= least - bounds[place])
            rows, sums = (stay if rows is None else rows[stay]), sums[stay]
        if rows is None:
            _add(part, norms, [(term, weight)], sums)
        else:
            sums += _share(part.counts_at(term, rows), part.lengths[rows], norms, weight)
    if rows is not None or least <= 0:
        least = max(least, float(nth_at_least(sums, n)), float(np.finfo(np.float32).tiny))
    stay = np.flatnonzero(sums >= least)
    return (stay if rows is None else rows[stay]), sums[stay]


def _bounds(query: Sequence[tuple[int, np.float32]]) -> list[float]:
    """The most that the terms from each one on, and after the last, can add to a score; n_terms + 1 numbers."""
    # no share is above k1 + 1; a little more, as shares and sums are rounded
    tops = np.array([*((K1 + 1) * float(weight) for _, weight in query), 0.0])
    bounds = np.cumsum(tops[::-1])[::-1]
    # numbers of Python: an array of float32 is compared with them as it is, not widened first
    return [float(bound) for bound in 1.0001 * bounds + bounds[0] * len(query) * np.finfo(np.float32).eps]
