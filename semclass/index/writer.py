"""Changing an index: passages are added, replaced and deleted by their ids, and nothing else is encoded again."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core.checks import check_choice, check_text, check_texts, check_unique, short
from semclass.core.errors import EncoderMismatchError, InputError, InputTypeError
from semclass.core.types import Passage
from semclass.index import commit, filters, manifest, pending
from semclass.index.ingest import IndexConfig, chunks, in_order, threads_of, warn_of_long
from semclass.index.lock import locked
from semclass.index.manifest import Entry
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.index.pending import Group, PendingSegment
from semclass.index.removal import write_deleted
from semclass.scoring.postings import count_deleted

FLUSH = 32
"""Chunks of new passages that are joined at a time, on the disk if they are many."""

BATCH = 8192
"""Passages whose old versions are looked at together in an update."""

NAMED = 3
"""Ids that a message names."""


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
        self._look(PassageIndex.mapped(folder))

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
                raise InputError("the block of this writer has ended; open the index again to change it")
            if os.getpid() != self._process:
                raise InputError(
                    "this writer belongs to the process that opened it; open the index there, and only there"
                )
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
            count, truncated = self._read(self._new(passages), progress, workers)
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

        Raises
        ------
        InputError, InputTypeError
            If a passage is not allowed, or an id is unknown: nothing of this call is changed then.
        EncoderMismatchError
            If a text has to be read, and the models are not those that made the index.
        """
        check_choice(missing, ("error", "add"), "missing")
        count, truncated = 0, []
        with self._all_or_nothing():
            before, texts = list(self._pending), None
            for batch in chunks(passages, BATCH):
                same, changed = self._sorted_out(batch, len(before), missing)
                if reuse and changed:
                    texts = pending.texts_of(before) if texts is None else texts
                    copies, changed = pending.copy_known(before, texts, changed)
                    same += copies
                self._pending += same
                if progress is not None:
                    progress(len(batch) - len(changed))
                if changed:
                    truncated += self._read(iter(list(chunks(changed))), progress, workers)[1]
                count += len(changed) + sum(item.live for item in same)
                self._settle(len(before))
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
            raise InputError("give ids or a filter (where), one of the two")
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
                    f"{_some(unknown)} in the index; correct the ids, or say that missing ones are to be ignored"
                )
            pending.delete(self._pending, owner, rows)
            return int((owner >= 0).sum())

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
            ids = _ids(chunk)
            check_unique(ids, "passage id")
            self._refuse_known(ids)
            yield chunk

    def _refuse_known(self, ids: Sequence[str]) -> None:
        owner, _ = pending.find(self._pending, ids)
        if known := [name for name, place in zip(ids, owner.tolist(), strict=True) if place >= 0]:
            raise InputError(
                f"{_some(known, known=True)} in the index already; replace passages with `update` (--update)"
            )

    def _read(
        self, groups: Iterable[list[Passage]], progress: Callable[[int], object] | None, workers: int | None
    ) -> tuple[int, list[str]]:
        """Read chunks of passages and append them; their number, and the ids of those that were truncated."""
        config = self._models()
        start = first = len(self._pending)
        count, cut = 0, []
        for chunk, (found, long) in in_order(config.read, groups, threads_of(config.passage_encoder, workers)):
            self._refuse_known([passage.id for passage in chunk])  # of an earlier chunk
            self._pending.append(PendingSegment(found))
            count += len(chunk)
            cut += long
            if len(self._pending) - first >= FLUSH:
                self._pending[first:] = [pending.joined(self._pending[first:], self._place)]
                self._settle(start)
                first = len(self._pending)
            if progress is not None:
                progress(len(chunk))
        return count, cut

    def _models(self) -> IndexConfig:
        """The models, loaded once they are needed; they must be those that made the index."""
        if self._config is None:
            index = self._index
            config = IndexConfig.of(self._passage_encoder(), index.similarity, index.form)
            for name, value in config.header().items():
                if not np.array_equal(value, getattr(index, name)):
                    raise EncoderMismatchError(
                        f"the index {self._folder} was made with {name} {short(getattr(index, name))}, the models have "
                        f"{short(value)}: name the models that made it (--models, --encoder)"
                    )
            self._config = config
        return self._config

    def _sorted_out(self, batch: list[Passage], first: int, missing: str) -> tuple[list[PendingSegment], list[Passage]]:
        """Delete what a batch replaces; see :func:`semclass.index.pending.replace_passages`."""
        ids = _ids(batch)
        check_unique(ids, "passage id")
        owner, rows = pending.find(self._pending, ids)
        unknown = [name for name, place in zip(ids, owner.tolist(), strict=True) if place < 0]
        if missing == "error" and unknown:
            raise InputError(f"{_some(unknown)} in the index; correct the ids, or add the passages")
        if len(twice := np.flatnonzero(owner >= first)):
            raise InputError(f"passage id {ids[twice[0]]!r} comes twice; ids must be unique")
        return pending.replace_passages(self._pending, batch, owner, rows)


def compact(folder: str | Path) -> bool:
    """Make an index one segment, without deleted passages; whether there was anything to do."""
    with IndexWriter.open(folder) as writer:
        return writer.commit(compact=True)


def _ids(passages: Sequence[Passage]) -> list[str]:
    for passage in passages:
        if not isinstance(passage, Passage):
            raise InputTypeError(
                f"passages must be of the type Passage, not {type(passage).__name__}: {short(passage)}"
            )
    return [check_text(passage.id, "passage id") for passage in passages]


def _some(ids: Sequence[str], *, known: bool = False) -> str:
    """Name the first few of some ids in a message."""
    names = ", ".join(map(repr, ids[:NAMED])) + (" ..." if len(ids) > NAMED else "")
    if len(ids) == 1:
        return f"passage id {names} is{'' if known else ' not'}"
    return f"{len(ids)} passage ids ({names}) are{'' if known else ' not'}"
