"""Changing an index: passages are added, replaced and deleted by their ids, and nothing else is encoded again."""

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
"""Chunks of new passages that are joined at a time, on the disk if they are many."""

BATCH = 8192
"""Passages whose old versions are looked at together in an update."""

SECONDS = 5.0
"""Time after which a build or a sync commits what it read; a process that is killed loses little more than that."""


class IndexWriter:
    """Changes an index; :meth:`open` gives one for a ``with`` block.

    Changes are seen after :meth:`commit`, which the end of the block calls; a block that is left by an exception drops
    what was not committed. There is one writer at a time and any number of readers, which see the index as it was when
    they opened it, see :meth:`semclass.PassageIndex.refresh`. Threads may share a writer, and take turns.

    A commit makes the new passages one segment, joined with those before it that have less than `WIDER` times as
    many: segments stay few, and large ones are seldom written again, as in a log-structured merge-tree (O'Neil et al.
    1996). A segment of which more than half was deleted is written again without those passages. Nothing is encoded again.
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
        """Take the right to change an index.

        Parameters
        ----------
        folder
            Holds an index.
        passage_encoder
            What made it, or a function that loads that: only new texts need it. If None, that of the shipped models is
            loaded when it is needed.

        Yields
        ------
        IndexWriter
            Its changes are committed at the end of the block, unless that is left by an exception.

        Raises
        ------
        ArtifactError
            If there is no index, another writer has it, or it cannot be written.
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
        """Count the passages, as they will be after the commit."""
        return sum(item.live for item in self._pending)

    def add(
        self,
        passages: Iterable[Passage],
        *,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
    ) -> int:
        """Add passages; the number that was added.

        Parameters
        ----------
        passages
            A stream; ids must be new.
        progress
            Called with the number of passages done, now and then.
        workers
            Threads that read passages; see :func:`semclass.build_index`.

        Raises
        ------
        InputError, InputTypeError
            If a passage is not allowed, or its id is taken: none of this call is added then.
        EncoderMismatchError
            If the models are not those that made the index.
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
        """Replace passages by those with the same ids; the number of those that differ, added ones included.

        One whose text and title did not change is not encoded again.

        Parameters
        ----------
        passages
            A stream; no id may come twice.
        missing
            What to do with an id that no passage has: ``"error"``, or ``"add"`` the passage.
        reuse
            Whether to look for texts under other ids, too, as of documents with another name; that reads the whole index.
        progress, workers
            As for :meth:`add`.
        commit_every
            Seconds after which what was read is committed, and not lost in a stop. None: at the end of the block.

        Raises
        ------
        InputError, InputTypeError
            If a passage is not allowed, or an id is unknown: nothing of this call is changed then, or what was committed.
        EncoderMismatchError
            If a text has to be read, and the models are not those that made the index.
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
        """Delete passages, by their ids or by a filter; the number that was deleted.

        Parameters
        ----------
        ids
            Of the passages.
        where
            A filter over the metadata, see :mod:`semclass.index.filters`.
        missing
            What to do with an id that no passage has: ``"error"`` or ``"ignore"``.

        Raises
        ------
        InputError, InputTypeError
            If an id is unknown, the filter is none or has no condition, or not one of the two is given; nothing is deleted
            then.
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
        """Read chunks of passages and append them; their number, and the ids of those that were truncated.

        An id that is there is an error, or its passage is replaced. What was read is committed every few seconds if a
        number of them is given; then an error commits it, too.
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
        """Make what was done so far the index, in one step; whether anything changed.

        Parameters
        ----------
        compact
            Whether to join all segments, and to drop what was deleted.

        Raises
        ------
        ArtifactError
            If it cannot be written, for example for want of space; the index is as it was.
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
        similarity = str(self._manifest.header["similarity"])
        return commit.install([item.part for item in group], self._folder, self._place, similarity)

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
            config = IndexConfig.of(self._passage_encoder(), index.similarity, index.storage)
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
    """Make an index one segment, without deleted passages; whether there was anything to do."""
    with IndexWriter.open(folder) as writer:
        return writer.commit(compact=True)
