"""A segment: some passages of an index, with all their stored data. It never changes after it is written.

An index is a list of segments. New passages become a new segment. Deleted passages stay in their segment, but are left
out, until segments are joined. Then the remaining passages are copied, block by block, and no passage is encoded again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_depth
from semclass.core.errors import ArtifactError, ChangedFileError, InputError
from semclass.core.files import REMEDY, Files, StoredRagged, let_go, load_arrays, names_of, save_arrays
from semclass.core.tools import Once
from semclass.core.types import FloatArray, IntArray, Passage, Ragged, offsets_of
from semclass.heads import sparse
from semclass.index import columns
from semclass.index.columns import Columns, columns_of
from semclass.scoring import approximation, bm25
from semclass.scoring.approximation import Reduced
from semclass.scoring.bm25 import Deleted, Postings, count_deleted, count_terms
from semclass.scoring.dense import Vectors
from semclass.scoring.vectors import COMPONENTS

NOTHING = Ragged(np.zeros((0, 0), np.uint8), np.zeros(1, np.int64))
"""The rows that a small index leaves out."""

REDUCED = "reduced"
"""Folder of the reduced vectors within the folder of a segment."""

PREFIX = "segment-"
"""Beginning of the names of segments on the disk. A hash of their files follows."""

COPY_PASSAGES = 4096
"""Maximum number of passages that are copied at a time. It bounds memory, and changes no value."""

READ_PASSAGES = 256
"""Number of passages that are read back at a time."""

TERMS_PER_BYTE = 32
"""Maximum terms per byte of a passage's record, because some characters are written out as a dozen others."""

