"""The folder of an index, read: whether one may be built there, its segments, and its description."""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.artifacts import array_of
from semclass.core.checks import counted
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.encoders.onnx_encoder import mismatch
from semclass.index import manifest, shapes
from semclass.index.commit import AREA, OURS
from semclass.index.manifest import LOCK, PROTOCOL, Entry, Manifest
from semclass.index.segment import Segment
from semclass.scoring.postings import Deleted

_IN_AREA = re.compile(rf"{OURS.pattern}|{re.escape(artifacts.MANIFEST)}|{re.escape(LOCK)}")
"""Names in :data:`AREA`; a folder with other names was not made by a build."""


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
    ours, area = {name for name in names if OURS.fullmatch(name)}, folder / AREA
    if AREA in names and not (area.is_dir() and all(_IN_AREA.fullmatch(item.name) for item in area.iterdir())):
        return [AREA]
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
    """Whether a manifest is that of an index which this version may replace; for a damaged one `damaged` decides."""
    try:
        values = artifacts.read_json(folder / artifacts.MANIFEST)
    except ArtifactError:
        return damaged
    protocol = values.get("protocol")
    return values.get("kind") == "index" and isinstance(protocol, int) and protocol <= PROTOCOL


DAMAGES = (OSError, ValueError, TypeError, KeyError, EOFError, ArithmeticError, RuntimeError, zipfile.BadZipFile)
"""Errors that a damaged ``.npz`` file causes."""


@dataclass(frozen=True)
class Source:
    """Where an index was loaded from, and what it held then."""

    folder: Path
    manifest: Manifest
    mmap: bool = False  # whether files are memory-mapped


@dataclass(frozen=True)
class Opened:
    """A segment of a folder, and its deleted passages."""

    entry: Entry
    segment: Segment
    deleted: Deleted | None


def open_segments(
    source: Source, known: Mapping[str, Opened], *, encoder_fingerprint: str | None = None, verify: bool = False
) -> tuple[Source, list[Opened]]:
    """Open the segments that a manifest names and are not `known`; start again if it is replaced meanwhile."""
    while True:
        folder, current = source.folder, source.manifest
        if encoder_fingerprint not in (None, current.header["encoder"]):
            raise mismatch(f"the index {folder}", current.header["encoder"], str(encoder_fingerprint), REMEDY)
        try:
            opened = [_open(source, entry, known.get(entry.name), verify=verify) for entry in current.segments]
            shapes.check_alike([item.segment for item in opened], folder)
            return source, opened
        except ArtifactError:
            newer = manifest.read(folder)
            if newer == current:
                raise
            source = replace(source, manifest=newer)


def _open(source: Source, entry: Entry, known: Opened | None, *, verify: bool) -> Opened:
    folder = source.folder / entry.name
    if known is None:
        if source.mmap:
            artifacts.check_files(folder, entry.files, REMEDY, hashes=verify)
        segment = Segment.open(Files(folder, entry.files, hashes=verify, mmap=source.mmap), entry.name)
        shapes.check(segment, source.manifest.header, entry.passages, folder)
        known = Opened(Entry(entry.name, entry.passages, entry.files), segment, None)
    if known.entry.deleted.get("name") == entry.deleted.get("name"):
        return replace(known, entry=entry)
    if not entry.deleted:
        return Opened(entry, known.segment, None)
    deleted, path = read_deleted(source.folder, entry.deleted), source.folder / str(entry.deleted["name"])
    shapes.check_deleted(known.segment, deleted, entry.deleted["passages"], path)
    return Opened(entry, known.segment, deleted)


def read_deleted(folder: Path, record: Mapping[str, Any]) -> Deleted:
    """Read the deleted passages of a segment; an ArtifactError if the file is missing or was changed."""
    path = folder / str(record["name"])
    data = artifacts.read_file(path, record, REMEDY)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            # as they are written: compressed arrays may be of any size
            if any(item.compress_type != zipfile.ZIP_STORED or item.file_size > len(data) for item in file.infolist()):
                raise ValueError("its arrays are compressed")
            names = ("rows", "document_frequencies", "terms")
            rows, frequencies, terms = (array_of(file.read(f"{name}.npy")) for name in names)
            return Deleted(rows, frequencies, int(terms))
    except DAMAGES as error:
        raise ArtifactError(f"{path} cannot be read ({error}); {REMEDY}") from error


def describe(folder: str | Path) -> dict[str, Any]:
    """Describe an index, from its manifest alone."""
    current = manifest.read(Path(folder))
    sizes: dict[str, int] = {}
    for entry in current.segments:
        for name, record in entry.files.items():
            sizes[name] = sizes.get(name, 0) + int(record["bytes"])
        if entry.deleted:
            sizes["removed"] = sizes.get("removed", 0) + int(entry.deleted["bytes"])
    return {
        "passages": current.passages,
        "removed": sum(entry.passages - entry.live for entry in current.segments),
        "segments": [entry.live for entry in current.segments],
        "generation": current.generation,
        **{name: current.header[name] for name in ("encoder", "small", "classes", "heads")},
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
