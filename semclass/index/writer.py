"""Changes of an index: building it, adding, replacing and deleting passages, without encoding any other passage again.

Every change is an :class:`IndexChange` of the segments of a folder. :func:`build_index` is a change from nothing in a
folder within that of the index, and :func:`semclass.index.sync.sync_index` a change by a comparison with documents.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_choice, check_texts, counted, short
from semclass.core.errors import ArtifactError, EncoderMismatchError, InputError, warn
from semclass.core.types import Passage
from semclass.documents.cutting import named_by_content
from semclass.index import commit, filters, manifest
from semclass.index import segments_in_progress as in_progress
from semclass.index.commit import AREA, locked, staging
from semclass.index.encode_rows import (
    IndexConfig,
    chunks,
    in_order,
    language_for,
    line_of,
    name_ids,
    threads_of,
    warn_of_truncated,
)
from semclass.index.folder import Opened, Source, check_target, open_segments
from semclass.index.joining import READ_PASSAGES
from semclass.index.manifest import Entry, Manifest, header_of
from semclass.index.passage_encoder import PassageEncoder, check_heads, fields_of
from semclass.index.passage_index import PassageIndex
from semclass.index.segments_in_progress import Group, SegmentInProgress, TextPlaces
from semclass.scoring.postings import count_deleted

JOINED_CHUNKS = 32
"""Number of chunks of new passages that are joined at a time, on the disk if they are large."""

COMPARED_PASSAGES = 8192
"""Number of passages that a change compares with their old versions at a time."""

COMMIT_SECONDS = 5.0
"""Seconds after which a build or a sync commits. A killed process loses little more work than that of these seconds."""

LoadEncoder = Callable[[], PassageEncoder]


@dataclass(frozen=True)
class Report:
    """Result of a change of an index."""

    added: int  #: number of new passages
    changed: int  #: number of passages that replaced others with the same id
    deleted: int  #: number of deleted passages
    passages: int  #: number of passages after the change
    segments: int  #: number of segments after the change


def change_index(
    folder: str | Path,
    *,
    add: Iterable[Passage] = (),
    delete: Iterable[str] | Mapping[str, Any] = (),
    existing: str = "refuse",
    missing: str = "refuse",
    compact: bool = False,
    passage_encoder: PassageEncoder | LoadEncoder | None = None,
    progress: Callable[[int], object] | None = None,
    workers: int | None = None,
) -> Report:
    """Change an index in one step: delete passages, then add or replace others.

    An index has one writer at a time and any number of readers, which see the index as they opened it until they call
    :meth:`semclass.PassageIndex.refresh`. An error changes nothing. Passages that stay are not encoded again.

    New passages become one segment, joined with earlier segments that have less than three times as many passages, as in
    a log-structured merge-tree (O'Neil et al. 1996). A segment with most of its passages deleted is rewritten.

    Parameters
    ----------
    add
        A stream of passages with unique ids. A replaced passage with the same text and title is not encoded again.
    delete
        Ids of passages, or a filter over the metadata, see :mod:`semclass.index.filters`.
    existing
        For an id in `add` that the index has: ``"refuse"`` the change, or ``"replace"`` the passage.
    missing
        For an id in `delete` that the index does not have: ``"refuse"`` the change, or ``"ignore"`` the id.
    compact
        Whether to join all segments, and to remove deleted passages from the files.
    passage_encoder
        The models that built the index, or a function that loads them for new texts; by default the shipped models.
    progress, workers
        See :func:`build_index`.

    Raises
    ------
    InputError, InputTypeError
        If a passage, an id, the filter or an option is not allowed.
    EncoderMismatchError
        If a text must be encoded, and other models built the index.
    ArtifactError
        If there is no index, another writer is at work, or the index cannot be read or written.
    """
    check_choice(existing, ("refuse", "replace"), "existing")
    check_choice(missing, ("refuse", "ignore"), "missing")
    with open_change(folder, passage_encoder, progress=progress, workers=workers) as change:
        change.delete(delete, ignore_missing=missing == "ignore")
        change.add(add, replaces=existing == "replace")
        change.commit(compact=compact)
    return change.report()


def build_index(
    folder: str | Path,
    passages: Iterable[Passage],
    *,
    passage_encoder: PassageEncoder | None = None,
    small: bool = False,
    language: str | None = None,
    progress: Callable[[int], object] | None = None,
    resume: bool = True,
    workers: int | None = None,
    replace: bool = False,
    cutting: Mapping[str, Any] | None = None,
) -> PassageIndex:
    """Build an index in a folder, in bounded memory. An older index stays valid until the new index is complete.

    Until then, passages are committed every few seconds to an index within the folder, with which a resumed build begins.

    Parameters
    ----------
    folder
        Folder of the index, which is created if it does not exist, and holds nothing else.
    passages, passage_encoder, small, language, progress
        See :meth:`semclass.PassageIndex.build`. `passages` may be a stream.
    resume
        Whether to resume an unfinished build of the same passages with the same models and options.
    workers
        Number of threads that encode passages, which does not change the result. By default, these threads and the
        threads of the encoder together use all processors.
    replace
        Whether to replace an existing index, including its tuned weights.
    cutting
        How documents were cut into passages, which the index keeps for ``semclass.index.sync.sync_index``. Passages are
        then named as a sync names them.

    Raises
    ------
    InputError, InputTypeError
        As :meth:`semclass.PassageIndex.build`. Passages encoded so far are kept for the next call.
    ArtifactError
        If the folder holds other files, an index without `replace`, or an unfinished build with other models or options;
        if another writer is at work, or the folder cannot be written.
    """
    folder = Path(folder)
    encoder = PassageEncoder.load() if passage_encoder is None else passage_encoder
    threads = threads_of(encoder, workers)
    check_target(folder, replace=replace)
    stream = chunks(passages if cutting is None else named_by_content(passages))
    first = next(stream, None)
    if first is None:
        raise InputError("there are no passages to index; give at least one")
    config = IndexConfig.of(encoder, small=small, language=language_for(first, language))
    with locked(folder):
        # another build may have ended while the first passages were read
        check_target(folder, replace=replace)
        if (before := manifest.read_or_none(folder)) is not None:
            commit.clean(folder, before)
        truncated = _fill(folder / AREA, chain([first], stream), config, progress, threads, resume)
        with staging(folder) as place, commit.rollback(folder):
            filled = PassageIndex.load(folder / AREA, verify=False, mmap=True)
            entry = commit.install(filled.parts(), folder, place)
            header, generation = header_of(config.header()), manifest.generation_of(folder) + 1
            commit.commit(folder, Manifest(header, (entry,), generation, cutting=cutting), built=True)
    warn_of_truncated(truncated, entry.passages)
    return PassageIndex.load(folder, verify=False)


def _fill(
    area: Path,
    stream: Iterable[list[Passage]],
    config: IndexConfig,
    progress: Callable[[int], object] | None,
    workers: int,
    resume: bool,
) -> list[str]:
    head = config.passage_encoder.classifier.head
    # the header does not name the passage head, and all probabilities must be of one
    sign = {} if head is None else {"head": head.artifact.manifest["files"]["model.onnx"]["sha256"]}
    if (stopped := _stopped(area, config, sign) if resume else None) is None:
        shutil.rmtree(area, ignore_errors=True)
    start = Manifest(header_of(config.header()), (), 0, sign)
    with open_change(area, config.passage_encoder, progress=progress, workers=workers, start=start) as change:
        stream = _resumed(change, stopped, iter(stream)) if stopped is not None else stream
        change.append(stream, commit_seconds=COMMIT_SECONDS)
        change.commit()
    return change.truncated


def _stopped(area: Path, config: IndexConfig, sign: Mapping[str, str]) -> PassageIndex | None:
    """Open the unfinished build with the same models and options; None if there is none that can be used."""
    if not (area / artifacts.MANIFEST).is_file():
        return None
    try:
        stopped = PassageIndex.load(area, mmap=True)
    except ArtifactError as error:
        warn(UserWarning(f"the unfinished build in {area.parent} cannot be resumed, and starts again: {error}"))
        return None
    if (stopped.header(), stopped.tuned) != (header_of(config.header()), sign):
        raise ArtifactError(
            f"{area.parent} holds an unfinished build of {counted(len(stopped), 'passage')} with other models or options; "
            "resume it with the same models and options, or discard it with resume=False (--no-resume)"
        )
    return stopped


def _resumed(change: IndexChange, stopped: PassageIndex, stream: Iterator[list[Passage]]) -> Iterator[list[Passage]]:
    """Skip the chunks that an unfinished build begins with, delete its other passages, and yield the other chunks."""
    labels, done, rest = fields_of(stopped.heads), 0, list[list[Passage]]()
    for chunk in stream:
        old = stopped.passages(stopped.rows[done : done + len(chunk)])
        if [line_of(passage, labels) for passage in old] != [*map(line_of, chunk)]:
            rest = [chunk]
            break
        done += len(chunk)
        change.progress(len(chunk))
    rows = stopped.rows[done:]
    if len(rows):
        message = f"the unfinished build resumes after {counted(done, 'passage')}: the passages after it changed"
        warn(UserWarning(message))
    for begin in range(0, len(rows), READ_PASSAGES):
        change.delete([passage.id for passage in stopped.passages(rows[begin : begin + READ_PASSAGES])])
    yield from chain(rest, stream)


@contextlib.contextmanager
def open_change(
    folder: str | Path,
    passage_encoder: PassageEncoder | LoadEncoder | None = None,
    *,
    progress: Callable[[int], object] | None = None,
    workers: int | None = None,
    start: Manifest | None = None,
) -> Iterator[IndexChange]:
    """Lock an index for a change; where there is none, the change begins with the manifest `start`, without segments."""
    folder = Path(folder)
    if start is None:
        manifest.read(folder)  # before a lock is left in a folder that holds no index
    with locked(folder):
        current = manifest.read(folder) if start is None else manifest.read_or_none(folder) or start
        commit.clean(folder, current)
        encoder = PassageEncoder.load if passage_encoder is None else passage_encoder
        load: LoadEncoder = encoder if callable(encoder) else lambda: encoder
        with staging(folder) as place:
            yield IndexChange(folder, place, current, load, progress or (lambda _: None), workers)


class IndexChange:
    """A change of an index in progress, see :func:`change_index`. Nothing is changed before :meth:`commit`."""

    def __init__(
        self,
        folder: Path,
        place: Path,
        current: Manifest,
        load: LoadEncoder,
        progress: Callable[[int], object],
        workers: int | None,
    ) -> None:
        self.folder, self.place, self.progress, self._load, self._workers = folder, place, progress, load, workers
        self.truncated: list[str] = []  # ids of passages that are longer than the encoder reads
        self._counts = {"added": 0, "changed": 0, "deleted": 0}
        self._config: IndexConfig | None = None
        self._opened: dict[str, Opened] = {}
        self._start_from(current)

    def _start_from(self, current: Manifest) -> None:
        opened: list[Opened] = []
        if current.segments:
            source, opened = open_segments(Source(self.folder, current, mmap=True), self._opened)
            current = source.manifest
        self.current, self._opened = current, {item.entry.name: item for item in opened}
        self._segments = [
            SegmentInProgress(item.segment, entry=item.entry).without(() if item.deleted is None else item.deleted.rows)
            for item in opened
        ]
        self._before = list(self._segments)

    def delete(self, chosen: Iterable[str] | Mapping[str, Any], *, ignore_missing: bool = False) -> None:
        """Delete passages by their ids or by a filter."""
        if isinstance(chosen, Mapping):
            condition = filters.parse(chosen)
            if filters.has_no_conditions(condition):
                raise InputError("a filter without conditions would delete every passage; give a condition, or all ids")
            self._counts["deleted"] += in_progress.delete_where(self._segments, condition)
            return
        names = list(dict.fromkeys(check_texts(chosen, "ids")))
        owner, rows = in_progress.find(self._segments, names)
        if not ignore_missing and (unknown := [names[place] for place in np.flatnonzero(owner < 0)]):
            raise InputError(
                f"{name_ids(unknown)} not in the index; correct the ids, or set missing='ignore' (--ignore-missing)"
            )
        self._counts["deleted"] += in_progress.delete(self._segments, owner, rows)

    def add(
        self,
        passages: Iterable[Passage],
        *,
        replaces: bool = False,
        reuse: bool = False,
        commit_seconds: float | None = None,
    ) -> None:
        """Add passages, or replace passages with the same ids; a text that stays the same is not encoded again.

        With `reuse`, texts that the index has under other ids are not encoded either. With `commit_seconds`, the change is
        committed whenever so much time has passed.
        """
        if not replaces:
            self.append(self._unknown(chunks(passages)), commit_seconds=commit_seconds)
            return
        before, texts, heads = list(self._segments), None, self.current.header["heads"]
        for batch in chunks(passages, COMPARED_PASSAGES):
            owner, rows = in_progress.find(self._segments, [passage.id for passage in batch])
            same, changed = in_progress.change_metadata(self._segments, batch, owner, rows, heads)
            new = int((owner < 0).sum())
            self._counts["added"] += new
            self._counts["changed"] += in_progress.size(same) + len(changed) - new
            if reuse and changed:
                texts = TextPlaces.of(before) if texts is None else texts
                copies, unknown = in_progress.copy_known(before, texts, changed, heads)
                self._free({passage.id for passage in changed} - {passage.id for passage in unknown})
                same, changed = same + copies, unknown
            self._segments += same
            self.progress(len(batch) - len(changed))
            if changed:
                self.append(chunks(changed), replaces=True, commit_seconds=commit_seconds)
            self._segments = in_progress.merge(self._segments, self.place)

    def append(
        self, stream: Iterable[list[Passage]], *, replaces: bool = False, commit_seconds: float | None = None
    ) -> None:
        """Encode and append chunks of passages, see :meth:`add`; with `commit_seconds` also those before an error."""
        stream = iter(stream)
        if (head := next(stream, None)) is None:
            return
        config = self._models()
        threads = threads_of(config.passage_encoder, self._workers)
        first, begun = len(self._segments), time.monotonic()
        try:
            for chunk, (segment, long) in in_order(config.encode, chain([head], stream), threads):
                if replaces:
                    self._free([passage.id for passage in chunk])
                else:
                    self._counts["added"] += len(chunk)
                self._segments.append(SegmentInProgress(segment))
                self.truncated += long
                full = len(self._segments) - first >= JOINED_CHUNKS
                if commit_seconds is not None and (full or time.monotonic() - begun >= commit_seconds):
                    self.commit()
                    self._start_from(self.current)
                    first, begun = len(self._segments), time.monotonic()
                elif full:
                    self._segments[first:] = [in_progress.join_new(self._segments[first:], self.place)]
                    self._segments = in_progress.merge(self._segments, self.place)
                    first = len(self._segments)
                self.progress(len(chunk))
        except BaseException:
            if commit_seconds is not None:
                self.commit()
            raise

    def commit(self, *, compact: bool = False) -> None:
        """Apply all changes so far in one step. This ends the change."""
        whole = len(self._segments) == 1 and self._segments[0].deleted is None
        if self._segments == self._before and (whole or not compact):
            return
        groups = [self._segments] if compact else in_progress.plan(self._segments)
        with commit.rollback(self.folder):
            entries = tuple(self._write(group, compact=compact) for group in groups)
            changed = replace(self.current, segments=entries, generation=self.current.generation + 1)
            commit.commit(self.folder, changed)
        self.current = changed

    def report(self) -> Report:
        """Count what was done."""
        warn_of_truncated(self.truncated, self._counts["added"] + self._counts["changed"])
        return Report(**self._counts, passages=self.current.passages, segments=len(self.current.segments))

    def _write(self, group: Group, *, compact: bool) -> Entry:
        item = group[0]
        if len(group) == 1 and item.entry is not None and not (compact and item.deleted is not None):
            if item in self._before:
                return item.entry
            if item.deleted is not None and item.live * 2 >= len(item.segment):
                deleted = count_deleted(item.segment.postings, np.flatnonzero(item.deleted))
                return replace(item.entry, deleted=commit.write_deleted(self.folder, deleted))
        return commit.install([item.part for item in group], self.folder, self.place)

    def _unknown(self, stream: Iterable[list[Passage]]) -> Iterator[list[Passage]]:
        for chunk in stream:
            ids = [passage.id for passage in chunk]
            owner, _ = in_progress.find(self._segments, ids)
            if known := [ids[place] for place in np.flatnonzero(owner >= 0)]:
                raise InputError(
                    f"{name_ids(known)} in the index already; replace passages with existing='replace' (--update)"
                )
            yield chunk

    def _free(self, ids: Iterable[str]) -> None:
        in_progress.delete(self._segments, *in_progress.find(self._segments, list(ids)))

    def _models(self) -> IndexConfig:
        """The models, loaded once they are needed; they must be those that made the index."""
        if self._config is None:
            header = self.current.header
            self._config = IndexConfig.of(self._load(), small=header["small"], language=header["language"])
            loaded = header_of(self._config.header())
            check_heads(self.folder, header["heads"], loaded["heads"])
            if differing := [name for name in loaded if loaded[name] != header[name]]:
                raise EncoderMismatchError(
                    f"the index {self.folder} was built with {differing[0]} {short(header[differing[0]])}, the models "
                    f"have {short(loaded[differing[0]])}; name the models that built it (--models, --encoder)"
                )
        return self._config
