"""The folder of an index: how it is changed in one step.

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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.index import joining, manifest
from semclass.index.lock import locked
from semclass.index.manifest import ANSWERABLE, REMOVED_NAME, SEGMENT_NAME, Entry, Manifest
from semclass.index.segment import Part

BUILDING = ".building-"
"""Names of folders begin with it in which a change is being written."""

AREA = ".build"
"""Folder in which a long build keeps what is done, so that it can go on after a stop."""

INSTALLED = re.compile(rf"{SEGMENT_NAME}|{REMOVED_NAME}")
"""Names that a manifest may hold."""

OURS = re.compile(
    rf"{INSTALLED.pattern}|{re.escape(BUILDING)}[0-9a-f]{{32}}|\.(?:manifest\.json|{REMOVED_NAME})\.[0-9]+\.part"
)
"""Names that are removed if no manifest holds them."""


@contextlib.contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Give an empty folder within that of the index, for what is being written; it is gone afterwards."""
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
    """As :func:`reported`; what was written for a commit that fails is removed, as a full disk has no room for it."""
    before = manifest.read_or_none(folder)
    damaged = before is None and (folder / artifacts.MANIFEST).exists()
    try:
        with os_errors(folder):
            yield
    except BaseException:
        if not damaged:  # somebody may still want to repair it
            with contextlib.suppress(OSError):
                _remove(folder, _names(before) | _names(manifest.read_or_none(folder)), what=INSTALLED)
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


def commit(folder: Path, found: Manifest, *, built: bool = False) -> None:
    """Replace the manifest, in one step, and remove what it does not name; `built`: also the area of the build."""
    artifacts.write_atomic(folder / artifacts.MANIFEST, found.as_json())
    if built:
        with contextlib.suppress(OSError):
            (folder / AREA).rename(folder / f"{BUILDING}{uuid.uuid4().hex}")
    clean(folder, found)


def clean(folder: Path, found: Manifest) -> None:
    """Remove what changes left behind, also those that were killed; the lock must be held."""
    _remove(folder, found.names, what=OURS)


def _names(found: Manifest | None) -> set[str]:
    return set() if found is None else found.names


def _remove(folder: Path, named: Collection[str], *, what: re.Pattern[str]) -> None:
    """Remove what is not in `named` and whose full name matches `what`; similar names belong to others."""
    for path in folder.iterdir():
        if path.name in named or not what.fullmatch(path.name):
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
    """Replace what the manifest of an index says about tuned weights, in one step; nothing else is written."""
    _store(Path(folder), tuned or {}, threshold=False)


def store_answerable(folder: str | Path, found: Mapping[str, Any] | None) -> None:
    """Replace from which ``answerable`` an index seems to answer, as :func:`store_tuned` does."""
    _store(Path(folder), {ANSWERABLE: dict(found)} if found else {}, threshold=True)


def _store(folder: Path, fields: Mapping[str, Any], *, threshold: bool) -> None:
    """Replace the threshold in a manifest, or all about weights, also where that is damaged."""
    path = folder / artifacts.MANIFEST
    artifacts.read_json(path)
    with locked(folder):
        values = artifacts.read_json(path)
        before = values.get("tuned")
        kept = before.items() if isinstance(before, dict) else ()
        others = {name: value for name, value in kept if (name == ANSWERABLE) is not threshold}
        changed = manifest.parse({**values, "tuned": {**others, **fields}}, path)
        artifacts.write_atomic(path, changed.as_json())


def store_cutting(folder: Path, cutting: Mapping[str, Any]) -> None:
    """Replace what the manifest of an index says about how documents are cut, as :func:`store_tuned` does."""
    with locked(folder):
        artifacts.write_atomic(
            folder / artifacts.MANIFEST, replace(manifest.read(folder), cutting=dict(cutting)).as_json()
        )


def describe(folder: str | Path) -> dict[str, Any]:
    """What an index holds, from its manifest alone."""
    found = manifest.read(Path(folder))
    sizes: dict[str, int] = {}
    for entry in found.segments:
        for name, record in entry.files.items():
            sizes[name] = sizes.get(name, 0) + int(record["bytes"])
        if entry.deleted:
            sizes["removed"] = sizes.get("removed", 0) + int(entry.deleted["bytes"])
    live = found.passages
    return {
        "passages": live,
        "removed": sum(entry.passages for entry in found.segments) - live,
        "segments": [entry.live for entry in found.segments],
        "generation": found.generation,
        **{name: found.header[name] for name in ("encoder", "small", "classes")},
        "heads": found.header.get("heads", {}),
        "bytes": sizes,
        "tuned": found.tuned,
        "cutting": found.cutting,
        "unfinished": _size(Path(folder) / AREA),
    }


def _size(folder: Path) -> int:
    """Bytes of all files in a folder, which may go meanwhile; 0 where there is none."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
