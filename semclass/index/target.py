"""Whether an index may be built in a folder."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from semclass.core import artifacts
from semclass.core.checks import counted
from semclass.core.errors import ArtifactError
from semclass.index.commit import AREA, OURS
from semclass.index.lock import LOCK
from semclass.index.manifest import PROTOCOL, read

FEEDBACK = "feedback.jsonl"
"""File of judgements beside an index, which no change of the index touches."""

_IN_AREA = re.compile(rf"{OURS.pattern}|{re.escape(artifacts.MANIFEST)}|{re.escape(LOCK)}")
"""Names in :data:`AREA`, which holds an index; a folder that holds others was not made by a build."""


def check_target(folder: str | Path, *, replace: bool) -> None:
    """Refuse to build an index into a folder that holds something else, before hours of work and not after.

    Without `replace` an index that is there, also one that cannot be used, is refused, too; a build that was stopped
    before there was one is no index.
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
        raise ArtifactError(f"{folder} holds other files ({others[0]!r}); name a new or empty folder for the index")
    if artifacts.MANIFEST in names and not replace:
        raise ArtifactError(_held(folder))


def _others(folder: Path, names: Collection[str]) -> list[str]:
    """Names in a folder that are not of an index; names that begin with a full stop are ignored."""
    ours = {name for name in names if OURS.fullmatch(name)}
    if AREA in names and not _is_area(folder / AREA):
        return [AREA]
    named = sorted(name for name in names if not name.startswith("."))
    others = [name for name in named if name not in (artifacts.MANIFEST, FEEDBACK) and name not in ours]
    if artifacts.MANIFEST in names:
        return others or ([] if _replaceable(folder, damaged=bool(ours)) else [artifacts.MANIFEST])
    return others if LOCK in names else named  # without the two, no index was ever here


def _is_area(path: Path) -> bool:
    """Whether all that is there may have been written by a build."""
    return path.is_dir() and all(_IN_AREA.fullmatch(held.name) for held in path.iterdir())


def _held(folder: Path) -> str:
    """Say which index a folder holds, and what the choices are."""
    instead = "give --replace (replace=True) to build another index in its place"
    try:
        found = read(folder)
    except ArtifactError as error:
        return f"{folder} holds an index that cannot be used ({error}); {instead}, or name another folder"
    tuned = ", without its tuned weights" if found.tuned.get("weights") else ""
    add = "add to it with `semclass index add`"
    count = counted(found.passages, "passage")
    return f"{folder} holds an index of {count} already; {instead}{tuned}, {add}, or name another folder"


def _replaceable(folder: Path, *, damaged: bool) -> bool:
    """Whether a manifest is that of an index which this version may replace; for a damaged one `damaged` decides."""
    try:
        values = artifacts.read_json(folder / artifacts.MANIFEST)
    except ArtifactError:
        return damaged
    protocol = values.get("protocol")
    return values.get("kind") == "index" and isinstance(protocol, int) and protocol <= PROTOCOL
