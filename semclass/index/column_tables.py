"""Columns of metadata, made from passages or from other columns."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import IntArray
from semclass.index.columns import FALSE, FIRST, NO_TIME, OTHER, TRUE, Codes, Column, Columns
from semclass.index.metadata import instant, is_scalar, key_text, number


def columns_of(metadata: Sequence[Mapping[str, Any]]) -> Columns:
    """Turn the metadata of n passages, one mapping of JSON values each, into columns in memory."""
    growing: defaultdict[str, _Growing] = defaultdict(_Growing)
    for row, each in enumerate(metadata):
        _walk(growing, row, "", each)
    return Columns(len(metadata), {path: growing[path].column(len(metadata)) for path in sorted(growing)})


@dataclass(frozen=True, eq=False)
class _Growing:
    """A column while passages are read; codes from `FIRST` on are in the order of appearance."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    codes: array[int] = field(default_factory=lambda: array("q"))
    seen: defaultdict[Any, int] = field(default_factory=lambda: defaultdict(count(FIRST).__next__))

    def column(self, n: int) -> Column:
        codes = np.frombuffer(self.codes, np.int64)
        return _column(n, np.frombuffer(self.rows, np.int64), *_sorted_table(list(self.seen), codes))


def _walk(growing: defaultdict[str, _Growing], row: int, prefix: str, mapping: Mapping[Any, Any]) -> None:
    for key, value in mapping.items():
        path = prefix + key_text(key)
        if value is None:
            continue
        for item in value if isinstance(value, (list, tuple)) else (value,):
            column = growing[path]
            column.rows.append(row)
            if isinstance(item, bool):
                column.codes.append(TRUE if item else FALSE)
            elif is_scalar(item):
                column.codes.append(column.seen[item])
            else:
                column.codes.append(OTHER)
                if isinstance(item, dict):
                    _walk(growing, row, path + ".", item)


@dataclass(frozen=True, eq=False)
class _Table:
    """The distinct values of a column, see :class:`Column`."""

    integers: IntArray
    floats: npt.NDArray[np.float64]
    strings: list[bytes]
    times: IntArray

    def __len__(self) -> int:
        return FIRST + len(self.integers) + len(self.floats) + len(self.strings)


def _sorted_table(values: Sequence[str | float], codes: IntArray) -> tuple[IntArray, _Table]:
    """Sort the values that codes from `FIRST` on stand for; the new code of each code, and the table."""
    keys = [value.encode(errors="surrogatepass") if isinstance(value, str) else number(value) for value in values]
    order = np.arange(FIRST + len(keys))
    start, tables = FIRST, []
    for kind in (int, float, bytes):
        places = [place for place, key in enumerate(keys) if isinstance(key, kind)]
        table: list[Any] = sorted({keys[place] for place in places})
        code_of = {key: code for code, key in enumerate(table, start)}
        order[[FIRST + place for place in places]] = [code_of[keys[place]] for place in places]
        start += len(table)
        tables.append(table)
    integers, floats, strings = tables
    instants = [instant(text.decode(errors="surrogatepass")) for text in strings]
    times = np.array([NO_TIME if time is None else time for time in instants], np.int64)
    return order[codes], _Table(np.array(integers, np.int64), np.array(floats, np.float64), strings, _times(times))


def _times(times: IntArray) -> IntArray:
    return times if (times != NO_TIME).any() else times[:0]


def _column(n: int, rows: IntArray, codes: IntArray, table: _Table) -> Column:
    """A column with one code for each passage where that is possible and takes no more room."""
    small = codes.astype(np.min_scalar_type(len(table)))
    small_rows = rows.astype(np.min_scalar_type(n))
    single = not (rows[1:] == rows[:-1]).any()
    if single and n * small.itemsize <= len(rows) * (small.itemsize + small_rows.itemsize):
        dense = np.zeros(n, small.dtype)
        dense[rows] = small
        small, small_rows = dense, small_rows[:0]
    return Column(
        small,
        small_rows,
        table.integers,
        table.floats,
        np.frombuffer(b"".join(table.strings), np.uint8),
        np.concatenate([np.zeros(1, np.int64), np.cumsum([len(text) for text in table.strings], dtype=np.int64)]),
        table.times,
    )


def concatenate(parts: Iterable[tuple[Columns, IntArray | None]]) -> Columns:
    """Join columns, one field at a time; of each only some rows (int64, in that order), or all if None."""
    parts = list(parts)
    counts = [len(columns) if rows is None else len(rows) for columns, rows in parts]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    n = int(offsets[-1])
    fields = {}
    for path in sorted({path for columns, _ in parts for path in columns.fields}):
        of_path = [
            (columns.fields[path], *_entries(columns.fields[path], rows, int(start)))
            for (columns, rows), start in zip(parts, offsets[:-1], strict=True)
            if path in columns.fields
        ]
        rows = np.concatenate([rows for _, rows, _ in of_path])
        if len(rows):
            fields[path] = _column(n, rows, *_merged([(column, codes) for column, _, codes in of_path]))
    return Columns(n, fields)


def _entries(column: Column, rows: IntArray | None, start: int) -> tuple[IntArray, Codes]:
    """Rows, counted from `start`, and codes of some passages of a column."""
    if len(column.rows) == 0:
        codes = column.codes if rows is None else column.codes[rows]
        found = np.flatnonzero(codes)
        return start + found, codes[found]
    if rows is None:
        return start + column.rows.astype(np.int64), column.codes
    wanted = rows.astype(column.rows.dtype)
    first, last = np.searchsorted(column.rows, wanted), np.searchsorted(column.rows, wanted, "right")
    # the entries of a row lie together
    places = _ranges(first, last - first)
    return start + np.repeat(np.arange(len(rows)), last - first), column.codes[places]


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    ends = np.cumsum(lengths)
    places: IntArray = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
    return places


def _merged(parts: Sequence[tuple[Column, Codes]]) -> tuple[IntArray, _Table]:
    """Merge the tables of several columns, without unused values; the new codes, and the table."""
    used = []
    for column, codes in parts:
        is_used = np.zeros(column.starts[3], bool)
        is_used[codes] = True
        used.append([np.flatnonzero(is_used[begin:end]) for begin, end in pairwise(column.starts)])
    texts = [
        [column.string(place) for place in places[2].tolist()] for (column, _), places in zip(parts, used, strict=True)
    ]
    strings = sorted(set().union(*texts))
    place_of = {text: place for place, text in enumerate(strings)}
    integers = np.unique(np.concatenate([c.integers[p[0]] for (c, _), p in zip(parts, used, strict=True)]))
    floats = np.unique(np.concatenate([c.floats[p[1]] for (c, _), p in zip(parts, used, strict=True)]))
    first_float = FIRST + len(integers)
    first_string = first_float + len(floats)
    times = np.full(len(strings), NO_TIME)
    anew = []
    for (column, codes), places, own in zip(parts, used, texts, strict=True):
        starts = column.starts
        order = np.arange(starts[3])
        order[starts[0] + places[0]] = FIRST + np.searchsorted(integers, column.integers[places[0]])
        order[starts[1] + places[1]] = first_float + np.searchsorted(floats, column.floats[places[1]])
        at = np.fromiter((place_of[text] for text in own), np.int64, len(own))
        order[starts[2] + places[2]] = first_string + at
        if len(column.times):
            times[at] = column.times[places[2]]
        anew.append(order[codes])
    return np.concatenate(anew), _Table(integers, floats, strings, _times(times))