COPY_BYTES = 1 << 24
"""Number of bytes of an array that are copied at a time, unless a passage has more."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowFormat:
    """Format of an array with rows for each passage. The file has the name of the array."""

    offsets: str = ""  # file that says where each passage's rows begin; empty for one row a passage
    coded: str = "f4"  # allowed dtypes, of an index with codebooks or a small one
    exact: str = "f4"  # allowed dtypes, of any other index
    columns: bool = False  # whether a row has columns
    in_small: bool = True  # whether a small index has it
    in_memory: bool = False  # whether it is read into memory, as every search reads it


_EXCERPTS, _PIECES = "excerpt_offsets", "piece_offsets"


@dataclass(frozen=True)
class Segment:
    """n passages, in memory or in files. Read-only; many threads and many indices may share one.

    The fields with a :class:`RowFormat` are the arrays with rows for each passage. :data:`ROWS` controls how they are
    read, written, joined and checked.
    """

    #: vectors of the excerpts, see :class:`semclass.scoring.dense.Vectors`
    excerpts: Annotated[Ragged, RowFormat(_EXCERPTS, "u1", "f4", columns=True, in_memory=True)]
    #: factor of each excerpt
    scales: Annotated[Ragged, RowFormat(_EXCERPTS, in_memory=True)]
    #: factor of each excerpt in the mean of its passage
    shares: Annotated[Ragged, RowFormat(_EXCERPTS, in_memory=True)]
    #: vector `provides` of each excerpt: quarter bytes with a scale, or float32; no columns if it is unknown
    provides: Annotated[Ragged, RowFormat(_EXCERPTS, "u1", "f4", columns=True)]
    #: unit vectors of word pieces: codes, or int8 with components times 127
    tokens: Annotated[Ragged, RowFormat(_PIECES, "u1", "i1", columns=True, in_small=False)]
    #: ids of the word pieces whose vectors are in `tokens`
    pieces: Annotated[Ragged, RowFormat(_PIECES, "u1 u2 u4", "u1 u2 u4", in_small=False)]
    #: learnt words, see :mod:`semclass.heads.sparse`
    sparse: Annotated[Ragged, RowFormat("sparse_offsets", "u1", "u1", columns=True)]
    #: passages as JSON lines
    records: Annotated[Ragged, RowFormat("record_offsets", "u1", "u1")]
    #: P(class | passage), (n, n_classes)
    probabilities: Annotated[FloatArray, RowFormat(columns=True)]
    #: hash of the id of each passage, (n,), so that ids are found without a table of strings
    id_hashes: Annotated[npt.NDArray[np.uint64], RowFormat()]
    #: hash of document and title of each passage, (n,); neighbours with the same hash belong to one text
    title_hashes: Annotated[npt.NDArray[np.uint64], RowFormat()]
    postings: Postings
    columns: Columns
    near: Reduced | None = None  # for many vectors of quarter bytes, see semclass.scoring.approximation
    name: str = ""  # of its folder; empty in memory

    def __len__(self) -> int:
        return len(self.excerpts)

    def check_files(self) -> None:
        """Raise a ChangedFileError if a file that is read by position was written to since it was opened."""
        for values in vars(self).values():
            if isinstance(values, StoredRagged):
                values.file.check()

    @property
    def is_changed(self) -> bool:
        """Whether a file was written to, so that its rows are unreliable."""
        try:
            self.check_files()
        except ChangedFileError:
            return True
        return False

    @Once
    def vectors(self) -> Vectors:
        """Vectors of the excerpts, arranged for comparisons with questions. They are cached, because this takes time."""
        return Vectors(self.excerpts, self.scales.values, self.shares.values, self.near)

    def passages(self, rows: npt.NDArray[Any]) -> list[Passage]:
        """Return the passages at `rows`, int64 of shape (m,), as they were given."""
        return [Passage(record["_id"], record["text"], record["metadata"]) for record in self._records(rows)]

    def ids(self, rows: npt.NDArray[Any]) -> list[str]:
        """Return the ids of the passages at `rows`, int64 of shape (m,)."""
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

    @Once
    def _sorted(self) -> tuple[npt.NDArray[np.uint64], IntArray]:
        """The hashes of ids, ascending, and the row of each."""
        order = np.argsort(self.id_hashes, kind="stable")
        return self.id_hashes[order], order

    def find(self, ids: Sequence[str], hashes: npt.NDArray[np.uint64] | None = None) -> IntArray:
        """Return the rows of passages by id, -1 for an unknown id, int64 of shape (m,). `hashes` are hashes of the ids."""
        result = np.full(len(ids), -1, np.int64)
        hashes = hashes_of(ids) if hashes is None else hashes
        known, order = self._sorted
        first = np.searchsorted(known, hashes, side="left")
        count = np.searchsorted(known, hashes, side="right") - first
        # almost always one; two ids of the same hash are distinguished by their records
        for more in range(int(count.max(initial=0))):
            places = np.flatnonzero(count > more)
            rows = order[first[places] + more]
            same = [ids[place] == name for place, name in zip(places.tolist(), self.ids(rows), strict=True)]
            result[places[same]] = rows[same]
        return result

    @classmethod
    def open(cls, files: Files, name: str = "") -> Segment:
        """Open a segment and all of its files. It can be read even after its files were removed."""
        reduced = f"{REDUCED}/axes.npy" in files
        ends = {offsets: files.array(f"{offsets}.npy") for offsets in OFFSETS}
        rows: dict[str, Any] = {}
        for array, stored in ROWS.items():
            if not stored.offsets:
                rows[array] = files.array(f"{array}.npy")
            elif stored.in_memory and not (reduced and array == "excerpts"):
                rows[array] = Ragged(files.array(f"{array}.npy"), ends[stored.offsets])
            else:
                rows[array] = files.rows(f"{array}.npy", ends[stored.offsets])
        try:
            return cls(
                **rows,
                postings=load_arrays(Postings, files, "bm25/"),
                columns=columns.load(files),
                near=load_arrays(Reduced, files, f"{REDUCED}/") if reduced else None,
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
"""The format of each array with rows for each passage, by the name of the field and of the file."""

OFFSETS = tuple(dict.fromkeys(stored.offsets for stored in ROWS.values() if stored.offsets))

FILES = (
    *(f"{name}.npy" for name in (*ROWS, *OFFSETS)),
    *names_of(Postings, "bm25/"),
    columns.VALUES,
    columns.DIRECTORY,
)
"""Files of each segment."""

REDUCED_FILES = tuple(names_of(Reduced, f"{REDUCED}/"))
"""Additional files of a large segment."""


@dataclass(frozen=True)
class Entry:
    """Description of a segment in the manifest."""

    name: str  # of its folder
    passages: int  # deleted ones included
    files: Mapping[str, Mapping[str, Any]]  # by file: "bytes" and "sha256"
    kept: str = ""  # a bit for each passage that is not deleted, as :meth:`with_kept` writes them; empty if none is

    @property
    def keep(self) -> BoolArray | None:
        """Whether each passage is kept, bool (passages,), or None if all are. Raises a ValueError if `kept` is invalid."""
        if not self.kept:
            return None
        size = -(-self.passages // 8)
        try:
            data = zlib.decompressobj().decompress(base64.b64decode(self.kept, validate=True), size + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes of {self.passages} passages")
        return np.unpackbits(np.frombuffer(data, np.uint8), count=self.passages).astype(np.bool_)

    def with_kept(self, keep: BoolArray) -> Entry:
        """Return the entry with `keep`, bool (n,), which marks the passages that are not deleted."""
        return replace(self, kept=base64.b64encode(zlib.compress(np.packbits(keep).tobytes())).decode())

    @property
    def live(self) -> int:
        """Count the passages that are not deleted."""
        return self.passages if (keep := self.keep) is None else int(keep.sum())


@dataclass(frozen=True, eq=False)
class Part:
    """A segment of an index, and which of its passages are deleted. Its length does not count deleted passages."""

    segment: Segment
    keep: BoolArray | None = None  # passages that are not deleted, (n,); None: all
    entry: Entry | None = None  # how the manifest names it; None for a segment in memory

    def __len__(self) -> int:
        return self._live

    @cached_property
    def _live(self) -> int:
        return len(self.segment) if self.keep is None else int(self.keep.sum())

    @cached_property
    def deleted(self) -> Deleted | None:
        """Counts of the deleted passages; None if none are."""
        return None if self.keep is None else count_deleted(self.segment.postings, np.flatnonzero(~self.keep))

    def without(self, rows: IntArray) -> Part:
        """Return the part without the passages at `rows`."""
        if not len(rows):
            return self
        keep = np.ones(len(self.segment), np.bool_) if self.keep is None else self.keep.copy()
        keep[rows] = False
        return replace(self, keep=keep)


def hashes_of(ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hash ids to 64 bits each, uint64 of shape (n,); the same on every machine."""
    digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in ids)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def line_of(passage: Passage, without: Collection[str] = ()) -> bytes:
    """Write a passage as a JSON line, without some fields of its metadata."""
    metadata = {field: value for field, value in passage.metadata.items() if field not in without}
    check_depth(metadata, f"metadata of passage {passage.id!r}")
    record: dict[str, Any] = {"_id": passage.id, "text": passage.text, "metadata": metadata}
    try:
        return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"metadata of passage {passage.id!r} cannot be saved as JSON: {error}") from error


