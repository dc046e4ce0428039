"""Graphs of near neighbours, made by usearch: for more passages than can be looked at quickly in few dimensions.

An index looks through vectors in few dimensions by itself, see :class:`semclass.scoring.reduction.Reduced`: of a million
passages that takes some milliseconds, and ten times as long for ten million. A graph (HNSW, Malkov & Yashunin 2018)
visits some thousand passages of any number; it takes long to build, and memory-mapped files as large as the vectors.
Needs the extra ``ann``.

A program that imports usearch itself must import onnxruntime, or this module, first: in the other order the process dies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime  # noqa: F401 -- importing it after usearch ends the process (usearch 2.26, onnxruntime 1.31)

from semclass.core.checks import check_positive
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.types import FloatArray, IntArray
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import Segment
from semclass.scoring.reduction import MANY

CONNECTIVITY, ADDED, SEARCHED = 16, 128, 128
"""Neighbours of a passage, and how many are looked at when one is added and, at least, when one is searched."""

BLOCK = 10_000
"""Passages that are added at a time."""

SUFFIX = ".usearch"


@dataclass(frozen=True)
class Graph:
    """A graph of the passages of a segment; many threads may share one.

    Attributes
    ----------
    library
        usearch's index, whose keys are the places of the passages.
    """

    library: Any

    def nearest(self, question: FloatArray, n: int, allowed: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Places of about n passages, rising: `question` is a vector (dim,), `allowed` bool of shape (n_passages,)."""
        if allowed is None:
            return self._nearest(question, n)
        number = int(np.count_nonzero(allowed))
        # the library's filters are not for Python: more are asked for, or, where few are allowed, all of those are given
        wanted = 2 * n * len(allowed) // max(number, 1)
        if wanted > len(allowed) // 8:
            return np.flatnonzero(allowed)
        rows = self._nearest(question, wanted)
        rows = rows[allowed[rows]]
        return rows if len(rows) >= n else np.flatnonzero(allowed)

    def _nearest(self, question: FloatArray, n: int) -> IntArray:
        return np.sort(self.library.search(question, min(n, len(self.library)), threads=1).keys.astype(np.int64))


def with_graphs(index: PassageIndex, folder: str | Path, *, threads: int = 1) -> PassageIndex:
    """Give an index graphs of its large segments, those of :data:`semclass.scoring.reduction.MANY` passages and more.

    Parameters
    ----------
    index
        Of the similarity ``"cosine"``.
    folder
        Where graphs are kept, one file for each segment; what is missing is built: hours for ten million passages. Not the
        folder of the index.
    threads
        Of building.

    Returns
    -------
    PassageIndex
        The same passages; a search looks at fewer.

    Raises
    ------
    InputError
        If the index has another similarity, or vectors in float32.
    ArtifactError
        If a graph cannot be read or written.
    MissingExtraError
        If usearch is not installed.
    """
    usearch = import_extra("usearch.index", "ann")
    check_positive(threads, "threads")
    if index.similarity != "cosine" or index.form == "exact":
        raise InputError(
            f"graphs are for the similarity 'cosine' and vectors in int8, and this index has {index.similarity!r} and the "
            f"form {index.form!r}; search it without graphs"
        )
    segments = tuple(
        replace(segment, near=_graph(usearch, segment, Path(folder), threads)) if len(segment) >= MANY else segment
        for segment in index.segments
    )
    return replace(index, segments=segments)


def _graph(usearch: Any, segment: Segment, folder: Path, threads: int) -> Graph:
    """The graph of a segment, read if it is there, built and written if not; that of one in memory is not kept."""
    path = folder / f"{segment.name}{SUFFIX}"
    try:
        if not segment.name or not path.is_file():
            library = build(usearch, segment.pooled_codes, threads)
            if not segment.name:
                return Graph(library)
            folder.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.{os.getpid()}.part")
            library.save(str(beside))
            beside.replace(path)
        library = usearch.Index.restore(str(path), view=True)
    except (OSError, RuntimeError, ValueError) as error:  # what the library raises for files that are no graphs
        raise ArtifactError(
            f"the graph {path} cannot be read or written ({error}); remove it to have it built"
        ) from error
    if library is None or len(library) != len(segment):
        raise ArtifactError(f"the graph {path} is not one of {len(segment)} passages; remove it to have it built")
    library.expansion_search = SEARCHED
    return Graph(library)


def build(usearch: Any, codes: npt.NDArray[np.int8], threads: int) -> Any:
    """A graph of vectors, int8 of shape (n, dim), as usearch's index."""
    library = usearch.Index(
        ndim=codes.shape[1], metric="cos", dtype="i8", connectivity=CONNECTIVITY, expansion_add=ADDED
    )
    library.expansion_search = SEARCHED
    for begin in range(0, len(codes), BLOCK):
        # cosines do not see the scale of a row
        rows = codes[begin : begin + BLOCK]
        library.add(np.arange(begin, begin + len(rows), dtype=np.uint64), rows, threads=threads)
    return library
