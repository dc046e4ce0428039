"""Segments while an index is being changed: which passages are deleted, and which segments are joined."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from semclass.core.files import Files
from semclass.core.types import IntArray, Passage
from semclass.index import commit, joining
from semclass.index.column_tables import columns_of
from semclass.index.filter_matching import mask
from semclass.index.filters import Filter
from semclass.index.ingest import line_of, records_of
from semclass.index.manifest import Entry
from semclass.index.passage_encoder import searchable
from semclass.index.segment import Part, Segment, hashes_of

WIDER = 3
"""How many times the passages of the next segment each has, at least, when it comes: n passages are in at most
1 + log(n) / log(WIDER) segments, and each passage is written again about as often as there are segments.
"""

SMALL = 4096
"""New passages up to which a segment stays in memory; a larger one is written to the disk before the commit."""


@dataclass(frozen=True, eq=False)
class PendingSegment:
    """A segment while the index is being changed."""

    segment: Segment
    deleted: npt.NDArray[np.bool_] | None = None  # which passages were deleted, (n,); None for none
    entry: Entry | None = None  # how the manifest names it; None for a new one

    @property
    def live(self) -> int:
        """How many passages are left."""
        return len(self.segment) - (0 if self.deleted is None else int(self.deleted.sum()))

    @property
    def part(self) -> Part:
        """What is kept."""
        return self.segment, None if self.deleted is None else ~self.deleted

    def without(self, rows: IntArray) -> PendingSegment:
        """The same with some more passages deleted."""
        if not len(rows):
            return self
        deleted = np.zeros(len(self.segment), np.bool_) if self.deleted is None else self.deleted.copy()
        deleted[rows] = True
        return replace(self, deleted=deleted)


Group = list[PendingSegment]
"""Neighbouring segments that are to be one segment."""


def find(segments: Sequence[PendingSegment], ids: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Which segment holds each id, -1 for none, and in which row; each int64 of shape (m,)."""
    owner, rows = np.full(len(ids), -1, np.int64), np.full(len(ids), -1, np.int64)
    hashes = hashes_of(ids)
    for number, item in enumerate(segments):
        found = item.segment.find(ids, hashes)
        there = found >= 0
        if item.deleted is not None:
            there[there] = ~item.deleted[found[there]]
        owner[there], rows[there] = number, found[there]
    return owner, rows


def delete(segments: list[PendingSegment], owner: IntArray, rows: IntArray) -> None:
    """Delete what :func:`find` found."""
    for number in np.unique(owner[owner >= 0]).tolist():
        segments[number] = segments[number].without(rows[owner == number])


def delete_where(segments: list[PendingSegment], condition: Filter) -> int:
    """Delete the passages that match a filter; how many."""
    before = sum(item.live for item in segments)
    for number, item in enumerate(segments):
        found = mask(condition, item.segment.columns, item.segment.find)
        segments[number] = item.without(np.flatnonzero(found if item.deleted is None else found & ~item.deleted))
    return before - sum(item.live for item in segments)


def replace_passages(
    segments: list[PendingSegment], batch: Sequence[Passage], owner: IntArray, rows: IntArray
) -> tuple[list[PendingSegment], list[Passage]]:
    """Delete what a batch changes, at the places of :func:`find`.

    Gives segments with the passages of which only metadata changed, and the passages whose texts have to be read.
    """
    same, changed = [], [batch[place] for place in np.flatnonzero(owner < 0).tolist()]
    for number in np.unique(owner[owner >= 0]).tolist():
        places = np.flatnonzero(owner == number)
        held = segments[number].segment
        old = held.passages(rows[places])
        new = [batch[place] for place in places.tolist()]
        other = np.array([line_of(a) != line_of(b) for a, b in zip(old, new, strict=True)])
        text = np.array([searchable(a) != searchable(b) for a, b in zip(old, new, strict=True)])
        segments[number] = segments[number].without(rows[places[other]])
        changed += [new[place] for place in np.flatnonzero(other & text).tolist()]
        if len(kept := np.flatnonzero(other & ~text)):
            same.append(_with_metadata(held, rows[places[kept]], [new[place] for place in kept.tolist()]))
    return same, changed


def plan(segments: Sequence[PendingSegment]) -> list[Group]:
    """Decide which segments a commit joins: see :class:`semclass.IndexWriter`."""
    groups: list[Group] = []
    for item in segments:
        if not item.live:
            continue
        group = [item]
        while (
            item.entry is None and groups and (groups[-1][-1].entry is None or size(groups[-1]) < WIDER * size(group))
        ):
            group = groups.pop() + group
        groups.append(group)
    return groups or [[segments[0]]]


def settled(segments: Sequence[PendingSegment], place: Path) -> list[PendingSegment]:
    """Join each new segment with those before it that are no larger, so that few are searched for ids, and few are open."""
    groups: list[Group] = []
    for item in segments:
        group = [item]
        while groups and groups[-1][-1].entry is None and size(groups[-1]) <= size(group):
            group = groups.pop() + group
        groups.append(group)
    return [joined(group, place) for group in groups]


def joined(group: Group, place: Path) -> PendingSegment:
    """Make one segment of new ones; within `place` on the disk, if it is not small."""
    if len(group) == 1:
        return group[0]
    parts = [item.part for item in group if item.live]
    if size(group) < SMALL:
        return PendingSegment(joining.join(parts or [group[0].part]))
    folder = place / uuid.uuid4().hex
    with commit.os_errors(place.parent):
        joining.write(parts, folder, durable=False)
    for item in group:
        if item.segment.name:  # it stays open for as long as it is needed
            shutil.rmtree(place / item.segment.name, ignore_errors=True)
    return PendingSegment(Segment.open(Files(folder, mapped=True, by_row=False)))


def size(group: Group) -> int:
    """How many passages are left."""
    return sum(item.live for item in group)


def _with_metadata(held: Segment, rows: IntArray, passages: Sequence[Passage]) -> PendingSegment:
    """Rows of a segment with other metadata."""
    order = np.argsort(rows)
    chosen = np.zeros(len(held), np.bool_)
    chosen[rows] = True
    found = [passages[place] for place in order.tolist()]
    made = replace(
        joining.join([(held, chosen)]),
        records=records_of([line_of(passage) for passage in found]),
        columns=columns_of([passage.metadata for passage in found]),
    )
    return PendingSegment(made)
