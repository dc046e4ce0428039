"""Changing an index: passages are added, replaced and removed by their ids, and nothing else is encoded again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_choice, check_text, check_texts, check_unique, short
from semclass.core.errors import EncoderMismatchError, InputError, InputTypeError
from semclass.core.files import Files
from semclass.core.types import IntArray, Passage
from semclass.index import filters, segment, store
from semclass.index.ingest import Recipe, chunks, in_order, line_of, records_of, threads_of, warn_of_long
from semclass.index.metadata import columns_of
from semclass.index.passage_encoder import PassageReader, searchable
from semclass.index.passage_index import PassageIndex, matching, removed_bytes
from semclass.index.segment import Part, Segment
from semclass.index.store import Entry
from semclass.scoring.postings import count_removed

WIDER = 3
"""How many times the passages of the next segment each has, at least, when it comes: n passages are in at most
1 + log(n) / log(WIDER) segments, and each passage is written again about as often as there are segments.
"""

FLUSH = 16
"""Chunks of new passages that are kept in memory; more are written to the disk until the commit."""

BATCH = 8192
"""Passages whose old versions are looked at together in an update."""

NAMED = 3
"""Ids that a message names."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A segment while the index is being changed.

    Attributes
    ----------
    segment
        Its passages.
    gone
        Which of them were removed, bool of shape (n,); None for none.
    entry
        How the manifest names it; None for one that is new.
    """

    segment: Segment
    gone: npt.NDArray[np.bool_] | None
    entry: Entry | None

    @property
    def live(self) -> int:
        """How many passages are left."""
        return len(self.segment) - (0 if self.gone is None else int(self.gone.sum()))

    @property
    def part(self) -> Part:
        """What is kept."""
        return self.segment, None if self.gone is None else ~self.gone

    def without(self, rows: IntArray) -> Piece:
        """The same with some more passages removed."""
        if not len(rows):
            return self
        gone = np.zeros(len(self.segment), np.bool_) if self.gone is None else self.gone.copy()
        gone[rows] = True
        return replace(self, gone=gone)


Group = list[Piece]
"""Neighbouring pieces that are to be one segment."""


class IndexWriter:
    """Changes an index; :meth:`open` gives one for a ``with`` block.

    Nothing that it does can be seen before :meth:`commit`, which the end of the block calls. A block that is left by an
    exception changes nothing that was not committed. There is one writer at a time; readers may be many, and see the index
    as it was when they opened it until they ask for a newer one, see :meth:`semclass.PassageIndex.refresh`. Threads
    may share a writer, and take turns; a child process may not.

    A commit makes the new passages one segment, joined with those before it that have less than `WIDER` times as
    many: segments stay few, and large ones are seldom written again, as in a log-structured merge-tree (O'Neil et al.
    1996). A segment of which more than half was removed is written again without that. Joining copies rows; nothing is
    encoded again.
    """

    def __init__(self, folder: Path, place: Path, reader: Callable[[], PassageReader]) -> None:
        self._folder, self._place, self._reader = folder, place, reader
        self._recipe: Recipe | None = None
        self._process, self._ended, self._turns = os.getpid(), False, threading.RLock()
        self._look(PassageIndex.mapped(folder))

    def _look(self, index: PassageIndex) -> None:
        """Start from an index as it is."""
        self._index = index
        self._manifest = store.read(self._folder)
        self._pieces = [
            Piece(part, None if keep is None else ~keep, entry)
            for (part, keep), entry in zip(index.parts(), self._manifest.segments, strict=True)
        ]
        self._before = list(self._pieces)

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, folder: str | Path, *, reader: PassageReader | Callable[[], PassageReader] | None = None
    ) -> Iterator[IndexWriter]:
        """Take the right to change an index.

        Parameters
        ----------
        folder
            Holds an index.
        reader
            The models that made it, or a function that loads them: new texts need them, and nothing else does. If None, the
            shipped ones are loaded when they are needed.

        Yields
        ------
        IndexWriter
            What it did is committed at the end of the block, unless that is left by an exception.

        Raises
        ------
        ArtifactError
            If there is no index, another writer has it, or it cannot be written; it is as it was then.
        """
        folder = Path(folder)
        store.read(folder)  # before a lock is left in a folder that holds no index
        with store.locked(folder):
            store.clean(folder, store.read(folder))
            with store.beside(folder) as place:
                load = PassageReader.load if reader is None else reader if callable(reader) else lambda: reader
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
        return sum(piece.live for piece in self._pieces)

    def add(
        self,
        passages: Iterable[Passage],
        *,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
    ) -> int:
        """Add passages.

        Parameters
        ----------
        passages
            A stream; ids must be new.
        progress
            Called with the number of passages done, now and then.
        workers
            Threads that read passages; see :func:`semclass.build_index`.

        Returns
        -------
        int
            How many were added.

        Raises
        ------
        InputError, InputTypeError
            If a passage is not allowed, or its id is taken: none of this call is added then.
        EncoderMismatchError
            If the models are not those that made the index.
        """
        with self._all_or_nothing():
            return self._read(self._new(passages), progress, workers)

    def update(
        self,
        passages: Iterable[Passage],
        *,
        missing: str = "error",
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
    ) -> int:
        """Replace passages by those with the same ids; one whose text and title did not change is not encoded again.

        Parameters
        ----------
        passages
            A stream; no id may come twice.
        missing
            What to do with an id that no passage has: ``"error"``, or ``"add"`` the passage.
        progress, workers
            As for :meth:`add`.

        Returns
        -------
        int
            How many are other than before, added ones included.

        Raises
        ------
        InputError, InputTypeError
            If a passage is not allowed, or an id is unknown: nothing of this call is changed then.
        EncoderMismatchError
            If a text has to be read, and the models are not those that made the index.
        """
        check_choice(missing, ("error", "add"), "missing")
        count = 0
        with self._all_or_nothing():
            first = len(self._pieces)
            for batch in chunks(passages, BATCH):
                same, changed = self._sorted_out(batch, first, missing)
                self._pieces += [_again(*item) for item in same]
                if changed:
                    self._read(iter(list(chunks(changed))), None, workers)
                count += len(changed) + sum(len(kept) for _, _, kept in same)
                self._settle(first)
                if progress is not None:
                    progress(len(batch))
        return count

    def delete(
        self, ids: Iterable[str] | None = None, *, where: Mapping[str, Any] | None = None, missing: str = "error"
    ) -> int:
        """Remove passages, by their ids or by a filter.

        Parameters
        ----------
        ids
            Of the passages.
        where
            A filter over the metadata, see :mod:`semclass.index.filters`.
        missing
            What to do with an id that no passage has: ``"error"`` or ``"ignore"``.

        Returns
        -------
        int
            How many were removed.

        Raises
        ------
        InputError, InputTypeError
            If an id is unknown, the filter is none or has no condition, or not one of the two is given; nothing is removed
            then.
        """
        check_choice(missing, ("error", "ignore"), "missing")
        if (ids is None) == (where is None):
            raise InputError("give ids or a filter (where), one of the two")
        with self._turn():
            if where is not None:
                condition = filters.parse(where)
                if _without_conditions(condition):
                    raise InputError(
                        "a filter without conditions would remove every passage; give a condition, or all ids"
                    )
                return self._delete_where(condition)
            return self._delete_ids(list(dict.fromkeys(check_texts(ids or (), "ids"))), missing)

    def commit(self, *, compact: bool = False) -> bool:
        """Make what was done so far the index, in one step.

        Parameters
        ----------
        compact
            Whether to join all segments, and to drop what was removed.

        Returns
        -------
        bool
            Whether anything changed.

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
        groups = [self._pieces] if compact else plan(self._pieces)
        whole = len(self._pieces) == 1 and self._pieces[0].gone is None
        if self._pieces == self._before and (whole or not compact):
            return False
        with store.committing(self._folder):
            entries = tuple(self._written(group, compact=compact) for group in groups)
            found = self._manifest
            store.commit(self._folder, replace(found, segments=entries, generation=found.generation + 1))
        return True

    def _install(self, parts: list[Part]) -> Entry:
        return store.install(parts, self._folder, self._place, str(self._manifest.header["similarity"]))

    def _written(self, group: Group, *, compact: bool) -> Entry:
        """Write a group's segment, or what was removed of the one that is there."""
        piece = group[0]
        if len(group) > 1 or piece.entry is None:
            return self._install([piece.part for piece in group])
        if piece in self._before and not (compact and piece.gone is not None):
            return piece.entry
        if compact or piece.gone is None or piece.live * 2 < len(piece.segment):
            return self._install([piece.part])
        gone = count_removed(piece.segment.postings, np.flatnonzero(piece.gone))
        data = removed_bytes(gone)
        digest = hashlib.sha256(data).hexdigest()
        name = f"{store.REMOVED}{digest[:16]}.npz"
        artifacts.write_atomic(self._folder / name, data)
        record = {"name": name, "passages": len(gone.rows), "bytes": len(data), "sha256": digest}
        return replace(piece.entry, removed=record)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        with self._turn():
            self._settle(0)
            before = list(self._pieces)
            try:
                yield
            except BaseException:
                self._pieces = before
                raise

    def _settle(self, first: int) -> None:
        """Join new pieces from a place on with those before them that are no larger.

        So ids are looked for in a few places, and few files are open.
        """
        groups: list[Group] = []
        for piece in self._pieces[first:]:
            group = [piece]
            while groups and groups[-1][-1].entry is None and _size(groups[-1]) <= _size(group):
                group = groups.pop() + group
            groups.append(group)
        self._pieces[first:] = [self._joined(group) for group in groups]

    def _joined(self, group: Group) -> Piece:
        """Make one piece of new ones; on the disk, if it is not small."""
        if len(group) == 1:
            return group[0]
        parts = [piece.part for piece in group if piece.live]
        if _size(group) < BATCH // 2:
            return Piece(segment.join(parts or [group[0].part]), None, None)
        folder = self._place / uuid.uuid4().hex
        with store.reported(self._folder):
            segment.write(parts, folder, durable=False)
        for piece in group:
            if piece.segment.name:  # it stays open for as long as it is needed
                shutil.rmtree(self._place / piece.segment.name, ignore_errors=True)
        return Piece(Segment.open(Files(folder, mapped=True, by_row=False)), None, None)

    def _new(self, passages: Iterable[Passage]) -> Iterator[list[Passage]]:
        """Chunks of passages whose ids are found to be new before they are read."""
        for chunk in chunks(passages):
            ids = _ids(chunk)
            check_unique(ids, "passage id")
            self._refuse_known(ids)
            yield chunk

    def _refuse_known(self, ids: Sequence[str]) -> None:
        owner, _ = self._find(ids)
        if (owner >= 0).any():
            known = [name for name, place in zip(ids, owner.tolist(), strict=True) if place >= 0]
            raise InputError(
                f"{_some(known, known=True)} in the index already; replace passages with `update` (--update)"
            )

    def _read(
        self, groups: Iterable[list[Passage]], progress: Callable[[int], object] | None, workers: int | None
    ) -> int:
        """Read chunks of passages and append them."""
        recipe = self._models()
        start = first = len(self._pieces)
        count, cut = 0, []
        for chunk, (found, long) in in_order(recipe.read, groups, threads_of(recipe.reader, workers)):
            self._refuse_known([passage.id for passage in chunk])  # of an earlier chunk
            self._pieces.append(Piece(found, None, None))
            count += len(chunk)
            cut += long
            if len(self._pieces) - first >= FLUSH:
                self._pieces[first:] = [self._joined(self._pieces[first:])]
                self._settle(start)
                first = len(self._pieces)
            if progress is not None:
                progress(len(chunk))
        warn_of_long(cut, count, stacklevel=5)
        return count

    def _models(self) -> Recipe:
        """The models, once they are needed, found to be those that made the index."""
        if self._recipe is None:
            index = self._index
            recipe = Recipe.of(self._reader(), index.similarity, index.form)
            for name, value in recipe.header().items():
                if not np.array_equal(value, getattr(index, name)):
                    raise EncoderMismatchError(
                        f"the index {self._folder} was made with {name} {short(getattr(index, name))}, the models have "
                        f"{short(value)}: name the models that made it (--models, --encoder)"
                    )
            self._recipe = recipe
        return self._recipe

    def _find(self, ids: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Which piece holds each id, -1 for none, and in which row."""
        owner, rows = np.full(len(ids), -1, np.int64), np.full(len(ids), -1, np.int64)
        hashes = segment.hashes_of(ids)
        for number, piece in enumerate(self._pieces):
            found = piece.segment.find(ids, hashes)
            there = found >= 0
            if piece.gone is not None:
                there[there] = ~piece.gone[found[there]]
            owner[there], rows[there] = number, found[there]
        return owner, rows

    def _remove(self, owner: IntArray, rows: IntArray) -> None:
        for number in np.unique(owner[owner >= 0]).tolist():
            self._pieces[number] = self._pieces[number].without(rows[owner == number])

    def _delete_ids(self, names: list[str], missing: str) -> int:
        owner, rows = self._find(names)
        if missing == "error" and (owner < 0).any():
            unknown = [name for name, place in zip(names, owner.tolist(), strict=True) if place < 0]
            raise InputError(
                f"{_some(unknown)} in the index; correct the ids, or say that missing ones are to be ignored"
            )
        self._remove(owner, rows)
        return int((owner >= 0).sum())

    def _delete_where(self, condition: filters.Filter) -> int:
        count = 0
        for number, piece in enumerate(self._pieces):
            found = matching(condition, piece.segment)
            rows = np.flatnonzero(found if piece.gone is None else found & ~piece.gone)
            if len(rows):
                self._pieces[number] = piece.without(rows)
                count += len(rows)
        return count

    def _sorted_out(
        self, batch: list[Passage], first: int, missing: str
    ) -> tuple[list[tuple[Segment, IntArray, list[Passage]]], list[Passage]]:
        """Remove what passages replace; tell which only have other metadata, with their old rows, and which to read."""
        ids = _ids(batch)
        check_unique(ids, "passage id")
        owner, rows = self._find(ids)
        if missing == "error" and (owner < 0).any():
            unknown = [name for name, place in zip(ids, owner.tolist(), strict=True) if place < 0]
            raise InputError(f"{_some(unknown)} in the index; correct the ids, or add the passages")
        if len(twice := np.flatnonzero(owner >= first)):
            raise InputError(f"passage id {ids[twice[0]]!r} comes twice; ids must be unique")
        same, changed = [], [batch[place] for place in np.flatnonzero(owner < 0).tolist()]
        for number in np.unique(owner[owner >= 0]).tolist():
            places = np.flatnonzero(owner == number)
            held = self._pieces[number].segment
            old = held.passages(rows[places])
            new = [batch[place] for place in places.tolist()]
            other = np.array([line_of(a) != line_of(b) for a, b in zip(old, new, strict=True)])
            text = np.array([searchable(a) != searchable(b) for a, b in zip(old, new, strict=True)])
            self._pieces[number] = self._pieces[number].without(rows[places[other]])
            changed += [new[place] for place in np.flatnonzero(other & text).tolist()]
            kept = np.flatnonzero(other & ~text)
            if len(kept):
                same.append((held, rows[places[kept]], [new[place] for place in kept.tolist()]))
        return same, changed


def plan(pieces: Sequence[Piece]) -> list[Group]:
    """Decide which segments are joined: see :class:`IndexWriter`."""
    groups: list[Group] = []
    for piece in pieces:
        if not piece.live:
            continue
        group = [piece]
        while (
            piece.entry is None
            and groups
            and (groups[-1][-1].entry is None or _size(groups[-1]) < WIDER * _size(group))
        ):
            group = groups.pop() + group
        groups.append(group)
    return groups or [[pieces[0]]]


def _size(group: Group) -> int:
    return sum(piece.live for piece in group)


def compact(folder: str | Path) -> bool:
    """Make an index one segment, and drop what was removed from it; see :meth:`IndexWriter.commit`.

    Parameters
    ----------
    folder
        Holds an index.

    Returns
    -------
    bool
        Whether there was anything to do.
    """
    with IndexWriter.open(folder) as writer:
        return writer.commit(compact=True)


def _again(held: Segment, rows: IntArray, passages: Sequence[Passage]) -> Piece:
    """Rows of a segment with other metadata."""
    order = np.argsort(rows)
    chosen = np.zeros(len(held), np.bool_)
    chosen[rows] = True
    found = [passages[place] for place in order.tolist()]
    made = replace(
        segment.join([(held, chosen)]),
        records=records_of([line_of(passage) for passage in found]),
        columns=columns_of([passage.metadata for passage in found]),
    )
    return Piece(made, None, None)


def _without_conditions(condition: filters.Filter) -> bool:
    """Whether a filter matches everything: what is put together from optional parts may come out empty."""
    if isinstance(condition, filters.Or):
        return any(map(_without_conditions, condition.parts))
    return isinstance(condition, filters.And) and all(map(_without_conditions, condition.parts))


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
