"""The folder of an index: what its manifest says, how it is replaced, and who may.

An index is what ``manifest.json`` names, and nothing else in the folder. A change is written beside, flushed to the disk,
renamed, and becomes the index when the manifest is replaced, in one step; what the old manifest named is removed after
that. So at every moment, also after a crash or a loss of power, the folder holds all of the old index or all of the new.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from semclass.core import artifacts
from semclass.core import files as stored
from semclass.core.errors import ArtifactError
from semclass.index import segment
from semclass.index.segment import Part

PROTOCOL = 2
"""Version of the folder's format."""

BUILDING = ".building-"
"""What the names of folders begin with in which a change is being written."""

AREA = ".build"
"""Folder in which a long build keeps what it has done, so that it can go on after a stop."""

REMOVED = "removed-"
"""What the names of files begin with that say which passages of a segment were removed."""

LOCK = ".lock"
"""File that whoever changes the index holds a lock on. It stays: removing it could let two in."""

REMEDY = stored.REMEDY

_SEGMENT, _REMOVED = rf"{segment.PREFIX}[0-9a-f]{{16}}", rf"{REMOVED}[0-9a-f]{{16}}\.npz"

_INSTALLED = re.compile(rf"{_SEGMENT}|{_REMOVED}")
"""What a manifest may name."""

_OURS = re.compile(
    rf"{_SEGMENT}|{_REMOVED}|{re.escape(BUILDING)}[0-9a-f]{{32}}|"
    rf"\.(?:manifest\.json|{_REMOVED})\.[0-9]+\.part"
)
"""What is removed if no manifest names it."""

_IN_AREA = re.compile(r"journal\.json|\.journal\.json\.[0-9]+\.part|\.part|part-[0-9]{6,}")
"""What a build keeps in :data:`AREA`; a folder of that name that holds anything else is somebody else's."""

LARGEST = sys.float_info.max

HEADER = ("encoder", "interaction", "classes", "thresholds", "similarity", "form", "codebooks")
"""Fields about the whole index."""


@dataclass(frozen=True)
class Entry:
    """A segment, as the manifest names it.

    Attributes
    ----------
    name
        Its folder.
    passages
        Its passages, removed ones included.
    files
        By file: ``bytes`` and ``sha256``.
    removed
        Empty, or what was removed of it: ``name`` of the file, ``passages``, ``bytes`` and ``sha256``.
    """

    name: str
    passages: int
    files: Mapping[str, Mapping[str, Any]]
    removed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def live(self) -> int:
        """How many passages are left."""
        return self.passages - int(self.removed.get("passages", 0))


@dataclass(frozen=True)
class Manifest:
    """What makes files an index.

    Attributes
    ----------
    header
        The fields of :data:`HEADER`.
    segments
        In the order of their rows.
    generation
        Rises by 1 with every change of the passages.
    tuned
        See :attr:`semclass.PassageIndex.tuned`.
    """

    header: Mapping[str, Any]
    segments: tuple[Entry, ...]
    generation: int = 1
    tuned: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passages(self) -> int:
        """How many passages are there."""
        return sum(entry.live for entry in self.segments)

    def as_json(self) -> bytes:
        """Give the file's bytes."""
        entries = [
            {"name": entry.name, "passages": entry.passages, "files": entry.files}
            | ({"removed": entry.removed} if entry.removed else {})
            for entry in self.segments
        ]
        fields = {"protocol": PROTOCOL, "kind": "index", "generation": self.generation, "segments": entries}
        fields["passages"] = self.passages
        return artifacts.dump_json({**self.header, **fields, **({"tuned": dict(self.tuned)} if self.tuned else {})})


def read(folder: Path) -> Manifest:
    """Read the manifest of an index.

    Raises
    ------
    ArtifactError
        If there is none, or it is damaged or of another protocol.
    """
    path = folder / artifacts.MANIFEST
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(_absent(folder)) from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}") from error
    return parse(artifacts.parse_json(data, path, REMEDY), path)


def _absent(folder: Path) -> str:
    """Say that there is no index, and how one is made."""
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file, and not the folder of an index; name the folder that `semclass index build` made"
    if folder.exists():
        lacks = f"{folder} holds no index ({artifacts.MANIFEST} is missing)"
        return f"{lacks}; make one with `semclass index build FILES --out INDEX`, and name INDEX"
    return f"{folder} does not exist; make an index there with `semclass index build FILES --out {folder}`"


