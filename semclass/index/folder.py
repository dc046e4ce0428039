"""The folder of an index: how it is read, and changed in one step.

An index consists of the files that ``manifest.json`` names; other files in the folder do not count. A change writes new
files and flushes them to the disk. When the manifest is replaced, in one step, they become the index. Files that only the
old manifest named are then removed. So at every moment, even after a crash or a loss of power, the folder holds all of the
old index or all of the new.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.checks import counted, short
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.encoders.words import LANGUAGES
from semclass.index import segment
from semclass.index.segment import Entry, Part, Segment

WINDOWS = os.name == "nt"
if WINDOWS:
    import msvcrt
else:
    import fcntl

PROTOCOL = 11
"""Version of the folder's format."""

LOCK = ".lock"
"""File that a writer locks. It is never removed, because two writers could then enter."""

SEGMENT_NAME = rf"{segment.PREFIX}[0-9a-f]{{16}}"

BUILDING = ".building-"
"""Beginning of the names of folders to which a change is being written."""

AREA = ".semclass-build"
"""Folder in which a long build stores its finished part, so that a stopped build can be resumed."""

OURS = re.compile(rf"{SEGMENT_NAME}|{re.escape(BUILDING)}[0-9a-f]{{32}}|\.manifest\.json\.[0-9]+\.part")
"""Names of files and folders that are removed if no manifest names them."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """The models and options with which all passages of an index were encoded."""

    encoder: str  #: fingerprint of the encoder that computed the vectors
    classes: tuple[str, ...]  #: names of the passage classes
    thresholds: tuple[float, ...]  #: probability from which a passage has a class, by class
    head: str  #: fingerprint of the passage heads; empty if there are none
    small: bool  #: whether only vectors of excerpts are stored, so that re-ranking encodes the candidates again
    codebooks: str  #: fingerprint of the codebooks of the token vectors; empty without codebooks
    sparse: str  #: fingerprint of the head of learnt words; empty if there is none
    language: str  #: language of the stems of words, see `semclass.encoders.words.LANGUAGES`
    heads: Mapping[str, str]  #: fingerprints of the heads by the field that each labels

    @property
    def exact(self) -> bool:
        """Whether vectors are stored without compression by codebooks."""
        return not (self.small or self.codebooks)

    def header(self) -> dict[str, Any]:
        """Return these fields by name."""
        return {name: getattr(self, name) for name in HEADER}

    @staticmethod
    def read(record: Mapping[str, Any], where: Path | str) -> dict[str, Any]:
        """Check these fields, given as JSON values, and return them. An ArtifactError about a wrong field names `where`."""
        if missing := [name for name in HEADER if name not in record]:
            raise ArtifactError(f"{where} has no field {missing[0]!r}; {REMEDY}")
        classes, thresholds, heads = record["classes"], record["thresholds"], record["heads"]
        is_list = isinstance(classes, (list, tuple)) and isinstance(thresholds, (list, tuple))
        for right, what in (
            (_are_texts([record[name] for name in ("encoder", "head", "codebooks", "sparse")]), "its models"),
            (isinstance(record["small"], bool) and not (record["small"] and record["codebooks"]), "its vectors"),
            (isinstance(record["language"], str) and record["language"] in LANGUAGES, "its language"),
            (is_list and _are_texts(classes), "its classes"),
            (is_list and all(map(_is_number, thresholds)) and len(classes) == len(thresholds), "its thresholds"),
            (isinstance(heads, dict) and _are_texts(heads.values()), "its heads"),
        ):
            segment.require(right, where, f"the description of {what} is invalid")
        sequences = {"classes": tuple(classes), "thresholds": tuple(thresholds)}
        return {name: record[name] for name in HEADER} | sequences


HEADER = tuple(Header.__dataclass_fields__)


@dataclass(frozen=True)
class Manifest:
    """The description of an index."""

    header: Header
    segments: tuple[Entry, ...]  # in the order of their rows
    tuned: Mapping[str, Any] = field(default_factory=dict)  # see semclass.PassageIndex.tuned
    cutting: Mapping[str, Any] | None = None  # how the documents of a folder were cut; None: that is not known

    @property
    def passages(self) -> int:
        """Count the passages that are not deleted."""
        return sum(entry.live for entry in self.segments)

    def as_json(self) -> bytes:
        """Return the manifest as the bytes of its file."""
        fields = {"segments": [vars(entry) for entry in self.segments], "passages": self.passages}
        fields |= {"tuned": dict(self.tuned), "cutting": self.cutting}
        return artifacts.dump_json({"protocol": PROTOCOL, "kind": "index", **self.header.header(), **fields})


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index. Raises an ArtifactError if it is missing, damaged or of another protocol."""
    path = folder / artifacts.MANIFEST
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(_absent(folder)) from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}") from error
    return _parsed(artifacts.parse_json(data, path, REMEDY), path)


def _absent(folder: Path) -> str:
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file, not the folder of an index; name the folder that `semclass index build` wrote"
    if folder.exists():
        lacks = f"{folder} holds no index ({artifacts.MANIFEST} is missing)"
        return f"{lacks}; build one with `semclass index build FILES --out INDEX`, and name INDEX"
    return f"{folder} does not exist; build an index there with `semclass index build FILES --out {folder}`"


