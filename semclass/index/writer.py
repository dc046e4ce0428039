"""Changes an index: builds it, syncs it with documents, and adds, replaces and deletes passages.

Every change is an :class:`IndexChange` of the segments of a folder. It encodes no text again that is already in the index.
:func:`build_index` changes an empty index in a folder within the index, and :func:`sync_index` changes what differs.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_choice, check_positive, check_texts, counted
from semclass.core.errors import ArtifactError, InputError, warn
from semclass.core.files import Files
from semclass.core.tools import Once, available_threads
from semclass.core.types import IntArray, Passage
from semclass.documents.chunking import named_by_content
from semclass.index import filters, segment
from semclass.index.folder import (
    AREA,
    Header,
    Manifest,
    check_target,
    clean,
    commit,
    discard,
    locked,
    manifest_or_none,
    os_errors,
    read_manifest,
    store,
)
from semclass.index.passage_encoder import (
    PassageEncoder,
    check_heads,
    check_models,
    chunks,
    described,
    fields_of,
    labelled,
    language_for,
    name_ids,
    searchable,
    title_of,
    warn_of_truncated,
)
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import READ_PASSAGES, Entry, Part, Segment, hashes_of, line_of

COMMIT_SECONDS = 5.0
"""Seconds after which a build or a sync commits. A killed process loses little more than the work of this time."""

COMPARED_PASSAGES = 1024
"""Number of passages that a change compares with their old versions at a time."""

GROWTH = 3
"""A new segment is joined with its predecessor unless the predecessor has at least this many times its passages.

So n passages are in at most 1 + log(n) / log(GROWTH) segments. A passage is written again about this many times.
"""

MEMORY_PASSAGES = 4096
"""Maximum number of new passages of a segment in memory. A larger segment is written to the disk before the commit."""

MEMORY_BYTES = 1 << 24
"""Maximum bytes of texts and metadata of a segment in memory."""

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

    An index has one writer at a time, and any number of readers. A reader sees the index in the state in which it was
    opened, until it calls :meth:`semclass.PassageIndex.refresh`. An error changes nothing. Passages that stay are not
    encoded again.

    New passages become one segment, joined with earlier segments that have less than three times as many passages, as in
    a log-structured merge-tree (O'Neil et al. 1996). A segment with most of its passages deleted is rewritten.

    Parameters
    ----------
    add
        A stream of passages with unique ids. A replaced passage with the same text and title is not encoded again.
    delete
        Ids of passages, or a filter over the metadata, see :mod:`semclass.index.filters`.
    existing
        For an id in `add` that the index has: ``"refuse"`` refuses the change, and ``"replace"`` replaces the passage, or
        deletes it if the new passage has no text.
    missing
        For an id in `delete` that the index does not have: ``"refuse"`` refuses the change, and ``"ignore"`` ignores the
        id.
    compact
        Whether to join all segments, and to remove deleted passages from the files.
    passage_encoder
        The models that built the index, or a function that loads them for new texts. Defaults to the shipped models.
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
        change.delete(change.emptied if existing == "replace" else (), ignore_missing=True)
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
    workers: int | None = None,
    replace: bool = False,
    cutting: Mapping[str, Any] | None = None,
) -> PassageIndex:
    """Build an index in a folder, in bounded memory. An older index stays valid until the new index is complete.

    Until then, passages are committed every few seconds to an unfinished index within the folder. The next build with the
    same models and options resumes it, and encodes no text again that it holds.

    Parameters
    ----------
    folder
        Folder of the index. It is created if it does not exist, and must hold no other files.
    passages, passage_encoder, small, language
        See :meth:`semclass.PassageIndex.build`. `passages` may be a stream.
    progress
        Function that is called from time to time with the number of finished passages.
    workers
        Number of threads that encode passages, which does not change the result. By default, these threads and the
        threads of the encoder together use all processors.
    replace
        Whether to replace an existing index, including its tuned weights.
    cutting
        Settings with which documents were cut into passages. The index keeps them for
        ``semclass.index.writer.sync_index``. Passages then get ids as in a sync.

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
    threads_of(encoder, workers)
    check_target(folder, replace=replace)
    stream = chunks(passages if cutting is None else named_by_content(passages))
    if (first := next(stream, None)) is None:
        raise InputError("there are no passages to index; give at least one")
    start = Manifest(encoder.header(small=small, language=language_for(first, language)), (), cutting=cutting)
    with locked(folder) as place:
        # another build may have ended while the first passages were read
        check_target(folder, replace=replace)
        _check_unfinished(folder / AREA, start.header)
        with open_change(folder / AREA, encoder, progress=progress, workers=workers, start=start) as change:
            change.sync(chain.from_iterable(chain([first], stream)))
            commit(folder, place, start, [change.index.parts])
        discard(folder / AREA)
    index = PassageIndex.load(folder, verify=False)
    warn_of_truncated(change.truncated, len(index))
    return index


