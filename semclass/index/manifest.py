"""The manifest of an index: its fields, reading and checking it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.checks import short
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.encoders.words import LANGUAGES
from semclass.index import segment
from semclass.index.segment import Entry

PROTOCOL = 9
"""Version of the folder's format."""

LOCK = ".lock"
"""File that a writer holds a lock on. It stays: removing it could let two writers in."""

SEGMENT_NAME = rf"{segment.PREFIX}[0-9a-f]{{16}}"


@dataclass(frozen=True, kw_only=True)
class Header:
    """Models and options that made all passages of an index."""

    encoder: str  #: fingerprint of the encoder that computed the vectors
    classes: tuple[str, ...]  #: names of the passage classes
    thresholds: tuple[float, ...]  #: probability from which a passage has a class, by class
    head: str  #: fingerprint of the passage heads; empty without
    small: bool  #: whether only vectors of sentences are stored, so that re-ranking encodes the candidates again
    codebooks: str  #: fingerprint of the codebooks of the token vectors; empty without codebooks
    sparse: str  #: fingerprint of the head of learnt words; empty without
    language: str  #: language of the stems of words, see `semclass.encoders.words.LANGUAGES`
    heads: Mapping[str, str]  #: fingerprints of the heads by the field that each labels

    def header(self) -> dict[str, Any]:
        """Return these fields by name."""
        return {name: getattr(self, name) for name in HEADER}

    @staticmethod
    def read(record: Mapping[str, Any], where: Path | str) -> dict[str, Any]:
        """Check these fields as JSON values, and return them by name; an ArtifactError says `where` they are wrong."""
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
            require(right, where, what)
        sequences = {"classes": tuple(classes), "thresholds": tuple(thresholds)}
        return {name: record[name] for name in HEADER} | sequences


HEADER = tuple(Header.__dataclass_fields__)


def require(right: object, where: object, what: str) -> None:
    """Refuse a manifest in which something is described wrongly."""
    if not right:
        raise ArtifactError(f"{where} has an invalid description of {what}; {REMEDY}")


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

    @property
    def names(self) -> set[str]:
        """All names in the folder of the index that belong to it."""
        return {entry.name for entry in self.segments}

    @property
    def contents(self) -> list[tuple[str, Any]]:
        """The segments' names, each with its passages that are not deleted: the same for the same passages."""
        return [(entry.name, entry.kept) for entry in self.segments]

    def as_json(self) -> bytes:
        """Write the manifest as its file holds it."""
        fields = {"segments": [vars(entry) for entry in self.segments], "passages": self.passages}
        fields |= {"tuned": dict(self.tuned), "cutting": self.cutting}
        return artifacts.dump_json({"protocol": PROTOCOL, "kind": "index", **self.header.header(), **fields})


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


def parse(values: Mapping[str, Any], path: Path) -> Manifest:
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
    require(isinstance(entries, list) and entries and all(map(_is_entry, entries)), path, "its segments")
    require(len({entry["name"] for entry in entries}) == len(entries), path, "its segments (one name occurs twice)")
    require(cutting is None or isinstance(cutting, dict), path, "how documents were cut")
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
