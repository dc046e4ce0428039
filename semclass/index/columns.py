"""Metadata of passages as columns, so that a filter over a million of them takes milliseconds.

A field is a path. Dots join the keys of nested objects, as in ``author.name``, and a dot within a key is read the same
way. A list stands for each of its elements, including objects. A field that is null or an empty list counts as missing.

Integers of 64 bits and float64 numbers are compared exactly. Larger integers are rounded to float64. ``3`` and ``3.0``
are the same number, but ``true`` and ``1`` are not. Texts are ordered by code points. A text of more than
`MAX_TEXT_LENGTH` characters exists, but equals no value.

Each field has a table of its distinct values and one small code for each value of each passage. The codes are in the order
of the values, kind by kind, so that a condition is decided on the table and spread over the passages by one gather.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import count
from json import dumps
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import dump_json, parse_json
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.core.types import IntArray, offsets_of

Scalar: TypeAlias = "str | bool | int | float"
Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

MAX_TEXT_LENGTH = 512
"""Most characters of a text that is compared. Longer texts are for reading, and would be stored twice."""

MISSING, OTHER, FALSE, TRUE, FIRST_CODE = range(5)
"""Codes: no value; an object, a long text, or null or a list within a list; the two booleans; the first of the table."""

NO_TIME = -(2**63)
"""Value of :attr:`Column.times` for a string that is no date."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - zones are subtracted later, where no date can overflow

_MICROSECOND = timedelta(microseconds=1)

_DATE = re.compile(
    r"\s*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]+))?"
    r"(?: ?(?:[Zz]|UTC)| ?([+-])([0-9]{2}):?([0-9]{2})?)?)?)?"
)


def number(value: float) -> int | float:
    """Return an int for a whole number of 64 bits, or else a float, which is infinite if the number is too large."""
    if isinstance(value, float) and not value.is_integer():
        return float(value)
    if -(2**63) <= value < 2**63:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


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
    zone = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) // _MICROSECOND * (-1 if sign == "-" else 1)
    if abs(zone) >= timedelta(days=1) // _MICROSECOND or int(minutes or 0) > 59:
        return None
    return microseconds(moment) + int((fraction or "")[:6].ljust(6, "0")) - zone


def microseconds(moment: date) -> int:
    """Return the microseconds since 1970-01-01 UTC of a date or datetime, by the rules of :func:`instant`."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001
    zone = moment.utcoffset() or timedelta()
    return (moment.replace(tzinfo=None) - _EPOCH - zone) // _MICROSECOND


def is_scalar(value: object) -> bool:
    """Tell whether a value is a text of at most `MAX_TEXT_LENGTH` characters, a boolean, or a number other than NaN."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT_LENGTH
    return isinstance(value, (int, float)) and value == value  # a NaN is not equal to itself


def key_text(key: object) -> str:
    """Write an object's key as JSON does."""
    return key if isinstance(key, str) else dumps(key)


