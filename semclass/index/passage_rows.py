"""Finds the passages of an index by their rows, their ids and filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_texts
from semclass.core.errors import warn
from semclass.core.types import FloatArray, IntArray, Passage, Ragged, chained
from semclass.index import filters
from semclass.index.segment import Part, Segment, hashes_of
from semclass.scoring import bm25
from semclass.scoring.bm25 import Statistics
from semclass.scoring.postings import Deleted

CACHED_MASKS = 8
"""Number of filters whose passages are remembered."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PassageRows:
    """The passages of at least one segment, without deleted passages. Base class of :class:`semclass.PassageIndex`."""

    segments: tuple[Segment, ...]
    deleted: tuple[Deleted | None, ...]

    def __len__(self) -> int:
        return self.statistics.passages

    @cached_property
    def starts(self) -> IntArray:
        """The first row of each segment, and the number of all rows, int64 of shape (segments + 1,)."""
        return np.cumsum([0, *map(len, self.segments)], dtype=np.int64)

    @cached_property
    def live(self) -> BoolArray | None:
        """Whether each row's passage is not deleted, bool of shape (rows,). None if no passage is deleted."""
        masks = [np.ones(len(segment), np.bool_) if keep is None else keep for segment, keep in self.parts()]
        return None if all(mask.all() for mask in masks) else np.concatenate(masks)

    @cached_property
    def rows(self) -> IntArray:
        """The rows of all passages that are not deleted, ascending, int64 of shape (len(index),)."""
        return np.arange(self.starts[-1]) if self.live is None else np.flatnonzero(self.live)

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics of BM25 over all passages that are not deleted."""
        return bm25.statistics([segment.postings for segment in self.segments], self.deleted)

    @property
    def idf(self) -> FloatArray:
        """Inverse document frequency of each word piece, 0 if it is no term; float32 of shape (vocabulary,)."""
        return self.statistics.idf

    @cached_property
    def probabilities(self) -> FloatArray:
        """P(class | passage), float32 of shape (rows, n_classes)."""
        return one_array([segment.probabilities for segment in self.segments])

    def _within(self, rows: IntArray) -> Iterator[tuple[Segment, IntArray, IntArray]]:
        """Each segment that has some of the rows, which of `rows` they are, and their rows in the segment."""
        if len(self.segments) == 1:
            yield self.segments[0], np.arange(len(rows)), rows
            return
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(owner).tolist():
            here = np.flatnonzero(owner == number)
            yield self.segments[number], here, rows[here] - self.starts[number]

    def _of_rows(self, name: str, rows: IntArray) -> npt.NDArray[Any]:
        first: npt.NDArray[Any] = getattr(self.segments[0], name)
        result = np.empty((len(rows), *first.shape[1:]), first.dtype)
        for segment, here, local in self._within(rows):
            result[here] = getattr(segment, name)[local]
        return result

    def _take(self, name: str, rows: IntArray) -> Ragged:
        places = list(self._within(rows)) or [(self.segments[0], rows, rows)]
        taken = chained([getattr(segment, name).take(local) for segment, _, local in places])
        if len(places) == 1:
            return taken
        return taken.take(np.argsort(np.concatenate([here for _, here, _ in places])))

    def parts(self) -> list[Part]:
        """Each segment, and which of its passages are not deleted. The second is None if no passage is deleted."""
        result: list[Part] = []
        for segment, deleted in zip(self.segments, self.deleted, strict=True):
            keep = None
            if deleted is not None and len(deleted.rows):
                keep = np.ones(len(segment), np.bool_)
                keep[deleted.rows] = False
            result.append((segment, keep))
        return result

    def passage(self, row: int) -> Passage:
        """Return one passage as you gave it. `row` counts from 0."""
        return self.passages(np.array([row]))[0]

    def passages(self, rows: IntArray) -> list[Passage]:
        """Return passages as you gave them. `rows` is int64 of shape (m,)."""
        result: dict[int, Passage] = {}
        for segment, places, local in self._within(np.asarray(rows, np.int64)):
            result |= zip(places.tolist(), segment.passages(local), strict=True)
        return [result[place] for place in range(len(result))]

    def find(self, ids: Sequence[str]) -> IntArray:
        """Return the rows of the passages with the given ids, int64 of shape (m,). An unknown id gives -1."""
        result, hashes = np.full(len(ids), -1, np.int64), hashes_of(ids)
        for first, segment, deleted in zip(self.starts.tolist(), self.segments, self.deleted, strict=False):
            rows = segment.find(ids, hashes)
            if deleted is not None:
                rows[np.isin(rows, deleted.rows)] = -1
            result = np.where(rows >= 0, first + rows, result)
        return result

    def by_ids(self, ids: Sequence[str]) -> list[Passage]:
        """Return passages in the order of `ids`, without unknown ids."""
        rows = self.find(check_texts(ids, "ids"))
        return self.passages(rows[rows >= 0])

    @property
    def fields(self) -> set[str]:
        """Names of the metadata fields, as filters use them."""
        return {path for segment in self.segments for path in segment.columns.fields}

    def mask(self, where: Mapping[str, Any] | None = None) -> BoolArray:
        """Return whether each passage matches a filter, bool of shape (rows,). A deleted passage does not match.

        See :mod:`semclass.index.filters` for `where`; None matches all passages. The next search uses the same mask, so
        do not change it. A field that no passage has causes a warning, and a wrong filter an InputError.
        """
        if where is None:
            return np.ones(self.starts[-1], np.bool_) if self.live is None else self.live
        condition = filters.parse(where)
        key, known = repr(condition), self._masks
        if (mask := known.get(key)) is None:
            message = filters.unknown_field(condition, self.fields)
            # a service is asked for any field
            if message and message not in self._warned and len(self._warned) < filters.MAX_NAMED_FIELDS:
                self._warned.add(message)
                warn(UserWarning(message))
            found = [filters.mask(condition, segment.columns, segment.find) for segment in self.segments]
            mask = known[key] = np.concatenate(found) if self.live is None else np.concatenate(found) & self.live
            for oldest in list(known)[:-CACHED_MASKS]:
                known.pop(oldest, None)  # another thread may have removed it
        return mask

    @cached_property
    def _warned(self) -> set[str]:
        return set()

    @cached_property
    def _masks(self) -> dict[str, BoolArray]:
        return {}


Kind = TypeVar("Kind", bound=np.generic)


def one_array(parts: Sequence[npt.NDArray[Kind]]) -> npt.NDArray[Kind]:
    """Join all parts in one array. A single part is returned unchanged."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
