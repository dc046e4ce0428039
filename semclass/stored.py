"""Rows of a file, read when they are asked for.

What re-ranking needs of ten passages lies in ten places of a large file. Read through a memory map, each place would keep
the pages around it mapped, until the process holds the whole file; read by position, it holds what it uses, and for rows of
some thousand bytes that is faster, too.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.errors import ArtifactError
from semclass.types import IntArray, Ragged


class OpenFile:
    """A file that is read by position; it is closed when nobody holds it any more. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.number)

    def read(self, begin: int, length: int) -> bytes:
        """Read so many bytes from a place on; fewer where the file ends."""
        return os.pread(self.number, length, begin)


@dataclass(frozen=True)
class StoredRagged(Ragged):
    """A ragged array whose values are in a ``.npy`` file.

    Attributes
    ----------
    values
        All rows, memory-mapped; for whoever wants them all.
    offsets
        As of :class:`semclass.types.Ragged`.
    file
        The same file, to be read by position.
    begin
        Byte at which the values begin.
    """

    file: OpenFile
    begin: int

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows: an open file means nothing in another process."""
        return Ragged, (np.array(self.values), np.array(self.offsets))

    def take(self, rows: IntArray) -> Ragged:
        """Read some rows, see :meth:`semclass.types.Ragged.take`; the values are read-only.

        Raises
        ------
        ArtifactError
            If the file has become shorter since it was opened.
        """
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        item = self.values.itemsize * int(np.prod(self.values.shape[1:], dtype=np.int64))
        first, lengths = (self.begin + starts * item).tolist(), ((ends - starts) * item).tolist()
        read = b"".join([self.file.read(at, length) for at, length in zip(first, lengths, strict=True)])
        if len(read) != sum(lengths):
            raise ArtifactError("a file of the index was cut short while it was open; open the index again")
        values = np.frombuffer(read, self.values.dtype).reshape(-1, *self.values.shape[1:])
        return Ragged(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)]))


def open_ragged(values: Path, offsets: npt.NDArray[np.int64]) -> Ragged:
    """Open a ragged array.

    Parameters
    ----------
    values
        A ``.npy`` file of shape (total, ...) in C order.
    offsets
        int64 of shape (n + 1,).

    Returns
    -------
    Ragged
        The rows; read through the memory map where the system cannot read by position.
    """
    mapped: np.memmap[Any, Any] = np.load(values, mmap_mode="r", allow_pickle=False)
    # a plain view of the mapped file: every slice of a memmap object would cost microseconds
    plain = np.asarray(mapped)
    if not hasattr(os, "pread"):
        return Ragged(plain, offsets)
    return StoredRagged(plain, offsets, OpenFile(values), int(mapped.offset))