def manifest_or_none(folder: Path) -> Manifest | None:
    """Read the manifest of an index. Returns None if it cannot be read."""
    try:
        return read_manifest(folder)
    except ArtifactError:
        return None


def _parsed(values: Mapping[str, Any], path: Path) -> Manifest:
    """Check the values of a manifest."""
    if values.get("kind") == "index" and values.get("protocol") != PROTOCOL:
        version = short(values.get("protocol"))
        raise ArtifactError(f"{path} has protocol {version}; this version of semclass reads {PROTOCOL}: {REMEDY}")
    artifacts.check_protocol(values, path, "index", PROTOCOL)
    header = Header(**Header.read(values, path))
    missing = [key for key in ("segments", "tuned", "cutting") if key not in values]
    if missing:
        raise ArtifactError(f"{path} has no field {missing[0]!r}; {REMEDY}")
    entries, cutting = values["segments"], values["cutting"]
    right = isinstance(entries, list) and entries and all(map(_is_entry, entries))
    right = right and len({entry["name"] for entry in entries}) == len(entries)
    segment.require(right, path, "the description of its segments is invalid")
    right = cutting is None or isinstance(cutting, dict)
    segment.require(right, path, "the description of how documents were cut is invalid")
    segments = tuple(Entry(**entry) for entry in entries)
    return Manifest(header, segments, _tuned(values["tuned"], path), cutting)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_entry(entry: Any) -> bool:
    """Whether a segment is described with all its files, and its name does not lead out of the folder."""
    if not isinstance(entry, dict) or {*entry} != {"name", "passages", "files", "kept"}:
        return False
    files, name, kept = entry["files"], entry["name"], entry["kept"]
    if not (isinstance(files, dict) and all(map(artifacts.is_record, files.values())) and _is_count(entry["passages"])):
        return False
    if not (isinstance(name, str) and re.fullmatch(SEGMENT_NAME, name) and isinstance(kept, str)):
        return False
    try:
        Entry(**entry).keep  # noqa: B018 - a ValueError for another text
    except ValueError:
        return False
    return {*files} in ({*segment.FILES}, {*segment.FILES, *segment.REDUCED_FILES})


def _tuned(tuned: Any, path: Path) -> Mapping[str, Any]:
    """Check the field ``tuned``; its weights must be finite numbers of at least 0."""
    weights = tuned.get("weights", {}) if isinstance(tuned, dict) else None
    if not (isinstance(weights, dict) and all(_is_number(value) and value >= 0 for value in weights.values())):
        raise ArtifactError(
            f"{path} has a tuned weight that is not a number of at least 0; run `semclass tune --reset`"
        )
    answerable = tuned.get("answerable", {"from": 0})
    threshold = answerable.get("from", -1) if isinstance(answerable, dict) else -1
    if not (_is_number(threshold) and 0 <= threshold <= 1):
        raise ArtifactError(
            f"{path} has a threshold that is not a number from 0 to 1; run `semclass calibrate --reset`"
        )
    if not isinstance(tuned.get("method", ""), str):
        raise ArtifactError(f"{path} has a method that is not a name; run `semclass tune --reset`")
    return dict(tuned)


# the folder


def check_target(folder: str | Path, *, replace: bool) -> None:
    """Refuse to build an index into a folder with other files, or, without `replace`, with an index."""
    folder = Path(folder)
    try:
        if folder.is_file():
            raise ArtifactError(f"{folder} is a file; name a folder for the index")
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be read: {error.strerror or error}; name another folder") from error
    there, ours = artifacts.MANIFEST in names, [name for name in names if OURS.fullmatch(name)]
    allowed = {artifacts.MANIFEST, *ours} if there or LOCK in names else ()  # without the two, no index was ever here
    others = [name for name in names if not name.startswith(".") and name not in allowed]
    if there and not others:
        try:
            others = (
                [] if artifacts.read_json(folder / artifacts.MANIFEST).get("kind") == "index" else [artifacts.MANIFEST]
            )
        except ArtifactError:
            others = [] if ours else [artifacts.MANIFEST]
    if others:
        raise ArtifactError(f"{folder} holds other files ({others[0]!r}); name a new or empty folder for the index")
    if there and not replace:
        raise ArtifactError(_existing(folder))


def _existing(folder: Path) -> str:
    instead = "give --replace (replace=True) to build another index in its place"
    try:
        existing = read_manifest(folder)
    except ArtifactError as error:
        return f"{folder} holds an index that cannot be used ({error}); {instead}, or name another folder"
    tuned = ", without its tuned weights" if existing.tuned.get("weights") else ""
    count = counted(existing.passages, "passage")
    add = "add to it with `semclass index add`"
    return f"{folder} holds an index of {count} already; {instead}{tuned}, {add}, or name another folder"


