"""A segment: some passages of an index with everything that is kept of them. It never changes once it is written.

An index is a row of segments. New passages become a new segment; removed ones stay in theirs, and are left out, until
segments are joined: then what is kept is copied, block by block, and nothing is encoded again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.core.types import FloatArray, IntArray, Passage, Ragged
from semclass.index import metadata
from semclass.index.metadata import Columns
from semclass.scoring import postings, reduction
from semclass.scoring.postings import Postings
from semclass.scoring.quantisation import from_int8
from semclass.scoring.reduction import Reduced
from semclass.scoring.vectors import Vectors

BLOCK = 4096
"""Passages that are copied at a time: bounds memory, changes no value."""

NOTHING = Ragged(np.zeros(0, np.uint8), np.zeros(1, np.int64))
"""What a lean index has of tokens, sentences and terms."""

OPEN = 8
"""Segments on the disk that are joined at a time: each takes about 20 file descriptors, of which a process has but so many,
256 on some systems.
"""

REDUCED = "reduced"
"""The folder of reduced vectors within that of a segment."""

PREFIX = "segment-"
"""What the names of segments on disk begin with; the hash of what they hold follows."""

_FLAT = {"pooled_codes": "pooled", "pooled_levels": "pooled_levels", "probabilities": "probabilities"}
_RAGGED = {
    "tokens": ("tokens", "token_offsets"),
    "sentences": ("sentences", "sentence_offsets"),
    "terms": ("terms", "term_offsets"),
    "records": ("records", "record_offsets"),
}

FILES = (
    *(f"{name}.npy" for name in (*_FLAT.values(), *chain(*_RAGGED.values()), "id_hashes", "id_rows")),
    *(f"bm25/{name}.npy" for name in postings.PARTS),
    metadata.VALUES,
    metadata.DIRECTORY,
)
"""Files of each segment."""

MORE = tuple(f"{REDUCED}/{name}.npy" for name in reduction.PARTS)
"""Further files of a large segment."""


@dataclass(frozen=True)
class Segment:
    """n passages, in memory or in files. Read-only; many threads and many indices may share one.

    Attributes
    ----------
    pooled_codes
        Pooled vectors, float32 or int8 of shape (n, dim); of unit length where the similarity is ``"cosine"``.
    pooled_levels
        What an int8 row is to be multiplied with, float32 of shape (n,); ones for float32.
    probabilities
        P(class | passage), float32 of shape (n, n_classes).
    tokens
        Ragged unit token vectors, one for each of `terms`: codes (uint8), or int8 with components times 127.
    sentences
        Ragged unit vectors of each passage's sentences, written likewise.
    terms
        Ragged word-piece ids of the whole passages. It, `tokens` and `sentences` are without rows in a lean index.
    postings
        What BM25 is computed from.
    records
        The passages as JSON lines, ragged uint8.
    columns
        Their metadata, for filters.
    id_hashes, id_rows
        Hashes of the ids, uint64 of shape (n,), ascending, and the passage of each: an id is found without a table of
        all ids as strings.
    near
        What finds the vectors near to a question's among many, see :data:`semclass.scoring.reduction.MANY`; None for
        fewer, or for vectors in float32.
    name
        What its folder is called; empty for a segment in memory.
    """

    pooled_codes: npt.NDArray[Any]
    pooled_levels: FloatArray
    probabilities: FloatArray
    tokens: Ragged
    sentences: Ragged
    terms: Ragged
    postings: Postings
    records: Ragged
    columns: Columns
    id_hashes: npt.NDArray[np.uint64]
    id_rows: npt.NDArray[Any]
    near: Reduced | None = None
    name: str = ""

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.pooled_codes)

    @property
    def pooled(self) -> FloatArray:
        """Pooled vectors, float32 of shape (n, dim): int8 is widened at each access."""
        if self.pooled_codes.dtype == np.float32:
            return self.pooled_codes
        return from_int8(self.pooled_codes, self.pooled_levels)

    def vectors(self, similarity: str) -> Vectors:
        """`pooled_codes`, ready to be compared with questions; kept, as getting ready takes time and memory."""
        known: dict[str, Vectors] = self.__dict__.setdefault("_vectors", {})
        if similarity not in known:
            # what is near by a distance is not always near by products
            index = None if similarity == "l2" else self.near
            known.setdefault(similarity, Vectors(self.pooled_codes, self.pooled_levels, similarity, index))
        return known[similarity]

    def passages(self, rows: npt.NDArray[Any]) -> list[Passage]:
        """Read passages back as they were handed in; `rows` are their places, shape (m,)."""
        return [Passage(record["_id"], record["text"], record["metadata"]) for record in self._records(rows)]

    def ids(self, rows: npt.NDArray[Any]) -> list[str]:
        """Ids of some passages; `rows` are their places, shape (m,)."""
        return [str(record["_id"]) for record in self._records(rows)]

    def _records(self, rows: npt.NDArray[Any]) -> list[Any]:
        """What was written of some passages; an ArtifactError where that is no passage."""
        lines = self.records.take(np.asarray(rows, np.int64)).values.tobytes().split(b"\n")
        try:
            records = [json.loads(line) for line in lines[:-1]]
        except (ValueError, RecursionError) as error:
            raise self._no_passages(error) from error
        if len(records) != len(rows) or lines[-1] or not all(map(_is_passage, records)):
            raise self._no_passages("not one passage in each line")
        return records

    def _no_passages(self, what: object) -> ArtifactError:
        return ArtifactError(f"the records of the segment {self.name or 'in memory'} cannot be read ({what}); {REMEDY}")

    def find(self, ids: Sequence[str], hashes: npt.NDArray[np.uint64] | None = None) -> IntArray:
        """Places of the passages with these ids, -1 for an id that is not here; int64 of shape (m,).

        `hashes` are those of :func:`hashes_of`, where they are known.
        """
        found = np.full(len(ids), -1, np.int64)
        hashes = hashes_of(ids) if hashes is None else hashes
        first = np.searchsorted(self.id_hashes, hashes, side="left")
        count = np.searchsorted(self.id_hashes, hashes, side="right") - first
        # as good as always one; two ids of one hash are told apart by what is written
        for more in range(int(count.max(initial=0))):
            asked = np.flatnonzero(count > more)
            rows = self.id_rows[first[asked] + more].astype(np.int64)
            same = [ids[place] == name for place, name in zip(asked.tolist(), self.ids(rows), strict=True)]
            found[asked[same]] = rows[same]
        return found

    @classmethod
    def open(cls, files: Files, name: str = "") -> Segment:
        """Open a segment. Everything is opened now: it can be read after its files were removed.

        Parameters
        ----------
        files
            Its files. Unless they are mapped, what every search reads is read into memory, and files stay open of which
            single rows will be read.
        name
            What its folder is called.

        Raises
        ------
        ArtifactError
            If a file is missing, differs from its record, or is not what it should be.
        """
        flat: dict[str, Any] = {field: files.array(f"{file}.npy") for field, file in _FLAT.items()}
        rows: dict[str, Any] = {
            field: files.rows(f"{values}.npy", files.array(f"{offsets}.npy"))
            for field, (values, offsets) in _RAGGED.items()
        }
        try:
            return cls(
                **flat,
                **rows,
                postings=postings.load(files, "bm25/"),
                columns=metadata.load(files),
                id_hashes=files.array("id_hashes.npy"),
                id_rows=files.array("id_rows.npy"),
                near=reduction.load(files, f"{REDUCED}/") if f"{REDUCED}/axes.npy" in files else None,
                name=name,
            )
        except ArtifactError:
            raise
        except (ValueError, TypeError, IndexError) as error:
            raise ArtifactError(f"{files.folder} cannot be opened ({error}); {REMEDY}") from error


Part = tuple[Segment, npt.NDArray[np.bool_] | None]
"""A segment, and which of its passages are kept, bool of shape (n,); None for all."""


def _is_passage(record: Any) -> bool:
    """Whether a record is what a passage is written as."""
    if not isinstance(record, dict) or not isinstance(record.get("metadata"), dict):
        return False
    return isinstance(record.get("_id"), str) and isinstance(record.get("text"), str)


def hashes_of(ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hash ids to 64 bits each, uint64 of shape (n,); the same on every machine."""
    digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in ids)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def hash_table(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any]]:
    """Sort the hashes of passages, and tell which passage each belongs to."""
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.min_scalar_type(max(len(order) - 1, 0)))


