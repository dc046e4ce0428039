"""Files of an index, and how they are read.

A process that touches a memory-mapped page beyond the end of its file dies. So the data that every search needs are read
into memory. Token vectors, texts, and vectors of excerpts of a large segment are read row by row from files that stay open.
Each read checks that nobody wrote into the file since it was opened. Only rare work that copies whole indices maps files.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.artifacts import MAX_HEADER, Layout, array_of
from semclass.core.errors import ChangedFileError
from semclass.core.types import IntArray, Ragged, offsets_of

Record = TypeVar("Record")

REMEDY = "build it again with `semclass index build --replace`"


@dataclass(frozen=True)
class Files:
    """Files of a segment, each read on first use."""

    folder: Path
    records: Mapping[str, Mapping[str, Any]] | None = None  # sizes and SHA-256 by name; None compares nothing
    hashes: bool = False  # whether to compare the SHA-256, too
    mmap: bool = False  # memory-map arrays, for copying all in little memory: nothing is compared then
    by_row: bool = True  # False if no single rows will be read: then mapped files need not stay open

    def __contains__(self, name: str) -> bool:
        """Whether there is a file of this name, by the records where there are any."""
        return (self.folder / name).is_file() if self.records is None else name in self.records

    def data(self, name: str) -> bytes:
        """Return all bytes of a file."""
        record = None if self.records is None else self.records[name]
        return artifacts.read_file(self.folder / name, record, REMEDY, hashes=self.hashes)

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return the read-only array of a ``.npy`` file."""
        with artifacts.reading(self.folder / name, REMEDY):
            if self.mmap:
                # a plain view of the mapped file: every slice of a memmap object would cost microseconds
                return np.asarray(np.lib.format.open_memmap(self.folder / name, mode="r"))
            return array_of(self.data(name))

    def rows(self, name: str, offsets: IntArray) -> Ragged:
        """Return a ragged array with values in a ``.npy`` file. Rows are read by position if the system supports this."""
        if not self.by_row or not hasattr(os, "pread"):
            return Ragged(self.array(name), offsets)
        path = self.folder / name
        with artifacts.reading(path, REMEDY):
            file = OpenFile(path)
            if self.records is not None:
                hashed = artifacts.sha256_of(file.number) if self.hashes else None
                artifacts.compare(path, file.size, self.records[name], REMEDY, hashed)
                file.check()
            layout = Layout.of(file.read(0, min(MAX_HEADER, file.size)), file.size)
            # only copies of the whole file touch the map
            values = layout.array(mmap.mmap(file.number, 0, access=mmap.ACCESS_READ))
        return StoredRagged(values, offsets, file, layout.begin)


class OpenFile:
    """A file that is read by position, and closed when nothing uses it any more. Threads may share one instance."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = artifacts.open_file(path)
        weakref.finalize(self, os.close, self.number)
        self._state = self._look()

    @property
    def size(self) -> int:
        """Size in bytes when the file was opened."""
        return self._state[0]

    def _look(self) -> tuple[int, int]:
        """Size and time of the last change, which differ once somebody wrote into the file."""
        found = os.fstat(self.number)
        return found.st_size, found.st_mtime_ns

    def read(self, begin: int, length: int) -> bytes:
        """Read `length` bytes from a position, or fewer at the end of the file."""
        return os.pread(self.number, length, begin)

    def check(self) -> None:
        """Refuse the data if the file was written to after it was opened."""
        if self._look() != self._state:
            raise ChangedFileError(self.path)


@dataclass(frozen=True)
class StoredRagged(Ragged):
    """A ragged array with values in a ``.npy`` file. `values` is a memory map, from which all values can be copied."""

    file: OpenFile
    begin: int  # byte at which the values begin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows: an open file means nothing in another process."""
        return Ragged, (np.array(self.values), np.array(self.offsets))

    @cached_property
    def _item(self) -> int:
        """Bytes of one value."""
        return self.values.itemsize * math.prod(self.values.shape[1:])

    def take(self, rows: IntArray) -> Ragged:
        """Read rows, like :meth:`semclass.core.types.Ragged.take`. The values are read-only."""
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        offsets = offsets_of(ends - starts)
        if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):  # in one go
            starts, ends = starts[:1], ends[-1:]
        first, lengths = (self.begin + starts * self._item).tolist(), ((ends - starts) * self._item).tolist()
        with artifacts.reading(self.file.path, REMEDY):
            # hundreds of rows a search: without a call of our own for each
            read = b"".join(map(os.pread, repeat(self.file.number), lengths, first))
        self.file.check()
        return Ragged(np.frombuffer(read, self.values.dtype).reshape(offsets[-1], *self.values.shape[1:]), offsets)


def save_arrays(record: Any, folder: Path) -> None:
    """Write the arrays of a record into a new folder. Each file has the name of its field."""
    folder.mkdir()
    for item in fields(record):
        np.save(folder / f"{item.name}.npy", getattr(record, item.name), allow_pickle=False)


def load_arrays(kind: type[Record], files: Files, folder: str = "") -> Record:
    """Read a record of arrays from a folder among some files."""
    return kind(*(files.array(name) for name in names_of(kind, folder)))


def names_of(kind: Any, folder: str = "") -> list[str]:
    """Return the names of the files that hold a record of arrays."""
    return [f"{folder}{item.name}.npy" for item in fields(kind)]


def let_go(array: npt.NDArray[Any]) -> None:
    """Release the memory of a memory-mapped array's pages. They are read again if needed."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
