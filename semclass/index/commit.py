"""The folder of an index: how it is changed in one step.

An index is what ``manifest.json`` names, and nothing else in the folder. A change is written to new names, flushed to the
disk, and becomes the index when the manifest is replaced, in one step; what the old manifest named is removed after
that. So at every moment, also after a crash or a loss of power, the folder holds all of the old index or all of the new.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.index import joining, manifest
from semclass.index.manifest import ANSWERABLE, LOCK, METHOD, REMOVED, REMOVED_NAME, SEGMENT_NAME, Entry, Manifest
from semclass.index.segment import Part
from semclass.scoring.postings import Deleted

WINDOWS = os.name == "nt"
if WINDOWS:
    import msvcrt
else:
    import fcntl

BUILDING = ".building-"
"""Names of folders begin with it in which a change is being written."""

AREA = ".build"
"""Folder in which a long build keeps what is done, so that it can go on after a stop."""

INSTALLED = re.compile(rf"{SEGMENT_NAME}|{REMOVED_NAME}")
"""Names that a manifest may have."""

OURS = re.compile(
    rf"{INSTALLED.pattern}|{re.escape(BUILDING)}[0-9a-f]{{32}}|\.(?:manifest\.json|{REMOVED_NAME})\.[0-9]+\.part"
)
"""Names that are removed if no manifest has them."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the right to change an index; the system takes it back when the process ends, however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(artifacts.open_to_write(folder / LOCK, append=True), "ab")
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be written: {error.strerror or error}; name another folder") from error
    process = os.getpid()
    with file:
        try:
            if WINDOWS:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            else:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
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
            # a child that was forked meanwhile shares the lock, and does not give it back; on Windows closing does
            if os.getpid() == process and not WINDOWS:
                fcntl.flock(file.fileno(), fcntl.LOCK_UN)  # even if a child holds the file open


@contextlib.contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Make an empty folder within that of the index, for what is being written; it is gone afterwards."""
    place, process = folder / f"{BUILDING}{uuid.uuid4().hex}", os.getpid()
    try:
        with os_errors(folder):
            place.mkdir(parents=True)
        yield place
    finally:
        if os.getpid() == process:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def os_errors(folder: Path) -> Iterator[None]:
    """Raise an ArtifactError for an OSError, and say that the index is as it was."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"{error} (is the disk full?)"
        raise ArtifactError(f"index {folder} cannot be written: {reason}; the existing index is unchanged") from error


@contextlib.contextmanager
def rollback(folder: Path) -> Iterator[None]:
    """As :func:`os_errors`; remove what was written for a commit that fails, as a full disk has no room for it."""
    before = manifest.read_or_none(folder)
    damaged = before is None and (folder / artifacts.MANIFEST).exists()
    try:
        with os_errors(folder):
            yield
    except BaseException:
        if not damaged:  # somebody may still want to repair it
            named = set[str]().union(*(one.names for one in (before, manifest.read_or_none(folder)) if one))
            with contextlib.suppress(OSError):
                _remove(folder, named, pattern=INSTALLED)
        raise


def install(parts: list[Part], folder: Path, place: Path) -> Entry:
    """Join segments into one within `folder`, written in `place` and flushed; no manifest names it yet."""
    made = place / uuid.uuid4().hex
    files = joining.write(parts, made, reduced=True)
    name = joining.name_of(files)
    try:
        artifacts.check_files(folder / name, files, REMEDY)  # what has this name is the same to the last bit
    except ArtifactError:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).rename(folder / f"{BUILDING}{uuid.uuid4().hex}")  # or was damaged since
        made.rename(folder / name)
    artifacts.flush(folder)
    return Entry(name, sum(map(joining.count, parts)), files)


def write_deleted(folder: Path, deleted: Deleted) -> dict[str, Any]:
    """Write the deleted passages of a segment to a file, and return what the manifest says of it."""
    file = io.BytesIO()
    np.savez(file, rows=deleted.rows, document_frequencies=deleted.document_frequencies, terms=np.array(deleted.terms))
    data, digest = file.getvalue(), hashlib.sha256(file.getvalue()).hexdigest()
    name = f"{REMOVED}{digest[:16]}.npz"
    artifacts.write_atomic(folder / name, data)
    return {"name": name, "passages": len(deleted.rows), "bytes": len(data), "sha256": digest}


def commit(folder: Path, new: Manifest, *, built: bool = False) -> None:
    """Replace the manifest, in one step, and remove what it does not name; `built`: also the area of the build."""
    artifacts.write_atomic(folder / artifacts.MANIFEST, new.as_json())
    if built:
        with contextlib.suppress(OSError):
            (folder / AREA).rename(folder / f"{BUILDING}{uuid.uuid4().hex}")
    clean(folder, new)


def clean(folder: Path, current: Manifest) -> None:
    """Remove what changes left behind, also those that were killed; the lock must be held."""
    _remove(folder, current.names, pattern=OURS)


def _remove(folder: Path, named: Collection[str], *, pattern: re.Pattern[str]) -> None:
    """Remove what is not in `named` and whose full name matches a pattern; similar names belong to others."""
    for path in folder.iterdir():
        if path.name in named or not pattern.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):
            if path.suffix in {".npz", ".part"}:
                path.unlink()
            elif path.is_dir():
                # under another name first: no folder is ever half of a segment
                deleted = folder / f"{BUILDING}{uuid.uuid4().hex}"
                path.rename(deleted)
                shutil.rmtree(deleted, ignore_errors=True)


def store_tuned(folder: str | Path, tuned: Mapping[str, Any] | None) -> None:
    """Replace the tuned weights in the manifest of an index, also damaged ones, in one step; write nothing else."""
    _store(
        folder, lambda before: {**{key: before[key] for key in before if key in (ANSWERABLE, METHOD)}, **(tuned or {})}
    )


def store_answerable(folder: str | Path, threshold: Mapping[str, Any] | None) -> None:
    """Replace from which ``answerable`` an index seems to answer, as :func:`store_tuned` does."""
    _store_one(folder, ANSWERABLE, dict(threshold) if threshold else None)


def store_method(folder: str | Path, method: str | None) -> None:
    """Replace the default method of an index, as :func:`store_tuned` does."""
    _store_one(folder, METHOD, method)


def _store_one(folder: str | Path, key: str, value: Any) -> None:
    added = {} if value is None else {key: value}
    _store(folder, lambda before: {**{name: before[name] for name in before if name != key}, **added})


def _store(folder: str | Path, tuned: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = Path(folder) / artifacts.MANIFEST
    artifacts.read_json(path)  # before a lock is left in a folder that holds no index
    with locked(path.parent):
        values = artifacts.read_json(path)
        before = values.get("tuned")
        changed = manifest.parse({**values, "tuned": tuned(before if isinstance(before, dict) else {})}, path)
        artifacts.write_atomic(path, changed.as_json())


def store_cutting(folder: Path, cutting: Mapping[str, Any]) -> None:
    """Replace in the manifest of an index how documents are cut, as :func:`store_tuned` does."""
    with locked(folder):
        changed = replace(manifest.read(folder), cutting=dict(cutting))
        artifacts.write_atomic(folder / artifacts.MANIFEST, changed.as_json())