@dataclass(frozen=True, eq=False)
class Column:
    """One field of all n passages. All arrays are stored under their names."""

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
        floats = FIRST_CODE + len(self.integers)
        strings = floats + len(self.floats)
        return FIRST_CODE, floats, strings, strings + len(self.offsets) - 1

    def codes_of(self, values: Iterable[Scalar]) -> list[int]:
        """Codes of values, with numbers in the form of :func:`number`; values that no passage has are left out."""
        codes = []
        for value in values:
            if isinstance(value, bool):
                codes.append(TRUE if value else FALSE)
                continue
            kind = 2 if isinstance(value, str) else 0 if isinstance(value, int) else 1
            codes += range(self._code(kind, bisect_left, value), self._code(kind, bisect_right, value))
        return codes

    def spans(self, bounds: Mapping[str, Any]) -> list[tuple[int, int]]:
        """Ranges of codes in an interval of texts or of numbers, by bounds such as ``{"$gte": 3}``."""
        spans = []
        for kind in (2,) if isinstance(next(iter(bounds.values())), str) else (0, 1):
            first, last = self.starts[kind : kind + 2]
            for name, bound in bounds.items():
                code = self._code(kind, bisect_left if name in ("$gte", "$lt") else bisect_right, bound)
                first, last = (code, last) if name in ("$gt", "$gte") else (first, code)
            spans.append((first, max(first, last)))
        return spans

    def _code(self, kind: int, bisect: Callable[..., int], value: Scalar) -> int:
        """Code of the first value of a kind that is not below, or is above, some value."""
        first, end = self.starts[kind : kind + 2]
        # memory views give Python's numbers: numpy would round an int64 to compare it with a float
        key = (self.integers.data.__getitem__, self.floats.data.__getitem__, self.string)[kind]
        return first + bisect(range(end - first), _key(value), key=key)

    def value(self, code: int) -> Scalar:
        """The value of a code from `FALSE` on."""
        integers, floats, strings, _ = self.starts
        if code < floats:
            return code == TRUE if code < integers else int(self.integers[code - integers])
        if code < strings:
            return float(self.floats[code - floats])
        return self.string(code - strings).decode(errors="replace")

    def string(self, place: int) -> bytes:
        """A string of the table, in UTF-8."""
        return self.strings[self.offsets[place] : self.offsets[place + 1]].tobytes()

    def matches(self, accepted: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
        """Passages with at least one accepted code, bool of shape (n,); `accepted` is bool of shape (number of codes,)."""
        single = accepted.take(self.codes)
        if len(self.rows) == 0 and len(single) == n:
            return single
        matches = np.zeros(n, bool)
        matches[self.rows[single]] = True
        return matches


def _key(value: Any) -> Any:
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


@dataclass(frozen=True, eq=False)
class Columns:
    """Metadata of n passages: a column for each path."""

    n: int
    fields: Mapping[str, Column]

    def __len__(self) -> int:
        return self.n


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
        keys = [_key(value) if isinstance(value, str) else number(value) for value in self.seen]
        order = np.arange(FIRST_CODE + len(keys))
        start, tables = FIRST_CODE, []
        for kind in (int, float, bytes):
            places = [place for place, key in enumerate(keys) if isinstance(key, kind)]
            table: list[Any] = sorted({keys[place] for place in places})
            code_of = {key: code for code, key in enumerate(table, start)}
            order[[FIRST_CODE + place for place in places]] = [code_of[keys[place]] for place in places]
            start += len(table)
            tables.append(table)
        integers, floats, strings = tables
        instants = [instant(text.decode(errors="surrogatepass")) for text in strings]
        times = np.array([NO_TIME if time is None else time for time in instants], np.int64)
        codes, rows = order[np.frombuffer(self.codes, np.int64)], np.frombuffer(self.rows, np.int64)
        small, small_rows = codes.astype(np.min_scalar_type(start)), rows.astype(np.min_scalar_type(n))
        single = not (rows[1:] == rows[:-1]).any()
        if single and n * small.itemsize <= len(rows) * (small.itemsize + small_rows.itemsize):
            # one code for each passage, where that is possible and takes no more room
            dense = np.zeros(n, small.dtype)
            dense[rows] = small
            small, small_rows = dense, small_rows[:0]
        return Column(
            small,
            small_rows,
            np.array(integers, np.int64),
            np.array(floats, np.float64),
            np.frombuffer(b"".join(strings), np.uint8),
            offsets_of(np.array([len(text) for text in strings], np.int64)),
            times if (times != NO_TIME).any() else times[:0],
        )


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


# files of columns

VALUES, DIRECTORY = "columns.npy", "columns.json"
"""The two files of saved columns: all arrays one after another, and where each of them is."""

_ALIGNMENT = 64
_ARRAYS = tuple(Column.__dataclass_fields__)
_UNSIGNED = ("|u1", "<u2", "<u4", "<u8")
_DTYPES = {"integers": ("<i8",), "floats": ("<f8",), "strings": ("|u1",), "offsets": ("<i8",), "times": ("<i8",)}


def save(columns: Columns, folder: Path) -> None:
    """Write columns as two files, `VALUES` and `DIRECTORY`, without flushing them to the disk."""
    directory: dict[str, dict[str, list[Any]]] = {}
    end = 0
    for path, column in columns.fields.items():
        directory[path] = {}
        for name, values in vars(column).items():
            directory[path][name] = [values.dtype.str, end, len(values)]
            end += -(-values.nbytes // _ALIGNMENT) * _ALIGNMENT
    with (folder / VALUES).open("wb") as file:
        # not through a memory map: a full disk would end the process and not raise an error
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (end,)})
        for column in columns.fields.values():
            for values in vars(column).values():
                file.write(values.data)
                file.write(bytes(-values.nbytes % _ALIGNMENT))
    (folder / DIRECTORY).write_bytes(dump_json({"passages": len(columns), "bytes": end, "fields": directory}))


def load(files: Files) -> Columns:
    """Read saved columns; an ArtifactError if the two files do not belong together."""
    path = files.folder / DIRECTORY
    directory, whole = parse_json(files.data(DIRECTORY), path, REMEDY), files.array(VALUES)
    try:
        if whole.dtype != np.uint8 or whole.shape != (directory["bytes"],):
            raise ValueError(f"{whole.dtype} of shape {whole.shape} where {directory['bytes']} bytes belong")
        fields = {
            name: Column(**{kind: _view(whole, kind, *arrays[kind]) for kind in _ARRAYS})
            for name, arrays in directory["fields"].items()
        }
        passages = directory["passages"]
        if not isinstance(passages, int) or passages < 0:
            raise ValueError(f"metadata of {passages} passages")
        return Columns(passages, fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path} does not fit {VALUES} ({error}); {REMEDY}") from error


def _view(whole: npt.NDArray[np.uint8], kind: str, dtype: str, begin: int, length: int) -> npt.NDArray[Any]:
    if dtype not in _DTYPES.get(kind, _UNSIGNED):
        raise ValueError(f"{kind} of type {dtype}")
    numbers, end = np.dtype(dtype), len(whole)
    if not (0 <= begin <= end and begin % _ALIGNMENT == 0 and 0 <= length <= (end - begin) // numbers.itemsize):
        raise ValueError(f"{length} numbers at byte {begin} of {end}")
    return whole[begin : begin + length * numbers.itemsize].view(numbers)


def check(columns: Columns) -> None:
    """Raise a ValueError where filters would read beyond an array."""
    for path, column in columns.fields.items():
        rows, offsets = column.rows, column.offsets
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(column.strings) or (np.diff(offsets) < 0).any():
            raise ValueError(f"the string offsets of {path!r} do not match its text")
        if int(column.codes.max(initial=0)) >= column.starts[3]:
            raise ValueError(f"a code of {path!r} has no value")
        if len(column.times) not in (0, len(offsets) - 1):
            raise ValueError(f"{path!r} has {len(column.times)} times for {len(offsets) - 1} strings")
        if len(rows) == 0 and len(column.codes) not in (0, len(columns)):
            raise ValueError(f"{path!r} has {len(column.codes)} codes for {len(columns)} passages")
        if len(rows) and (len(rows) != len(column.codes) or rows[-1] >= len(columns) or (rows[1:] < rows[:-1]).any()):
            raise ValueError(f"the codes of {path!r} do not match the passages")
