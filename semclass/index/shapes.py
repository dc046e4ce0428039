"""Whether the arrays of an index fit together: then nothing that is searched leads beyond an array.

Hashes say that files are those that the manifest names, not that the manifest was written in good faith. All checks here
take one pass over each array; :mod:`semclass.index.verify` does what takes more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import short
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.core.types import Ragged
from semclass.index import column_files
from semclass.index.segment import REDUCED, Segment
from semclass.scoring.approximation import DIMENSIONS
from semclass.scoring.postings import Deleted
from semclass.scoring.quantisation import COMPONENTS

TERMS_OF_A_BYTE = 32
"""Terms that a byte of a passage's record stands for at most: some characters are written out as a dozen others."""


def require(right: object, where: Path, what: str) -> None:
    """Refuse an index in which something is wrong."""
    if not right:
        raise ArtifactError(f"{where}: {what}; {REMEDY}")


def check(segment: Segment, header: Mapping[str, Any], passages: int, where: Path) -> None:
    """Refuse a segment whose arrays do not fit together, naming the first file that is wrong."""
    found, ends = segment.postings, segment.sentences.offsets
    require(ends.ndim == 1 and ends.size, where / "sentence_offsets.npy", f"the shape is {ends.shape}")
    require(len(segment) == passages, where, f"it holds {len(segment)} passages, not {passages}")
    n, exact = len(segment), not (header["small"] or header["codebooks"])
    postings, vocabulary = found.counts.size, found.is_term.size
    shapes: Mapping[str, tuple[npt.NDArray[Any], tuple[int, ...], tuple[str, ...]]] = {
        "scales.npy": (segment.scales.values, (len(segment.sentences.values),), ("f4",)),
        "shares.npy": (segment.shares.values, (len(segment.sentences.values),), ("f4",)),
        "probabilities.npy": (segment.probabilities, (n, len(header["classes"])), ("f4",)),
        "id_hashes.npy": (segment.id_hashes, (n,), ("u8",)),
        "id_rows.npy": (segment.id_rows, (n,), ("u",)),
        "bm25/lengths.npy": (found.lengths, (n,), ("u",)),
        "bm25/is_term.npy": (found.is_term, (vocabulary,), ("b1",)),
        "bm25/starts.npy": (found.starts, (vocabulary + 1,), ("u",)),
        "bm25/counts.npy": (found.counts, (postings,), ("u",)),
        "bm25/passages.npy": (found.passages, (postings,), ("u",)),
    }
    _check_rows(segment, small=header["small"], exact=exact, where=where)
    for name, (array, shape, kinds) in shapes.items():
        _check_array(array, shape, kinds, where / name)
    rows = np.bincount(segment.id_rows, minlength=n) if n else segment.id_rows
    require(len(rows) == n and (rows == 1).all(), where / "id_rows.npy", "it must name each row once")
    require((segment.id_hashes[1:] >= segment.id_hashes[:-1]).all(), where / "id_hashes.npy", "its values do not rise")
    _check_postings(segment, where / "bm25")
    _check_reduced(segment, where / REDUCED)
    of = segment.columns.n  # which may be more than a length can be
    require(of == n, where / column_files.DIRECTORY, f"it describes {of} passages, not {n}")
    try:
        column_files.check(segment.columns)
    except ValueError as error:
        raise ArtifactError(f"{where / column_files.VALUES}: {error}; {REMEDY}") from error


def _check_array(array: npt.NDArray[Any], shape: tuple[int, ...], kinds: tuple[str, ...], where: Path) -> None:
    require(array.shape == shape, where, f"the shape is {array.shape}, not {shape}")
    kind = array.dtype.str[1:]
    require(kind in kinds or array.dtype.kind in kinds, where, f"the type is {array.dtype}")
    if array.dtype.kind == "f" and array.size:
        # the least and the most are no numbers where any is none
        require(np.isfinite([array.min(), array.max()]).all(), where, "it holds NaN or infinity")


def _check_rows(segment: Segment, *, small: bool, exact: bool, where: Path) -> None:
    """Whether ragged arrays have a row for each passage, one after another; a small index has no tokens."""
    n, kept = len(segment), 0 if small else len(segment)
    for name, rows, count, kinds, dimensions in (
        ("sentences", segment.sentences, n, ("f4" if exact else "u1",), 2),
        ("provides", segment.provides, n, ("f4" if exact else "u1",), 2),
        ("tokens", segment.tokens, kept, ("i1" if exact else "u1",), 2 - small),
        ("pieces", segment.pieces, kept, ("u1", "u2", "u4"), 1),
        ("records", segment.records, n, ("u1",), 1),
    ):
        path, values, offsets = where / f"{name}.npy", rows.values, rows.offsets
        require(offsets.dtype == np.int64 and offsets.ndim == 1, path, f"its offsets are {offsets.dtype}")
        require(len(offsets) == count + 1, path, f"it has {len(offsets) - 1} rows, not {count}")
        require(offsets[0] == 0 and (rows.lengths() >= 0).all(), path, "its offsets must rise from 0")
        require(values.ndim == dimensions and offsets[-1] == len(values), path, "its last offset is not its length")
        kind = values.dtype.str[1:]
        require(kind in kinds or values.dtype.kind in kinds, path, f"the type is {values.dtype}")
        if kind == "f4" and values.size:
            require(np.isfinite([values.min(), values.max()]).all(), path, "it holds NaN or infinity")
    empty = n and not segment.sentences.lengths().all()
    require(not empty, where / "sentence_offsets.npy", "a passage has no sentence")


