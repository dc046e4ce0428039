"""Adds, replaces and deletes passages of an index by id, without encoding any other passage again."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core.checks import check_choice, check_texts, short
from semclass.core.errors import EncoderMismatchError, InputError
from semclass.core.types import Passage
from semclass.index import commit, filters, manifest, pending
from semclass.index.ingest import IndexConfig, in_order, threads_of, warn_of_long
from semclass.index.labels import check_heads
from semclass.index.lock import locked
from semclass.index.manifest import Entry
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.index.passage_stream import chunks, some
from semclass.index.pending import Group, PendingSegment
from semclass.index.removal import write_deleted
from semclass.scoring.postings import count_deleted

FLUSH = 32
"""Number of chunks of new passages that are joined at a time, on the disk if they are large."""

BATCH = 8192
"""Number of passages that an update compares with their old versions at a time."""

SECONDS = 5.0
"""Seconds after which a build or a sync commits. A killed process loses little more work than that of these seconds."""


class IndexWriter:
    """Changes an index. :meth:`open` returns a writer for a ``with`` block.

    Changes take effect with :meth:`commit`, which is also called at the end of the block. An exception in the block
    drops uncommitted changes. An index has one writer at a time and any number of readers. Readers see the index as
    they opened it until they call :meth:`semclass.PassageIndex.refresh`. Threads may share a writer, and take turns.

    A commit writes the new passages as one segment, joined with earlier segments that have less than `WIDER` times as
    many passages. Segments stay few, and large segments are seldom rewritten, as in a log-structured merge-tree (O'Neil
    et al. 1996). A segment with more than half of its passages deleted is rewritten without them. No commit encodes
    passages again.
    """

    def __init__(self, folder: Path, place: Path, passage_encoder: Callable[[], PassageEncoder]) -> None:
        self._folder, self._place, self._passage_encoder = folder, place, passage_encoder
        self._config: IndexConfig | None = None
        self._process, self._ended, self._turns = os.getpid(), False, threading.RLock()
        self._look(PassageIndex.load(folder, verify=False, mmap=True))

    def _look(self, index: PassageIndex) -> None:
        """Start from an index as it is."""
        self._index = index
        self._manifest = manifest.read(self._folder)
        self._pending = [
            PendingSegment(part, None if keep is None else ~keep, entry)
            for (part, keep), entry in zip(index.parts(), self._manifest.segments, strict=True)
        ]
        self._before = list(self._pending)

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, folder: str | Path, *, passage_encoder: PassageEncoder | Callable[[], PassageEncoder] | None = None
    ) -> Iterator[IndexWriter]:
        """Open an index for changes.

        Parameters
        ----------
        folder
            Folder of the index.
        passage_encoder
            The models that built the index, or a function that loads them. Only new texts need these models. By
            default, the writer loads the shipped models when it needs them.

        Yields
        ------
        IndexWriter
            Commits at the end of the block, unless an exception leaves the block.

        Raises
        ------
        ArtifactError
            If there is no index, another writer is at work, or the index cannot be written.
        """
        folder = Path(folder)
        manifest.read(folder)  # before a lock is left in a folder that holds no index
        with locked(folder):
            commit.clean(folder, manifest.read(folder))
            with commit.staging(folder) as place:
                load = (
                    PassageEncoder.load
                    if passage_encoder is None
                    else passage_encoder
                    if callable(passage_encoder)
                    else lambda: passage_encoder
                )
                writer = cls(folder, place, load)
                try:
                    yield writer
                    with writer._turn():
                        writer._commit(compact=False)
                finally:
                    writer._ended = True

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one thread at a time change the index, and none without the lock."""
        with self._turns:
            if self._ended:
                raise InputError("this writer is closed; open the index again to change it")
            if os.getpid() != self._process:
                raise InputError("this writer belongs to the process that opened it; use it only there")
            yield

    def __len__(self) -> int:
        """Count the passages that the index will have after a commit."""
        return sum(item.live for item in self._pending)

    def add(
        self,
        passages: Iterable[Passage],
        *,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
    ) -> int:
        """Add passages, and return how many were added.

        Parameters
        ----------
        passages
            A stream of passages with new ids.
        progress
            Function that is called now and then with the number of passages done.
        workers
            Number of threads that encode passages. See :func:`semclass.build_index`.

        Raises
        ------
        InputError, InputTypeError
            If a passage is not allowed, or its id exists. The call then adds nothing.
        EncoderMismatchError
            If other models built the index.
        """
        with self._all_or_nothing():
            count, truncated = self.append(self._new(passages), progress, workers)
        warn_of_long(truncated, count)
        return count

    def update(
        self,
        passages: Iterable[Passage],
        *,
        missing: str = "error",
        reuse: bool = False,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
        commit_every: float | None = None,
    ) -> int:
        """Replace passages with the same ids, and return how many changed or were added.

        A passage with unchanged text and title is not encoded again.

        Parameters
        ----------
        passages
            A stream of passages. Ids must be unique.
        missing
            What to do with an unknown id: ``"error"``, or ``"add"`` the passage.
        reuse
            Whether to reuse equal texts under other ids, for example of renamed documents. This reads the whole index.
        progress, workers
            See :meth:`add`.
        commit_every
            Seconds between commits, so that a stop loses little work. If None, the writer commits once, at the end of
            the block.

        Raises
        ------
        InputError, InputTypeError
            If a passage is not allowed, or an id is unknown. The call then changes nothing beyond what it has already
            committed.
        EncoderMismatchError
            If a text must be encoded, and other models built the index.
        """
        check_choice(missing, ("error", "add"), "missing")
        count, truncated = 0, list[str]()
        with self._turn() if commit_every is not None else self._all_or_nothing():
            before, texts = list(self._pending), None
            for batch in chunks(passages, BATCH):
                same, changed = self._sorted_out(batch, missing)
                if reuse and changed:
                    texts = pending.texts_of(before) if texts is None else texts
                    copies, unknown = pending.copy_known(before, texts, changed, self._index.heads)
                    self._free(sorted({passage.id for passage in changed} - {passage.id for passage in unknown}))
                    same, changed = same + copies, unknown
                self._pending += same
                if progress is not None:
                    progress(len(batch) - len(changed))
                if changed:
                    stream = iter(list(chunks(changed)))
                    truncated += self.append(stream, progress, workers, replaces=True, commit_every=commit_every)[1]
                count += len(changed) + sum(item.live for item in same)
                self._settle(len(before) if commit_every is None else 0)
        warn_of_long(truncated, count)
        return count

    def delete(
        self, ids: Iterable[str] | None = None, *, where: Mapping[str, Any] | None = None, missing: str = "error"
    ) -> int:
        """Delete passages by their ids or by a filter, and return how many were deleted.

        Parameters
        ----------
        ids
            Ids of the passages.
        where
            A filter over the metadata, see :mod:`semclass.index.filters`.
        missing
            What to do with an unknown id: ``"error"`` or ``"ignore"``.

        Raises
        ------
        InputError, InputTypeError
            If an id is unknown, the filter is not valid or has no condition, or you do not give exactly one of `ids`
            and `where`. The call then deletes nothing.
        """
        check_choice(missing, ("error", "ignore"), "missing")
        if (ids is None) == (where is None):
            raise InputError("give either ids or where (a filter)")
        with self._turn():
            if where is not None:
                condition = filters.parse(where)
                if filters.has_no_conditions(condition):
                    raise InputError(
                        "a filter without conditions would remove every passage; give a condition, or all ids"
                    )
                return pending.delete_where(self._pending, condition)
            names = list(dict.fromkeys(check_texts(ids or (), "ids")))
            owner, rows = pending.find(self._pending, names)
            unknown = [name for name, place in zip(names, owner.tolist(), strict=True) if place < 0]
            if missing == "error" and unknown:
                raise InputError(
                    f"{some(unknown)} in the index; correct the ids, or set missing='ignore' (--ignore-missing)"
                )
            pending.delete(self._pending, owner, rows)
            return int((owner >= 0).sum())

    def append(
        self,
        groups: Iterable[list[Passage]],
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
        *,
        replaces: bool = False,
        commit_every: float | None = None,
    ) -> tuple[int, list[str]]:
        """Encode and append chunks of passages. Returns the number of passages, and the ids of truncated passages.

        An existing id is an error, unless `replaces` is true. `commit_every` gives the seconds between commits.
        Passages are then also committed at an error.
        """
        count, cut, begun = 0, list[str](), time.monotonic()
        with self._turn():
            config = self._models()
            start = first = len(self._pending)
            free = self._free if replaces else self._refuse_known
            try:
                for chunk, (found, long) in in_order(config.read, groups, threads_of(config.passage_encoder, workers)):
                    free([passage.id for passage in chunk])
                    self._pending.append(PendingSegment(found))
                    count += len(chunk)
                    cut += long
                    full = len(self._pending) - first >= FLUSH
                    if commit_every is not None and (full or time.monotonic() - begun >= commit_every):
                        self.commit()
                        start = first = len(self._pending)
                        begun = time.monotonic()
                    elif full:
                        self._pending[first:] = [pending.joined(self._pending[first:], self._place)]
                        self._settle(start)
                        first = len(self._pending)
                    if progress is not None:
                        progress(len(chunk))
            except BaseException:
                if commit_every is not None:
                    self.commit()
                raise
        return count, cut

    def commit(self, *, compact: bool = False) -> bool:
        """Apply all changes so far in one step, and return whether anything changed.

        Parameters
        ----------
        compact
            Whether to join all segments, and to remove deleted passages from the files.

        Raises
        ------
        ArtifactError
            If the index cannot be written, for example because the disk is full. The index then stays unchanged.
        """
        with self._turn():
            if changed := self._commit(compact=compact):
                self._look(self._index.refresh())
            return changed

    def _commit(self, *, compact: bool) -> bool:
        groups = [self._pending] if compact else pending.plan(self._pending)
        whole = len(self._pending) == 1 and self._pending[0].deleted is None
        if self._pending == self._before and (whole or not compact):
            return False
        with commit.rollback(self._folder):
            entries = tuple(self._written(group, compact=compact) for group in groups)
            found = self._manifest
            commit.commit(self._folder, replace(found, segments=entries, generation=found.generation + 1))
        return True

    def _written(self, group: Group, *, compact: bool) -> Entry:
        """Write a group's segment, or what was deleted from the one that is there."""
        item = group[0]
        if len(group) == 1 and item.entry is not None and not (compact and item.deleted is not None):
            if item in self._before:
                return item.entry
            if item.deleted is not None and item.live * 2 >= len(item.segment):
                deleted = count_deleted(item.segment.postings, np.flatnonzero(item.deleted))
                return replace(item.entry, deleted=write_deleted(self._folder, deleted))
        return commit.install([item.part for item in group], self._folder, self._place)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        with self._turn():
            self._settle(0)
            before = list(self._pending)
            try:
                yield
            except BaseException:
                self._pending = before
                raise

    def _settle(self, first: int) -> None:
        self._pending[first:] = pending.settled(self._pending[first:], self._place)

    def _new(self, passages: Iterable[Passage]) -> Iterator[list[Passage]]:
        """Chunks of passages whose ids are found to be new before they are read."""
        for chunk in chunks(passages):
            self._refuse_known([passage.id for passage in chunk])
            yield chunk

    def _refuse_known(self, ids: Sequence[str]) -> None:
        owner, _ = pending.find(self._pending, ids)
        if known := [name for name, place in zip(ids, owner.tolist(), strict=True) if place >= 0]:
            raise InputError(
                f"{some(known, known=True)} in the index already; replace passages with `update` (--update)"
            )

    def _free(self, ids: Sequence[str]) -> None:
        pending.delete(self._pending, *pending.find(self._pending, ids))

    def _models(self) -> IndexConfig:
        """The models, loaded once they are needed; they must be those that made the index."""
        if self._config is None:
            index = self._index
            config = IndexConfig.of(self._passage_encoder(), small=index.small)
            check_heads(self._folder, index.heads, config.header()["heads"])
            for name, value in config.header().items():
                if name != "heads" and not np.array_equal(value, getattr(index, name)):
                    raise EncoderMismatchError(
                        f"the index {self._folder} was built with {name} {short(getattr(index, name))}, the models have "
                        f"{short(value)}; name the models that built it (--models, --encoder)"
                    )
            self._config = config
        return self._config

    def _sorted_out(self, batch: list[Passage], missing: str) -> tuple[list[PendingSegment], list[Passage]]:
        """Delete what changes in its metadata alone; see :func:`semclass.index.pending.replace_passages`."""
        ids = [passage.id for passage in batch]
        owner, rows = pending.find(self._pending, ids)
        unknown = [name for name, place in zip(ids, owner.tolist(), strict=True) if place < 0]
        if missing == "error" and unknown:
            raise InputError(f"{some(unknown)} in the index; correct the ids, or add the passages")
        return pending.replace_passages(self._pending, batch, owner, rows, self._index.heads)


def compact(folder: str | Path) -> bool:
    """Join all segments of an index without its deleted passages, and return whether anything changed."""
    with IndexWriter.open(folder) as writer:
        return writer.commit(compact=True)
