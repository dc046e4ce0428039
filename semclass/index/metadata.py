"""Metadata of passages as columns, so that a filter over a million of them takes milliseconds.

Each field has a table of its distinct values and one small code for each value of each passage. The codes are in the order
of the values, kind by kind, so that a predicate is decided on the table and spread over the passages by one gather.

A field is a path: keys of nested objects are joined by dots, ``author.name``; a dot in a key reads the same. A list stands
for each of its elements, objects in it included. What is null or an empty list is as if it were not there.

Numbers are compared exactly as long as they are integers of 64 bits or float64; larger integers are rounded to float64.
``3`` and ``3.0`` are the same number, ``true`` and ``1`` are not. Texts are in the order of their code points;
those of more than `LONGEST` characters are there, but equal to nothing.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import count, pairwise
from json import dumps
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import dump_json, parse_json
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.core.types import IntArray

Scalar: TypeAlias = "str | bool | int | float"
Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

MISSING, OTHER, FALSE, TRUE, FIRST = range(5)
"""Codes: no value; an object, a long text, or null or a list within a list; the two booleans; the first of the table."""

LONGEST = 512
"""Characters of the longest text that is compared: longer ones are text to read, and would be kept twice."""

VALUES, DIRECTORY = "columns.npy", "columns.json"
"""The two files of saved columns: all arrays one after another, and where each of them is."""

NO_TIME = -(2**63)
"""What :attr:`Column.times` holds for a string that is no date."""

_ALIGNMENT = 64
_FEW = 4
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - zones are reckoned apart, where no date can overflow
_MICROSECOND = timedelta(microseconds=1)
_DATE = re.compile(
    r"\s*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]+))?"
    r"(?: ?(?:[Zz]|UTC)| ?([+-])([0-9]{2}):?([0-9]{2})?)?)?)?"
)


@dataclass(frozen=True, eq=False)
class Column:
    """One field of all passages.

    Attributes
    ----------
    codes
        The smallest unsigned dtype that holds them, shape (m,): `MISSING`, `OTHER`, `FALSE`, `TRUE`, and from `FIRST` on
        places in the table of integers, then floats, then strings.
    rows
        The passage of each code, in ascending order, shape (m,); empty if there is one code for each passage.
    integers
        Distinct numbers that are int64, sorted.
    floats
        All other distinct numbers, float64, sorted.
    strings
        UTF-8 bytes of the distinct strings, sorted; uint8, one after another.
    offsets
        int64 of shape (number of strings + 1,): where each begins.
    times
        Microseconds since 1970 UTC of each string that is a date, see :func:`instant`, else `NO_TIME`; int64 of shape
        (number of strings,), or (0,) if none is.
    """

    codes: Codes
    rows: Codes
    integers: IntArray
    floats: npt.NDArray[np.float64]
    strings: npt.NDArray[np.uint8]
    offsets: IntArray
    times: IntArray

    @property
    def starts(self) -> tuple[int, int, int, int]:
        """First codes of integers, floats and strings, and the number of codes."""
        floats = FIRST + len(self.integers)
        strings = floats + len(self.floats)
        return FIRST, floats, strings, strings + len(self.offsets) - 1

    def codes_of(self, values: Iterable[Scalar]) -> list[int]:
        """Find the codes of values, numbers as :func:`number` gives them; those that no passage has are left out."""
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
        """Find the codes of an interval of numbers or strings.

        Parameters
        ----------
        low, high
            Both strings, or both numbers as :func:`number` gives them; one of them may be None: no end.
        low_open, high_open
            Whether an end itself is left out.

        Returns
        -------
        list of tuple
            Stretches of codes, each as its first and the one after its last.
        """
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
        """Read a string of the table, in UTF-8."""
        return self.strings[self.offsets[place] : self.offsets[place + 1]].tobytes()

    def have(self, accepted: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
        """Find the passages that have at least one of some values.

        Parameters
        ----------
        accepted
            bool of shape (number of codes,).
        n
            Number of passages.

        Returns
        -------
        ndarray
            bool of shape (n,).
        """
        found = _spread(accepted, self.codes)
        if len(self.rows) == 0 and len(found) == n:
            return found
        have = np.zeros(n, bool)
        have[self.rows[found]] = True
        return have


def _spread(accepted: npt.NDArray[np.bool_], codes: Codes) -> npt.NDArray[np.bool_]:
    """Say of each code whether it is accepted; `MISSING` never is."""
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
    """The strings of a table, read when they are asked for."""

    def __init__(self, text: memoryview, offsets: memoryview) -> None:
        self.text, self.offsets = text, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: Any) -> Any:
        return self.text[self.offsets[place] : self.offsets[place + 1]].tobytes()


def _key(value: Any) -> Any:
    """Give a value as a table holds it."""
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


@dataclass(frozen=True, eq=False)
class Columns:
    """Metadata of n passages.

    Attributes
    ----------
    n
        Number of passages.
    fields
        The column of each path.
    """

    n: int
    fields: Mapping[str, Column]

    def __len__(self) -> int:
        """Count the passages."""
        return self.n

    def take(self, rows: IntArray) -> Columns:
        """Copy some passages' metadata: `rows` are their places, int64 of shape (m,), in any order."""
        return concatenate([(self, rows)])


