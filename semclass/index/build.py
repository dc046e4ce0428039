"""Building an index on the disk, from a stream of passages, in bounded memory; a build that was stopped continues.

Passages are read in groups of :data:`GROUP`. Each group becomes a segment in an area within the folder of the index, and a
journal says which groups are done, and of which passages. At the end they are joined into one segment, and that becomes
the index. Whatever was in the folder before is the index until then.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_unique
from semclass.core.errors import ArtifactError, InputError
from semclass.core.types import Passage
from semclass.index import commit, joining, manifest
from semclass.index.commit import AREA
from semclass.index.ingest import IndexConfig, chunks, in_order, line_of, threads_of, warn_of_long
from semclass.index.lock import locked
from semclass.index.manifest import PROTOCOL, Manifest, header_of
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import Segment, hashes_of
from semclass.index.target import check_target

GROUP = 4096
"""Passages that are written at a time; a stop loses at most one group."""

JOURNAL = "journal.json"
"""File that lists the finished groups."""


@dataclass(frozen=True)
class Done:
    """A group that is on the disk."""

    name: str  # folder of its segment
    passages: int
    digest: str  # SHA-256 over all passages up to the last of this group
    long: list[str]  # ids of passages that are longer than the encoder reads
    files: dict[str, dict[str, Any]]  # by file: "bytes" and "sha256"


@dataclass
class _Group:
    """A group that is being read."""

    number: int
    digest: str
    passages: int
    parts: list[Segment] = field(default_factory=list)
    long: list[str] = field(default_factory=list)


def build_index(
    folder: str | Path,
    passages: Iterable[Passage],
    *,
    passage_encoder: PassageEncoder | None = None,
    similarity: str = "cosine",
    form: str | None = None,
    progress: Callable[[int], object] | None = None,
    resume: bool = True,
    workers: int | None = None,
    replace: bool = True,
) -> PassageIndex:
    """Build an index in a folder, in bounded memory; what was there before is the index until the new one is complete.

    Parameters
    ----------
    folder
        Made if it is not there; may hold an index, but nothing else.
    passages
        A stream of at least one, see :func:`semclass.documents.readers.iter_passages`. Ids must be unique, texts not empty.
    passage_encoder, similarity, form, progress
        As for :meth:`semclass.PassageIndex.build`.
    resume
        Whether to continue a build that was stopped in this folder: passages that it read are taken from there as long as
        they, the models and the options are the same.
    workers
        Threads that read passages; the result does not depend on them. If None, as many as use all processors with the
        threads of the encoder.
    replace
        Whether an index that is there may be replaced, its tuned weights with it.

    Raises
    ------
    InputError, InputTypeError
        As for :meth:`semclass.PassageIndex.build`; what was read until then is kept for the next call.
    ArtifactError
        If the folder holds something else, or an index that may not be replaced; if another writer has it, or it cannot be
        written; if a build with other models or options was stopped there, and `resume` is true.
    """
    folder = Path(folder)
    config = IndexConfig.of(PassageEncoder.load() if passage_encoder is None else passage_encoder, similarity, form)
    threads = threads_of(config.passage_encoder, workers)
    check_target(folder, replace=replace)
    groups = chunks(passages, GROUP)
    first = next(groups, None)
    if first is None:
        raise InputError("there are no passages to index; give at least one")
    with locked(folder):
        # another build may have ended while the first passages were read
        check_target(folder, replace=replace)
        if (before := manifest.find(folder)) is not None:
            commit.clean(folder, before)
        with commit.os_errors(folder):
            area = _Area(folder / AREA, _identity(config), resume=resume)
        _fill(area, chain([first], groups), config, progress, threads)
        with commit.staging(folder) as place, commit.rollback(folder):
            folders = joining.join_folders([area.folder / done.name for done in area.done], place)
            entry = commit.install([joining.opened(path) for path in folders], folder, place, config.similarity)
            made = Manifest(header_of(config.header()), (entry,), manifest.generation_of(folder) + 1)
            commit.commit(folder, made, built=True)
    warn_of_long([name for done in area.done for name in done.long], entry.passages, stacklevel=3)
    return PassageIndex.load(folder, verify=False)


class _Area:
    """The folder of a build, and its journal."""

    def __init__(self, folder: Path, identity: str, *, resume: bool) -> None:
        self.folder, self.identity = folder, identity
        self.known = self._read() if resume else []
        self.done: list[Done] = []
        if not self.known:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path.is_dir() and path.name not in {done.name for done in self.known}:
                shutil.rmtree(path, ignore_errors=True)

    def _read(self) -> list[Done]:
        """Groups that an earlier build finished with the same models and options."""
        path = self.folder / JOURNAL
        if not path.is_file():
            return []
        try:
            values = artifacts.read_json(path)
            identity, done = values["identity"], [Done(**item) for item in values["done"]]
        except (ArtifactError, KeyError, TypeError):
            _say(f"the build that was stopped in {self.folder.parent} cannot be continued: its journal is damaged")
            return []
        if identity != self.identity:
            count = sum(item.passages for item in done)
            raise ArtifactError(
                f"a build with other models or options was stopped in {self.folder.parent} after {count} passages; give "
                "the same ones to continue it, or discard it with resume=False (--no-resume)"
            )
        return done

    def again(self, number: int, digest: str) -> bool:
        """Take a group from an earlier build, if its passages are the same."""
        if number >= len(self.known) or number != len(self.done):
            return False
        found = self.known[number]
        try:
            if found.digest != digest:
                raise ArtifactError("its passages differ")
            artifacts.check_files(self.folder / found.name, found.files, "it is read again")
        except ArtifactError:
            kept = sum(done.passages for done in self.done)
            _say(
                f"the build that was stopped in {self.folder.parent} continues after {kept} passages: the next ones differ"
            )
            self.known = self.known[:number]
            return False
        self.done.append(found)
        return True

    def add(self, group: _Group) -> None:
        """Write a group."""
        staged, name = self.folder / ".part", f"part-{group.number:06}"
        for path in (staged, self.folder / name):
            shutil.rmtree(path, ignore_errors=True)
        files = joining.write([(part, None) for part in group.parts], staged)
        staged.rename(self.folder / name)
        artifacts.flush(self.folder)
        self.done.append(Done(name, group.passages, group.digest, group.long, files))
        values = {"identity": self.identity, "done": [asdict(done) for done in self.done]}
        artifacts.write_atomic(self.folder / JOURNAL, artifacts.dump_json(values))


def _fill(
    area: _Area,
    groups: Iterable[list[Passage]],
    config: IndexConfig,
    progress: Callable[[int], object] | None,
    threads: int,
) -> None:
    """Read all groups that are not there yet."""
    report = progress or (lambda _: None)
    unique = _Unique()
    digest = hashlib.sha256()

    def to_read() -> Iterator[tuple[_Group, list[Passage]]]:
        """Chunks of groups that are not there, while the passages before them are being read."""
        for number, passages in enumerate(groups):
            unique.add([passage.id for passage in passages])
            for passage in passages:
                digest.update(line_of(passage))
            if area.again(number, digest.hexdigest()):
                report(len(passages))
                continue
            group = _Group(number, digest.hexdigest(), len(passages))
            for chunk in chunks(passages):
                yield group, chunk

    for (group, chunk), (part, long) in in_order(lambda item: config.read(item[1]), to_read(), threads):
        group.parts.append(part)
        group.long += long
        if sum(map(len, group.parts)) == group.passages:
            with commit.os_errors(area.folder.parent):
                area.add(group)
            group.parts.clear()
        report(len(chunk))


class _Unique:
    """The ids so far, as 64 bits each: that two ids have the same is less probable than a broken disk."""

    def __init__(self) -> None:
        self.hashes: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)

    def add(self, ids: list[str]) -> None:
        check_unique(ids, "passage id")
        new = hashes_of(ids)
        places = np.searchsorted(self.hashes, new)
        if len(self.hashes):
            known = np.flatnonzero(self.hashes[np.minimum(places, len(self.hashes) - 1)] == new)
            if len(known):
                raise InputError(f"passage id {ids[known[0]]!r} comes twice; ids must be unique")
        order = np.argsort(new)
        self.hashes = np.insert(self.hashes, places[order], new[order])


def _identity(config: IndexConfig) -> str:
    """A hash of all that decides, with the passages, what an index holds."""
    head = config.passage_encoder.classifier.head
    fields = {
        **header_of(config.header()),
        "head": None if head is None else head.artifact.manifest["files"]["model.onnx"]["sha256"],
        "protocol": PROTOCOL,
        "group": GROUP,
    }
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _say(message: str) -> None:
    warnings.warn(message, stacklevel=4)
