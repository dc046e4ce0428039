"""Filters over metadata: which passages may be found at all.

A filter is written as a mapping that JSON can hold, in the form that MongoDB, Chroma and Pinecone use::

    {"document": "a.md"}                                          equal to a value
    {"page": {"$gte": 3, "$lt": 7}}                               in an interval
    {"date": {"$gte": "2024-01-01", "$lt": "2025-01-01"}}         ... of time
    {"tags": {"$in": ["tax", "law"]}, "author.name": "Ada"}       several fields: all of them
    {"$or": [{"page": 1}, {"$not": {"lang": {"$exists": True}}}]}

Operators of a field: ``$eq $ne $gt $gte $lt $lte $in $nin $exists $not``; of filters: ``$and $or $not``.

- Fields are paths, see :mod:`semclass.index.metadata`; ``_id`` is the passage's id (``$eq $ne $in $nin`` only).
- A list matches if one of its elements does. The bounds in one mapping are one interval: a single value must be in it.
- Values of different types never match and are never an error: ``{"page": 3}`` does not find ``"3"``.
- A field that is missing, null or an empty list is found only by ``$ne``, ``$nin``, ``$not`` and ``{"$exists": False}``,
  the exact opposites of ``$eq``, ``$in``, what is negated, and ``{"$exists": True}``; ``{"lang": None}`` asks for a missing
  field, too.
- Bounds that are dates, in ISO 8601 or as Python's date and datetime, are compared in time with the texts that are dates,
  see :func:`semclass.index.metadata.instant`; other bounds that are texts with all texts, by code points. ``$eq`` and
  ``$in`` compare texts character by character, but Python's date and datetime with all texts of the same instant.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.checks import short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import IntArray
from semclass.index.metadata import (
    LONGEST,
    NO_TIME,
    Column,
    Columns,
    Scalar,
    instant,
    is_scalar,
    key_text,
    microseconds,
    number,
)

ID = "_id"
"""The field that stands for a passage's id."""

FIELD_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$not")
FILTER_OPERATORS = ("$and", "$or", "$not")

_DEPTH = 50
_BOUNDS = {"$gt": ("low", True), "$gte": ("low", False), "$lt": ("high", True), "$lte": ("high", False)}

BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Among:
    """A field has one of some values; numbers are as :func:`semclass.index.metadata.number` gives them."""

    path: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Range:
    """A field has a value in an interval.

    Attributes
    ----------
    path
        The field.
    kind
        ``"number"``, ``"text"``, or ``"time"``: microseconds since 1970 UTC.
    low, high
        The ends, numbers or texts; None for no end, but not for both.
    low_open, high_open
        Whether an end itself is left out.
    """

    path: str
    kind: str
    low: Any
    high: Any
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: Any) -> bool:
        """Say whether a value of the interval's own type is in it."""
        above: bool = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below: bool = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below


@dataclass(frozen=True)
class Exists:
    """A field is there, and neither null nor an empty list."""

    path: str


@dataclass(frozen=True)
class Ids:
    """A passage's id is one of some."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class And:
    """All parts match; without parts, everything does."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """At least one part matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """The part does not match."""

    part: Filter


Filter: TypeAlias = "Among | Range | Exists | Ids | And | Or | Not"


def parse(where: Mapping[str, Any]) -> Filter:
    """Read a filter.

    Parameters
    ----------
    where
        As the module describes it; the empty mapping matches everything.

    Returns
    -------
    Filter
        What :func:`mask` and :func:`matches` take.

    Raises
    ------
    InputError, InputTypeError
        Naming the place, what was given and what is allowed.
    """
    return _filter(where, "where", 0)


def _filter(where: object, at: str, depth: int) -> Filter:
    if not isinstance(where, Mapping):
        raise InputTypeError(f'{at} must be a mapping such as {{"page": {{"$gte": 3}}}}, not {short(where)}')
    if depth > _DEPTH:
        raise InputError(f"the filter is nested more than {_DEPTH} deep; write it flatter")
    parts = [_part(key, value, at, depth) for key, value in where.items()]
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _part(key: object, value: object, at: str, depth: int) -> Filter:
    if not isinstance(key, str) or not key:
        raise InputTypeError(f"{at} has the key {short(key)}; keys must be names of fields, or one of {_FILTERS}")
    inside = f"{at}[{key!r}]"
    if key == "$not":
        return Not(_filter(value, inside, depth + 1))
    if key in ("$and", "$or"):
        if not isinstance(value, (list, tuple)) or not value:
            raise InputTypeError(f"{inside} must be a list of at least one filter, not {short(value)}")
        parts = tuple(_filter(part, f"{inside}[{place}]", depth + 1) for place, part in enumerate(value))
        return And(parts) if key == "$and" else Or(parts)
    if key.startswith("$"):
        raise InputError(f"{at} has the operator {key!r}; allowed here are names of fields, and {_FILTERS}")
    return _field(key, value, inside, depth)


