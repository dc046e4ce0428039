"""Packing units, such as sentences, into passages of a limited size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from semclass.documents.blocks import Unit

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Limit:
    """How much a passage may hold, how much of the one before it repeats, and how that is counted."""

    size: int | None
    overlap: int
    count: Callable[[str], int]


def pack(text: str, units: Iterable[Unit], limit: Limit) -> Iterator[list[Unit]]:
    """Group as many units as the limit allows; each group begins with the last units of the one before, as overlap."""
    group: list[tuple[Unit, int]] = []
    total = 0
    for unit, held in _fitting(text, units, limit):
        if group and limit.size is not None and total + held > limit.size:
            yield [one for one, _ in group]
            group = _repeated(group, min(limit.overlap, limit.size - held))
            total = sum(counted for _, counted in group)
        group.append((unit, held))
        total += held
    if group:
        yield [one for one, _ in group]


def _repeated(group: list[tuple[Unit, int]], room: int) -> list[tuple[Unit, int]]:
    """Give the last units that fit into the room, but never all of them."""
    first = len(group)
    while first > 1 and group[first - 1][1] <= room:
        first -= 1
        room -= group[first][1]
    return group[first:]


def _fitting(text: str, units: Iterable[Unit], limit: Limit) -> Iterator[tuple[Unit, int]]:
    """Give each unit with its count; what is too long is cut between words, except a row of a table."""
    if limit.size is None:
        yield from ((unit, 0) for unit in units)
        return
    for unit in units:
        held = limit.count(text[unit.start : unit.end] if unit.text is None else unit.text)
        if held <= limit.size or unit.text is not None:
            yield unit, held
        else:
            yield from _words(text, unit, limit.size, limit.count)


def _words(text: str, unit: Unit, size: int, count: Callable[[str], int]) -> Iterator[tuple[Unit, int]]:
    """Cut a unit between words into parts, each with its count."""
    start = end = unit.start
    total = 0
    for word in _WORD.finditer(text, unit.start, unit.end):
        held = count(word[0])
        if end > start and total + held > size:
            yield Unit(start, end), total
            start, total = word.start(), 0
        end = word.end()
        total += held
    yield Unit(start, end), total
