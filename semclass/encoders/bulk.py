"""Encoding more texts than should be in memory at once."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from semclass.core.errors import TruncationWarning
from semclass.core.types import DoubleArray, Encoder, Encoding, IntArray

Result = TypeVar("Result")

CHUNK = 512
"""Texts encoded at a time; bounds memory, changes no value."""

PIECES = 1024
"""Word pieces of a batch, padding included, at most: what a layer of more holds falls out of the processor's cache.

Measured on one and two threads: long passages are encoded 1.3 to 2 times as fast as in batches of 32 (8,128 word pieces),
in a quarter of the memory; questions, of which 32 are fewer word pieces than this, as before.
"""


class _Watch(threading.local):
    """What a thread's work is watched by; None where nobody does."""

    between: Callable[[], object] | None = None


_watch = _Watch()


@contextlib.contextmanager
def watched(between: Callable[[], object]) -> Iterator[None]:
    """Have something called between the steps of this thread's work: runs of a network, texts that are cut into pieces.

    Whoever watches says how many work at a time, so such work takes no turn of :attr:`semclass.Ranker.turns`.

    Parameters
    ----------
    between
        Called with nothing, every tenth of a second or so; what it raises ends the work.
    """
    outer, _watch.between = _watch.between, between
    try:
        yield
    finally:
        _watch.between = outer


def is_watched() -> bool:
    """Whether this thread's work is watched."""
    return _watch.between is not None


def steps(items: Iterable[Result]) -> Iterator[Result]:
    """Give items one after another, and call what :func:`watched` was given before each."""
    between = _watch.between
    for item in items:
        if between is not None:
            between()
        yield item


def batches_by_length(lengths: IntArray, size: int) -> list[IntArray]:
    """Cut rows into batches for a network that pads them.

    Parameters
    ----------
    lengths
        Word pieces of each row, int64 of shape (n,).
    size
        Rows of a batch at most.

    Returns
    -------
    list of ndarray
        Places, int64: rows of like length together, as padding costs time, and no more of them than make `PIECES` word
        pieces, padding included. A stable sort keeps it reproducible.
    """
    order = np.argsort(lengths, kind="stable")
    cuts = [0]
    for place, length in enumerate(lengths[order].tolist()):
        rows = place - cuts[-1]
        if rows == size or (rows and (rows + 1) * length > PIECES):
            cuts.append(place)
    return [order[start:end] for start, end in zip(cuts, [*cuts[1:], len(order)], strict=True) if end > start]


class _Quiet(threading.local):
    """The truncation warnings of a thread that works in bulk; None in all others."""

    caught: list[TruncationWarning] | None = None


_quiet = _Quiet()
_entering = threading.Lock()
_inside: list[contextlib.ExitStack] = []


@contextlib.contextmanager
def _caught() -> Iterator[list[TruncationWarning]]:
    """Collect this thread's truncation warnings.

    Warning filters belong to all threads of a process: the first to come in sets them, the last to leave sets them back.
    """
    with _entering:
        if not _inside:
            stack = contextlib.ExitStack()
            stack.enter_context(warnings.catch_warnings())
            before = warnings.showwarning

            def show(message: Warning | str, *details: Any, **others: Any) -> None:
                if isinstance(message, TruncationWarning) and _quiet.caught is not None:
                    _quiet.caught.append(message)
                else:
                    before(message, *details, **others)

            warnings.simplefilter("always", TruncationWarning)
            warnings.showwarning = show
            _inside.append(stack)
        else:
            _inside.append(_inside[0])
    outer, _quiet.caught = _quiet.caught, []
    try:
        yield _quiet.caught
    finally:
        _quiet.caught = outer
        with _entering:
            stack = _inside.pop()
            if not _inside:
                stack.close()


def encode_quietly(encoder: Encoder, texts: Sequence[str], views: Sequence[str]) -> tuple[Encoding, tuple[int, ...]]:
    """Encode texts, and give the rows that were cut in place of a warning.

    Meant for work in bulk, which says it once for all; several threads may do so at a time.

    Returns
    -------
    tuple
        The views, and which texts are longer than the encoder reads.
    """
    return quietly(lambda: encoder.encode(texts, views=views))


def quietly(call: Callable[[], Result]) -> tuple[Result, tuple[int, ...]]:
    """Call what encodes texts, and give the rows that were cut in place of a warning; see :func:`encode_quietly`."""
    with _caught() as caught:
        result = call()
    return result, tuple(row for item in caught for row in item.rows)


def classify_in_chunks(
    encoder: Encoder,
    texts: list[str],
    views: Sequence[str],
    job: Callable[[list[str], Encoding], DoubleArray],
) -> DoubleArray:
    """Encode texts and run a job on each chunk, in bounded memory.

    Parameters
    ----------
    encoder
        The encoder.
    texts
        n texts.
    views
        Views that the job needs.
    job
        Gives float64 (m, n_classes) for m texts and their encoding.

    Returns
    -------
    ndarray
        float64 of shape (n, n_classes).
    """
    if len(texts) <= CHUNK:
        return job(texts, encoder.encode(texts, views=views))
    parts, cut = [], []
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        encoding, rows = encode_quietly(encoder, chunk, views)
        parts.append(job(chunk, encoding))
        cut += [start + row for row in rows]
    warn_of_cuts(cut, len(texts), stacklevel=4)
    return np.concatenate(parts)


def warn_of_cuts(cut: Sequence[int], count: int, *, stacklevel: int = 3) -> None:
    """Warn once of all texts that were cut.

    Parameters
    ----------
    cut
        Places of the texts that are longer than the encoder reads; no warning if there are none.
    count
        Number of all texts.
    stacklevel
        Whose line the warning names; 2 is the caller's.
    """
    if cut:
        message = (
            f"{len(cut)} of {count} texts are longer than the encoder reads (the first is number {cut[0] + 1}); only "
            "their beginning was encoded: cut long texts into passages"
        )
        warnings.warn(TruncationWarning(message, rows=cut), stacklevel=stacklevel)
