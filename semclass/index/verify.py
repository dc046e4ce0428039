"""Verifies an index: whether its files are complete and agree with one another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from semclass.index.passage_index import PassageIndex
from semclass.index.segment import COPY_PASSAGES, Segment, hashes_of, require

CHECKED_NUMBERS = 1 << 24
"""Numbers of an array that are checked at a time."""

CHECKS = ("files", "shapes", "ids", "statistics")
"""Checks of :func:`verify`, in their order."""


def verify(folder: str | Path, *, progress: Callable[[int], object] | None = None) -> dict[str, Any]:
    """Verify an index, as it is now; it may be searched and changed meanwhile."""
    index = PassageIndex.load(folder, verify=True)
    report = progress or (lambda _: None)
    for segment in index.segments:
        where = Path(folder) / segment.name
        _check_ids(segment, where, report)
        _check_statistics(segment, where)
    _check_unique(index, Path(folder))
    dead = int(index.starts[-1]) - len(index)
    return {"passages": len(index), "removed": dead, "segments": len(index.segments), "checks": list(CHECKS)}


def _check_ids(segment: Segment, where: Path, report: Callable[[int], object]) -> None:
    hashes = segment.id_hashes
    for begin in range(0, len(segment), COPY_PASSAGES):
        some = np.arange(begin, min(begin + COPY_PASSAGES, len(segment)))
        ids = segment.ids(some)
        wrong = np.flatnonzero(hashes_of(ids) != hashes[some])
        if len(wrong):
            require(False, where / "id_hashes.npy", f"passage {ids[wrong[0]]!r} would not be found by its id")
        report(len(some))


def _check_statistics(segment: Segment, where: Path) -> None:
    """Whether lengths are what BM25 counts."""
    counts = segment.postings
    lengths = np.zeros(len(segment), np.int64)
    for begin in range(0, len(counts.counts), CHECKED_NUMBERS):
        here = slice(begin, begin + CHECKED_NUMBERS)
        lengths += np.bincount(counts.passages[here], counts.counts[here], len(segment)).astype(np.int64)
    same = np.array_equal(lengths, counts.lengths)
    require(same, where / "bm25" / "lengths.npy", "it differs from the sum of the counts")


def _check_unique(index: PassageIndex, folder: Path) -> None:
    hashes = np.concatenate([segment.id_hashes for segment in index.segments])[index.rows]
    order = np.argsort(hashes, kind="stable")
    twice = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    for place in twice.tolist():
        one, other = index.passages(index.rows[order[place : place + 2]])
        require(one.id != other.id, folder, f"two passages have the id {one.id!r}")