def open_parts(
    folder: Path, current: Manifest, known: Sequence[Part], *, mmap: bool = False, verify: bool = False
) -> tuple[Manifest, list[Part]]:
    """Open the segments that a manifest names, except for `known` ones. If it is replaced meanwhile, start again."""
    opened = {part.segment.name: part for part in known}
    while True:
        try:
            parts = [_open(folder, current.header, entry, opened, mmap, verify) for entry in current.segments]
            segment.check_alike([part.segment for part in parts], folder)
            return current, parts
        except ArtifactError:  # noqa: PERF203 - a change of an index is rare
            if (newer := read_manifest(folder)) == current:
                raise
            current = newer


def _open(folder: Path, header: Header, entry: Entry, opened: Mapping[str, Part], mmap: bool, verify: bool) -> Part:
    if (part := opened.get(entry.name)) is None:
        place, classes = folder / entry.name, len(header.classes)
        if mmap:
            artifacts.check_files(place, entry.files, REMEDY, hashes=verify)
        part = Part(Segment.open(Files(place, entry.files, hashes=verify, mmap=mmap), entry.name))
        segment.check(part.segment, entry.passages, place, classes=classes, small=header.small, exact=header.exact)
    same = part.entry is not None and part.entry.kept == entry.kept
    return part if same else replace(part, keep=entry.keep, entry=entry)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Lock an index for a change. The system releases the lock when the process ends, even by a crash.

    Yields the path of a folder for new files, which is removed afterwards.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(artifacts.open_to_write(folder / LOCK, append=True), "ab")
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be written: {error.strerror or error}; name another folder") from error
    process, place = os.getpid(), folder / f"{BUILDING}{uuid.uuid4().hex}"
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
            yield place
        finally:
            # a child that was forked meanwhile shares the lock, and does not give it back; on Windows closing does
            if os.getpid() == process:
                shutil.rmtree(place, ignore_errors=True)
                if not WINDOWS:
                    fcntl.flock(file.fileno(), fcntl.LOCK_UN)  # even if a child holds the file open


@contextlib.contextmanager
def os_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into an ArtifactError, whose message says that the index is unchanged."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"{error} (is the disk full?)"
        raise ArtifactError(f"index {folder} cannot be written: {reason}; the existing index is unchanged") from error


def commit(folder: Path, place: Path, new: Manifest, segments: Sequence[Entry | Sequence[Part]]) -> Manifest:
    """Replace the manifest in one step by a new one with the given segments, and remove files that it does not name.

    Each item of `segments` without an entry is first written as one segment to `place`, a folder within `folder`. If
    writing fails, the new files are removed, because a full disk has no room for them.
    """
    before = manifest_or_none(folder)
    try:
        with os_errors(folder):
            entries = [one if isinstance(one, Entry) else _install(one, folder, place) for one in segments]
        new = replace(new, segments=tuple(entries))
        artifacts.write_atomic(folder / artifacts.MANIFEST, new.as_json())
    except BaseException:
        # somebody may still want to repair an index with a damaged manifest
        if before is not None or not (folder / artifacts.MANIFEST).exists():
            clean(folder, before, manifest_or_none(folder))
        raise
    clean(folder, new)
    return new


def _install(parts: Sequence[Part], folder: Path, place: Path) -> Entry:
    """Join segments into one within `folder`, flushed; no manifest names it yet."""
    made = place / uuid.uuid4().hex
    files = segment.write(parts, made, final=True)
    name = segment.name_of(files)
    try:
        artifacts.check_files(folder / name, files, REMEDY)  # what has this name is the same to the last bit
    except ArtifactError:
        discard(folder / name)  # or was damaged since
        made.rename(folder / name)
    artifacts.flush(folder)
    return Entry(name, sum(map(len, parts)), files)


def clean(folder: Path, *manifests: Manifest | None) -> None:
    """Remove files of earlier changes, even killed ones, that no manifest names. The caller must hold the lock."""
    named = {entry.name for manifest in manifests if manifest is not None for entry in manifest.segments}
    with contextlib.suppress(OSError):
        # similar names belong to others
        for path in [path for path in folder.iterdir() if path.name not in named and OURS.fullmatch(path.name)]:
            discard(path)


def discard(path: Path) -> None:
    """Remove a staged file or folder. A folder is renamed first, so that no folder with its name is incomplete."""
    with contextlib.suppress(OSError):
        if path.suffix == ".part":
            path.unlink()
        elif path.is_dir():
            deleted = path.with_name(f"{BUILDING}{uuid.uuid4().hex}")
            path.rename(deleted)
            shutil.rmtree(deleted, ignore_errors=True)


def store(folder: str | Path, *, cutting: Mapping[str, Any] | None = None, **tuned: Any) -> None:
    """Replace fields in the manifest of an index, even damaged fields, in one step. Other files stay the same.

    `cutting` holds the settings for cutting documents; None keeps them. All other keywords are fields of
    :attr:`semclass.PassageIndex.tuned`; None removes a field.
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
        artifacts.write_atomic(path, _parsed(values, path).as_json())


def describe(folder: str | Path) -> dict[str, Any]:
    """Describe an index. Only its manifest is read."""
    current = read_manifest(Path(folder))
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
