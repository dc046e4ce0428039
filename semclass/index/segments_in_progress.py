"""Segments while an index is being changed: which passages are deleted, reused, and which segments are joined."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from semclass.core.errors import warn
from semclass.core.files import Files
from semclass.core.types import IntArray, Passage
from semclass.index import commit, joining
from semclass.index.columns import columns_of
from semclass.index.encode_rows import line_of, records_of
from semclass.index.filters import Filter, mask, unknown_field
from semclass.index.joining import READ_PASSAGES
from semclass.index.manifest import Entry
from semclass.index.passage_encoder import fields_of, labelled, labels_in, searchable, title_of
from semclass.index.segment import Part, Segment, hash_table, hashes_of

GROWTH = 3
"""A new segment is joined with its predecessor unless that has at least so many times its passages.

So n passages are in at most 1 + log(n) / log(GROWTH) segments, and a passage is written again about as often.
"""

MEMORY_PASSAGES = 4096
"""New passages up to which a segment stays in memory; a larger one is written to the disk before the commit."""

MEMORY_BYTES = 1 << 24
"""Bytes of texts and metadata up to which it does."""


@dataclass(frozen=True, eq=False)
class SegmentInProgress:
    """A segment while the index is being changed."""

    segment: Segment
    deleted: npt.NDArray[np.bool_] | None = None  # which passages are deleted, (n,); None for none
    entry: Entry | None = None  # how the manifest names it; None for a new one

    @property
    def live(self) -> int:
        """Count the passages that remain."""
        return len(self.segment) - (0 if self.deleted is None else int(self.deleted.sum()))

    @property
    def part(self) -> Part:
        """The segment, and which of its passages remain."""
        return self.segment, None if self.deleted is None else ~self.deleted

    def without(self, rows: IntArray | tuple[()]) -> SegmentInProgress:
        """Delete some more passages."""
        if not len(rows):
            return self
        deleted = np.zeros(len(self.segment), np.bool_) if self.deleted is None else self.deleted.copy()
        deleted[rows] = True
        return replace(self, deleted=deleted)


Group = list[SegmentInProgress]
"""Neighbouring segments that are to be one segment."""


def find(segments: Sequence[SegmentInProgress], ids: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Number of the segment that holds each id, -1 for none, and its row there; each int64 of shape (m,)."""
    owner, rows = np.full(len(ids), -1, np.int64), np.full(len(ids), -1, np.int64)
    hashes = hashes_of(ids)
    for number, item in enumerate(segments):
        places = item.segment.find(ids, hashes)
        there = places >= 0
        if item.deleted is not None:
            there[there] = ~item.deleted[places[there]]
        owner[there], rows[there] = number, places[there]
    return owner, rows


def delete(segments: list[SegmentInProgress], owner: IntArray, rows: IntArray) -> int:
    """Delete the passages at the places of :func:`find`, and return how many there were."""
    for number in np.unique(owner[owner >= 0]).tolist():
        segments[number] = segments[number].without(rows[owner == number])
    return int((owner >= 0).sum())


def delete_where(segments: list[SegmentInProgress], condition: Filter) -> int:
    """Delete the passages that match a filter, and return how many there were."""
    if message := unknown_field(condition, {path for item in segments for path in item.segment.columns.fields}):
        warn(UserWarning(message))
    before = size(segments)
    for number, item in enumerate(segments):
        matches = mask(condition, item.segment.columns, item.segment.find)
        segments[number] = item.without(np.flatnonzero(matches if item.deleted is None else matches & ~item.deleted))
    return before - size(segments)


def change_metadata(
    segments: list[SegmentInProgress],
    batch: Sequence[Passage],
    owner: IntArray,
    rows: IntArray,
    heads: Collection[str] = (),
) -> tuple[list[SegmentInProgress], list[Passage]]:
    """Segments of the passages at the places of :func:`find` whose metadata alone changed, with the labels of `heads`.

    Also returns the passages whose texts have to be encoded; their old versions are still there.
    """
    labels = fields_of(heads)
    same, changed = [], [batch[place] for place in np.flatnonzero(owner < 0).tolist()]
    for number in np.unique(owner[owner >= 0]).tolist():
        places = np.flatnonzero(owner == number)
        segment = segments[number].segment
        old = segment.passages(rows[places])
        new = [batch[place] for place in places.tolist()]
        other = np.array([line_of(a, labels) != line_of(b) for a, b in zip(old, new, strict=True)])
        text = np.array([searchable(a) != searchable(b) for a, b in zip(old, new, strict=True)])
        changed += [new[place] for place in np.flatnonzero(other & text).tolist()]
        if len(kept := np.flatnonzero(other & ~text)):
            segments[number] = segments[number].without(rows[places[kept]])
            same.append(_with_passages(segment, rows[places[kept]], [new[place] for place in kept.tolist()], heads))
    return same, changed


