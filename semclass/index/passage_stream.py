"""Passages as they are handed in: in chunks, with ids that are checked, and as the lines that an index stores."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from semclass.core.checks import check_depth, check_text, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Passage, Ragged
from semclass.index.segment import hashes_of

CHUNK = 64
"""Passages that a thread reads at a time, at most: bounds memory and what a stop of a build loses; changes no value."""

LENGTH = 1024
"""Characters that a passage of a chunk may have on average."""

RECENT = 1 << 16
"""Ids of which the hashes are kept unsorted."""

NAMED = 3
"""Ids that a message names."""


def chunks(passages: Iterable[Passage], size: int | None = None) -> Iterator[list[Passage]]:
    """Cut a stream into lists of at most `size` passages, :data:`CHUNK` if None; of long ones fewer, see `LENGTH`.

    What is no passage and an id that comes twice are refused; that two ids share 64 bits is less probable than a broken
    disk.
    """
    known, recent = np.zeros(0, np.uint64), set[int]()  # ascending, as a set of all of them takes ten times the memory
    for chunk in _lists(passages, CHUNK if size is None else size):
        ids = [_id_of(passage) for passage in chunk]
        hashes = hashes_of(ids)
        is_known = np.searchsorted(known, hashes, "right") > np.searchsorted(known, hashes, "left")
        for name, number, repeated in zip(ids, hashes.tolist(), is_known.tolist(), strict=True):
            if repeated or number in recent:
                raise InputError(f"passage id {name!r} comes twice; ids must be unique")
            recent.add(number)
        if len(recent) >= RECENT:
            known = np.sort(np.concatenate([known, np.fromiter(recent, np.uint64, len(recent))]))
            recent.clear()
        yield chunk


def _lists(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    chunk: list[Passage] = []
    room = size * LENGTH
    for passage in passages:
        length = len(text) if isinstance(text := getattr(passage, "text", None), str) else 0
        if len(chunk) == size or (chunk and length > room):
            yield chunk
            chunk, room = [], size * LENGTH
        chunk.append(passage)
        room -= length
    if chunk:
        yield chunk


def _id_of(passage: Passage) -> str:
    if not isinstance(passage, Passage):
        raise InputTypeError(f"passages must be of the type Passage, not {type(passage).__name__}: {short(passage)}")
    return check_text(passage.id, "passage id")


def line_of(passage: Passage, without: Collection[str] = ()) -> bytes:
    """One passage as a JSON line, to be read back when it is found, without some fields of its metadata."""
    metadata = {field: value for field, value in passage.metadata.items() if field not in without}
    check_depth(metadata, f"metadata of passage {passage.id!r}")
    record: dict[str, Any] = {"_id": passage.id, "text": passage.text, "metadata": metadata}
    try:
        return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"metadata of passage {passage.id!r} cannot be saved as JSON: {error}") from error


def records_of(lines: Sequence[bytes]) -> Ragged:
    """JSON lines as an index stores them."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    return Ragged(np.frombuffer(b"".join(lines), np.uint8), np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def some(ids: Sequence[str], *, known: bool = False) -> str:
    """Name the first few of some ids in a message."""
    names = ", ".join(map(repr, ids[:NAMED])) + (" ..." if len(ids) > NAMED else "")
    if len(ids) == 1:
        return f"passage id {names} is{'' if known else ' not'}"
    return f"{len(ids)} passage ids ({names}) are{'' if known else ' not'}"
