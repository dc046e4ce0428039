"""Ids of passages that are handed in: checked, found to be new, and named in messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from semclass.core.checks import check_text, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Passage
from semclass.index.segment import hashes_of

NAMED = 3
"""Ids that a message names."""

RECENT = 1 << 16
"""Ids of which the hashes are kept unsorted."""


def ids_of(passages: Sequence[Passage]) -> list[str]:
    """Give the ids of some passages, and refuse what is none."""
    for passage in passages:
        if not isinstance(passage, Passage):
            raise InputTypeError(
                f"passages must be of the type Passage, not {type(passage).__name__}: {short(passage)}"
            )
    return [check_text(passage.id, "passage id") for passage in passages]


def without_repeats(groups: Iterable[list[Passage]]) -> Iterator[list[Passage]]:
    """Pass chunks on, and refuse an id that comes twice: that two share 64 bits is less probable than a broken disk."""
    known, recent = np.zeros(0, np.uint64), set[int]()  # ascending, as a set of all of them takes ten times the memory
    for group in groups:
        ids = ids_of(group)
        hashes = hashes_of(ids)
        twice = np.searchsorted(known, hashes, "right") > np.searchsorted(known, hashes, "left")
        for name, number, held in zip(ids, hashes.tolist(), twice.tolist(), strict=True):
            if held or number in recent:
                raise InputError(f"passage id {name!r} comes twice; ids must be unique")
            recent.add(number)
        if len(recent) >= RECENT:
            known = np.sort(np.concatenate([known, np.fromiter(recent, np.uint64, len(recent))]))
            recent.clear()
        yield group


def some(ids: Sequence[str], *, known: bool = False) -> str:
    """Name the first few of some ids in a message."""
    names = ", ".join(map(repr, ids[:NAMED])) + (" ..." if len(ids) > NAMED else "")
    if len(ids) == 1:
        return f"passage id {names} is{'' if known else ' not'}"
    return f"{len(ids)} passage ids ({names}) are{'' if known else ' not'}"
