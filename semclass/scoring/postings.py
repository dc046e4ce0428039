"""Postings: the passages of each term, and how often they have it, from which BM25 scores are computed.

Only counts and lengths are stored, which stay true when passages come and go: 3 to 5 bytes for each distinct term of a
passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.files import Files
from semclass.core.types import IntArray, Ragged, offsets_of

READ_POSTINGS = 1 << 18
"""Postings that are processed at a time; bounds memory, changes no value."""

FREQUENT_SHARE = 8
"""A term in more than one of so many passages is frequent: then a byte for each passage is no more than its postings."""

PARTS = ("counts", "passages", "terms", "starts", "lengths")
"""Arrays of postings, each a file."""


@dataclass(frozen=True)
class Postings:
    """Input of the BM25 scores of the n passages of a segment."""

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
        """`starts` in a type to compute with, int64 of shape (t + 1,)."""
        return np.asarray(self.starts, np.int64)

    @property
    def document_frequencies(self) -> IntArray:
        """In how many passages each term is, int64 of shape (t,)."""
        return np.diff(self.ends)

    def places_of(self, terms: npt.NDArray[Any]) -> IntArray:
        """Return the place of each of some terms, -1 for one that no passage has."""
        places = np.searchsorted(self.terms, terms.astype(np.uint32))
        there = places < len(self.terms)
        there[there] = self.terms[places[there]] == terms[there]
        return np.where(there, places, -1)

    @cached_property
    def longest(self) -> int:
        """Terms of the longest passage."""
        return int(self.lengths.max(initial=0))

    def is_frequent(self, term: int) -> bool:
        """Whether a column of the counts of the term at a place is worth a byte for each passage."""
        return int(self.ends[term + 1] - self.ends[term]) * FREQUENT_SHARE > len(self)

    def counts_at(self, term: int, rows: IntArray) -> npt.NDArray[Any]:
        """Count the term at a place in passages; `rows` are their places, shape (m,)."""
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
    """Postings of n passages by their terms, with repetitions."""
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
    """Count what passages take along that are removed from a segment; `rows` are their places, in any order."""
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
    """Postings of the passages of several segments, as if counted at once; mapped in a new `folder` if one is given."""
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
    return load(Files(folder, mmap=True))


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


def save(part: Postings, folder: Path) -> None:
    """Write postings into a new folder."""
    folder.mkdir()
    for name in PARTS:
        np.save(folder / f"{name}.npy", getattr(part, name), allow_pickle=False)


def load(files: Files, folder: str = "") -> Postings:
    """Read postings from a folder among some files."""
    return Postings(*(files.array(f"{folder}{name}.npy") for name in PARTS))
