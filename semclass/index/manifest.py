"""The manifest of an index: its fields, reading and checking it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.checks import short
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.index import segment

PROTOCOL = 7
"""Version of the folder's format."""

LOCK = ".lock"
"""File that a writer holds a lock on. It stays: removing it could let two writers in."""

ANSWERABLE = "answerable"
"""Key of ``tuned`` under which ``semclass calibrate`` stores from which ``answerable`` the index seems to answer."""

REMOVED = "removed-"
"""Names of files begin with it that say which passages of a segment were deleted; their hash follows."""

SEGMENT_NAME, REMOVED_NAME = rf"{segment.PREFIX}[0-9a-f]{{16}}", rf"{REMOVED}[0-9a-f]{{16}}\.npz"

HEADER = ("encoder", "classes", "thresholds", "small", "codebooks")
"""Fields about the whole index; ``heads`` is there, too, where heads label passages."""


@dataclass(frozen=True)
class Entry:
    """A segment, as the manifest names it."""

    name: str  # of its folder
    passages: int  # deleted ones included
    files: Mapping[str, Mapping[str, Any]]  # by file: "bytes" and "sha256"
    deleted: Mapping[str, Any] = field(default_factory=dict)  # the file of deleted passages; empty if none are

    @property
    def live(self) -> int:
        """How many passages are left."""
        return self.passages - int(self.deleted.get("passages", 0))


@dataclass(frozen=True)
class Manifest:
    """What makes files an index."""

    header: Mapping[str, Any]  # the fields of HEADER
    segments: tuple[Entry, ...]  # in the order of their rows
    generation: int = 1  # rises by 1 with every change of the passages
    tuned: Mapping[str, Any] = field(default_factory=dict)  # see semclass.PassageIndex.tuned
    cutting: Mapping[str, Any] | None = None  # how the documents of a folder were cut; None: that is not known

    @property
    def passages(self) -> int:
        """How many passages are there."""
        return sum(entry.live for entry in self.segments)

    @property
    def names(self) -> set[str]:
        """All that it names in the folder of the index."""
        return {named["name"] for entry in self.segments for named in (vars(entry), entry.deleted) if named}

    @property
    def contents(self) -> list[tuple[str, Any]]:
        """The segments' names, each with the file of its deleted passages: the same for the same passages."""
        return [(entry.name, entry.deleted.get("name")) for entry in self.segments]

    def as_json(self) -> bytes:
        """Give the file's bytes."""
        entries = [
            {"name": entry.name, "passages": entry.passages, "files": entry.files}
            | ({"removed": entry.deleted} if entry.deleted else {})
            for entry in self.segments
        ]
        fields = {"protocol": PROTOCOL, "kind": "index", "generation": self.generation, "segments": entries}
        fields["passages"] = self.passages
        fields |= {"tuned": dict(self.tuned)} if self.tuned else {}
        fields |= {} if self.cutting is None else {"cutting": dict(self.cutting)}
        return artifacts.dump_json({**self.header, **fields})


