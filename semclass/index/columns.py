"""Metadata of passages as columns, so that a filter over a million of them takes milliseconds.

A field is a path. Dots join the keys of nested objects, as in ``author.name``, and a dot within a key is read the same
way. A list stands for each of its elements, including objects. A field that is null or an empty list counts as missing.

Numbers are compared exactly. ``3`` and ``3.0`` are the same number, but ``true`` and ``1`` are not. Texts are ordered by
code points. A text of more than `MAX_TEXT_LENGTH` characters exists, but equals no value.

Each field has a list of its distinct values, numbers before texts and ascending. Each value of a passage is stored as a
small code. So a condition is checked on the list of values, and then applied to all passages by one gather.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import count
from json import dumps, loads
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.core.types import IntArray

Scalar: TypeAlias = "str | bool | int | float"
Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

MAX_TEXT_LENGTH = 512
"""Maximum characters of a text that is compared. Longer texts are meant for reading, and would be stored twice."""

MISSING, OTHER, FALSE, TRUE, FIRST_CODE = range(5)
"""Codes: no value; object, long text, or null or list within a list; false; true; the first value of the table."""

NO_TIME = -(2**63)
"""Value of :attr:`Column.times` for a text that is not a date."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - zones are subtracted later, where no date can overflow

_MICROSECOND = timedelta(microseconds=1)

_DATE = re.compile(
    r"\s*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]+))?"
    r"(?: ?(?:[Zz]|UTC)| ?([+-])([0-9]{2}):?([0-9]{2})?)?)?)?"
)


def instant(text: str) -> int | None:
    """Return the microseconds since 1970-01-01 UTC of an ISO 8601 date or date-time. None for any other text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime(  # noqa: DTZ001
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError:
        return None
    zone = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    if abs(zone) >= timedelta(days=1) or int(minutes or 0) > 59:
        return None
    return (moment - _EPOCH - zone) // _MICROSECOND + int((fraction or "")[:6].ljust(6, "0"))


def is_scalar(value: object) -> bool:
    """Return whether a value is a text of at most `MAX_TEXT_LENGTH` characters, a boolean, or a number other than NaN."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT_LENGTH
    return isinstance(value, (int, float)) and value == value  # a NaN is not equal to itself


def key_text(key: object) -> str:
    """Write an object's key as JSON does."""
    return key if isinstance(key, str) else dumps(key)


@dataclass(frozen=True, eq=False)
class Column:
    """One field of all n passages."""

    codes: Codes  # smallest unsigned dtype; the constants above, then places among the values
    rows: Codes  # the passage of each code, ascending; empty if there is one code for each passage
    values: Sequence[Scalar]  # distinct numbers and texts, see above

    @cached_property
    def texts(self) -> int:
        """Position of the first text among the values."""
        return bisect_left(self.values, True, key=lambda value: isinstance(value, str))

    @cached_property
    def times(self) -> IntArray:
        """Microseconds since 1970 UTC of each text that is a date, or else `NO_TIME`."""
        times = map(instant, map(str, self.values[self.texts :]))
        return np.array([NO_TIME if time is None else time for time in times], np.int64)

    def codes_of(self, values: Iterable[Scalar]) -> list[int]:
        """Return the codes of values. Values that no passage has are left out."""
        codes = []
        for value in values:
            if isinstance(value, bool):
                codes.append(TRUE if value else FALSE)
            else:
                codes += range(*self.span({"$gte": value, "$lte": value}))
        return codes

    def span(self, bounds: Mapping[str, Any]) -> tuple[int, int]:
        """Return the first code and the end code, exclusive, of an interval with bounds such as ``{"$gte": 3}``."""
        values: Any = self.values
        is_text = isinstance(next(iter(bounds.values())), str)
        first, end = low, high = (self.texts, len(values)) if is_text else (0, self.texts)
        for name, bound in bounds.items():
            place = (bisect_left if name in ("$gte", "$lt") else bisect_right)(values, bound, first, end)
            low, high = (place, high) if name in ("$gt", "$gte") else (low, place)
        return FIRST_CODE + low, FIRST_CODE + max(low, high)

    def value(self, code: int) -> Scalar:
        """Return the value of a code, which is at least `FALSE`."""
        return code == TRUE if code < FIRST_CODE else self.values[code - FIRST_CODE]

    def matches(self, accepted: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
        """Return whether each passage has an accepted code, bool (n,). `accepted` is bool of shape (number of codes,)."""
        single = accepted.take(self.codes)
        if len(self.rows) == 0 and len(single) == n:
            return single
        matches = np.zeros(n, bool)
        matches[self.rows[single]] = True
        return matches


@dataclass(frozen=True, eq=False)
class Columns:
    """Metadata of n passages: a column for each path."""

    n: int
    fields: Mapping[str, Column]


# making columns


def columns_of(metadata: Iterable[Mapping[str, Any]]) -> Columns:
    """Turn the metadata of n passages, one mapping of JSON values each, into columns in memory."""
    growing: defaultdict[str, _Growing] = defaultdict(_Growing)
    n = 0
    for row, mapping in enumerate(metadata):
        _walk(growing, row, "", mapping)
        n = row + 1
    return Columns(n, {path: growing[path].column(n) for path in sorted(growing)})


@dataclass(frozen=True, eq=False)
class _Growing:
    rows: array[int] = field(default_factory=lambda: array("q"))
    codes: array[int] = field(default_factory=lambda: array("q"))
    seen: defaultdict[Any, int] = field(default_factory=lambda: defaultdict(count(FIRST_CODE).__next__))

    def column(self, n: int) -> Column:
        """Sort the values, and renumber their codes."""
        texts = sorted(value for value in self.seen if isinstance(value, str))
        values = [*sorted(value for value in self.seen if not isinstance(value, str)), *texts]
        code_of = {value: code for code, value in enumerate(values, FIRST_CODE)}
        order = np.array([*range(FIRST_CODE), *(code_of[value] for value in self.seen)])
        codes, rows = order[np.frombuffer(self.codes, np.int64)], np.frombuffer(self.rows, np.int64)
        small, small_rows = (
            codes.astype(np.min_scalar_type(FIRST_CODE + len(values))),
            rows.astype(np.min_scalar_type(n)),
        )
        single = not (rows[1:] == rows[:-1]).any()
        if single and n * small.itemsize <= len(rows) * (small.itemsize + small_rows.itemsize):
            # one code for each passage, where that is possible and takes no more room
            dense = np.zeros(n, small.dtype)
            dense[rows] = small
            small, small_rows = dense, small_rows[:0]
        return Column(small, small_rows, values)


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
                column.codes.append(column.seen[int(item) if isinstance(item, float) and item.is_integer() else item])
            else:
                column.codes.append(OTHER)
                if isinstance(item, dict):
                    _walk(growing, row, path + ".", item)


# files of columns

VALUES, DIRECTORY = "columns.npy", "columns.json"
"""The two files of saved columns: all arrays one after another, and the position of each array."""

_ALIGNMENT = 64
_ARRAYS = ("codes", "rows")
_UNSIGNED = ("|u1", "<u2", "<u4", "<u8")


def save(columns: Columns, folder: Path) -> None:
    """Write columns as two files, `VALUES` and `DIRECTORY`, without flushing them to the disk."""
    directory: dict[str, dict[str, Any]] = {}
    end = 0
    for path, column in columns.fields.items():
        directory[path] = {"values": column.values}
        for name in _ARRAYS:
            array = getattr(column, name)
            directory[path][name] = [array.dtype.str, end, len(array)]
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    with (folder / VALUES).open("wb") as file:
        # not through a memory map: a full disk would end the process and not raise an error
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (end,)})
        for array in (getattr(column, name) for column in columns.fields.values() for name in _ARRAYS):
            file.write(array.data)
            file.write(bytes(-array.nbytes % _ALIGNMENT))
    (folder / DIRECTORY).write_bytes(dumps({"passages": columns.n, "bytes": end, "fields": directory}).encode())


