"""Parts of every encoder: batches of similar length in bounded memory, one warning for truncated texts, vocabularies."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core.checks import counted
from semclass.core.errors import InputError, TruncationWarning, warn
from semclass.core.tools import available_threads
from semclass.core.types import DoubleArray, Encoder, Encoding, IntArray

Result = TypeVar("Result")

BATCH = 32
"""Maximum number of texts in one run of a network."""

CHUNK = 512
"""Number of texts that are encoded at a time. It bounds memory, and changes no value."""

PIECES = 256
"""Maximum number of word pieces of a batch, padding included. Larger batches hold more padding: in batches of 32 texts,
long passages take 1.3 to 2 times as long; with 512, the sentences of ten passages take 1.1 times as long.
"""

STEP = 4
"""Networks that compute means add in groups of four. They get batches of a multiple of this number of word pieces, so that
no last bit of a mean depends on the longest text in the batch.
"""


class _Thread(threading.local):
    """Settings of the work of this thread."""

    between: Callable[[], object] | None = None  # called between its steps


_thread = _Thread()

_working = threading.Semaphore(available_threads())


@contextlib.contextmanager
def watched(between: Callable[[], object]) -> Iterator[None]:
    """Call a function between the steps of this thread's work, such as runs of a network and tokenised texts.

    The caller limits how many threads work at a time, so this work does not count for
    :func:`concurrency_limit`.
    """
    outer, _thread.between = _thread.between, between
    try:
        yield
    finally:
        _thread.between = outer


def concurrency_limit() -> AbstractContextManager[object]:
    """Return a lock to hold while a thread works on a question. It admits as many threads as there are processors.

    More threads would wait for one another in the middle of their work. On two processors, eight threads together did 1.2
    times the work of one thread, and two threads did 1.7 times. Threads that are :func:`watched` do not count.
    """
    return nullcontext() if _thread.between is not None else _working


def steps(items: Iterable[Result]) -> Iterator[Result]:
    """Yield items one after another, and call the function of :func:`watched` before each item."""
    for item in items:
        if _thread.between is not None:
            _thread.between()
        yield item


def batches_by_length(lengths: IntArray, size: int) -> list[IntArray]:
    """Split rows into batches of similar length, of at most `size` rows and :data:`PIECES` word pieces, reproducibly."""
    order = np.argsort(lengths, kind="stable")
    cuts = [0]
    for place, length in enumerate(lengths[order].tolist()):
        rows = place - cuts[-1]
        if rows == size or (rows and (rows + 1) * length > PIECES):
            cuts.append(place)
    return [order[start:end] for start, end in zip(cuts, [*cuts[1:], len(order)], strict=True) if end > start]


def classify_in_chunks(
    encoder: Encoder,
    texts: list[str],
    views: Sequence[str],
    job: Callable[[list[str], Encoding], DoubleArray],
    read: Callable[[Encoder, list[str], Sequence[str]], tuple[Encoding, Sequence[int]]] | None = None,
    quiet: bool = False,
) -> DoubleArray:
    """Encode n texts in bounded memory, and run a job on each chunk. Returns float64 (n, n_classes). Warns at most once."""
    parts, truncated = [], []
    for start in range(0, max(len(texts), 1), CHUNK):
        chunk = texts[start : start + CHUNK]
        if read is None:
            encoding = encoder.encode(chunk, views=views)
            cut: Sequence[int] = encoding.truncated
        else:
            encoding, cut = read(encoder, chunk, views)
        parts.append(job(chunk, encoding))
        truncated += [start + row for row in cut]
    if not quiet:
        warn_truncated(truncated, len(texts), encoding if len(parts) == 1 and read is None else None)
    return np.concatenate(parts)


def warn_truncated(rows: Sequence[int], count: int, encoding: Encoding | None = None) -> None:
    """Warn once about truncated texts, given by rows. With one `encoding` of all texts, the message has lengths."""
    if not rows:
        return
    reads, first = "the encoder reads", f"number {rows[0] + 1}"
    if encoding is not None:
        reads = f"the {encoding.limit} word pieces that {reads}"
        first += f", with {len(encoding.terms.row(rows[0]))}"
    message = (
        f"{len(rows)} of {counted(count, 'text')} {'is' if len(rows) == 1 else 'are'} longer than {reads} (the first is "
        f"{first}); only their beginning was encoded; cut long texts into passages"
    )
    warn(TruncationWarning(message, rows=rows))


def check_views(wanted: Iterable[str], known: Mapping[str, int]) -> None:
    """Refuse views that an encoder does not have."""
    unknown = [view for view in wanted if view not in known]
    if unknown:
        raise InputError(f"this encoder has no view {unknown[0]!r}; its views are {', '.join(known)}")


def term_flags(vocabulary: Mapping[str, int], special: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Return whether each word piece counts as a term, bool by id: it has a letter or digit and is not special."""
    flags = np.zeros(len(vocabulary), np.bool_)
    excluded = frozenset(special)
    for piece, place in vocabulary.items():
        flags[place] = piece not in excluded and any(map(str.isalnum, piece))
    return flags


def pieces_of(vocabulary: Mapping[str, int]) -> tuple[str, ...]:
    """Return the text of each word piece, by its id. The text is empty for an id without a piece."""
    pieces = [""] * (max(vocabulary.values(), default=-1) + 1)
    for piece, place in vocabulary.items():
        pieces[place] = piece
    return tuple(pieces)
