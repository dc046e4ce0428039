"""Opening the segments that a manifest names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.encoders.onnx_encoder import mismatch
from semclass.index import manifest, shapes
from semclass.index.manifest import Entry, Manifest
from semclass.index.removal import read_deleted
from semclass.index.segment import Segment
from semclass.scoring.postings import Deleted


@dataclass(frozen=True)
class Source:
    """Where an index was loaded from, and what it held then."""

    folder: Path
    manifest: Manifest
    mmap: bool = False  # whether files are memory-mapped


@dataclass(frozen=True)
class Opened:
    """A segment of a folder, and what was deleted from it."""

    entry: Entry
    segment: Segment
    deleted: Deleted | None


def open_segments(
    source: Source, known: Mapping[str, Opened], *, encoder_fingerprint: str | None = None, verify: bool = False
) -> tuple[Source, list[Opened]]:
    """Open what a manifest names, as far as it is not `known` by name; start again if it is replaced meanwhile."""
    while True:
        folder, found = source.folder, source.manifest
        if encoder_fingerprint not in (None, found.header["encoder"]):
            raise mismatch(f"the index {folder}", found.header["encoder"], str(encoder_fingerprint), REMEDY)
        try:
            opened = [_open(source, entry, known.get(entry.name), verify=verify) for entry in found.segments]
            shapes.check_alike([each.segment for each in opened], folder)
            return source, opened
        except ArtifactError:
            newer = manifest.read(folder)
            if newer == found:
                raise
            source = replace(source, manifest=newer)


def _open(source: Source, entry: Entry, known: Opened | None, *, verify: bool) -> Opened:
    folder = source.folder / entry.name
    if known is None:
        if source.mmap:
            artifacts.check_files(folder, entry.files, REMEDY, hashes=verify)
        segment = Segment.open(Files(folder, entry.files, hashes=verify, mmap=source.mmap), entry.name)
        shapes.check(segment, source.manifest.header, entry.passages, folder)
    else:
        segment = known.segment
    if not entry.deleted:
        return Opened(entry, segment, None)
    if known is not None and known.entry.deleted.get("name") == entry.deleted["name"]:
        return Opened(entry, segment, known.deleted)
    deleted = read_deleted(source.folder, entry.deleted)
    shapes.check_deleted(segment, deleted, entry.deleted["passages"], source.folder / str(entry.deleted["name"]))
    return Opened(entry, segment, deleted)
