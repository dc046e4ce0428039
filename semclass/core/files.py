"""Files of an index, and how they are read.

A process that touches a memory-mapped page beyond the end of its file dies, whatever it does. So what every search looks
at is read into memory. Of what re-ranking needs of ten passages, and of their texts, only the rows that are asked for are
read, by position, from files that stay open: after each reading it is asked whether somebody wrote into the file since it
was opened. Only what copies whole indices, and is seldom run, maps files.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import stat
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import ArtifactError, ChangedFileError
from semclass.core.npy import LONGEST_HEADER, Layout, array_of
from semclass.core.types import IntArray, Ragged

REMEDY = "build it again with `semclass index build --replace`"

BLOCK = 1 << 20
"""Bytes that are hashed at a time."""


@dataclass(frozen=True)
class Files:
    """The files of a segment, each read when it is asked for.

    Attributes
    ----------
    folder
        Where they are.
    records
        By name: ``bytes`` and ``sha256``, which each file is compared with; None: with nothing.
    hashes
        Whether to compare the SHA-256, too.
    mapped
        Whether arrays are memory-mapped, for copying all of them in little memory: then nothing is compared, and the
        process dies if a file is cut short meanwhile.
    by_row
        Whether single rows will be read; if not, files that are mapped do not stay open, of which a process may have but so
        many.
    """

    folder: Path
    records: Mapping[str, Mapping[str, Any]] | None = None
    hashes: bool = False
    mapped: bool = False
    by_row: bool = True

    def __contains__(self, name: str) -> bool:
        """Whether there is a file of this name, by the records where there are any."""
        return (self.folder / name).is_file() if self.records is None else name in self.records

    def data(self, name: str) -> bytes:
        """All bytes of a file.

        Raises
        ------
        ArtifactError
            If it is missing or differs from its record.
        """
        record = None if self.records is None else self.records[name]
        return artifacts.read_file(self.folder / name, record, REMEDY, hashes=self.hashes)

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of a ``.npy`` file, read-only.

        Raises
        ------
        ArtifactError
            As :meth:`data`, or if it is no plain array of numbers.
        """
        try:
            if self.mapped:
                # a plain view of the mapped file: every slice of a memmap object would cost microseconds
                return np.asarray(np.load(self.folder / name, mmap_mode="r", allow_pickle=False))
            return array_of(self.data(name))
        except ArtifactError:
            raise
        except (OSError, ValueError, EOFError) as error:
            raise ArtifactError(f"{self.folder / name} cannot be read ({error}); {REMEDY}") from error

    def rows(self, name: str, offsets: IntArray) -> Ragged:
        """A ragged array whose values are in a ``.npy`` file: read by position, where the system can.

        Raises
        ------
        ArtifactError
            As :meth:`array`.
        """
        if not self.by_row or not hasattr(os, "pread"):
            return Ragged(self.array(name), offsets)
        path = self.folder / name
        try:
            file = OpenFile(path)
            if self.records is not None:
                hashed = file.hash() if self.hashes else None
                artifacts.compare(path, file.size, hashed, self.records[name], REMEDY)
            layout = Layout.of(file.read(0, min(LONGEST_HEADER, file.size)), file.size)
            # touched only by who copies all of it
            values = layout.array(mmap.mmap(file.number, 0, access=mmap.ACCESS_READ))
        except ArtifactError:
            raise
        except FileNotFoundError as error:
            raise ArtifactError(f"{path} is missing; {REMEDY}") from error
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{path} cannot be read ({error}); {REMEDY}") from error
        return StoredRagged(values, offsets, file, layout.begin)


class OpenFile:
    """A file that is read by position; it is closed when nobody holds it any more. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # a pipe would be waited for
        self.number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        weakref.finalize(self, os.close, self.number)
        if not stat.S_ISREG(os.fstat(self.number).st_mode):
            raise OSError("not a regular file")
        self._state = self._look()

    @property
    def size(self) -> int:
        """Bytes, when it was opened."""
        return self._state[0]

    def _look(self) -> tuple[int, int]:
        """What changes when somebody writes into the file."""
        found = os.fstat(self.number)
        return found.st_size, found.st_mtime_ns

    def read(self, begin: int, length: int) -> bytes:
        """Read so many bytes from a place on; fewer where the file ends."""
        return os.pread(self.number, length, begin)

    def check(self) -> None:
        """Refuse what was read if the file was written into since it was opened.

        Raises
        ------
        ChangedFileError
            If its size or the time of its last change is another.
        """
        if self._look() != self._state:
            raise ChangedFileError(self.path)

    def hash(self) -> str:
        """SHA-256 of the whole file, as 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for begin in range(0, self.size, BLOCK):
            digest.update(self.read(begin, BLOCK))
        self.check()
        return digest.hexdigest()


@dataclass(frozen=True)
class StoredRagged(Ragged):
    """A ragged array whose values are in a ``.npy`` file.

    Attributes
    ----------
    values
        All rows, memory-mapped; for whoever copies them all.
    offsets
        As of :class:`semclass.core.types.Ragged`.
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

    @cached_property
    def _item(self) -> int:
        """Bytes of one value."""
        return self.values.itemsize * math.prod(self.values.shape[1:])

    def take(self, rows: IntArray) -> Ragged:
        """Read some rows, see :meth:`semclass.core.types.Ragged.take`; the values are read-only.

        Raises
        ------
        ChangedFileError
            If the file was overwritten or cut short since it was opened.
        ArtifactError
            If the system cannot read it.
        """
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        first, lengths = (self.begin + starts * self._item).tolist(), ((ends - starts) * self._item).tolist()
        try:
            read = b"".join([self.file.read(at, length) for at, length in zip(first, lengths, strict=True)])
        except OSError as error:
            raise ArtifactError(f"{self.file.path} cannot be read: {error.strerror or error}") from error
        self.file.check()
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])
        return Ragged(np.frombuffer(read, self.values.dtype).reshape(offsets[-1], *self.values.shape[1:]), offsets)
