"""Windows: how long texts are cut into stretches that the encoder can read, and their vectors joined again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semclass.core.types import FloatArray, IntArray, Ragged


@dataclass(frozen=True)
class Windows:
    """The windows of texts; those of a text follow one another and do not overlap."""

    owners: IntArray  # int64 of shape (w,): the text of each window, ascending
    starts: IntArray  # int64 of shape (w,): its first word piece within the text
    lengths: IntArray  # int64 of shape (w,): its number of word pieces

    @property
    def firsts(self) -> IntArray:
        """Each text's first window, int64 of shape (n,)."""
        return np.flatnonzero(self.starts == 0)

    def pooled(self, view: str, rows: FloatArray) -> FloatArray:
        """One row per text of its windows' rows (w, dim): their maximum for ``entities``, else their mean by length."""
        if view == "entities":
            return np.maximum.reduceat(rows, self.firsts, axis=0)
        weights = self.lengths.astype(np.float32)[:, None]
        sums: FloatArray = np.add.reduceat(rows * weights, self.firsts, axis=0)
        if view == "pooled":
            sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        else:
            sums /= np.add.reduceat(weights, self.firsts, axis=0)
        alone = np.bincount(self.owners) == 1
        sums[alone] = rows[self.firsts[alone]]  # to the last bit what it is without long texts beside it
        return sums

    def joined(self, rows: Ragged) -> Ragged:
        """The word pieces of all windows of a text as one row."""
        return Ragged(rows.values, rows.offsets[np.append(self.firsts, len(self.starts))])


def cut_windows(lengths: IntArray, room: int, most: int) -> Windows:
    """Cut texts into as few windows as hold them, of like length: at most `room` word pieces, at most `most` a text."""
    if lengths.max(initial=0) <= room:  # a question: the common case, and the one where microseconds count
        return Windows(np.arange(len(lengths)), np.zeros(len(lengths), np.int64), lengths)
    read = np.minimum(lengths, most * room)
    counts = np.maximum(-(-read // room), 1)
    owners = np.repeat(np.arange(len(lengths)), counts)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = places * read[owners] // counts[owners]
    ends = (places + 1) * read[owners] // counts[owners]
    return Windows(owners, starts, ends - starts)
