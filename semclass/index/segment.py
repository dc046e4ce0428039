"""A segment: some passages of an index with everything that is stored of them. It never changes once it is written.

An index is a row of segments. New passages become a new segment; deleted ones stay in theirs, and are left out, until
segments are joined: then the remaining passages are copied, block by block, and nothing is encoded again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError, ChangedFileError
from semclass.core.files import REMEDY, Files, StoredRagged
from semclass.core.tools import Once
from semclass.core.types import FloatArray, IntArray, Passage, Ragged
from semclass.index import columns
from semclass.index.columns import Columns
from semclass.scoring import approximation, postings
from semclass.scoring.approximation import Reduced
from semclass.scoring.dense import Vectors
from semclass.scoring.postings import Postings

NOTHING = Ragged(np.zeros((0, 0), np.uint8), np.zeros(1, np.int64))
"""The rows that a small index leaves out."""

REDUCED = "reduced"
"""Folder of the reduced vectors, within that of a segment."""

PREFIX = "segment-"
"""Names of segments on the disk begin with it; a hash of their files follows."""


@dataclass(frozen=True)
class RowFormat:
    """Format of an array with rows for each passage, in a file of its name."""

    offsets: str = ""  # file that says where each passage's rows begin; empty for one row a passage
    coded: str = "f4"  # allowed dtypes, of an index with codebooks or a small one
    exact: str = "f4"  # allowed dtypes, of any other index
    columns: bool = False  # whether a row has columns
    in_small: bool = True  # whether a small index has it
    in_memory: bool = False  # whether it is read into memory, as every search reads it


_SENTENCES, _PIECES = "sentence_offsets", "piece_offsets"


@dataclass(frozen=True)
class Segment:
    """n passages, in memory or in files. Read-only; many threads and many indices may share one.

    The fields with a :class:`RowFormat` are all arrays with rows for each passage: reading, writing, joining and checking
    them goes by :data:`ROWS`.
    """

    #: vectors of the sentences, see :class:`semclass.scoring.dense.Vectors`
    sentences: Annotated[Ragged, RowFormat(_SENTENCES, "u1", "f4", columns=True, in_memory=True)]
    #: factor of each sentence
    scales: Annotated[Ragged, RowFormat(_SENTENCES, in_memory=True)]
    #: factor of each sentence in the mean of its passage
    shares: Annotated[Ragged, RowFormat(_SENTENCES, in_memory=True)]
    #: what each sentence provides: quarter bytes with a scale, or float32; no columns where it is unknown
    provides: Annotated[Ragged, RowFormat(_SENTENCES, "u1", "f4", columns=True)]
    #: unit vectors of word pieces: codes, or int8 with components times 127
    tokens: Annotated[Ragged, RowFormat(_PIECES, "u1", "i1", columns=True, in_small=False)]
    #: ids of the word pieces that `tokens` has vectors of
    pieces: Annotated[Ragged, RowFormat(_PIECES, "u1 u2 u4", "u1 u2 u4", in_small=False)]
    #: learnt words, see :mod:`semclass.scoring.sparse`
    sparse: Annotated[Ragged, RowFormat("sparse_offsets", "u1", "u1", columns=True)]
    #: passages as JSON lines
    records: Annotated[Ragged, RowFormat("record_offsets", "u1", "u1")]
    #: P(class | passage), (n, n_classes)
    probabilities: Annotated[FloatArray, RowFormat(columns=True)]
    postings: Postings
    columns: Columns
    id_hashes: npt.NDArray[np.uint64]  # (n,), ascending: ids are found without a table of strings
    id_rows: npt.NDArray[Any]  # (n,), the passage of each hash
    near: Reduced | None = None  # for many vectors of quarter bytes, see semclass.scoring.approximation
    name: str = ""  # of its folder; empty in memory

    def __len__(self) -> int:
        return len(self.sentences)

    def check_files(self) -> None:
        """Raise a ChangedFileError if a file that is read by position was written into since it was opened."""
        for values in vars(self).values():
            if isinstance(values, StoredRagged):
                values.file.check()

    @property
    def is_changed(self) -> bool:
        """Whether a file was written into, so that its rows may be anything."""
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
        """Passages at some rows, int64 of shape (m,), as they were given."""
        return [Passage(record["_id"], record["text"], record["metadata"]) for record in self._records(rows)]

    def ids(self, rows: npt.NDArray[Any]) -> list[str]:
        """Ids of the passages at some rows, int64 of shape (m,)."""
        return [str(record["_id"]) for record in self._records(rows)]

    def _records(self, rows: npt.NDArray[Any]) -> list[Any]:
        """The JSON objects of some passages; an ArtifactError where one is no passage."""
        title = self.name or "in memory"
        lines = self.records.take(np.asarray(rows, np.int64)).values.tobytes().split(b"\n")
        try:
            records = [json.loads(line) for line in lines[:-1]]
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"the records of the segment {title} cannot be read ({error}); {REMEDY}") from error
        kinds = {"metadata": dict, "_id": str, "text": str}
        valid = all(
            isinstance(record, dict) and all(isinstance(record.get(name), kind) for name, kind in kinds.items())
            for record in records
        )
        if len(records) != len(rows) or lines[-1] or not valid:
            raise ArtifactError(f"the records of the segment {title} do not hold one passage per line; {REMEDY}")
        return records

    @property
    def row_hashes(self) -> npt.NDArray[np.uint64]:
        """Hash of the id of each passage, in the order of the rows, uint64 of shape (n,)."""
        hashes = np.empty(len(self), np.uint64)
        hashes[self.id_rows] = self.id_hashes
        return hashes

    def find(self, ids: Sequence[str], hashes: npt.NDArray[np.uint64] | None = None) -> IntArray:
        """Rows of the passages with some ids, -1 for an unknown id, int64 of shape (m,); `hashes` are those of the ids."""
        result = np.full(len(ids), -1, np.int64)
        hashes = hashes_of(ids) if hashes is None else hashes
        first = np.searchsorted(self.id_hashes, hashes, side="left")
        count = np.searchsorted(self.id_hashes, hashes, side="right") - first
        # almost always one; two ids of the same hash are distinguished by their records
        for more in range(int(count.max(initial=0))):
            places = np.flatnonzero(count > more)
            rows = self.id_rows[first[places] + more].astype(np.int64)
            same = [ids[place] == name for place, name in zip(places.tolist(), self.ids(rows), strict=True)]
            result[places[same]] = rows[same]
        return result

    @classmethod
    def open(cls, files: Files, name: str = "") -> Segment:
        """Open a segment, and everything of it now: it can be read after its files were removed."""
        reduced = f"{REDUCED}/axes.npy" in files
        ends = {offsets: files.array(f"{offsets}.npy") for offsets in OFFSETS}
        rows: dict[str, Any] = {}
        for array, stored in ROWS.items():
            if not stored.offsets:
                rows[array] = files.array(f"{array}.npy")
            elif stored.in_memory and not (reduced and array == "sentences"):
                rows[array] = Ragged(files.array(f"{array}.npy"), ends[stored.offsets])
            else:
                rows[array] = files.rows(f"{array}.npy", ends[stored.offsets])
        try:
            return cls(
                **rows,
                postings=postings.load(files, "bm25/"),
                columns=columns.load(files),
                id_hashes=files.array("id_hashes.npy"),
                id_rows=files.array("id_rows.npy"),
                near=approximation.load(files, f"{REDUCED}/") if reduced else None,
                name=name,
            )
        except ArtifactError:
            raise
        except (ValueError, TypeError, IndexError) as error:
            raise ArtifactError(f"{files.folder} cannot be opened ({error}); {REMEDY}") from error


ROWS: dict[str, RowFormat] = {
    name: kind.__metadata__[0]
    for name, kind in get_type_hints(Segment, include_extras=True).items()
    if hasattr(kind, "__metadata__")
}
"""The format of each array with rows for each passage, by its name in a segment and of its file."""

OFFSETS = tuple(dict.fromkeys(stored.offsets for stored in ROWS.values() if stored.offsets))

FILES = (
    *(f"{name}.npy" for name in (*ROWS, *OFFSETS, "id_hashes", "id_rows")),
    *(f"bm25/{name}.npy" for name in postings.PARTS),
    columns.VALUES,
    columns.DIRECTORY,
)
"""Files of each segment."""

REDUCED_FILES = tuple(f"{REDUCED}/{name}.npy" for name in approximation.PARTS)
"""Files that a large segment has as well."""

Part = tuple[Segment, npt.NDArray[np.bool_] | None]
"""A segment, and which of its passages remain, bool of shape (n,); None for all."""


def hashes_of(ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hash ids to 64 bits each, uint64 of shape (n,); the same on every machine."""
    digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in ids)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def hash_table(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any]]:
    """Sort the hashes of passages; the sorted hashes, and the row of each."""
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.min_scalar_type(max(len(order) - 1, 0)))
