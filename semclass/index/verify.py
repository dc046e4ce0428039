"""Verifies that the files of an index are complete and agree with one another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from semclass.index.passage_index import PassageIndex
from semclass.index.segment import COPY_PASSAGES, Segment, hashes_of, require

CHECKED_NUMBERS = 1 << 24
"""Count of numbers of an array that are checked at a time."""


def verify(folder: str | Path, *, progress: Callable[[int], object] | None = None) -> dict[str, Any]:
    """Verify an index in its current state. It may be searched and changed meanwhile."""
    index = PassageIndex.load(folder, verify=True)
    for segment in index.segments:
        where = Path(folder) / segment.name
        _check_ids(segment, where, progress or (lambda _: None))
        _check_lengths(segment, where)
    hashes = np.concatenate([segment.id_hashes for segment in index.segments])[index.rows]
    order = np.argsort(hashes, kind="stable")
    for place in np.flatnonzero(hashes[order][1:] == hashes[order][:-1]).tolist():
        one, other = index.passages(index.rows[order[place : place + 2]])
        require(one.id != other.id, folder, f"two passages have the id {one.id!r}")
    dead, checks = int(index.starts[-1]) - len(index), ["files", "shapes", "ids", "statistics"]
    return {"passages": len(index), "removed": dead, "segments": len(index.segments), "checks": checks}


def _check_ids(segment: Segment, where: Path, report: Callable[[int], object]) -> None:
    for begin in range(0, len(segment), COPY_PASSAGES):
        some = np.arange(begin, min(begin + COPY_PASSAGES, len(segment)))
        ids = segment.ids(some)
        for place in np.flatnonzero(hashes_of(ids) != segment.id_hashes[some]):
            require(False, where / "id_hashes.npy", f"passage {ids[place]!r} would not be found by its id")
        report(len(some))


def _check_lengths(segment: Segment, where: Path) -> None:
    counts = segment.postings
    lengths = np.zeros(len(segment), np.int64)
    for begin in range(0, len(counts.counts), CHECKED_NUMBERS):
        here = slice(begin, begin + CHECKED_NUMBERS)
        lengths += np.bincount(counts.passages[here], counts.counts[here], len(segment)).astype(np.int64)
    same = np.array_equal(lengths, counts.lengths)
    require(same, where / "bm25" / "lengths.npy", "it differs from the sum of the counts")