def _check_unfinished(area: Path, header: Header) -> None:
    """Refuse an unfinished build with other models or options, and discard one that cannot be read."""
    if not (area / artifacts.MANIFEST).is_file():
        return
    try:
        unfinished = PassageIndex.load(area, mmap=True)
    except ArtifactError as error:
        warn(UserWarning(f"the unfinished build in {area.parent} cannot be resumed, and starts again: {error}"))
        discard(area)
        return
    if unfinished.header() != header.header():
        raise ArtifactError(
            f"{area.parent} holds an unfinished build of {counted(len(unfinished), 'passage')} with other models or "
            f"options; resume it with the same models and options, or delete {area} to discard it"
        )


@dataclass(frozen=True)
class Change:
    """The changes of a document."""

    document: str  #: ``metadata["document"]``, or the id of a passage without this field
    kind: str  #: ``"added"``, ``"changed"`` or ``"removed"``
    added: int  #: number of new passages
    changed: int  #: number of changed passages; most of them have only moved
    removed: int  #: number of removed passages


def find_changes(index: PassageIndex | None, passages: Iterable[Passage]) -> list[Change]:
    """Return the changes that :func:`sync_index` would make, by document. Without an index, everything is added."""
    comparison = Comparison(index)
    for chunk in chunks(named_by_content(passages)):
        comparison.compare(chunk)
    for _ in comparison.missing():
        pass
    return comparison.changes()


def sync_index(
    folder: str | Path,
    passages: Iterable[Passage],
    *,
    cutting: Mapping[str, Any] | None = None,
    passage_encoder: PassageEncoder | Callable[[], PassageEncoder] | None = None,
    progress: Callable[[int], object] | None = None,
    workers: int | None = None,
    before_removing: Callable[[int, int], object] | None = None,
) -> list[Change]:
    """Make an index hold the given passages and no other passages. Returns the changes by document.

    Texts that the index already holds, under any id, are not encoded again. New passages are committed every few seconds,
    so that the next sync continues a stopped one. Missing passages are removed at the end. If there is no index, it is
    built, see :func:`semclass.build_index`. All other arguments and errors are those of :func:`semclass.change_index`.

    Parameters
    ----------
    passages
        A stream of at least one passage. Passages that were cut from documents are named by their content, not by their
        number: ``document#number`` becomes ``document#digest``. So an id stays the same as long as the text does.
    cutting
        Settings with which the passages were cut. The index keeps them for the next sync.
    before_removing
        Function that is called before passages are removed, with the number of documents to remove, and the number of all
        documents in the index. If it raises an error, nothing is removed.

    Raises
    ------
    InputError, InputTypeError
        If there are no passages, a passage is not allowed, or an id comes twice. The call then removes nothing.
    """
    folder = Path(folder)
    if manifest_or_none(folder) is None:
        comparison, encoder = Comparison(None), passage_encoder() if callable(passage_encoder) else passage_encoder
        stream = comparison.counting(named_by_content(passages))
        build_index(folder, stream, passage_encoder=encoder, progress=progress, workers=workers, cutting=cutting)
        return comparison.changes()
    with open_change(folder, passage_encoder, progress=progress, workers=workers) as change:
        comparison = change.sync(named_by_content(passages), before_removing)
        change.commit()
    change.report()
    if cutting not in (None, read_manifest(folder).cutting):
        store(folder, cutting=cutting)
    return comparison.changes()


