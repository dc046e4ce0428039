"""Segments while an index is being changed: which passages are deleted, and which segments are joined."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from semclass.core.errors import warn
from semclass.core.files import Files
from semclass.core.types import IntArray, Passage
from semclass.index import commit, joining
from semclass.index.column_tables import columns_of
from semclass.index.filter_matching import mask
from semclass.index.filters import Filter, unknown_field
from semclass.index.labels import fields_of, labelled, labels_in
from semclass.index.manifest import Entry
from semclass.index.passage_encoder import searchable, title_of
from semclass.index.passage_stream import line_of, records_of
from semclass.index.segment import Part, Segment, hash_table, hashes_of

WIDER = 3
"""How many times the passages of the next segment each has, at least, when it comes: n passages are in at most
1 + log(n) / log(WIDER) segments, and each passage is written again about as often as there are segments.
"""

SMALL = 4096
"""New passages up to which a segment stays in memory; a larger one is written to the disk before the commit."""

SHORT = 1 << 24
"""Bytes of texts and metadata up to which it does."""

READ = 256
"""Passages that are read back at a time."""


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
    if message := unknown_field(condition, {path for item in segments for path in item.segment.columns.fields}):
        warn(UserWarning(message))
    before = sum(item.live for item in segments)
    for number, item in enumerate(segments):
        found = mask(condition, item.segment.columns, item.segment.find)
        segments[number] = item.without(np.flatnonzero(found if item.deleted is None else found & ~item.deleted))
    return before - sum(item.live for item in segments)


def replace_passages(
    segments: list[PendingSegment],
    batch: Sequence[Passage],
    owner: IntArray,
    rows: IntArray,
    heads: Collection[str] = (),
) -> tuple[list[PendingSegment], list[Passage]]:
    """Delete passages of which a batch changes only metadata, at the places of :func:`find`.

    Gives segments with those as they are now, and the passages whose texts have to be read before the old ones are deleted.
    Labels that `heads` gave stay with the texts.
    """
    labels = fields_of(heads)
    same, changed = [], [batch[place] for place in np.flatnonzero(owner < 0).tolist()]
    for number in np.unique(owner[owner >= 0]).tolist():
        places = np.flatnonzero(owner == number)
        held = segments[number].segment
        old = held.passages(rows[places])
        new = [batch[place] for place in places.tolist()]
        other = np.array([line_of(a, labels) != line_of(b) for a, b in zip(old, new, strict=True)])
        text = np.array([searchable(a) != searchable(b) for a, b in zip(old, new, strict=True)])
        changed += [new[place] for place in np.flatnonzero(other & text).tolist()]
        if len(kept := np.flatnonzero(other & ~text)):
            segments[number] = segments[number].without(rows[places[kept]])
            same.append(_with_passages(held, rows[places[kept]], [new[place] for place in kept.tolist()], heads))
    return same, changed


@dataclass(frozen=True)
class Texts:
    """Where the passages of some segments are, by the hashes of their titles and texts; each of shape (n,)."""

    hashes: npt.NDArray[np.uint64]  # ascending
    owner: IntArray  # number of the segment
    rows: IntArray


def texts_of(segments: Sequence[PendingSegment]) -> Texts:
    """Look up the texts of all passages that are there."""
    hashes, owner, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, item in enumerate(segments):
        live = np.arange(len(item.segment)) if item.deleted is None else np.flatnonzero(~item.deleted)
        for begin in range(0, len(live), READ):
            here = live[begin : begin + READ]
            hashes.append(_text_hashes(item.segment.passages(here)))
            owner.append(np.full(len(here), number))
            rows.append(here)
    found = np.concatenate(hashes)
    order = np.argsort(found, kind="stable")
    return Texts(found[order], np.concatenate(owner)[order], np.concatenate(rows)[order])


def copy_known(
    segments: Sequence[PendingSegment], texts: Texts, passages: Sequence[Passage], heads: Collection[str] = ()
) -> tuple[list[PendingSegment], list[Passage]]:
    """Give segments with the passages whose texts some segment holds, and the passages whose texts have to be read."""
    hashes = _text_hashes(passages)
    places = np.searchsorted(texts.hashes, hashes)
    there = places < len(texts.hashes)
    there[there] = texts.hashes[places[there]] == hashes[there]
    made, unknown = [], [passages[place] for place in np.flatnonzero(~there).tolist()]
    for number in np.unique(texts.owner[places[there]]).tolist():
        held = segments[number].segment
        mine = np.flatnonzero(there)[texts.owner[places[there]] == number]
        while len(mine):  # a text that comes twice is copied twice
            rows, first = np.unique(texts.rows[places[mine]], return_index=True)
            made.append(_with_passages(held, rows, [passages[place] for place in mine[first].tolist()], heads))
            mine = np.delete(mine, first)
    return made, unknown


def _text_hashes(passages: Sequence[Passage]) -> npt.NDArray[np.uint64]:
    return hashes_of([f"{title_of(passage)}\n{passage.text}" for passage in passages])


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
    if size(group) < SMALL and sum(len(segment.records.values) for segment, _ in parts) < SHORT:
        return PendingSegment(joining.join(parts or [group[0].part]))
    folder = place / uuid.uuid4().hex
    with commit.os_errors(place.parent):
        joining.write(parts, folder, durable=False)
    for item in group:
        if item.segment.name:  # it stays open for as long as it is needed
            shutil.rmtree(place / item.segment.name, ignore_errors=True)
    return PendingSegment(Segment.open(Files(folder, mmap=True, by_row=False)))


def size(group: Group) -> int:
    """How many passages are left."""
    return sum(item.live for item in group)


def _with_passages(
    held: Segment, rows: IntArray, passages: Sequence[Passage], heads: Collection[str]
) -> PendingSegment:
    """Rows of a segment, each once, with other ids and metadata, and the labels that they have."""
    order = np.argsort(rows)
    chosen = np.zeros(len(held), np.bool_)
    chosen[rows] = True
    found = [passages[place] for place in order.tolist()]
    if heads:
        labels = [labels_in(passage, heads) for passage in held.passages(rows[order])]
        found = [labelled(passage, given) for passage, given in zip(found, labels, strict=True)]
    hashes, places = hash_table(hashes_of([passage.id for passage in found]))
    made = replace(
        joining.join([(held, chosen)]),
        records=records_of([line_of(passage) for passage in found]),
        columns=columns_of([passage.metadata for passage in found]),
        id_hashes=hashes,
        id_rows=places,
    )
    return PendingSegment(made)
