"""A segment: some passages of an index with everything that is kept of them. It never changes once it is written.

An index is a row of segments. New passages become a new segment; deleted ones stay in theirs, and are left out, until
segments are joined: then what is kept is copied, block by block, and nothing is encoded again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError, ChangedFileError
from semclass.core.files import REMEDY, Files, StoredRagged
from semclass.core.tools import Once
from semclass.core.types import FloatArray, IntArray, Passage, Ragged
from semclass.index import column_files
from semclass.index.columns import Columns
from semclass.scoring import approximation, postings
from semclass.scoring.approximation import Reduced
from semclass.scoring.dense import Vectors
from semclass.scoring.postings import Postings

NOTHING = Ragged(np.zeros(0, np.uint8), np.zeros(1, np.int64))
"""The tokens and their word pieces of a small index."""

REDUCED = "reduced"
"""Folder of the reduced vectors, within that of a segment."""

PREFIX = "segment-"
"""Names of segments on the disk begin with it; a hash of their files follows."""

# fields that are arrays, and that are ragged arrays, with their files
FLAT = {"probabilities": "probabilities"}
RAGGED = {
    "sentences": ("sentences", "sentence_offsets"),
    "scales": ("scales", "sentence_offsets"),
    "shares": ("shares", "sentence_offsets"),
    "provides": ("provides", "sentence_offsets"),
    "tokens": ("tokens", "piece_offsets"),
    "pieces": ("pieces", "piece_offsets"),
    "records": ("records", "record_offsets"),
}

FILES = (
    *(f"{name}.npy" for name in dict.fromkeys((*FLAT.values(), *chain(*RAGGED.values()), "id_hashes", "id_rows"))),
    *(f"bm25/{name}.npy" for name in postings.PARTS),
    column_files.VALUES,
    column_files.DIRECTORY,
)
"""Files of each segment."""

MORE = tuple(f"{REDUCED}/{name}.npy" for name in approximation.PARTS)
"""Files that a large segment has as well."""

FORMER = ("titles.npy",)
"""Files that segments had before, which nothing reads."""


@dataclass(frozen=True)
class Segment:
    """n passages, in memory or in files. Read-only; many threads and many indices may share one."""

    sentences: Ragged  # vectors of the sentences, see :class:`semclass.scoring.dense.Vectors`
    scales: Ragged  # what each is multiplied with, float32
    shares: Ragged  # what each counts in the mean of its passage, float32
    provides: Ragged  # what each provides: quarter bytes with a scale, or float32; no columns where it is not known
    probabilities: FloatArray  # P(class | passage), (n, n_classes)
    tokens: Ragged  # unit vectors, one for each of `pieces`: codes (uint8), or int8 with components times 127
    pieces: Ragged  # ids of the word pieces that were read; it and `tokens` have no rows in a small index
    postings: Postings
    records: Ragged  # passages as JSON lines, uint8
    columns: Columns
    id_hashes: npt.NDArray[np.uint64]  # (n,), ascending: ids are found without a table of strings
    id_rows: npt.NDArray[Any]  # (n,), the passage of each hash
    near: Reduced | None = None  # for many vectors of quarter bytes, see semclass.scoring.approximation
    name: str = ""  # of its folder; empty in memory

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.sentences)

    def check_files(self) -> None:
        """Raise a ChangedFileError if a file that is read by position was written into since it was opened."""
        for values in vars(self).values():
            if isinstance(values, StoredRagged):
                values.file.check()

    @property
    def is_changed(self) -> bool:
        """Whether a file was, so that what it gives may be anything."""
        try:
            self.check_files()
        except ChangedFileError:
            return True
        return False

    @Once
    def vectors(self) -> Vectors:
        """The sentences, laid out to be compared with questions; kept, as that takes time and memory."""
        return Vectors(self.sentences, self.scales.values, self.shares.values, self.near)

    def passages(self, rows: npt.NDArray[Any]) -> list[Passage]:
        """Passages at some rows, int64 of shape (m,), as they were handed in."""
        return [Passage(record["_id"], record["text"], record["metadata"]) for record in self._records(rows)]

    def ids(self, rows: npt.NDArray[Any]) -> list[str]:
        """Ids of the passages at some rows, int64 of shape (m,)."""
        return [str(record["_id"]) for record in self._records(rows)]

    def _records(self, rows: npt.NDArray[Any]) -> list[Any]:
        """The JSON objects of some passages; an ArtifactError where one is no passage."""
        lines = self.records.take(np.asarray(rows, np.int64)).values.tobytes().split(b"\n")
        try:
            records = [json.loads(line) for line in lines[:-1]]
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"the records of {self._title} cannot be read ({error}); {REMEDY}") from error
        right = [
            isinstance(record, dict)
            and isinstance(record.get("metadata"), dict)
            and isinstance(record.get("_id"), str)
            and isinstance(record.get("text"), str)
            for record in records
        ]
        if len(records) != len(rows) or lines[-1] or not all(right):
            raise ArtifactError(f"the records of {self._title} do not hold one passage per line; {REMEDY}")
        return records

    @property
    def _title(self) -> str:
        return f"the segment {self.name or 'in memory'}"

    @property
    def row_hashes(self) -> npt.NDArray[np.uint64]:
        """Hash of the id of each passage, in the order of the rows, uint64 of shape (n,)."""
        hashes = np.empty(len(self), np.uint64)
        hashes[self.id_rows] = self.id_hashes
        return hashes

    def find(self, ids: Sequence[str], hashes: npt.NDArray[np.uint64] | None = None) -> IntArray:
        """Rows of the passages with some ids, -1 for an unknown id, int64 of shape (m,); `hashes` are those of the ids."""
        found = np.full(len(ids), -1, np.int64)
        hashes = hashes_of(ids) if hashes is None else hashes
        first = np.searchsorted(self.id_hashes, hashes, side="left")
        count = np.searchsorted(self.id_hashes, hashes, side="right") - first
        # almost always one; two ids of the same hash are distinguished by their records
        for more in range(int(count.max(initial=0))):
            asked = np.flatnonzero(count > more)
            rows = self.id_rows[first[asked] + more].astype(np.int64)
            same = [ids[place] == name for place, name in zip(asked.tolist(), self.ids(rows), strict=True)]
            found[asked[same]] = rows[same]
        return found

    @classmethod
    def open(cls, files: Files, name: str = "") -> Segment:
        """Open a segment, and everything of it now: it can be read after its files were removed."""
        flat: dict[str, Any] = {field: files.array(f"{file}.npy") for field, file in FLAT.items()}
        reduced = f"{REDUCED}/axes.npy" in files
        # what a search reads of every passage is held in memory
        held = {"scales", "shares"} if reduced else {"scales", "shares", "sentences"}
        ends = {name: files.array(f"{name}.npy") for _, name in RAGGED.values()}
        rows: dict[str, Any] = {
            field: Ragged(files.array(f"{values}.npy"), ends[offsets])
            if field in held
            else files.rows(f"{values}.npy", ends[offsets])
            for field, (values, offsets) in RAGGED.items()
        }
        try:
            return cls(
                **flat,
                **rows,
                postings=postings.load(files, "bm25/"),
                columns=column_files.load(files),
                id_hashes=files.array("id_hashes.npy"),
                id_rows=files.array("id_rows.npy"),
                near=approximation.load(files, f"{REDUCED}/") if reduced else None,
                name=name,
            )
        except ArtifactError:
            raise
        except (ValueError, TypeError, IndexError) as error:
            raise ArtifactError(f"{files.folder} cannot be opened ({error}); {REMEDY}") from error


Part = tuple[Segment, npt.NDArray[np.bool_] | None]
"""A segment, and which of its passages are kept, bool of shape (n,); None for all."""


def hashes_of(ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hash ids to 64 bits each, uint64 of shape (n,); the same on every machine."""
    digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in ids)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def hash_table(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any]]:
    """Sort the hashes of passages; the sorted hashes, and the row of each."""
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.min_scalar_type(max(len(order) - 1, 0)))
