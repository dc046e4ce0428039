"""Looking an index through: whether all that it holds is whole, and fits together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass import bm25, manifest
from semclass.bm25 import Removed
from semclass.dense import DIMENSIONS, Reduced
from semclass.errors import ArtifactError
from semclass.index import PassageIndex
from semclass.segment import BLOCK, REDUCED, Segment, hashes_of
from semclass.types import Ragged
from semclass.validation import short

CHECKS = ("files", "shapes", "ids", "statistics")
"""What is looked at, in this order."""


def verify(folder: str | Path, *, progress: Callable[[int], object] | None = None) -> dict[str, Any]:
    """Look an index through, as it is now; it may be searched and changed meanwhile.

    Parameters
    ----------
    folder
        Holds an index.
    progress
        Called with the number of passages that were looked at, now and then.

    Returns
    -------
    dict
        ``passages``, ``removed``, ``segments`` (their number), and ``checks``: what was found right.

    Raises
    ------
    ArtifactError
        Naming the first thing that is wrong: a file whose SHA-256 differs; an array whose shape is not that of the others,
        or whose offsets fall; a row or a term that cannot be; an id that two passages have, or that is not found; counts
        of terms that are not those of the passages.
    """
    index = PassageIndex.load(folder, verify=True)
    report = progress or (lambda _: None)
    for segment, gone in zip(index.segments, index.removed, strict=True):
        where = Path(folder) / segment.name
        _check_shapes(index, segment, where)
        _check_reduced(segment, where / REDUCED)
        _check_ids(segment, where, report)
        _check_statistics(segment, where)
        if gone is not None:
            _check_removed(segment, gone, where)
    _check_unique(index, Path(folder))
    removed = int(index.starts[-1]) - len(index)
    return {"passages": len(index), "removed": removed, "segments": len(index.segments), "checks": list(CHECKS)}


def _require(right: object, where: Path, what: str) -> None:
    if not right:
        raise ArtifactError(f"{where}: {what}; {manifest.REMEDY}")


def _check_shapes(index: PassageIndex, segment: Segment, where: Path) -> None:
    n, vocabulary = len(segment), len(segment.postings.is_term)
    shapes: Mapping[str, tuple[npt.NDArray[Any], tuple[int, ...]]] = {
        "pooled.npy": (segment.pooled_codes, (n, segment.pooled_codes.shape[-1])),
        "pooled_levels.npy": (segment.pooled_levels, (n,)),
        "probabilities.npy": (segment.probabilities, (n, len(index.classes))),
        "id_hashes.npy": (segment.id_hashes, (n,)),
        "id_rows.npy": (segment.id_rows, (n,)),
        "bm25/lengths.npy": (segment.postings.lengths, (n,)),
        "bm25/starts.npy": (segment.postings.starts, (vocabulary + 1,)),
        "bm25/counts.npy": (segment.postings.counts, segment.postings.passages.shape),
    }
    for name, (array, shape) in shapes.items():
        _require(array.shape == shape, where / name, f"the shape is {array.shape}, not {shape}")
    _require(len(segment.columns) == n, where / "columns.npy", f"it is of {len(segment.columns)} passages, not {n}")
    kept = 0 if index.form == "lean" else n
    for name, rows, count in (
        ("tokens", segment.tokens, kept),
        ("sentences", segment.sentences, kept),
        ("terms", segment.terms, kept),
        ("records", segment.records, n),
    ):
        _check_offsets(rows, count, where / f"{name}.npy")
    _require(
        np.array_equal(segment.tokens.offsets, segment.terms.offsets), where / "tokens.npy", "it does not fit the terms"
    )
    for begin in range(0, len(segment.terms.values), BLOCK * BLOCK):
        highest = int(segment.terms.values[begin : begin + BLOCK * BLOCK].max(initial=0))
        _require(highest < vocabulary, where / "terms.npy", f"there is a term {highest} of {vocabulary}")


def _check_reduced(segment: Segment, where: Path) -> None:
    """Whether each passage has reduced vectors once, in a cell; a small segment has none, an old one no cells."""
    near, n = segment.near, len(segment)
    if not isinstance(near, Reduced):
        return
    dim = segment.pooled_codes.shape[1]
    _require(near.axes.shape == (dim, DIMENSIONS), where / "axes.npy", f"the shape is {near.axes.shape}")
    _require(near.levels.shape == (n, DIMENSIONS // 2), where, f"it has levels of the shape {near.levels.shape}")
    _require(
        len(near.starts) > 1 and near.starts[0] == 0 and near.starts[-1] == n and (np.diff(near.starts) > 0).all(),
        where / "starts.npy",
        f"it does not rise from 0 to {n}",
    )
    if near.places is None or near.cells is None:
        return
    places = np.sort(near.places)
    _require(np.array_equal(places, np.arange(n)), where / "places.npy", "it does not name each passage once")
    shape = (len(near.starts) - 1, DIMENSIONS)
    for name, array in vars(near.cells).items():
        _require(array.shape == shape, where / f"{name}.npy", f"the shape is {array.shape}, not {shape}")


def _check_offsets(rows: Ragged, count: int, where: Path) -> None:
    _require(len(rows) == count, where, f"it has {len(rows)} rows, not {count}")
    _require(int(rows.offsets[0]) == 0 and (rows.lengths() >= 0).all(), where, "its offsets do not rise from 0")
    _require(int(rows.offsets[-1]) == len(rows.values), where, "its offsets do not end where it does")


def _check_ids(segment: Segment, where: Path, report: Callable[[int], object]) -> None:
    """Whether each record can be read, and its id is where it is looked for."""
    rows = np.sort(segment.id_rows.astype(np.int64))
    _require(np.array_equal(rows, np.arange(len(segment))), where / "id_rows.npy", "it does not name each row once")
    _require((segment.id_hashes[1:] >= segment.id_hashes[:-1]).all(), where / "id_hashes.npy", "it does not rise")
    hashes = np.empty(len(segment), np.uint64)
    hashes[segment.id_rows] = segment.id_hashes
    for begin in range(0, len(segment), BLOCK):
        some = np.arange(begin, min(begin + BLOCK, len(segment)))
        try:
            ids = segment.ids(some)
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(
                f"{where / 'records.npy'} holds what is no passage ({error}); {manifest.REMEDY}"
            ) from error
        _require(len(ids) == len(some), where / "records.npy", "it has not one line for each passage")
        wrong = np.flatnonzero(hashes_of(ids) != hashes[some])
        if len(wrong):
            _require(False, where / "id_hashes.npy", f"passage {ids[wrong[0]]!r} would not be found by its id")
        report(len(some))


def _check_statistics(segment: Segment, where: Path) -> None:
    """Whether what BM25 counts is what the terms say; a lean index has no terms to count again."""
    found = segment.postings
    place = where / "bm25"
    _require((np.diff(found.starts.astype(np.int64)) >= 0).all(), place / "starts.npy", "it falls")
    _require(int(found.starts[-1]) == len(found.counts), place / "starts.npy", "it does not end where the counts do")
    total = 0
    for begin in range(0, len(found.counts), BLOCK * BLOCK):
        here = slice(begin, begin + BLOCK * BLOCK)
        highest = int(found.passages[here].max(initial=0))
        _require(highest < len(segment), place / "passages.npy", f"there is a passage {highest} of {len(segment)}")
        total += int(found.counts[here].sum(dtype=np.int64))
    _require(total == int(found.lengths.sum(dtype=np.int64)), place / "counts.npy", "it does not add up to the lengths")
    if not len(segment.terms):
        return
    frequencies = np.zeros(len(found.is_term), np.int64)
    for begin in range(0, len(segment), BLOCK):
        rows = Ragged(segment.terms.values, segment.terms.offsets).take(
            np.arange(begin, min(begin + BLOCK, len(segment)))
        )
        counted = bm25.postings(rows, np.asarray(found.is_term))
        frequencies += counted.document_frequencies
        same = np.array_equal(counted.lengths, found.lengths[begin : begin + BLOCK])
        _require(same, place / "lengths.npy", "it is not what the terms say")
    _require(
        np.array_equal(frequencies, found.document_frequencies), place / "starts.npy", "it is not what the terms say"
    )


def _check_removed(segment: Segment, gone: Removed, where: Path) -> None:
    rising = (np.diff(gone.rows) > 0).all() and (
        len(gone.rows) == 0 or 0 <= gone.rows[0] <= gone.rows[-1] < len(segment)
    )
    _require(rising, where, f"the rows removed from it are not among its own: {short(gone.rows)}")
    again = bm25.removed(segment.postings, gone.rows)
    same = again.terms == gone.terms and np.array_equal(again.document_frequencies, gone.document_frequencies)
    _require(same, where, "what was removed from it is not counted as it should be")


def _check_unique(index: PassageIndex, folder: Path) -> None:
    """Whether no two passages that are there have one id."""
    parts = []
    for segment, keep in index.parts():
        hashes = np.empty(len(segment), np.uint64)
        hashes[segment.id_rows] = segment.id_hashes
        parts.append(hashes if keep is None else hashes[keep])
    hashes = np.concatenate(parts)
    order = np.argsort(hashes, kind="stable")
    twice = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    for place in twice.tolist():
        one, other = index.passages(index.rows[order[place : place + 2]])
        _require(one.id != other.id, folder, f"two passages have the id {one.id!r}")
