"""Metadata of passages as columns, so that a filter over a million of them takes milliseconds.

Each field has a table of its distinct values and one small code for each value of each passage. The codes are in the order
of the values, kind by kind, so that a condition is decided on the table and spread over the passages by one gather.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.types import IntArray
from semclass.index.metadata import Scalar

Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]


MISSING, OTHER, FALSE, TRUE, FIRST = range(5)
"""Codes: no value; an object, a long text, or null or a list within a list; the two booleans; the first of the table."""

NO_TIME = -(2**63)
"""What :attr:`Column.times` holds for a string that is no date."""

_FEW = 4
"""Ranges of accepted codes that are compared one by one."""


@dataclass(frozen=True, eq=False)
class Column:
    """One field of all n passages."""

    codes: Codes  # smallest unsigned dtype; the constants above, then places among integers, floats and strings
    rows: Codes  # the passage of each code, ascending; empty if there is one code for each passage
    integers: IntArray  # distinct numbers that are int64, sorted
    floats: npt.NDArray[np.float64]  # all other distinct numbers, sorted
    strings: npt.NDArray[np.uint8]  # UTF-8 bytes of the distinct strings, sorted, one after another
    offsets: IntArray  # where each string begins, shape (strings + 1,)
    times: IntArray  # microseconds since 1970 UTC of each string that is a date, else NO_TIME; empty if none is

    @property
    def starts(self) -> tuple[int, int, int, int]:
        """First codes of integers, floats and strings, and the number of codes."""
        floats = FIRST + len(self.integers)
        strings = floats + len(self.floats)
        return FIRST, floats, strings, strings + len(self.offsets) - 1

    def codes_of(self, values: Iterable[Scalar]) -> list[int]:
        """Codes of values, numbers as `number` of metadata gives them; values that no passage has are left out."""
        tables = self._tables
        found = []
        for value in values:
            if isinstance(value, bool):
                found.append(TRUE if value else FALSE)
                continue
            kind = 2 if isinstance(value, str) else 0 if isinstance(value, int) else 1
            key, table = _key(value), tables[kind]
            place = bisect_left(table, key)
            if place < len(table) and table[place] == key:
                found.append(self.starts[kind] + place)
        return found

    def spans(self, low: Any, high: Any, low_open: bool, high_open: bool) -> list[tuple[int, int]]:
        """Ranges of codes in an interval of two texts or two numbers, either of which may be None: no end."""
        low, high, tables = _key(low), _key(high), self._tables
        spans = []
        for kind in (2,) if isinstance(high if low is None else low, bytes) else (0, 1):
            start, table = self.starts[kind], tables[kind]
            first = 0 if low is None else (bisect_right if low_open else bisect_left)(table, low)
            last = len(table) if high is None else (bisect_left if high_open else bisect_right)(table, high)
            spans.append((start + first, start + max(first, last)))
        return spans

    @property
    def _tables(self) -> tuple[Sequence[Any], ...]:
        # memory views give Python's numbers: numpy would round an int64 to compare it with a float
        return self.integers.data, self.floats.data, _Strings(self.strings.data, self.offsets.data)

    def string(self, place: int) -> bytes:
        """A string of the table, in UTF-8."""
        return self.strings[self.offsets[place] : self.offsets[place + 1]].tobytes()

    def have(self, accepted: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
        """Passages with at least one accepted code, bool of shape (n,); `accepted` is bool of shape (number of codes,)."""
        found = _spread(accepted, self.codes)
        if len(self.rows) == 0 and len(found) == n:
            return found
        have = np.zeros(n, bool)
        have[self.rows[found]] = True
        return have


def _spread(accepted: npt.NDArray[np.bool_], codes: Codes) -> npt.NDArray[np.bool_]:
    """Whether each code is accepted; `MISSING` never is."""
    ends = [*(np.flatnonzero(accepted[1:] != accepted[:-1])[: 2 * _FEW + 1] + 1).tolist(), len(accepted)]
    stretches = list(zip(ends[::2], ends[1::2], strict=False))
    if len(stretches) > _FEW:
        return accepted[codes]
    # some comparisons in a row are several times faster than a gather
    found = np.zeros(len(codes), bool)
    for begin, end in stretches:
        found |= (codes >= begin) & (codes < end) if end < len(accepted) else codes >= begin
    return found


class _Strings(Sequence[bytes]):
    """The strings of a table, read one at a time."""

    def __init__(self, text: memoryview, offsets: memoryview) -> None:
        self.text, self.offsets = text, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: Any) -> Any:
        return self.text[self.offsets[place] : self.offsets[place + 1]].tobytes()


def _key(value: Any) -> Any:
    """A value as a table holds it."""
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


@dataclass(frozen=True, eq=False)
class Columns:
    """Metadata of n passages: a column for each path."""

    n: int
    fields: Mapping[str, Column]

    def __len__(self) -> int:
        """Count the passages."""
        return self.n
