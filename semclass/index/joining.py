"""Joining segments: the passages of all of them, one after another, without the deleted ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.files import let_go
from semclass.core.types import IntArray, Ragged
from semclass.index import columns
from semclass.index.columns import Columns
from semclass.index.segment import PREFIX, REDUCED, ROWS, Part, Segment, hash_table
from semclass.scoring import approximation, postings

COPY_PASSAGES = 4096
"""Passages that are copied at a time, at most: bounds memory, changes no value."""

READ_PASSAGES = 256
"""Passages that are read back at a time."""

COPY_BYTES = 1 << 24
"""Bytes of an array that are copied at a time, unless a passage has more."""


def join(parts: Sequence[Part]) -> Segment:
    """Join segments in memory."""
    rows: dict[str, Any] = {name: np.concatenate([*_blocks(parts, name)]) for name in ROWS}
    rows |= {name: Ragged(rows[name], _offsets(parts, name)) for name, stored in ROWS.items() if stored.offsets}
    hashes, places = hash_table(_hashes(parts))
    counts = postings.merge([segment.postings for segment, _ in parts], [keep for _, keep in parts])
    return Segment(**rows, postings=counts, columns=_columns(parts), id_hashes=hashes, id_rows=places)


def write(
    parts: Sequence[Part], folder: Path, *, durable: bool = True, reduced: bool = False
) -> dict[str, dict[str, Any]]:
    """Join segments, at least one, in a new folder, in bounded memory; the ``bytes`` and ``sha256`` of each file.

    With `durable` all of it survives a loss of power. With `reduced` many sentences get reduced vectors.
    """
    folder.mkdir(parents=True)
    for name, stored in ROWS.items():
        offsets = _offsets(parts, name) if stored.offsets else None
        _write(folder / f"{name}.npy", _blocks(parts, name), sum(map(count, parts)) if offsets is None else offsets[-1])
        if offsets is not None:
            np.save(folder / f"{stored.offsets}.npy", offsets)  # of several arrays they may be the same
    hashes, rows = hash_table(_hashes(parts))
    np.save(folder / "id_hashes.npy", hashes)
    np.save(folder / "id_rows.npy", rows)
    columns.save(_columns(parts), folder)
    if len(parts) == 1 and parts[0][1] is None:
        postings.save(parts[0][0].postings, folder / "bm25")
    else:
        postings.merge([segment.postings for segment, _ in parts], [keep for _, keep in parts], folder=folder / "bm25")
    coded = parts[0][0].sentences.values.dtype == np.uint8
    if reduced and coded and _offsets(parts, "sentences")[-1] >= approximation.REDUCED_FROM:
        codes, scales = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("sentences", "scales"))
        approximation.save(approximation.reduce_vectors(codes, scales), folder / REDUCED)
    if durable:
        artifacts.flush_all(folder)
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": artifacts.sha256_of(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def name_of(files: dict[str, dict[str, Any]]) -> str:
    """The name of a segment with these files: the same passages have the same name."""
    return PREFIX + hashlib.sha256(artifacts.dump_json(files)).hexdigest()[:16]


def count(part: Part) -> int:
    """Count the passages that remain."""
    segment, keep = part
    return len(segment) if keep is None else int(keep.sum())


def _write(path: Path, blocks: Iterator[npt.NDArray[Any]], rows: int) -> None:
    first = next(blocks)
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (int(rows), *first.shape[1:])})
        for block in chain([first], blocks):
            # not through a memory map: a full disk would end the process and not raise an error
            file.write(np.ascontiguousarray(block).data.cast("B") if block.size else b"")


def _hashes(parts: Sequence[Part]) -> npt.NDArray[np.uint64]:
    return np.concatenate([segment.row_hashes if keep is None else segment.row_hashes[keep] for segment, keep in parts])


def _blocks(parts: Sequence[Part], name: str) -> Iterator[npt.NDArray[Any]]:
    """The remaining rows of an array, some passages at a time; the first block is empty."""
    ragged = bool(ROWS[name].offsets)
    first = getattr(parts[0][0], name)
    yield (first.values if ragged else first)[:0]
    for segment, keep in parts:
        rows = getattr(segment, name)
        if ragged:
            yield from _ragged_blocks(rows, keep)
            continue
        for begin in range(0, len(segment), COPY_PASSAGES):
            here = slice(begin, begin + COPY_PASSAGES)
            yield rows[here] if keep is None else rows[here][keep[here]]


def _ragged_blocks(rows: Ragged, keep: npt.NDArray[np.bool_] | None) -> Iterator[npt.NDArray[Any]]:
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
    lengths = [np.zeros(1, np.int64)]
    for segment, keep in parts:
        rows = getattr(segment, name)
        if len(rows):  # a small index has none
            lengths.append(rows.lengths() if keep is None else rows.lengths()[keep])
    return np.cumsum(np.concatenate(lengths))


def _columns(parts: Sequence[Part]) -> Columns:
    if len(parts) == 1 and parts[0][1] is None:
        return parts[0][0].columns
    live = ((segment, np.arange(len(segment)) if keep is None else np.flatnonzero(keep)) for segment, keep in parts)
    blocks = ((part, rows[at : at + READ_PASSAGES]) for part, rows in live for at in range(0, len(rows), READ_PASSAGES))
    return columns.columns_of(passage.metadata for part, rows in blocks for passage in part.passages(rows))