def join(parts: Sequence[Part]) -> Segment:
    """Join segments in memory: the passages of all of them, one after another, without those that are not kept."""
    hashes, places = hash_table(_hashes(parts))

    def rows_of(name: str) -> Ragged:
        return Ragged(np.concatenate(list(_ragged_blocks(parts, name))), _offsets(parts, name))

    return Segment(
        pooled_codes=np.concatenate(list(_flat_blocks(parts, "pooled_codes"))),
        pooled_levels=np.concatenate(list(_flat_blocks(parts, "pooled_levels"))),
        probabilities=np.concatenate(list(_flat_blocks(parts, "probabilities"))),
        tokens=rows_of("tokens"),
        sentences=rows_of("sentences"),
        terms=rows_of("terms"),
        postings=postings.merge([segment.postings for segment, _ in parts], [keep for _, keep in parts]),
        records=rows_of("records"),
        columns=_columns(parts),
        id_hashes=hashes,
        id_rows=places,
    )


def write(
    parts: Sequence[Part], folder: Path, *, durable: bool = True, reduced: bool = False
) -> dict[str, dict[str, Any]]:
    """Join segments on the disk, in bounded memory.

    Parameters
    ----------
    parts
        At least one segment; what is kept of them.
    folder
        Is made.
    durable
        Whether all of it is to survive a loss of power when this returns.
    reduced
        Whether many passages get reduced vectors: where they will be searched, by products.

    Returns
    -------
    dict
        By file: ``bytes`` and ``sha256``.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    folder.mkdir(parents=True)
    files: dict[str, dict[str, Any]] = {}

    def save(name: str, blocks: Iterable[npt.NDArray[Any]], rows: int) -> None:
        files[f"{name}.npy"] = _write(folder / f"{name}.npy", blocks, rows)

    kept = sum(_kept(part) for part in parts)
    for name, file in _FLAT.items():
        save(file, _flat_blocks(parts, name), kept)
    for name, (values, place) in _RAGGED.items():
        offsets = _offsets(parts, name)
        save(values, _ragged_blocks(parts, name), int(offsets[-1]))
        save(place, [offsets], len(offsets))
    hashes, rows = hash_table(_hashes(parts))
    save("id_hashes", [hashes], kept)
    save("id_rows", [rows], kept)
    metadata.save(_columns(parts), folder)
    if len(parts) == 1 and parts[0][1] is None:
        postings.save(parts[0][0].postings, folder / "bm25")
    else:
        postings.merge([segment.postings for segment, _ in parts], [keep for _, keep in parts], folder=folder / "bm25")
    folders = [folder / "bm25"]
    if reduced and kept >= reduction.MANY and parts[0][0].pooled_codes.dtype == np.int8:
        codes, levels = (
            np.load(folder / f"{_FLAT[name]}.npy", mmap_mode="r") for name in ("pooled_codes", "pooled_levels")
        )
        reduction.save(reduction.reduce_vectors(codes, levels), folder / REDUCED)
        folders.append(folder / REDUCED)
    written = [path for some in folders for path in sorted(some.iterdir())]
    for path in [*written, folder / metadata.VALUES, folder / metadata.DIRECTORY]:
        files[path.relative_to(folder).as_posix()] = record(path)
    if durable:
        artifacts.flush_all(folder)
    return files


def few(folders: Sequence[Path], place: Path) -> list[Path]:
    """Join neighbouring segments on the disk until :data:`OPEN` are left at most, which can be opened at the same time.

    Parameters
    ----------
    folders
        Of the segments; they stay.
    place
        Where those that are made are written; they need not survive a loss of power.

    Returns
    -------
    list of Path
        Of segments that hold the same passages.

    Raises
    ------
    OSError
        If one cannot be written.
    """
    found = list(folders)
    while len(found) > OPEN:
        joined = []
        for first in range(0, len(found), OPEN):
            some = found[first : first + OPEN]
            joined.append(place / uuid.uuid4().hex)
            write(
                [(Segment.open(Files(folder, mapped=True, by_row=False)), None) for folder in some],
                joined[-1],
                durable=False,
            )
            for folder in some:
                if folder.parent == place:
                    shutil.rmtree(folder, ignore_errors=True)
        found = joined
    return found


def name_of(files: dict[str, dict[str, Any]]) -> str:
    """What a segment with these files is called: the same passages have the same name."""
    return PREFIX + hashlib.sha256(artifacts.dump_json(files)).hexdigest()[:16]


def record(path: Path) -> dict[str, Any]:
    """Describe a file for the manifest."""
    return {"bytes": path.stat().st_size, "sha256": artifacts.sha256_of(path)}


class _Hashing:
    """A file that is hashed while it is written."""

    def __init__(self, file: Any) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return int(self.file.write(data))


def _write(path: Path, blocks: Iterable[npt.NDArray[Any]], rows: int) -> dict[str, Any]:
    """Write one array block by block; at least one block, which gives dtype and item shape."""
    with path.open("wb") as file:
        hashing, first = _Hashing(file), True
        for block in blocks:
            if first:
                header = {"descr": np.lib.format.dtype_to_descr(block.dtype), "fortran_order": False}
                np.lib.format.write_array_header_1_0(hashing, {**header, "shape": (rows, *block.shape[1:])})
                first = False
            # not through a memory map: a full disk would end the process and not raise an error
            hashing.write(np.ascontiguousarray(block).data.cast("B") if block.size else b"")
        return {"bytes": file.tell(), "sha256": hashing.digest.hexdigest()}


def _kept(part: Part) -> int:
    segment, keep = part
    return len(segment) if keep is None else int(keep.sum())


def _flat_blocks(parts: Sequence[Part], name: str) -> Iterator[npt.NDArray[Any]]:
    yield getattr(parts[0][0], name)[:0]
    for segment, keep in parts:
        values = getattr(segment, name)
        for begin in range(0, len(segment), BLOCK):
            here = slice(begin, begin + BLOCK)
            yield values[here] if keep is None else values[here][keep[here]]


def _ragged_blocks(parts: Sequence[Part], name: str) -> Iterator[npt.NDArray[Any]]:
    yield getattr(parts[0][0], name).values[:0]
    for segment, keep in parts:
        rows = getattr(segment, name)
        for begin in range(0, len(rows), BLOCK):
            end = min(begin + BLOCK, len(rows))
            if keep is None or keep[begin:end].all():
                yield rows.values[rows.offsets[begin] : rows.offsets[end]]
            else:
                chosen = begin + np.flatnonzero(keep[begin:end])
                # through the memory map: in one go, and not row by row
                yield Ragged(rows.values, rows.offsets).take(chosen).values


def _offsets(parts: Sequence[Part], name: str) -> IntArray:
    lengths = [np.zeros(1, np.int64)]
    for segment, keep in parts:
        rows = getattr(segment, name)
        if len(rows):  # a lean index has none
            lengths.append(rows.lengths() if keep is None else rows.lengths()[keep])
    return np.cumsum(np.concatenate(lengths))


def _hashes(parts: Sequence[Part]) -> npt.NDArray[np.uint64]:
    found = []
    for segment, keep in parts:
        hashes = np.empty(len(segment), np.uint64)
        hashes[segment.id_rows] = segment.id_hashes
        found.append(hashes if keep is None else hashes[keep])
    return np.concatenate(found)


def _columns(parts: Sequence[Part]) -> Columns:
    if len(parts) == 1 and parts[0][1] is None:
        return parts[0][0].columns
    return metadata.concatenate(
        (segment.columns, None if keep is None else np.flatnonzero(keep)) for segment, keep in parts
    )