def _field(path: str, value: object, at: str, depth: int) -> Filter:
    """Read what is asked of one field: a value, or a mapping of operators."""
    if not isinstance(value, Mapping):
        return _operator(path, "$eq", value, at, depth)
    unknown = [key for key in value if key not in FIELD_OPERATORS]
    if unknown or not value:
        given = f"the operator {short(unknown[0])}" if unknown else "no operator"
        raise InputError(
            f"{at} has {given}; allowed are {', '.join(FIELD_OPERATORS)}; a field of a nested object is written "
            f'"{path}.name"'
        )
    parts = [_operator(path, key, item, f"{at}[{key!r}]", depth) for key, item in value.items() if key not in _BOUNDS]
    if bounds := {key: item for key, item in value.items() if key in _BOUNDS}:
        parts.append(_range(path, bounds, at))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _operator(path: str, operator: str, value: Any, at: str, depth: int) -> Filter:
    if operator == "$not":
        if depth > _DEPTH:
            raise InputError(f"the filter is nested more than {_DEPTH} deep; write it flatter")
        return Not(_field(path, value, at, depth + 1))
    if operator == "$exists":
        if not isinstance(value, bool) or path == ID:
            raise InputTypeError(f"{at} must be true or false and is not for {ID!r}; it is {short(value)}")
        return Exists(path) if value else Not(Exists(path))
    if operator in ("$in", "$nin"):
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise InputTypeError(f"{at} must be a list of values, not {short(value)}")
        found = _among(path, [_value(item, f"{at}[{place}]") for place, item in enumerate(value)], at)
    elif value is None and path != ID:
        found = Not(Exists(path))
    else:
        found = _among(path, [_value(value, at)], at)
    return Not(found) if operator in ("$ne", "$nin") else found


def _among(path: str, values: Sequence[Scalar | date], at: str) -> Filter:
    if path == ID:
        wrong = [value for value in values if not isinstance(value, str)]
        if wrong:
            raise InputTypeError(f"{at}: ids are strings, not {short(wrong[0])}")
        return Ids(tuple(str(value) for value in values))
    times = [
        Range(path, "time", time, time) for time in (microseconds(value) for value in values if isinstance(value, date))
    ]
    plain = Among(path, tuple(value for value in values if not isinstance(value, date)))
    parts = ([plain] if plain.values or not times else []) + times
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _value(value: object, at: str) -> Scalar | date:
    """Check one value to compare with."""
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if isinstance(value, (bool, date)):
        return value
    if isinstance(value, str):
        if len(value) > LONGEST:
            raise InputError(f"{at} has {len(value)} characters; texts are compared up to {LONGEST}: {short(value)}")
        return str(value)
    if not isinstance(value, (int, float)):
        hint = "; write {'$in': [...]} for one of several values" if isinstance(value, (list, tuple)) else ""
        raise InputTypeError(f"{at} must be a string, a number, true, false or a date, not {short(value)}{hint}")
    if not math.isfinite(found := number(value)):
        raise InputError(f"{at} is {short(value)}; it must be a finite number")
    return found


def _range(path: str, bounds: Mapping[str, object], at: str) -> Range:
    if path == ID:
        raise InputError(f"{at}: an id has no order; allowed for {ID!r} are $eq, $ne, $in and $nin")
    ends: dict[str, tuple[Any, bool]] = {}
    kinds: dict[str, str] = {}
    for operator, given in bounds.items():
        end, is_open = _BOUNDS[operator]
        value = _value(given, f"{at}[{operator!r}]")
        if isinstance(value, bool):
            raise InputTypeError(f"{at}[{operator!r}] is {value}; true and false have no order; use $eq")
        if end in ends:
            raise InputError(
                f"{at} has two {end} ends; give one of {'$gt and $gte' if end == 'low' else '$lt and $lte'}"
            )
        time = microseconds(value) if isinstance(value, date) else instant(value) if isinstance(value, str) else None
        kinds[operator] = "time" if time is not None else "text" if isinstance(value, str) else "number"
        ends[end] = (value if time is None else time), is_open
    if len(set(kinds.values())) > 1:
        given = " and ".join(f"{operator} is a {kind}" for operator, kind in kinds.items())
        raise InputTypeError(f"{at} mixes types ({given}); both ends must be numbers, dates or texts")
    low, high = ends.get("low", (None, False)), ends.get("high", (None, False))
    return Range(path, next(iter(kinds.values())), low[0], high[0], low[1], high[1])


_FILTERS = ", ".join(FILTER_OPERATORS)


def mask(condition: Filter, columns: Columns, rows_of: Callable[[Sequence[str]], IntArray] | None = None) -> BoolArray:
    """Find the passages that match.

    Parameters
    ----------
    condition
        What :func:`parse` gave.
    columns
        Metadata of n passages.
    rows_of
        Gives the rows of some ids, those that there are; needed for filters on ``_id`` only.

    Returns
    -------
    ndarray
        bool of shape (n,).

    Raises
    ------
    InputError
        If the filter asks for ids and `rows_of` is None.
    """
    if isinstance(condition, (And, Or)):
        found = np.full(len(columns), isinstance(condition, And))
        for part in condition.parts:
            other = mask(part, columns, rows_of)
            found = found & other if isinstance(condition, And) else found | other
        return found
    if isinstance(condition, Not):
        return ~mask(condition.part, columns, rows_of)
    if isinstance(condition, Ids):
        if rows_of is None:
            raise InputError(f"a filter on {ID!r} is not possible here")
        found = np.zeros(len(columns), bool)
        found[rows_of(condition.ids)] = True
        return found
    column = columns.fields.get(condition.path)
    if column is None:
        return np.zeros(len(columns), bool)
    return column.have(_accepted(condition, column), len(columns))