def find(folder: Path) -> Manifest | None:
    """Read the manifest of an index; None where there is none that can be read."""
    try:
        return read(folder)
    except ArtifactError:
        return None


def generation_of(folder: Path) -> int:
    """Generation of the index in a folder; 0 where there is none that can be read."""
    found = find(folder)
    return 0 if found is None else found.generation


def parse(values: Mapping[str, Any], path: Path) -> Manifest:
    """Check what a manifest holds."""
    artifacts.check_protocol(values, path, "index", PROTOCOL)
    missing = [name for name in (*HEADER, "segments", "generation") if name not in values]
    if missing:
        raise ArtifactError(f"{path} has no field {missing[0]!r}; {REMEDY}")

    def require(right: object, what: str) -> None:
        if not right:
            raise ArtifactError(f"{path} does not describe {what} as it should; {REMEDY}")

    header = {name: values[name] for name in HEADER}
    texts = [header[name] for name in HEADER if name not in {"classes", "thresholds"}]
    classes, thresholds = header["classes"], header["thresholds"]
    require(all(isinstance(text, str) for text in texts), "its models")
    require(isinstance(classes, list) and all(isinstance(name, str) for name in classes), "its classes")
    require(isinstance(thresholds, list) and all(map(_is_number, thresholds)), "its thresholds")
    require(len(classes) == len(thresholds), "its thresholds")
    require(_is_count(values["generation"]), "its generation")
    entries = values["segments"]
    require(isinstance(entries, list) and entries and all(map(_is_entry, entries)), "its segments")
    names = [named["name"] for entry in entries for named in (entry, entry.get("removed")) if named]
    require(len(set(names)) == len(names), "its segments, one of which it names twice,")
    segments = tuple(
        Entry(entry["name"], entry["passages"], entry["files"], entry.get("removed", {})) for entry in entries
    )
    return Manifest(header, segments, values["generation"], _tuned(values, path))


def _is_number(value: object) -> bool:
    """Whether a value is a number that a float64 can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_entry(entry: Any) -> bool:
    """Whether a segment is described, with all its files, and with no name that leads out of the folder."""
    if not isinstance(entry, dict) or not _is_named(entry, _SEGMENT) or not _is_count(entry.get("passages")):
        return False
    files, removed = entry.get("files"), entry.get("removed", {})
    if not isinstance(files, dict) or not isinstance(removed, dict):
        return False
    if set(files) not in [{*segment.FILES}, {*segment.FILES, *segment.MORE}]:
        return False
    if not all(map(artifacts.is_record, files.values())):
        return False
    known = _is_named(removed, _REMOVED) and _is_count(removed.get("passages")) and artifacts.is_record(removed)
    return not removed or (known and removed["passages"] <= entry["passages"])


def _is_named(entry: Mapping[str, Any], pattern: str) -> bool:
    return isinstance(entry.get("name"), str) and re.fullmatch(pattern, entry["name"]) is not None


def _tuned(values: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The field ``tuned`` of a manifest, with its weights found to be finite numbers of at least 0."""
    tuned = values.get("tuned", {})
    weights = tuned.get("weights", {}) if isinstance(tuned, dict) else None
    numbers = isinstance(weights, dict) and all(_is_number(value) and value >= 0 for value in weights.values())
    if not numbers:
        raise ArtifactError(f"{path} holds tuned weights that are no numbers of at least 0; `semclass tune --reset` it")
    return dict(tuned)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the right to change an index; the system takes it back when the process ends, however it ends.

    Raises
    ------
    ArtifactError
        If another process, or another writer of this one, holds it; or if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("ab")
    except OSError as error:
        raise ArtifactError(f"cannot write {folder}: {error.strerror or error}") from error
    process = os.getpid()
    with file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError) as error:
            raise ArtifactError(
                f"the index {folder} is being changed by another writer; wait until it is done, or end it: its lock ends "
                "with its process, and with those that it forked meanwhile"
            ) from error
        except OSError as error:
            raise ArtifactError(
                f"cannot lock {folder / LOCK} ({error.strerror or error}); change the index on a file system that has "
                "locks, such as a local disk, and copy it from there"
            ) from error
        try:
            yield
        finally:
            if os.getpid() == process:  # a child that was forked meanwhile shares the lock, and does not give it back
                _unlock(file)