def load(files: Files) -> Columns:
    """Read saved columns. Raises an ArtifactError if the two files do not belong together."""
    path = files.folder / DIRECTORY
    whole = files.array(VALUES)
    try:
        directory = loads(files.data(DIRECTORY))
        if whole.dtype != np.uint8 or whole.shape != (directory["bytes"],):
            raise ValueError(f"{whole.dtype} of shape {whole.shape} where {directory['bytes']} bytes belong")
        fields = {
            name: Column(_view(whole, *field["codes"]), _view(whole, *field["rows"]), field["values"])
            for name, field in directory["fields"].items()
        }
        columns = Columns(directory["passages"], fields)
        for name, column in fields.items():
            _check(column, columns.n, name)
        return columns
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path} does not fit {VALUES} ({error}); {REMEDY}") from error


def _view(whole: npt.NDArray[np.uint8], dtype: str, begin: int, length: int) -> npt.NDArray[Any]:
    if dtype not in _UNSIGNED:
        raise ValueError(f"codes of type {dtype}")
    numbers, end = np.dtype(dtype), len(whole)
    if not (0 <= begin <= end and begin % _ALIGNMENT == 0 and 0 <= length <= (end - begin) // numbers.itemsize):
        raise ValueError(f"{length} numbers at byte {begin} of {end}")
    return whole[begin : begin + length * numbers.itemsize].view(numbers)


def _check(column: Column, n: int, path: str) -> None:
    """Raise a ValueError where filters would read beyond an array, or find no value."""
    codes, rows, values = column.codes, column.rows, column.values
    if not (isinstance(n, int) and n >= 0 and isinstance(values, list)):
        raise ValueError(f"{path!r} has no values of {n} passages")
    for part, kinds in ((values[: column.texts], {int, float}), (values[column.texts :], {str})):
        if not {*map(type, part)} <= kinds or len({*part}) < len(part) or sorted(part) != part:
            raise ValueError(f"the values of {path!r} are not numbers and texts that rise")
    "".join(values[column.texts :]).encode()  # half of a surrogate pair cannot be shown
    if int(codes.max(initial=0)) >= FIRST_CODE + len(values):
        raise ValueError(f"a code of {path!r} has no value")
    if len(codes) not in ((len(rows),) if len(rows) else (0, n)):
        raise ValueError(f"{path!r} has {len(codes)} codes for {n} passages")
    if len(rows) and (rows[-1] >= n or (rows[1:] < rows[:-1]).any()):
        raise ValueError(f"the codes of {path!r} do not match the passages")
