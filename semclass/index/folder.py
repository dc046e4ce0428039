"""The folder of an index: how it is read, and changed in one step.

An index is what ``manifest.json`` names, and nothing else in the folder. A change is written to new names, flushed to the
disk, and becomes the index when the manifest is replaced, in one step; what the old manifest named is removed after
that. So at every moment, also after a crash or a loss of power, the folder holds all of the old index or all of the new.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.checks import counted
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.index import manifest, segment, shapes
from semclass.index.manifest import LOCK, SEGMENT_NAME, Header, Manifest
from semclass.index.segment import Entry, Part, Segment

WINDOWS = os.name == "nt"
if WINDOWS:
    import msvcrt
else:
    import fcntl

BUILDING = ".building-"
"""Names of folders begin with it in which a change is being written."""

AREA = ".semclass-build"
"""Folder in which a long build keeps what is done, so that it can go on after a stop."""

OURS = re.compile(rf"{SEGMENT_NAME}|{re.escape(BUILDING)}[0-9a-f]{{32}}|\.manifest\.json\.[0-9]+\.part")
"""Names that are removed if no manifest has them."""


def check_target(folder: str | Path, *, replace: bool) -> None:
    """Refuse to build an index into a folder that holds something else, or an index without `replace`."""
    folder = Path(folder)
    try:
        if folder.is_file():
            raise ArtifactError(f"{folder} is a file; name a folder for the index")
        names = {path.name for path in folder.iterdir()}
        others = _others(folder, names)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be read: {error.strerror or error}; name another folder") from error
    if others:
        raise ArtifactError(f"{folder} holds other files ({others[0]!r}); name a new or empty folder for the index")
    if artifacts.MANIFEST in names and not replace:
        raise ArtifactError(_existing(folder))


def _others(folder: Path, names: Collection[str]) -> list[str]:
    ours = {name for name in names if OURS.fullmatch(name)}
    visible = sorted(name for name in names if not name.startswith("."))
    others = [name for name in visible if name != artifacts.MANIFEST and name not in ours]
    if artifacts.MANIFEST in names:
        return others or ([] if _replaceable(folder, damaged=bool(ours)) else [artifacts.MANIFEST])
    return others if LOCK in names else visible  # without the two, no index was ever here


def _existing(folder: Path) -> str:
    instead = "give --replace (replace=True) to build another index in its place"
    try:
        existing = manifest.read(folder)
    except ArtifactError as error:
        return f"{folder} holds an index that cannot be used ({error}); {instead}, or name another folder"
    tuned = ", without its tuned weights" if existing.tuned.get("weights") else ""
    add = "add to it with `semclass index add`"
    count = counted(existing.passages, "passage")
    return f"{folder} holds an index of {count} already; {instead}{tuned}, {add}, or name another folder"


def _replaceable(folder: Path, *, damaged: bool) -> bool:
    """Whether a manifest is that of an index; for a damaged one `damaged` decides."""
    try:
        return artifacts.read_json(folder / artifacts.MANIFEST).get("kind") == "index"
    except ArtifactError:
        return damaged


def open_parts(
    folder: Path, current: Manifest, known: Mapping[str, Part], *, mmap: bool = False, verify: bool = False
) -> tuple[Manifest, list[Part]]:
    """Open the segments that a manifest names and are not `known`; start again if it is replaced meanwhile."""
    while True:
        try:
            parts = [_open(folder, current, entry, known.get(entry.name), mmap, verify) for entry in current.segments]
            shapes.check_alike([part.segment for part in parts], folder)
            return current, parts
        except ArtifactError:  # noqa: PERF203 - a change of an index is rare
            if (newer := manifest.read(folder)) == current:
                raise
            current = newer


def _open(folder: Path, current: Manifest, entry: Entry, known: Part | None, mmap: bool, verify: bool) -> Part:
    place = folder / entry.name
    if known is None:
        if mmap:
            artifacts.check_files(place, entry.files, REMEDY, hashes=verify)
        opened = Segment.open(Files(place, entry.files, hashes=verify, mmap=mmap), entry.name)
        shapes.check(opened, current.header, entry.passages, place)
    else:
        opened = known.segment
    if known is not None and known.entry is not None and known.entry.kept == entry.kept:
        return known
    return Part(opened, entry.keep, entry)


def describe(folder: str | Path) -> dict[str, Any]:
    """Describe an index, from its manifest alone."""
    current = manifest.read(Path(folder))
    sizes: dict[str, int] = {}
    for entry in current.segments:
        for name, record in entry.files.items():
            sizes[name] = sizes.get(name, 0) + int(record["bytes"])
    return {
        "passages": current.passages,
        "removed": sum(entry.passages - entry.live for entry in current.segments),
        "segments": [entry.live for entry in current.segments],
        **{name: getattr(current.header, name) for name in ("encoder", "small", "classes", "heads")},
        "bytes": sizes,
        "tuned": current.tuned,
        "cutting": current.cutting,
        "unfinished": _size(Path(folder) / AREA),
    }


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


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
                _remove(folder, named, pattern=re.compile(SEGMENT_NAME))
        raise


def install(parts: Sequence[Part], folder: Path, place: Path) -> Entry:
    """Join segments into one within `folder`, written in `place` and flushed; no manifest names it yet."""
    made = place / uuid.uuid4().hex
    files = segment.write(parts, made, final=True)
    name = segment.name_of(files)
    try:
        artifacts.check_files(folder / name, files, REMEDY)  # what has this name is the same to the last bit
    except ArtifactError:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).rename(folder / f"{BUILDING}{uuid.uuid4().hex}")  # or was damaged since
        made.rename(folder / name)
    artifacts.flush(folder)
    return Entry(name, sum(map(len, parts)), files)


def commit(folder: Path, new: Manifest, *, built: bool = False) -> None:
    """Replace the manifest, in one step, and remove what it does not name; `built`: also the area of the build."""
    artifacts.write_atomic(folder / artifacts.MANIFEST, new.as_json())
    if built:
        with contextlib.suppress(OSError):
            (folder / AREA).rename(folder / f"{BUILDING}{uuid.uuid4().hex}")
    clean(folder, new)


def replace_index(
    folder: Path,
    parts: Sequence[Part],
    header: Header,
    *,
    tuned: Mapping[str, Any] | None = None,
    cutting: Mapping[str, Any] | None = None,
    built: bool = False,
) -> None:
    """Write segments as the one segment of an index, in place of an older one, see :func:`commit`."""
    with staging(folder) as place, rollback(folder):
        commit(folder, Manifest(header, (install(parts, folder, place),), tuned or {}, cutting), built=built)


def clean(folder: Path, current: Manifest) -> None:
    """Remove what changes left behind, also those that were killed; the lock must be held."""
    _remove(folder, current.names, pattern=OURS)


def _remove(folder: Path, named: Collection[str], *, pattern: re.Pattern[str]) -> None:
    """Remove what is not in `named` and whose full name matches a pattern; similar names belong to others."""
    for path in folder.iterdir():
        if path.name in named or not pattern.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):
            if path.suffix == ".part":
                path.unlink()
            elif path.is_dir():
                # under another name first: no folder is ever half of a segment
                deleted = folder / f"{BUILDING}{uuid.uuid4().hex}"
                path.rename(deleted)
                shutil.rmtree(deleted, ignore_errors=True)


def store(folder: str | Path, *, cutting: Mapping[str, Any] | None = None, **tuned: Any) -> None:
    """Replace fields in the manifest of an index, also damaged ones, in one step; write nothing else.

    `cutting` says how documents are cut; None keeps it. Others are fields of :attr:`semclass.PassageIndex.tuned`; None
    removes one.
    """
    path = Path(folder) / artifacts.MANIFEST
    artifacts.read_json(path)  # before a lock is left in a folder that holds no index
    with locked(path.parent):
        values = artifacts.read_json(path)
        before = values.get("tuned")
        after = {**(before if isinstance(before, dict) else {}), **tuned}
        values["tuned"] = {name: value for name, value in after.items() if value is not None}
        if cutting is not None:
            values["cutting"] = dict(cutting)
        artifacts.write_atomic(path, manifest.parse(values, path).as_json())
