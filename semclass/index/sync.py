"""Keeps an index in step with documents. Passages are added, changed and removed, and only new texts are encoded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.documents.cutting import named_by_content
from semclass.index import commit, manifest
from semclass.index.encode_rows import chunks, line_of
from semclass.index.joining import READ_PASSAGES
from semclass.index.passage_encoder import PassageEncoder, fields_of
from semclass.index.passage_index import PassageIndex
from semclass.index.writer import COMMIT_SECONDS, COMPARED_PASSAGES, build_index, open_change


@dataclass(frozen=True)
class Change:
    """The changes of a document."""

    document: str  #: as in ``metadata["document"]``, or the id of a passage without a document
    kind: str  #: ``"added"``, ``"changed"`` or ``"removed"``
    added: int  #: number of new passages
    changed: int  #: number of changed passages, most of which only stand in another place
    removed: int  #: number of removed passages


def find_changes(index: PassageIndex | None, passages: Iterable[Passage]) -> list[Change]:
    """Return what :func:`sync_index` would change, by document. Without an index, everything is added."""
    comparison = _Comparison(index)
    for _ in chain(comparison.differing(passages, None), comparison.missing()):
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

    Texts that the index already holds, under any id, are not encoded again. New passages are committed every few
    seconds, so that the next sync continues a stopped one, and missing passages are removed at the end. Without an index,
    it is built, see :func:`semclass.build_index`. Arguments and errors that are not named are those of
    :func:`semclass.change_index`.

    Parameters
    ----------
    passages
        A stream of at least one passage. Passages that were cut from documents are named by their content and not by
        their number, so that an id stays the same while the text does: ``document#number`` becomes ``document#digest``.
    cutting
        How the passages were cut. The index keeps these settings for the next sync.
    before_removing
        Function that is called before passages are removed, with the number of documents that will be gone, and of those
        before. If it raises an error, nothing is removed.

    Raises
    ------
    InputError, InputTypeError
        If there are no passages, a passage is not allowed, or an id comes twice. The call then removes nothing.
    """
    folder = Path(folder)
    if manifest.read_or_none(folder) is None:
        comparison = _Comparison(None)
        encoder = passage_encoder() if callable(passage_encoder) else passage_encoder
        stream = comparison.differing(passages, None)
        build_index(folder, stream, passage_encoder=encoder, progress=progress, workers=workers, cutting=cutting)
        return comparison.changes()
    with open_change(folder, passage_encoder, progress=progress, workers=workers) as change:
        comparison = _Comparison(PassageIndex.load(folder, verify=False, mmap=True))
        differing = comparison.differing(passages, progress)
        change.add(differing, replaces=True, reuse=True, commit_seconds=COMMIT_SECONDS)
        if not comparison.read:
            raise InputError(
                "the folder gave no passages, and a sync never empties an index; to remove the index, delete its folder"
            )
        missing = list(comparison.missing())
        if before_removing is not None:
            before_removing(*comparison.removed())
        for ids in missing:
            change.delete(ids)
        change.commit()
    change.report()
    if cutting not in (None, manifest.read(folder).cutting):
        commit.store_cutting(folder, cutting)
    return comparison.changes()


class _Comparison:
    """A stream of passages, which are compared with the passages of an index while the stream is read."""

    def __init__(self, index: PassageIndex | None) -> None:
        self.index, self.read = index, 0
        self.seen: npt.NDArray[np.bool_] = np.zeros(0 if index is None else index.starts[-1], np.bool_)
        self.documents: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def differing(self, passages: Iterable[Passage], progress: Callable[[int], object] | None) -> Iterator[Passage]:
        """Yield the passages that the index does not hold, or holds with other metadata or another text."""
        labels = () if self.index is None else fields_of(self.index.heads)
        named = named_by_content(passages)
        for batch in chunks(named, COMPARED_PASSAGES):
            self.read += len(batch)
            old: dict[str, Passage] = {}
            if self.index is not None:
                rows = self.index.find([passage.id for passage in batch])
                rows = rows[rows >= 0]
                self.seen[rows] = True
                old = {passage.id: passage for passage in self.index.passages(rows)}
            same = 0
            for passage in batch:
                before = old.get(passage.id)
                differs = before is None or line_of(before, labels) != line_of(passage)
                kind = "added" if before is None else "changed" if differs else "same"
                self.documents[_document(passage)][kind] += 1
                same += not differs
                if differs:
                    yield passage
            if progress is not None:
                progress(same)

    def missing(self) -> Iterator[list[str]]:
        """Yield the ids of the passages that were not in the stream."""
        if self.index is None:
            return
        rows = self.index.rows[~self.seen[self.index.rows]]
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


def _document(passage: Passage) -> str:
    name = passage.metadata.get("document")
    return name if isinstance(name, str) else passage.id