class Comparison:
    """Compares passages, a chunk at a time, with those of an index, and counts the differences by document."""

    def __init__(self, index: PassageIndex | None) -> None:
        self.index, self.documents = index, defaultdict[str, Counter[str]](Counter)
        self._seen = np.zeros(0 if index is None else index.starts[-1], np.bool_)

    def compare(self, chunk: Sequence[Passage]) -> tuple[IntArray, list[str]]:
        """Return the row of each passage in the index, or -1 for an unknown id, and the kind of change.

        The kind is ``"added"``, ``"same"``, ``"changed"``, or ``"moved"`` if only the metadata changed.
        """
        rows, old = np.full(len(chunk), -1, np.int64), iter(list[Passage]())
        labels = () if self.index is None else fields_of(self.index.heads)
        if self.index is not None:
            rows = self.index.find([passage.id for passage in chunk])
            self._seen[rows[rows >= 0]] = True
            old = iter(self.index.passages(rows[rows >= 0]))
        kinds = [
            _kind(new, next(old) if row >= 0 else None, labels) for new, row in zip(chunk, rows.tolist(), strict=True)
        ]
        for passage, kind in zip(chunk, kinds, strict=True):
            self.documents[_document(passage)]["changed" if kind == "moved" else kind] += 1
        return rows, kinds

    def counting(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield passages, and count all as added."""
        for passage in passages:
            self.documents[_document(passage)]["added"] += 1
            yield passage

    def missing(self) -> Iterator[list[str]]:
        """Yield the ids of the passages that were not in the stream."""
        if self.index is None:
            return
        rows = self.index.rows[~self._seen[self.index.rows]]
        for begin in range(0, len(rows), READ_PASSAGES):
            old = self.index.passages(rows[begin : begin + READ_PASSAGES])
            for passage in old:
                self.documents[_document(passage)]["removed"] += 1
            yield [passage.id for passage in old]

    def removed(self) -> tuple[int, int]:
        """Count the documents of the index that are missing in the stream, and all documents of the index."""
        old = [counts for counts in self.documents.values() if counts["same"] + counts["changed"] + counts["removed"]]
        return sum(counts["removed"] == sum(counts.values()) for counts in old), len(old)

    def changes(self) -> list[Change]:
        """Return the documents that differ, by name."""
        found = []
        for name, counts in sorted(self.documents.items()):
            added, changed, removed = (counts[kind] for kind in ("added", "changed", "removed"))
            if added + changed + removed:
                whole = {added: "added", removed: "removed"}.get(sum(counts.values()), "changed")
                found.append(Change(name, whole, added, changed, removed))
        return found


def _kind(new: Passage, old: Passage | None, labels: Collection[str]) -> str:
    if old is None:
        return "added"
    if line_of(old, labels) == line_of(new):
        return "same"
    return "moved" if searchable(old) == searchable(new) else "changed"


def _document(passage: Passage) -> str:
    name = passage.metadata.get("document")
    return name if isinstance(name, str) else passage.id


@contextlib.contextmanager
def open_change(
    folder: str | Path,
    passage_encoder: PassageEncoder | LoadEncoder | None = None,
    *,
    progress: Callable[[int], object] | None = None,
    workers: int | None = None,
    start: Manifest | None = None,
) -> Iterator[IndexChange]:
    """Lock an index for a change. If there is no index, the change begins with the manifest `start`, without segments."""
    folder = Path(folder)
    if start is None:
        read_manifest(folder)  # before a lock is left in a folder that holds no index
    with locked(folder) as place:
        current = read_manifest(folder) if start is None else manifest_or_none(folder) or start
        clean(folder, current)
        load = passage_encoder if callable(passage_encoder) else lambda: passage_encoder or PassageEncoder.load()
        yield IndexChange(folder, place, current, load, progress or (lambda _: None), workers)


class IndexChange:
    """A change of an index in progress, see :func:`change_index`. The folder holds the old index until :meth:`commit`."""

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
        self.emptied: list[str] = []  # ids of passages without text, which are not added
        self._counts = {"added": 0, "changed": 0, "deleted": 0}
        self._before: tuple[Part, ...] = ()
        self._open(current)

    def _open(self, current: Manifest) -> None:
        self.current, self.index = current, PassageIndex.of(self.folder, current, self._before, mmap=True)
        self._before = self.index.parts

    def delete(self, chosen: Iterable[str] | Mapping[str, Any], *, ignore_missing: bool = False) -> None:
        """Delete passages by their ids or by a filter."""
        if isinstance(chosen, Mapping):
            if filters.has_no_conditions(filters.parse(chosen)):
                raise InputError("a filter without conditions would delete every passage; give a condition, or all ids")
            rows = np.flatnonzero(self.index.mask(chosen))
        else:
            names = list(dict.fromkeys(check_texts(chosen, "ids")))
            rows = self.index.find(names)
            if not ignore_missing and (unknown := [names[place] for place in np.flatnonzero(rows < 0)]):
                raise InputError(
                    f"{name_ids(unknown)} not in the index; correct the ids, or set missing='ignore' (--ignore-missing)"
                )
            rows = rows[rows >= 0]
        self._counts["deleted"] += len(rows)
        self.index = self.index.without(rows)

    def sync(
        self, passages: Iterable[Passage], before_removing: Callable[[int, int], object] | None = None
    ) -> Comparison:
        """Add or replace passages, and delete all others, see :func:`sync_index`."""
        comparison = Comparison(self.index)
        self.add(passages, comparison=comparison)
        if not comparison.documents:
            raise InputError(
                "the folder yields no passages, and a sync never empties an index; to remove the index, delete its folder"
            )
        missing = list(comparison.missing())
        if before_removing is not None:
            before_removing(*comparison.removed())
        for ids in missing:
            self.delete(ids)
        return comparison

    def add(self, passages: Iterable[Passage], *, replaces: bool = False, comparison: Comparison | None = None) -> None:
        """Add passages, or replace passages with the same ids. An unchanged text is not encoded again.

        With a `comparison`, texts that the index has under other ids are not encoded either, and the change is committed
        every few seconds, and before an error is raised.
        """
        begun, commits = time.monotonic(), comparison is not None
        items = self._compared(passages, comparison or Comparison(self.index), replaces, reuse=commits)
        try:
            for item in self._encoded(items):
                self._append(item)
                if commits and time.monotonic() - begun >= COMMIT_SECONDS:
                    self.commit()
                    self._open(self.current)
                    begun = time.monotonic()
                self.progress(item.size)
        except BaseException:
            if commits:
                self.commit()
            raise

    def _compared(
        self, passages: Iterable[Passage], comparison: Comparison, replaces: bool, *, reuse: bool
    ) -> Iterator[_Item]:
        """Compare passages, a chunk at a time, with those of the index, and copy those whose texts it has."""
        index, places = self.index, None
        for chunk in chunks(passages, COMPARED_PASSAGES, self.emptied):
            rows, kinds = comparison.compare(chunk)
            if not (replaces or reuse) and (there := [chunk[place].id for place in np.flatnonzero(rows >= 0)]):
                raise InputError(
                    f"{name_ids(there)} in the index already; replace passages with existing='replace' (--update)"
                )
            self._counts["added"] += kinds.count("added")
            self._counts["changed"] += kinds.count("changed") + kinds.count("moved")
            rows[[kind == "changed" for kind in kinds]] = -1
            if reuse and not {*kinds} <= {"same", "moved"}:
                places = _TextPlaces(index) if places is None else places
                rows = np.where(rows < 0, places.find(chunk), rows)
            copied = [place for place, kind in enumerate(kinds) if kind != "same" and rows[place] >= 0]
            again = [chunk[place] for place in copied]
            rest = [passage for passage, row in zip(chunk, rows.tolist(), strict=True) if row < 0]
            if len(rest) < len(chunk):
                yield _Item(len(chunk) - len(rest), again, _copies(index, rows[copied], again))
            for some in chunks(rest):
                yield _Item(len(some), some)

    def _encoded(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """Encode the passages of items that are new, by models that are loaded for the first."""
        for item in items:
            if item.parts is None:
                threads = threads_of(self._encoder, self._workers)
                yield from _in_order(self._encode, chain([item], items), threads)
                return
            yield item

    def _encode(self, item: _Item) -> _Item:
        if item.parts is not None:
            return item
        encoded, truncated = self._encoder.encode(item.passages, self.current.header)
        return item._replace(parts=[Part(encoded)], truncated=truncated)

    def _append(self, item: _Item) -> None:
        rows = self.index.find([passage.id for passage in item.passages])
        index = self.index.without(rows[rows >= 0])
        self.index = replace(index, parts=_merged([*index.parts, *(item.parts or ())], self.place))
        self.truncated += item.truncated

    def commit(self, *, compact: bool = False) -> None:
        """Apply all changes so far in one step. This ends the change."""
        parts = self.index.parts
        if parts == self._before and (not compact or (len(parts) == 1 and parts[0].keep is None)):
            return
        groups = [list(parts)] if compact else _plan(parts)
        segments = [self._entry(group, compact) or group for group in groups]
        self.current = commit(self.folder, self.place, self.current, segments)

    def _entry(self, group: list[Part], compact: bool) -> Entry | None:
        """The entry of a segment that need not be written."""
        part = group[0]
        if len(group) > 1 or part.entry is None or (compact and part.keep is not None):
            return None
        if part in self._before or part.keep is None:
            return part.entry
        return part.entry.with_kept(part.keep) if len(part) * 2 >= len(part.segment) else None

    def report(self) -> Report:
        """Return the numbers of changed passages."""
        warn_of_truncated(self.truncated, self._counts["added"] + self._counts["changed"])
        return Report(**self._counts, passages=self.current.passages, segments=len(self.current.segments))

    @Once
    def _encoder(self) -> PassageEncoder:
        """The models, loaded once they are needed; they must be those that made the index."""
        encoder = self._load()
        check_heads(self.folder, self.current.header.heads, encoder.head_fingerprints)
        check_models(self.current.header, encoder, f"the index {self.folder}")
        return encoder


class _Item(NamedTuple):
    """Some passages of a change."""

    size: int  # with those that stay as they are
    passages: list[Passage]  # new or changed
    parts: Sequence[Part] | None = None  # their rows; None: they are still to be encoded
    truncated: Sequence[str] = ()  # ids of passages that are longer than the encoder reads


class _TextPlaces:
    """The rows of an index by the titles and texts of its passages."""

    def __init__(self, index: PassageIndex) -> None:
        blocks = (index.rows[begin : begin + READ_PASSAGES] for begin in range(0, len(index), READ_PASSAGES))
        hashes = [*(_text_hashes(index.passages(rows)) for rows in blocks), np.zeros(1, np.uint64)]
        self.hashes, first = np.unique(np.concatenate(hashes), return_index=True)
        self.rows = np.append(index.rows, -1)[first]

    def find(self, passages: Sequence[Passage]) -> IntArray:
        """Return for each passage the row of a passage with the same title and text, or -1 if there is none."""
        hashes = _text_hashes(passages)
        places = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, self.rows[places], -1)


def _text_hashes(passages: Sequence[Passage]) -> npt.NDArray[np.uint64]:
    return hashes_of([f"{title_of(passage)}\n{passage.text}" for passage in passages])


def _copies(index: PassageIndex, rows: IntArray, passages: Sequence[Passage]) -> list[Part]:
    """Copy some rows with other ids and metadata, and the labels that they have; a row may come several times."""
    copies = []
    for part, places, local in index.within(rows):
        while len(places):
            once, first = np.unique(local, return_index=True)
            keep = np.zeros(len(part), np.bool_)
            keep[once] = True
            new = [passages[place] for place in places[first].tolist()]
            if index.heads:
                names, known = fields_of(index.heads), [passage.metadata for passage in part.passages(once)]
                labels = [{name: metadata[name] for name in names if name in metadata} for metadata in known]
                new = [labelled(passage, given) for passage, given in zip(new, labels, strict=True)]
            copies.append(Part(described(segment.join([Part(part, keep)]), new)))
            places, local = np.delete(places, first), np.delete(local, first)
    return copies


def _plan(parts: Sequence[Part]) -> list[list[Part]]:
    """Decide which segments a commit joins: see :func:`change_index`."""

    def joins(before: list[Part], group: list[Part]) -> bool:
        return group[-1].entry is None and (before[-1].entry is None or _size(before) < GROWTH * _size(group))

    return _grouped([part for part in parts if len(part)], joins) or [[parts[0]]]


def _merged(parts: Sequence[Part], place: Path) -> tuple[Part, ...]:
    """Merge each new segment into its smaller predecessors, so that lookups touch few segments."""
    groups = _grouped(parts, lambda before, group: before[-1].entry is None and _size(before) <= _size(group))
    return tuple(_joined(group, place) for group in groups)


def _grouped(parts: Sequence[Part], joins: Callable[[list[Part], list[Part]], bool]) -> list[list[Part]]:
    groups: list[list[Part]] = []
    for part in parts:
        group = [part]
        while groups and joins(groups[-1], group):
            group = groups.pop() + group
        groups.append(group)
    return groups


def _joined(group: list[Part], place: Path) -> Part:
    """Make one segment of new ones; on the disk, within `place`, if it is not small."""
    if len(group) == 1:
        return group[0]
    parts = [part for part in group if len(part)] or group[:1]
    if _size(group) < MEMORY_PASSAGES and sum(len(part.segment.records.values) for part in parts) < MEMORY_BYTES:
        return Part(segment.join(parts))
    folder = place / uuid.uuid4().hex
    with os_errors(place.parent):
        segment.write(parts, folder, final=False)
    for part in group:
        if part.segment.name:  # it stays open for as long as it is needed
            shutil.rmtree(place / part.segment.name, ignore_errors=True)
    return Part(Segment.open(Files(folder, mmap=True, by_row=False), folder.name))


def _size(group: Sequence[Part]) -> int:
    return sum(map(len, group))


def _in_order(job: Callable[[_Item], _Item], items: Iterable[_Item], workers: int) -> Iterator[_Item]:
    """Do a job for each item in several threads. Yield the results in the order of the items.

    Only a few more items than threads are taken in advance. With one worker, the caller's thread does all the work.
    """
    if workers == 1:
        yield from map(job, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[_Item]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(job, item))
                if len(waiting) > workers + 1:
                    yield waiting.popleft().result()
            yield from (future.result() for future in waiting)
        finally:
            for future in waiting:
                future.cancel()


def threads_of(passage_encoder: PassageEncoder, workers: int | None) -> int:
    """Return the number of threads that encode passages. By default, they and the encoder's threads use all processors."""
    free = available_threads() // int(getattr(passage_encoder.encoder, "threads", 1))
    return max(free, 1) if workers is None else check_positive(workers, "workers")