@dataclass(frozen=True)
class TextPlaces:
    """Where the passages of some segments are, by the hashes of their titles and texts; each of shape (n,)."""

    hashes: npt.NDArray[np.uint64]  # ascending
    owner: IntArray  # number of the segment
    rows: IntArray

    @classmethod
    def of(cls, segments: Sequence[SegmentInProgress]) -> TextPlaces:
        """Look up the texts of all passages that remain."""
        hashes, owner, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number, item in enumerate(segments):
            live = np.arange(len(item.segment)) if item.deleted is None else np.flatnonzero(~item.deleted)
            for begin in range(0, len(live), READ_PASSAGES):
                here = live[begin : begin + READ_PASSAGES]
                hashes.append(_text_hashes(item.segment.passages(here)))
                owner.append(np.full(len(here), number))
                rows.append(here)
        order = np.argsort(joined := np.concatenate(hashes), kind="stable")
        return cls(joined[order], np.concatenate(owner)[order], np.concatenate(rows)[order])


def copy_known(
    segments: Sequence[SegmentInProgress], texts: TextPlaces, passages: Sequence[Passage], heads: Collection[str] = ()
) -> tuple[list[SegmentInProgress], list[Passage]]:
    """Return segments with the passages whose texts some segment has, and the passages whose texts have to be encoded."""
    hashes = _text_hashes(passages)
    places = np.searchsorted(texts.hashes, hashes)
    there = places < len(texts.hashes)
    there[there] = texts.hashes[places[there]] == hashes[there]
    copies, unknown = [], [passages[place] for place in np.flatnonzero(~there).tolist()]
    for number in np.unique(texts.owner[places[there]]).tolist():
        left = np.flatnonzero(there)[texts.owner[places[there]] == number]
        while len(left):  # a repeated text is copied again
            rows, first = np.unique(texts.rows[places[left]], return_index=True)
            new = [passages[place] for place in left[first].tolist()]
            copies.append(_with_passages(segments[number].segment, rows, new, heads))
            left = np.delete(left, first)
    return copies, unknown


def _text_hashes(passages: Sequence[Passage]) -> npt.NDArray[np.uint64]:
    return hashes_of([f"{title_of(passage)}\n{passage.text}" for passage in passages])


def _with_passages(
    segment: Segment, rows: IntArray, passages: Sequence[Passage], heads: Collection[str]
) -> SegmentInProgress:
    """Rows of a segment, each once, with other ids and metadata, and the labels that they have."""
    order = np.argsort(rows)
    chosen = np.zeros(len(segment), np.bool_)
    chosen[rows] = True
    new = [passages[place] for place in order.tolist()]
    if heads:
        labels = [labels_in(passage, heads) for passage in segment.passages(rows[order])]
        new = [labelled(passage, given) for passage, given in zip(new, labels, strict=True)]
    hashes, places = hash_table(hashes_of([passage.id for passage in new]))
    made = replace(
        joining.join([(segment, chosen)]),
        records=records_of([line_of(passage) for passage in new]),
        columns=columns_of([passage.metadata for passage in new]),
        id_hashes=hashes,
        id_rows=places,
    )
    return SegmentInProgress(made)


def plan(segments: Sequence[SegmentInProgress]) -> list[Group]:
    """Decide which segments a commit joins: see :func:`semclass.change_index`."""

    def joins(before: Group, group: Group) -> bool:
        return group[-1].entry is None and (before[-1].entry is None or size(before) < GROWTH * size(group))

    return _grouped([item for item in segments if item.live], joins) or [[segments[0]]]


def merge(segments: Sequence[SegmentInProgress], place: Path) -> list[SegmentInProgress]:
    """Merge each new segment into its smaller predecessors, so that lookups touch few segments."""
    groups = _grouped(segments, lambda before, group: before[-1].entry is None and size(before) <= size(group))
    return [join_new(group, place) for group in groups]


def _grouped(segments: Sequence[SegmentInProgress], joins: Callable[[Group, Group], bool]) -> list[Group]:
    groups: list[Group] = []
    for item in segments:
        group = [item]
        while groups and joins(groups[-1], group):
            group = groups.pop() + group
        groups.append(group)
    return groups


def join_new(group: Group, place: Path) -> SegmentInProgress:
    """Make one segment of new ones; on the disk, within `place`, if it is not small."""
    if len(group) == 1:
        return group[0]
    parts = [item.part for item in group if item.live]
    if size(group) < MEMORY_PASSAGES and sum(len(segment.records.values) for segment, _ in parts) < MEMORY_BYTES:
        return SegmentInProgress(joining.join(parts or [group[0].part]))
    folder = place / uuid.uuid4().hex
    with commit.os_errors(place.parent):
        joining.write(parts, folder, durable=False)
    for item in group:
        if item.segment.name:  # it stays open for as long as it is needed
            shutil.rmtree(place / item.segment.name, ignore_errors=True)
    return SegmentInProgress(Segment.open(Files(folder, mmap=True, by_row=False)))


def size(group: Sequence[SegmentInProgress]) -> int:
    """Count the passages that remain."""
    return sum(item.live for item in group)