def _lock(file: BinaryIO) -> None:
    """Take the lock, or raise what the system says; a BlockingIOError or a PermissionError if it is taken."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(file: BinaryIO) -> None:
    """Give the lock back also where a child holds the file open; where locks do not go by that, closing does."""
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_UN)


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[Path]:
    """Give an empty folder within that of the index, for what is being written; it is gone afterwards."""
    place, process = folder / f"{BUILDING}{uuid.uuid4().hex}", os.getpid()
    try:
        with reported(folder):
            place.mkdir(parents=True)
        yield place
    finally:
        if os.getpid() == process:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def reported(folder: Path) -> Iterator[None]:
    """Say what cannot be written, for example for want of space, and that the index is as it was.

    Raises
    ------
    ArtifactError
        In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"{error} (is the disk full?)"
        raise ArtifactError(f"cannot write the index {folder}: {reason}; an older index there is unchanged") from error


@contextlib.contextmanager
def committing(folder: Path) -> Iterator[None]:
    """As :func:`reported`; what was written for a commit that fails is removed, as a full disk has no place for it."""
    before = find(folder)
    damaged = before is None and (folder / artifacts.MANIFEST).exists()
    try:
        with reported(folder):
            yield
    except BaseException:
        if not damaged:  # somebody may still want to repair it
            with contextlib.suppress(OSError):
                _remove(folder, _named(before) | _named(find(folder)), what=_INSTALLED)
        raise


def install(parts: list[Part], folder: Path, place: Path, similarity: str) -> Entry:
    """Write one segment of some others' passages, flush it to the disk, and give it its name; no manifest names it yet.

    Parameters
    ----------
    parts
        What is kept of which segments.
    folder
        That of the index.
    place
        What :func:`beside` gave.
    similarity
        Of the index: what is near by a distance is not looked for in reduced vectors, and none are written.

    Returns
    -------
    Entry
        For the manifest.
    """
    made = place / uuid.uuid4().hex
    files = segment.write(parts, made, reduced=similarity != "l2")
    name = segment.name_of(files)
    try:
        artifacts.check_files(folder / name, files, REMEDY)  # what has this name should be the same to the last bit
    except ArtifactError:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).rename(folder / f"{BUILDING}{uuid.uuid4().hex}")  # but was damaged since
        made.rename(folder / name)
    artifacts.flush(folder)
    passages = sum(len(part) if keep is None else int(keep.sum()) for part, keep in parts)
    return Entry(name, passages, files)


def commit(folder: Path, manifest: Manifest, *, built: bool = False) -> None:
    """Make a manifest the index, in one step, and remove what it does not name; and what a build did, if it is `built`."""
    artifacts.write_atomic(folder / artifacts.MANIFEST, manifest.as_json())
    if built:
        with contextlib.suppress(OSError):
            (folder / AREA).rename(folder / f"{BUILDING}{uuid.uuid4().hex}")
    clean(folder, manifest)


def clean(folder: Path, manifest: Manifest | None) -> None:
    """Remove what earlier changes, whole ones and killed ones, left behind; the lock must be held."""
    _remove(folder, _named(manifest), what=_OURS)


def _named(manifest: Manifest | None) -> set[str]:
    """What a manifest names in its folder."""
    if manifest is None:
        return set()
    removed = {str(entry.removed["name"]) for entry in manifest.segments if entry.removed}
    return {entry.name for entry in manifest.segments} | removed


def _remove(folder: Path, named: Collection[str], *, what: re.Pattern[str]) -> None:
    """Remove what is called so in full: what only begins alike was put there by somebody else."""
    for path in folder.iterdir():
        if path.name in named or not what.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):
            if path.suffix in {".npz", ".part"}:
                path.unlink()
            elif path.is_dir():
                # under another name first: no folder is ever half of a segment
                gone = folder / f"{BUILDING}{uuid.uuid4().hex}"
                path.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)


def check_target(folder: str | Path, *, replace: bool = True) -> None:
    """Refuse to build an index into a folder that holds something else, before hours of work and not after.

    Parameters
    ----------
    folder
        Where the index is to be; may be missing.
    replace
        Whether an index that is there may be replaced. A build that was stopped before there was one is none.

    Raises
    ------
    ArtifactError
        If `folder` is a file, cannot be read, or holds other things than an index, one of a newer version among them; or
        if it holds an index, also one that cannot be used, that may not be replaced.
    """
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
        raise ArtifactError(f"{folder} holds other things ({others[0]!r}); name a new or empty folder for the index")
    if artifacts.MANIFEST in names and not replace:
        raise ArtifactError(_held(folder))


