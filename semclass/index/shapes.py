"""Checks that the arrays of an index fit together: then nothing that is searched leads beyond an array.

Hashes say that files are those that the manifest names, not that the manifest was written in good faith. All checks here
take one pass over each array; :mod:`semclass.index.verify` has the checks that take more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.core.types import Ragged
from semclass.heads.sparse import COLUMNS
from semclass.index import columns
from semclass.index.segment import REDUCED, ROWS, Segment
from semclass.scoring.approximation import DIMENSIONS
from semclass.scoring.vectors import COMPONENTS

TERMS_PER_BYTE = 32
"""Terms that a byte of a passage's record stands for at most: some characters are written out as a dozen others."""


def require(right: object, where: Path, what: str) -> None:
    """Refuse an index in which something is wrong."""
    if not right:
        raise ArtifactError(f"{where}: {what}; {REMEDY}")


def check(segment: Segment, passages: int, where: Path, *, classes: int, small: bool, exact: bool) -> None:
    """Refuse a segment whose arrays do not fit together, naming the first file that is wrong."""
    counts, ends = segment.postings, segment.sentences.offsets
    require(ends.ndim == 1 and ends.size, where / "sentence_offsets.npy", f"the shape is {ends.shape}")
    require(len(segment) == passages, where, f"it holds {len(segment)} passages, not {passages}")
    n, number, terms = len(segment), counts.counts.size, counts.terms.size
    _check_rows(segment, where, small=small, exact=exact)
    require(not n or segment.sentences.lengths().all(), where / "sentence_offsets.npy", "a passage has no sentence")
    for name, array, shape, kind in (
        ("probabilities", segment.probabilities, (n, classes), "f4"),
        ("id_hashes", segment.id_hashes, (n,), "u8"),
        ("title_hashes", segment.title_hashes, (n,), "u8"),
        ("bm25/lengths", counts.lengths, (n,), "u"),
        ("bm25/terms", counts.terms, (terms,), "u4"),
        ("bm25/starts", counts.starts, (terms + 1,), "u"),
        ("bm25/counts", counts.counts, (number,), "u"),
        ("bm25/passages", counts.passages, (number,), "u"),
    ):
        _check_array(array, shape, kind, where / f"{name}.npy")
    _check_postings(segment, where / "bm25")
    _check_array(segment.sparse.values, (len(segment.sparse.values), COLUMNS), "u1", where / "sparse.npy")
    _check_reduced(segment, where / REDUCED)
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


def _check_rows(segment: Segment, where: Path, *, small: bool, exact: bool) -> None:
    for name, stored in ROWS.items():
        if not stored.offsets:
            continue
        rows, path = getattr(segment, name), where / f"{name}.npy"
        values, offsets = rows.values, rows.offsets
        n = len(segment) if stored.in_small or not small else 0
        require(offsets.dtype == np.int64 and offsets.ndim == 1, path, f"its offsets are {offsets.dtype}")
        require(len(offsets) == n + 1, path, f"it has {len(offsets) - 1} rows, not {n}")
        require(offsets[0] == 0 and (rows.lengths() >= 0).all(), path, "its offsets must rise from 0")
        right = values.ndim == 1 + stored.columns and offsets[-1] == len(values)
        require(right or not (n or values.size), path, "its last offset is not its length")
        kinds = (stored.exact if exact else stored.coded).split()
        require(values.dtype.str[1:] in kinds, path, f"the type is {values.dtype}")
        _check_finite(values, path)


def _check_postings(segment: Segment, where: Path) -> None:
    counts, ends = segment.postings, segment.postings.starts.astype(np.int64)
    require(ends[0] == 0 and (np.diff(ends) > 0).all(), where / "starts.npy", "its values must rise")
    require((counts.terms[1:] > counts.terms[:-1]).all(), where / "terms.npy", "its values must rise")
    require(int(ends[-1]) == len(counts.counts), where / "starts.npy", "its last value must be the number of counts")
    highest = int(counts.passages.max(initial=0))
    said = f"it names row {highest}, but the segment has {len(segment)} rows"
    require(highest < max(len(segment), 1), where / "passages.npy", said)
    same = int(counts.lengths.sum(dtype=np.uint64)) == int(counts.counts.sum(dtype=np.uint64))
    require(same, where / "counts.npy", "its sum must be the sum of the lengths")
    most = TERMS_PER_BYTE * segment.records.lengths()
    require((counts.lengths <= most).all(), where / "lengths.npy", "a passage has more terms than its text can have")


def _check_reduced(segment: Segment, where: Path) -> None:
    near, n = segment.near, len(segment.sentences.values)
    if near is None:
        return
    dim = COMPONENTS * segment.sentences.values.shape[1]
    _check_array(near.axes, (dim, DIMENSIONS), "f4", where / "axes.npy")
    _check_array(near.mean, (dim,), "f4", where / "mean.npy")
    _check_array(near.levels, (n, DIMENSIONS // 2), "u1", where / "levels.npy")
    starts = near.starts
    rising = starts.dtype == np.int64 and starts.ndim == 1 and len(starts) > 1
    rising = rising and starts[0] == 0 and starts[-1] == n and bool((np.diff(starts) > 0).all())
    require(rising, where / "starts.npy", f"its values must rise from 0 to {n}")
    _check_array(near.places, (n,), "i4", where / "places.npy")
    once = np.array_equal(np.sort(near.places), np.arange(n))
    require(once, where / "places.npy", "it must name each sentence once")
    for name in ("means", "variances"):
        _check_array(getattr(near, name), (len(starts) - 1, DIMENSIONS), "f4", where / f"{name}.npy")
    require((near.variances >= 0).all(), where / "variances.npy", "it holds numbers below 0")


def check_alike(segments: Sequence[Segment], folder: Path) -> None:
    """Refuse segments that were not made by the same models: their arrays are searched as one."""

    def form(rows: Ragged) -> tuple[Any, ...]:
        return (rows.values.dtype, rows.values.shape[1:]) if len(rows.values) else ()

    first = segments[0]
    for other in segments[1:]:
        where = folder / other.name
        for name in ("tokens", "sentences", "provides", "sparse"):
            forms = {form(getattr(segment, name)) for segment in (first, other)} - {()}
            require(len(forms) < 2, where / f"{name}.npy", "its values differ from those of other segments")