def header_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says about the whole index, from the fields of a :class:`semclass.PassageIndex`."""
    found = {name: fields[name] for name in HEADER}
    heads = {"heads": dict(fields["heads"])} if fields["heads"] else {}
    return {**found, "classes": list(found["classes"]), "thresholds": found["thresholds"].tolist(), **heads}


def read(folder: Path) -> Manifest:
    """Read the manifest of an index; an ArtifactError if there is none, or it is damaged or of another protocol."""
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
        return f"{folder} is a file, not the folder of an index; name the folder that `semclass index build` wrote"
    if folder.exists():
        lacks = f"{folder} holds no index ({artifacts.MANIFEST} is missing)"
        return f"{lacks}; build one with `semclass index build FILES --out INDEX`, and name INDEX"
    return f"{folder} does not exist; build an index there with `semclass index build FILES --out {folder}`"


def read_or_none(folder: Path) -> Manifest | None:
    """Read the manifest of an index; None where there is none that can be read."""
    try:
        return read(folder)
    except ArtifactError:
        return None


def generation_of(folder: Path) -> int:
    """Generation of the index in a folder; 0 where there is none that can be read."""
    found = read_or_none(folder)
    return 0 if found is None else found.generation


def parse(values: Mapping[str, Any], path: Path) -> Manifest:
    """Check what a manifest holds."""
    if values.get("kind") == "index" and values.get("protocol") != PROTOCOL:
        version = short(values.get("protocol"))
        raise ArtifactError(f"{path} has protocol {version}; this version of semclass reads {PROTOCOL}: {REMEDY}")
    artifacts.check_protocol(values, path, "index", PROTOCOL)
    missing = [key for key in (*HEADER, "segments", "generation") if key not in values]
    if missing:
        raise ArtifactError(f"{path} has no field {missing[0]!r}; {REMEDY}")

    def require(right: object, what: str) -> None:
        if not right:
            raise ArtifactError(f"{path} has an invalid description of {what}; {REMEDY}")

    header = {name: values[name] for name in HEADER}
    classes, thresholds = header["classes"], header["thresholds"]
    require(all(isinstance(header[name], str) for name in ("encoder", "codebooks")), "its models")
    require(isinstance(header["small"], bool) and not (header["small"] and header["codebooks"]), "its vectors")
    require(isinstance(classes, list) and all(isinstance(name, str) for name in classes), "its classes")
    require(isinstance(thresholds, list) and all(map(_is_number, thresholds)), "its thresholds")
    require(len(classes) == len(thresholds), "its thresholds")
    require(_is_count(values["generation"]), "its generation")
    if "heads" in values:
        heads = header["heads"] = values["heads"]
        require(isinstance(heads, dict) and all(isinstance(text, str) for text in heads.values()), "its heads")
    entries = values["segments"]
    require(isinstance(entries, list) and entries and all(map(_is_entry, entries)), "its segments")
    cutting = values.get("cutting")
    require(cutting is None or isinstance(cutting, dict), "how documents were cut")
    names = [named["name"] for entry in entries for named in (entry, entry.get("removed")) if named]
    require(len(set(names)) == len(names), "its segments (one name occurs twice)")
    segments = tuple(
        Entry(entry["name"], entry["passages"], entry["files"], entry.get("removed", {})) for entry in entries
    )
    return Manifest(header, segments, values["generation"], _tuned(values, path), cutting)


def _is_number(value: object) -> bool:
    """Whether a value is a number that a float64 can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_entry(entry: Any) -> bool:
    """Whether a segment is described with all its files, and no name leads out of the folder."""
    if not isinstance(entry, dict) or not _is_named(entry, SEGMENT_NAME) or not _is_count(entry.get("passages")):
        return False
    files, deleted = entry.get("files"), entry.get("removed", {})
    if not isinstance(files, dict) or not isinstance(deleted, dict):
        return False
    if {*files} not in ({*segment.FILES}, {*segment.FILES, *segment.REDUCED_FILES}):
        return False
    if not all(map(artifacts.is_record, files.values())):
        return False
    known = _is_named(deleted, REMOVED_NAME) and _is_count(deleted.get("passages")) and artifacts.is_record(deleted)
    return not deleted or (known and deleted["passages"] <= entry["passages"])


def _is_named(entry: Mapping[str, Any], pattern: str) -> bool:
    return isinstance(entry.get("name"), str) and re.fullmatch(pattern, entry["name"]) is not None


def _tuned(values: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The field ``tuned`` of a manifest; its weights must be finite numbers of at least 0."""
    tuned = values.get("tuned", {})
    weights = tuned.get("weights", {}) if isinstance(tuned, dict) else None
    numbers = isinstance(weights, dict) and all(_is_number(value) and value >= 0 for value in weights.values())
    if not numbers:
        raise ArtifactError(
            f"{path} has a tuned weight that is not a number of at least 0; run `semclass tune --reset`"
        )
    found = tuned.get(ANSWERABLE, {"from": 0})
    least = found.get("from", -1) if isinstance(found, dict) else -1
    if not (_is_number(least) and 0 <= least <= 1):
        raise ArtifactError(
            f"{path} has a threshold that is not a number from 0 to 1; run `semclass calibrate --reset`"
        )
    return dict(tuned)