def _others(folder: Path, names: Collection[str]) -> list[str]:
    """What a folder holds that an index does not: what begins with a full stop is left alone, and not told."""
    ours = {name for name in names if _OURS.fullmatch(name)}
    if AREA in names and not _is_area(folder / AREA):
        return [AREA]
    told = sorted(name for name in names if not name.startswith("."))
    others = [name for name in told if name != artifacts.MANIFEST and name not in ours]
    if artifacts.MANIFEST in names:
        return others or ([] if _replaceable(folder, damaged=bool(ours)) else [artifacts.MANIFEST])
    return others if LOCK in names else told  # without the two, no index was ever here


def _is_area(path: Path) -> bool:
    """Whether all that is there may have been written by a build."""
    return path.is_dir() and all(_IN_AREA.fullmatch(held.name) for held in path.iterdir())


def _held(folder: Path) -> str:
    """Say which index a folder holds, and that it stays."""
    instead = "give --replace (replace=True) to build another one in its place"
    try:
        found = read(folder)
    except ArtifactError as error:
        return f"{folder} holds an index that cannot be used ({error}); {instead}, or name another folder"
    tuned = ", without its tuned weights" if found.tuned.get("weights") else ""
    count = f"{found.passages} passage{'s' * (found.passages != 1)}"
    add = "add to it with `semclass index add`"
    return f"{folder} holds an index of {count} already; {instead}{tuned}, {add}, or name another folder"


def _replaceable(folder: Path, *, damaged: bool) -> bool:
    """Whether a manifest is that of an index which this version may replace; a damaged one, if `damaged` says so."""
    try:
        values = artifacts.read_json(folder / artifacts.MANIFEST)
    except ArtifactError:
        return damaged
    protocol = values.get("protocol")
    return values.get("kind") == "index" and isinstance(protocol, int) and protocol <= PROTOCOL


def store_tuned(folder: str | Path, tuned: Mapping[str, Any] | None) -> None:
    """Replace what the manifest of an index says about tuned weights, in one step; nothing else is written.

    Parameters
    ----------
    folder
        Holds an index.
    tuned
        As :attr:`semclass.PassageIndex.tuned`; None removes it.

    Raises
    ------
    ArtifactError
        If there is no index, if it is being changed, or cannot be written; the old manifest is whole then.
    """
    folder = Path(folder)
    path = folder / artifacts.MANIFEST
    values = artifacts.read_json(path)
    with locked(folder):
        values = {**artifacts.read_json(path), "tuned": {}}  # also what a damaged one held
        found = parse(values, path)
        changed = replace(found, tuned=dict(tuned or {}))
        artifacts.write_atomic(path, changed.as_json())


def describe(folder: str | Path) -> dict[str, Any]:
    """What an index holds, from its manifest alone.

    Parameters
    ----------
    folder
        Holds an index.

    Returns
    -------
    dict
        ``passages``, ``removed`` (passages that still take space), ``segments`` (passages of each), ``generation``,
        ``encoder`` (fingerprint), ``similarity``, ``form``, ``classes``, ``bytes`` by file, and ``tuned``: see
        :attr:`semclass.PassageIndex.tuned`; ``unfinished``, bytes that a build took which is going on or was stopped.

    Raises
    ------
    ArtifactError
        If there is no index, or its manifest is damaged.
    """
    found = read(Path(folder))
    sizes: dict[str, int] = {}
    for entry in found.segments:
        for name, record in entry.files.items():
            sizes[name] = sizes.get(name, 0) + int(record["bytes"])
        if entry.removed:
            sizes["removed"] = sizes.get("removed", 0) + int(entry.removed["bytes"])
    live = found.passages
    return {
        "passages": live,
        "removed": sum(entry.passages for entry in found.segments) - live,
        "segments": [entry.live for entry in found.segments],
        "generation": found.generation,
        **{name: found.header[name] for name in ("encoder", "similarity", "form", "classes")},
        "bytes": sizes,
        "tuned": found.tuned,
        "unfinished": _size(Path(folder) / AREA),
    }


def _size(folder: Path) -> int:
    """Bytes of all files in a folder, which may go meanwhile; 0 where there is none."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