def _accepted(condition: Among | Range | Exists, column: Column) -> BoolArray:
    """Which codes of a column match."""
    accepted = np.zeros(column.starts[3], bool)
    if isinstance(condition, Exists):
        accepted[1:] = True
    elif isinstance(condition, Among):
        accepted[column.codes_of(condition.values)] = True
    elif condition.kind == "time":
        if len(column.times):
            times = column.times
            found = times != NO_TIME
            if condition.low is not None:
                found &= times > condition.low if condition.low_open else times >= condition.low
            if condition.high is not None:
                found &= times < condition.high if condition.high_open else times <= condition.high
            accepted[column.starts[2] :] = found
    else:
        for begin, end in column.spans(condition.low, condition.high, condition.low_open, condition.high_open):
            accepted[begin:end] = True
    return accepted


def matches(condition: Filter, metadata: Mapping[str, Any], id: str | None = None) -> bool:  # noqa: A002
    """Say whether one passage matches; what :func:`mask` gives for many.

    Parameters
    ----------
    condition
        What :func:`parse` gave.
    metadata
        The passage's.
    id
        The passage's; needed for filters on ``_id`` only.

    Returns
    -------
    bool
        Whether it matches.
    """
    if isinstance(condition, And):
        return all(matches(part, metadata, id) for part in condition.parts)
    if isinstance(condition, Or):
        return any(matches(part, metadata, id) for part in condition.parts)
    if isinstance(condition, Not):
        return not matches(condition.part, metadata, id)
    if isinstance(condition, Ids):
        return id in condition.ids
    return any(_meets(condition, value) for value in _values(metadata, condition.path))


def _meets(condition: Among | Range | Exists, value: object) -> bool:
    if isinstance(condition, Exists):
        return True
    if not isinstance(value, (str, int, float)) or not is_scalar(value):
        return False
    if isinstance(condition, Among):
        # true is no number here, but Python takes it for 1
        return any(isinstance(value, bool) == isinstance(each, bool) and value == each for each in condition.values)
    if isinstance(value, bool) or isinstance(value, str) != (condition.kind != "number"):
        return False
    if isinstance(value, str):
        time = instant(value) if condition.kind == "time" else value
        return time is not None and condition.holds(time)
    return condition.holds(number(value))


def _values(metadata: Mapping[Any, Any], path: str) -> Iterator[Any]:
    """Give what a path leads to: a value, or the elements of a list."""
    for key, value in metadata.items():
        name = key_text(key)
        if value is None or not path.startswith(name):
            continue
        items = value if isinstance(value, (list, tuple)) else [value]
        if path == name:
            yield from items
        elif path[len(name)] == ".":
            for item in items:
                if isinstance(item, dict):
                    yield from _values(item, path[len(name) + 1 :])


_TERM = re.compile(r"\s*([^=<>!]*[^=<>!\s])\s*(>=|<=|!=|==|=|>|<)\s*(.*?)\s*", re.DOTALL)
_TERM_OPERATORS = {"=": "$eq", "==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}


def read_terms(terms: Sequence[str]) -> dict[str, Any]:
    """Read filters as they are written on a command line.

    Parameters
    ----------
    terms
        Each a comparison such as ``page>=3``, ``document=a.md``, ``lang!=de``, ``date<2025-01-01`` or a whole filter as
        JSON, ``{"tags": {"$in": ["tax", "law"]}}``. A value that is a JSON number, string, true, false or null is read as
        such, so that ``page=3`` is a number and ``page="3"`` a text; all else is text.

    Returns
    -------
    dict
        A filter that all terms must match, for :func:`parse`.

    Raises
    ------
    InputError
        If a term is neither.
    """
    filters = [_term(term) for term in terms]
    return filters[0] if len(filters) == 1 else {"$and": filters} if filters else {}


def _term(term: str) -> dict[str, Any]:
    if term.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(term)
        except ValueError as error:
            raise InputError(f"the filter {short(term)} is not valid JSON ({error})") from error
        return found
    parts = _TERM.fullmatch(term)
    if parts is None:
        raise InputError(
            f"the filter {short(term)} must be a comparison such as page>=3, document=a.md or lang!=de (=, !=, <, <=, >, "
            '>=), or JSON such as {"tags": {"$in": ["tax", "law"]}}'
        )
    path, operator, text = parts.groups()
    if not text.strip() and operator not in ("=", "!="):
        raise InputError(f"the filter {short(term)} compares with nothing; write a value behind {operator}")
    return {path: {_TERM_OPERATORS[operator]: _read_value(text)}}


def _read_value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    infinite = isinstance(value, float) and not math.isfinite(value)
    return text if infinite or isinstance(value, (list, dict)) else value