def number(value: float) -> int | float:
    """Give a number as it is compared: an int where it is whole and has 64 bits, else a float.

    An integer too large for float64 becomes infinite.
    """
    if isinstance(value, float) and not value.is_integer():
        return float(value)
    if -(2**63) <= value < 2**63:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def instant(text: str) -> int | None:
    """Read an ISO 8601 date or date-time.

    Parameters
    ----------
    text
        Such as ``2024-03-01``, ``2024-03-01T09:30``, ``2024-03-01 09:30:00.5`` or ``2024-03-01T09:30:00+01:00``. Digits
        beyond microseconds are cut.

    Returns
    -------
    int or None
        Microseconds since 1970-01-01 UTC. A date alone is its midnight, a time without a zone is UTC. None for any other
        text.
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    try:
        moment = datetime(  # noqa: DTZ001
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError:
        return None
    zone = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if zone >= timedelta(days=1) or int(minutes or 0) > 59:
        return None
    return (
        microseconds(moment)
        + int((fraction or "")[:6].ljust(6, "0"))
        - zone // _MICROSECOND * (-1 if sign == "-" else 1)
    )


def microseconds(moment: date) -> int:
    """Microseconds since 1970-01-01 UTC of a date or datetime, by the rules of :func:`instant`."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001
    zone = moment.utcoffset() or timedelta()
    return (moment.replace(tzinfo=None) - _EPOCH - zone) // _MICROSECOND


def columns_of(metadata: Sequence[Mapping[str, Any]]) -> Columns:
    """Turn metadata into columns.

    Parameters
    ----------
    metadata
        What JSON can hold, one mapping for each of n passages.

    Returns
    -------
    Columns
        All fields, in memory.
    """
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


def is_scalar(value: object) -> bool:
    """Say whether a value can be compared: a text of at most `LONGEST`, a boolean, or a number other than NaN."""
    if isinstance(value, str):
        return len(value) <= LONGEST
    return isinstance(value, (int, float)) and value == value  # a NaN is not equal to itself


def key_text(key: object) -> str:
    """Give an object's key as JSON would write it."""
    return key if isinstance(key, str) else dumps(key)


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
    """Sort the values that codes from `FIRST` on stand for, and give the codes anew."""
    texts = {
        place: value.encode(errors="surrogatepass") for place, value in enumerate(values) if isinstance(value, str)
    }
    numbers = {place: number(value) for place, value in enumerate(values) if not isinstance(value, str)}
    integers, at_integers = _unique(
        {place: value for place, value in numbers.items() if isinstance(value, int)}, np.int64
    )
    floats, at_floats = _unique(
        {place: value for place, value in numbers.items() if isinstance(value, float)}, np.float64
    )
    strings = sorted(texts.values())
    place_of = {text: place for place, text in enumerate(strings)}
    times = [instant(text.decode(errors="surrogatepass")) for text in strings]
    order = np.arange(FIRST + len(values))
    start = FIRST
    for size, at in (
        (len(integers), at_integers),
        (len(floats), at_floats),
        (len(strings), {place: place_of[text] for place, text in texts.items()}),
    ):
        order[FIRST + np.fromiter(at, np.int64, len(at))] = start + np.fromiter(at.values(), np.int64, len(at))
        start += size
    known = _times(np.array([NO_TIME if time is None else time for time in times], np.int64))
    return order[codes], _Table(integers, floats, strings, known)


