"""The lock of an index: one writer at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from semclass.core.errors import ArtifactError

LOCK = ".lock"
"""File that a writer holds a lock on. It stays: removing it could let two writers in."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the right to change an index; the system takes it back when the process ends, however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("ab")
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be written: {error.strerror or error}; name another folder") from error
    process = os.getpid()
    with file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError) as error:
            raise ArtifactError(
                f"another writer is changing the index {folder}; wait until it has finished, or stop its process and the "
                "processes that it forked"
            ) from error
        except OSError as error:
            raise ArtifactError(
                f"{folder / LOCK} cannot be locked ({error.strerror or error}); change the index on a file system with "
                "locks, e.g. a local disk, and copy it from there"
            ) from error
        try:
            yield
        finally:
            if os.getpid() == process:  # a child that was forked meanwhile shares the lock, and does not give it back
                _unlock(file)


def _lock(file: BinaryIO) -> None:
    """Take the lock; a BlockingIOError or a PermissionError if it is taken."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(file: BinaryIO) -> None:
    """Give the lock back even if a child holds the file open; where locks do not go by that, closing the file does it."""
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_UN)