def records_of(lines: Sequence[bytes]) -> Ragged:
    """Return JSON lines in the form in which a segment stores them."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    return Ragged(np.frombuffer(b"".join(lines), np.uint8), offsets_of(lengths))


def segment_of(arrays: Mapping[str, Ragged]) -> Segment:
    """Make a segment from the arrays that a search reads, without texts, ids and metadata."""
    rows: dict[str, Any] = {name: array for name, array in arrays.items() if name not in ("terms", "probabilities")}
    return Segment(
        **rows,
        records=NOTHING,
        probabilities=arrays["probabilities"].values,
        postings=count_terms(arrays["terms"]),
        columns=columns_of([]),
        id_hashes=np.zeros(0, np.uint64),
        title_hashes=np.zeros(0, np.uint64),
    )


def join(parts: Sequence[Part]) -> Segment:
    """Join segments in memory."""
    rows: dict[str, Any] = {name: np.concatenate([*_blocks(parts, name)]) for name in ROWS}
    rows |= {name: Ragged(rows[name], _offsets(parts, name)) for name, stored in ROWS.items() if stored.offsets}
    return Segment(**rows, postings=_merged(parts), columns=_columns(parts))


def write(parts: Sequence[Part], folder: Path, *, final: bool) -> dict[str, dict[str, Any]]:
    """Join segments, at least one, into a new folder. Returns the ``bytes`` and ``sha256`` of each file.

    Memory is bounded. If `final`, the files survive a loss of power, and many excerpts get reduced vectors.
    """
    folder.mkdir(parents=True)
    for name, stored in ROWS.items():
        offsets = _offsets(parts, name) if stored.offsets else None
        _write(folder / f"{name}.npy", _blocks(parts, name), sum(map(len, parts)) if offsets is None else offsets[-1])
        if offsets is not None:
            np.save(folder / f"{stored.offsets}.npy", offsets)  # of several arrays they may be the same
    columns.save(_columns(parts), folder)
    if len(parts) == 1 and parts[0].keep is None:
        save_arrays(parts[0].segment.postings, folder / "bm25")
    else:
        _merged(parts, folder / "bm25")
    coded = parts[0].segment.excerpts.values.dtype == np.uint8
    if final and coded and _offsets(parts, "excerpts")[-1] >= approximation.REDUCED_FROM:
        codes, scales = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("excerpts", "scales"))
        save_arrays(approximation.reduce_vectors(codes, scales), folder / REDUCED)
    if final:
        artifacts.flush_all(folder)
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": artifacts.sha256_of(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def name_of(files: dict[str, dict[str, Any]]) -> str:
    """Return the name of a segment with these files. Segments with the same passages have the same name."""
    return PREFIX + hashlib.sha256(artifacts.dump_json(files)).hexdigest()[:16]


def _write(path: Path, blocks: Iterator[npt.NDArray[Any]], rows: int) -> None:
    first = next(blocks)
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (int(rows), *first.shape[1:])})
        for block in chain([first], blocks):
            # not through a memory map: a full disk would end the process and not raise an error
            file.write(np.ascontiguousarray(block).data.cast("B") if block.size else b"")


def _merged(parts: Sequence[Part], folder: Path | None = None) -> Postings:
    return bm25.merge([part.segment.postings for part in parts], [part.keep for part in parts], folder=folder)


def _blocks(parts: Sequence[Part], name: str) -> Iterator[npt.NDArray[Any]]:
    """The remaining rows of an array, some passages at a time; the first block is empty."""
    ragged = bool(ROWS[name].offsets)
    first = getattr(parts[0].segment, name)
    yield (first.values if ragged else first)[:0]
    for part in parts:
        rows, keep = getattr(part.segment, name), part.keep
        if ragged:
            yield from _ragged_blocks(rows, keep)
            continue
        for begin in range(0, len(rows), COPY_PASSAGES):
            here = slice(begin, begin + COPY_PASSAGES)
            yield rows[here] if keep is None else rows[here][keep[here]]


def _ragged_blocks(rows: Ragged, keep: BoolArray | None) -> Iterator[npt.NDArray[Any]]:
    values = rows.values
    most = COPY_BYTES // max(values[:1].nbytes, 1)
    end = 0
    while (begin := end) < len(rows):
        fits = int(np.searchsorted(rows.offsets, rows.offsets[begin] + most, "right")) - 1
        end = min(max(fits, begin + 1), begin + COPY_PASSAGES, len(rows))
        if keep is None or keep[begin:end].all():
            yield values[rows.offsets[begin] : rows.offsets[end]]
        else:
            # through the memory map: in one go, and not row by row
            yield Ragged(values, rows.offsets).take(begin + np.flatnonzero(keep[begin:end])).values
        let_go(values)


def _offsets(parts: Sequence[Part], name: str) -> IntArray:
    lengths = [getattr(part.segment, name).lengths() for part in parts]
    kept = [
        rows if part.keep is None or not len(rows) else rows[part.keep]  # a small index has none
        for part, rows in zip(parts, lengths, strict=True)
    ]
    return offsets_of(np.concatenate(kept))


def _columns(parts: Sequence[Part]) -> Columns:
    if len(parts) == 1 and parts[0].keep is None:
        return parts[0].segment.columns
    return columns_of(passage.metadata for passage in passages_of(parts))


def passages_of(parts: Sequence[Part]) -> Iterator[Passage]:
    """Yield the passages of segments, except for deleted ones. Some are read at a time."""
    for part in parts:
        rows = np.arange(len(part.segment)) if part.keep is None else np.flatnonzero(part.keep)
        for begin in range(0, len(rows), READ_PASSAGES):
            yield from part.segment.passages(rows[begin : begin + READ_PASSAGES])


# checks


def require(right: object, where: object, what: str) -> None:
    """Raise an ArtifactError about an index unless `right` is true."""
    if not right:
        raise ArtifactError(f"{where}: {what}; {REMEDY}")


def check(segment: Segment, passages: int, where: Path, *, classes: int, small: bool, exact: bool) -> None:
    """Refuse a segment whose arrays do not fit together, so that a search never reads beyond an array.

    Hashes show that files are those of the manifest, but not that the manifest is correct. The checks take one pass over
    each array, and name the first wrong file.
    """
    counts, ends = segment.postings, segment.excerpts.offsets
    require(ends.ndim == 1 and ends.size, where / "excerpt_offsets.npy", f"the shape is {ends.shape}")
    n, number, terms = len(segment), counts.counts.size, counts.terms.size
    require(n == passages, where, f"it holds {n} passages, not {passages}")
    for name, stored in ROWS.items():
        if stored.offsets:
            rows, kinds = n if stored.in_small or not small else 0, stored.exact if exact else stored.coded
            _check_ragged(getattr(segment, name), rows, 1 + stored.columns, kinds.split(), where / f"{name}.npy")
    require(segment.excerpts.lengths().all(), where / "excerpt_offsets.npy", "a passage has no excerpt")
    for name, array, shape, kind in (
        ("probabilities", segment.probabilities, (n, classes), "f4"),
        ("id_hashes", segment.id_hashes, (n,), "u8"),
        ("title_hashes", segment.title_hashes, (n,), "u8"),
        ("sparse", segment.sparse.values, (len(segment.sparse.values), sparse.COLUMNS), "u1"),
        ("bm25/lengths", counts.lengths, (n,), "u"),
        ("bm25/terms", counts.terms, (terms,), "u4"),
        ("bm25/starts", counts.starts, (terms + 1,), "u"),
        ("bm25/counts", counts.counts, (number,), "u"),
        ("bm25/passages", counts.passages, (number,), "u"),
    ):
        _check_array(array, shape, kind, where / f"{name}.npy")
    _check_postings(segment, where / "bm25")
    if segment.near is not None:
        _check_reduced(segment.near, segment.excerpts.values, where / REDUCED)
    described = segment.columns.n  # which may be more than a length can be
    require(described == n, where / columns.DIRECTORY, f"it describes {described} passages, not {n}")


def _check_array(array: npt.NDArray[Any], shape: tuple[int, ...], kind: str, where: Path) -> None:
    require(array.shape == shape, where, f"the shape is {array.shape}, not {shape}")
    require(kind in (array.dtype.str[1:], array.dtype.kind), where, f"the type is {array.dtype}")
    _check_finite(array, where)


def _check_finite(array: npt.NDArray[Any], where: Path) -> None:
    if array.dtype.kind == "f" and array.size:
        # the least and the largest are no numbers where any is none
        require(np.isfinite([array.min(), array.max()]).all(), where, "it holds NaN or infinity")


def _check_ragged(rows: Ragged, n: int, dimensions: int, kinds: Sequence[str], where: Path) -> None:
    values, offsets = rows.values, rows.offsets
    require(offsets.dtype == np.int64 and offsets.ndim == 1, where, f"its offsets are {offsets.dtype}")
    require(len(rows) == n, where, f"it has {len(rows)} rows, not {n}")
    require(offsets[0] == 0 and (rows.lengths() >= 0).all(), where, "its offsets must rise from 0")
    right = values.ndim == dimensions and offsets[-1] == len(values)
    require(right or not (n or values.size), where, "its last offset is not its length")
    require(values.dtype.str[1:] in kinds, where, f"the type is {values.dtype}")
    _check_finite(values, where)


def _check_postings(segment: Segment, where: Path) -> None:
    counts, ends, n = segment.postings, segment.postings.starts.astype(np.int64), len(segment)
    require(ends[0] == 0 and (np.diff(ends) > 0).all(), where / "starts.npy", "its values must rise")
    require((counts.terms[1:] > counts.terms[:-1]).all(), where / "terms.npy", "its values must rise")
    require(int(ends[-1]) == len(counts.counts), where / "starts.npy", "its last value must be the number of counts")
    highest = int(counts.passages.max(initial=0))
    require(highest < max(n, 1), where / "passages.npy", f"it names row {highest}, but the segment has {n} rows")
    same = int(counts.lengths.sum(dtype=np.uint64)) == int(counts.counts.sum(dtype=np.uint64))
    require(same, where / "counts.npy", "its sum must be the sum of the lengths")
    most = TERMS_PER_BYTE * segment.records.lengths()
    require((counts.lengths <= most).all(), where / "lengths.npy", "a passage has more terms than its text can have")


def _check_reduced(near: Reduced, vectors: npt.NDArray[Any], where: Path) -> None:
    n, dim, starts, width = len(vectors), COMPONENTS * vectors.shape[1], near.starts, approximation.DIMENSIONS
    clusters = max(starts.size - 1, 1)
    _check_array(starts, (clusters + 1,), "i8", where / "starts.npy")
    rising = starts[0] == 0 and starts[-1] == n and (np.diff(starts) > 0).all()
    require(rising, where / "starts.npy", f"its values must rise from 0 to {n}")
    for name, shape, kind in (
        ("axes", (dim, width), "f4"),
        ("mean", (dim,), "f4"),
        ("levels", (n, width // 2), "u1"),
        ("places", (n,), "i4"),
        ("means", (clusters, width), "f4"),
        ("variances", (clusters, width), "f4"),
    ):
        _check_array(getattr(near, name), shape, kind, where / f"{name}.npy")
    once = np.array_equal(np.sort(near.places), np.arange(n))
    require(once, where / "places.npy", "it must name each excerpt once")
    require((near.variances >= 0).all(), where / "variances.npy", "it holds numbers below 0")


def check_alike(segments: Sequence[Segment], folder: Path) -> None:
    """Refuse segments that were made by different models, because their arrays are searched together."""
    for name in ("tokens", "excerpts", "provides", "sparse"):
        arrays = [getattr(segment, name).values for segment in segments]
        forms = {(values.dtype, values.shape[1:]) for values in arrays if len(values)}
        require(len(forms) < 2, folder, f"the values of {name}.npy differ between segments")