def _check_postings(segment: Segment, where: Path) -> None:
    found, ends = segment.postings, segment.postings.starts.astype(np.int64)
    require(ends[0] == 0 and (np.diff(ends) >= 0).all(), where / "starts.npy", "its values must not fall")
    require(int(ends[-1]) == len(found.counts), where / "starts.npy", "its last value must be the number of counts")
    highest = int(found.passages.max(initial=0))
    require(
        highest < max(len(segment), 1),
        where / "passages.npy",
        f"it names row {highest}, but the segment has {len(segment)} rows",
    )
    total = int(found.lengths.sum(dtype=np.uint64))
    require(
        total == int(found.counts.sum(dtype=np.uint64)), where / "counts.npy", "its sum must be the sum of the lengths"
    )
    most = TERMS_OF_A_BYTE * segment.records.lengths()
    require((found.lengths <= most).all(), where / "lengths.npy", "a passage has more terms than its text can have")


def _check_reduced(segment: Segment, where: Path) -> None:
    """Whether each sentence has reduced vectors once, in a cluster; a small segment has none."""
    near, n = segment.near, len(segment.sentences.values)
    if near is None:
        return
    dim = COMPONENTS * segment.sentences.values.shape[1]
    _check_array(near.axes, (dim, DIMENSIONS), ("f4",), where / "axes.npy")
    _check_array(near.mean, (dim,), ("f4",), where / "mean.npy")
    _check_array(near.levels, (n, DIMENSIONS // 2), ("u1",), where / "levels.npy")
    starts = near.starts
    rising = starts.dtype == np.int64 and starts.ndim == 1 and len(starts) > 1
    rising = rising and starts[0] == 0 and starts[-1] == n and bool((np.diff(starts) > 0).all())
    require(rising, where / "starts.npy", f"its values must rise from 0 to {n}")
    _check_array(near.places, (n,), ("i4",), where / "places.npy")
    places = np.sort(near.places)
    require(np.array_equal(places, np.arange(n)), where / "places.npy", "it must name each sentence once")
    for name in ("means", "variances"):
        _check_array(getattr(near, name), (len(near.starts) - 1, DIMENSIONS), ("f4",), where / f"{name}.npy")
    require((near.variances >= 0).all(), where / "variances.npy", "it holds numbers below 0")


def check_deleted(segment: Segment, deleted: Deleted, passages: int, where: Path) -> None:
    """Refuse deleted rows that the segment cannot have; by the manifest they are `passages` many."""
    rows, frequencies = deleted.rows, deleted.document_frequencies
    require(rows.dtype == np.int64 and rows.shape == (passages,), where, f"it must name {passages} passages")
    rising = not len(rows) or (rows[0] >= 0 and rows[-1] < len(segment) and (np.diff(rows) > 0).all())
    require(rising, where, f"it removes rows that the segment does not have: {short(rows)}")
    known = segment.postings.document_frequencies
    right = frequencies.dtype == np.int64 and frequencies.shape == known.shape
    require(
        right and (frequencies >= 0).all() and (frequencies <= known).all(),
        where,
        "it counts terms that the segment does not have",
    )
    terms = int(segment.postings.lengths[rows].sum(dtype=np.uint64))
    require(
        deleted.terms == terms,
        where,
        f"it counts {deleted.terms} terms, but its passages have {terms}",
    )


def check_alike(segments: Sequence[Segment], folder: Path) -> None:
    """Refuse segments that were not made by the same models: their arrays are searched as one."""

    def made(rows: Ragged) -> tuple[Any, ...]:
        return (rows.values.dtype, rows.values.shape[1:]) if len(rows.values) else ()

    first = segments[0]
    for other in segments[1:]:
        where = folder / other.name
        require(
            np.array_equal(other.postings.is_term, first.postings.is_term),
            where,
            "its terms differ from those of other segments",
        )
        for name in ("tokens", "sentences", "provides"):
            kinds = {made(getattr(segment, name)) for segment in (first, other)} - {()}
            require(len(kinds) < 2, where / f"{name}.npy", "its values differ from those of other segments")
