"""Builds an index on the disk from a stream of passages, in bounded memory. You can resume an unfinished build.

A build is a writer on a temporary index within the folder of the index, and commits every few seconds. At the end its
segments are joined into one, which becomes the index. Until then, an older index in the folder stays valid. A resumed
build compares the passages with the temporary index, and does not encode these passages again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replaced
from itertools import chain
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.checks import counted
from semclass.core.errors import ArtifactError, InputError, warn
from semclass.core.types import Passage
from semclass.index import commit, manifest
from semclass.index.commit import AREA
from semclass.index.ingest import IndexConfig, threads_of, warn_of_long
from semclass.index.labels import fields_of
from semclass.index.lock import locked
from semclass.index.manifest import Manifest, header_of
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex, read_index
from semclass.index.passage_stream import chunks, line_of
from semclass.index.pending import READ
from semclass.index.target import check_target
from semclass.index.writer import SECONDS, IndexWriter


def build_index(
    folder: str | Path,
    passages: Iterable[Passage],
    *,
    passage_encoder: PassageEncoder | None = None,
    small: bool = False,
    progress: Callable[[int], object] | None = None,
    resume: bool = True,
    workers: int | None = None,
    replace: bool = False,
    cutting: Mapping[str, Any] | None = None,
) -> PassageIndex:
    """Build an index in a folder, in bounded memory. An older index stays valid until the new index is complete.

    Parameters
    ----------
    folder
        Folder of the index, which is created if it does not exist. It may hold an index if `replace` is true, but
        nothing else.
    passages
        A stream of at least one passage, see :func:`semclass.documents.readers.iter_passages`. Ids must be unique, and
        texts must not be empty.
    passage_encoder, small, progress
        See :meth:`semclass.PassageIndex.build`.
    resume
        Whether to resume an unfinished build in this folder. Encoded passages are reused as long as passages, models
        and options are the same.
    workers
        Number of threads that encode passages. The result does not depend on this number. By default, these threads and
        the threads of the encoder together use all processors.
    replace
        Whether to replace an existing index, including its tuned weights.
    cutting
        How documents of a folder were cut into passages. The index stores these settings for
        ``semclass.index.sync.sync_index``.

    Raises
    ------
    InputError, InputTypeError
        For the same reasons as in :meth:`semclass.PassageIndex.build`. Passages encoded so far are kept for the next
        call.
    ArtifactError
        If the folder holds other files, or holds an index and `replace` is false. If another writer is at work, or the
        folder cannot be written. If the folder holds an unfinished build with other models or options, and `resume` is
        true.
    """
    folder = Path(folder)
    config = IndexConfig.of(PassageEncoder.load() if passage_encoder is None else passage_encoder, small=small)
    threads = threads_of(config.passage_encoder, workers)
    check_target(folder, replace=replace)
    groups = chunks(passages)
    first = next(groups, None)
    if first is None:
        raise InputError("there are no passages to index; give at least one")
    with locked(folder):
        # another build may have ended while the first passages were read
        check_target(folder, replace=replace)
        if (before := manifest.read_or_none(folder)) is not None:
            commit.clean(folder, before)
        truncated = _fill(folder / AREA, chain([first], groups), config, progress, threads, resume=resume)
        with commit.staging(folder) as place, commit.rollback(folder):
            filled = PassageIndex.load(folder / AREA, verify=False, mmap=True)
            entry = commit.install(filled.parts(), folder, place)
            generation = manifest.generation_of(folder) + 1
            made = Manifest(header_of(config.header()), (entry,), generation, cutting=cutting)
            commit.commit(folder, made, built=True)
    warn_of_long(truncated, entry.passages)
    return PassageIndex.load(folder, verify=False)


def _fill(
    area: Path,
    groups: Iterable[list[Passage]],
    config: IndexConfig,
    progress: Callable[[int], object] | None,
    workers: int,
    *,
    resume: bool,
) -> list[str]:
    """Make the index of all groups in `area`; the ids of passages read that are longer than the encoder reads."""
    done, stream = 0, iter(groups)
    truncated: list[str] = []
    known = _stopped(area, config) if resume else None
    if known is None:
        shutil.rmtree(area, ignore_errors=True)
        first = next(stream)
        known, truncated = read_index(config, first, progress, workers)
        known = replaced(known, tuned=_head(config))
        known.save(area)
        done = len(first)
    with IndexWriter.open(area, passage_encoder=config.passage_encoder) as writer:
        for group in stream:
            if not _holds(known, done, group):
                _drop(writer, known, done)
                rest = chain([group], stream)
                return truncated + writer.append(rest, progress, workers, commit_every=SECONDS)[1]
            done += len(group)
            if progress is not None:
                progress(len(group))
        _drop(writer, known, done)
    return truncated


def _stopped(area: Path, config: IndexConfig) -> PassageIndex | None:
    """What an earlier build with the same models and options left; None for nothing that can be used."""
    if not (area / artifacts.MANIFEST).is_file():
        return None
    try:
        known = PassageIndex.load(area, mmap=True)
    except ArtifactError as error:
        warn(UserWarning(f"the unfinished build in {area.parent} cannot be resumed, and starts again: {error}"))
        return None
    if (known.header(), known.tuned) != (header_of(config.header()), _head(config)):
        raise ArtifactError(
            f"{area.parent} holds an unfinished build of {counted(len(known), 'passage')} with other models or options; "
            "resume it with the same models and options, or discard it with resume=False (--no-resume)"
        )
    return known


def _head(config: IndexConfig) -> dict[str, str]:
    """Which passage head gives the probabilities: an index's header does not say, and theirs must be of one."""
    head = config.passage_encoder.classifier.head
    return {} if head is None else {"head": head.artifact.manifest["files"]["model.onnx"]["sha256"]}


def _holds(known: PassageIndex, first: int, group: list[Passage]) -> bool:
    """Whether the passages from a place on are those of a group."""
    held = known.passages(known.rows[first : first + len(group)])
    labels = fields_of(known.heads)
    return [line_of(passage, labels) for passage in held] == [*map(line_of, group)]


def _drop(writer: IndexWriter, known: PassageIndex, first: int) -> None:
    """Delete the passages from a place on, of which the stream has others or none."""
    rows = known.rows[first:]
    if len(rows):
        held = counted(first, "passage")
        warn(UserWarning(f"the unfinished build resumes after {held}: the passages after it changed"))
    for start in range(0, len(rows), READ):
        writer.delete(passage.id for passage in known.passages(rows[start : start + READ]))