def _unique(values: Mapping[int, float], dtype: npt.DTypeLike) -> tuple[npt.NDArray[Any], dict[int, int]]:
    """Sort some of the values, by place; give where each came to be, by place, too."""
    given: npt.NDArray[Any] = np.array(list(values.values()), dtype)
    table, at = np.unique(given, return_inverse=True)
    return table, dict(zip(values, at.tolist(), strict=True))


def _times(times: IntArray) -> IntArray:
    return times if (times != NO_TIME).any() else times[:0]


def _column(n: int, rows: IntArray, codes: IntArray, table: _Table) -> Column:
    """Make a column, with one code for each passage where that is possible and takes no more room."""
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
    """Join the metadata of several parts of a corpus, leaving out what was deleted.

    Parameters
    ----------
    parts
        Columns, and which of their rows to keep, int64, in the order wanted; None for all.

    Returns
    -------
    Columns
        The rows of all parts one after another, in memory; values that no row has any more are gone. One field at a time
        is worked on.
    """
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
    """Give the rows, counted from `start`, and the codes of some passages of a column."""
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
    """Merge the tables of several columns as far as they are used, and give all codes anew."""
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


_ARRAYS = ("codes", "rows", "integers", "floats", "strings", "offsets", "times")
_UNSIGNED = ("|u1", "<u2", "<u4", "<u8")
_DTYPES = {"integers": ("<i8",), "floats": ("<f8",), "strings": ("|u1",), "offsets": ("<i8",), "times": ("<i8",)}


def save(columns: Columns, folder: Path) -> None:
    """Write columns as two files, `VALUES` and `DIRECTORY`; to flush them to the disk is for the caller.

    Raises
    ------
    OSError
        If they cannot be written.
    """
    directory: dict[str, dict[str, list[Any]]] = {}
    end = 0
    for path, column in columns.fields.items():
        directory[path] = {}
        for name in _ARRAYS:
            values = getattr(column, name)
            directory[path][name] = [values.dtype.str, end, len(values)]
            end += _padded(values.nbytes)
    with (folder / VALUES).open("wb") as file:
        # not through a memory map: a full disk would end the process and not raise an error
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (end,)})
        for column in columns.fields.values():
            for name in _ARRAYS:
                values = getattr(column, name)
                file.write(values.data)
                file.write(bytes(_padded(values.nbytes) - values.nbytes))
    (folder / DIRECTORY).write_bytes(dump_json({"passages": len(columns), "bytes": end, "fields": directory}))


def load(files: Files) -> Columns:
    """Read saved columns.

    Raises
    ------
    ArtifactError
        If a file is missing or cut short, or they do not belong together.
    """
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
    """Refuse columns that filters cannot read.

    Raises
    ------
    ValueError
        If codes are not those of the table, or not those of the passages, or the table's strings are not in its text.
    """
    for path, column in columns.fields.items():
        rows, offsets = column.rows, column.offsets
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(column.strings) or (np.diff(offsets) < 0).any():
            raise ValueError(f"the strings of {path!r} do not end where their text does")
        if int(column.codes.max(initial=0)) >= column.starts[3]:
            raise ValueError(f"a code of {path!r} stands for nothing")
        if len(column.times) not in (0, len(offsets) - 1):
            raise ValueError(f"{path!r} has {len(column.times)} times for {len(offsets) - 1} strings")
        if len(rows) == 0 and len(column.codes) not in (0, len(columns)):
            raise ValueError(f"{path!r} has {len(column.codes)} codes for {len(columns)} passages")
        if len(rows) and (len(rows) != len(column.codes) or rows[-1] >= len(columns) or (rows[1:] < rows[:-1]).any()):
            raise ValueError(f"the codes of {path!r} are not those of the passages")


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
