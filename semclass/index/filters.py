"""Filters over metadata, which limit the passages that a search may find.

A filter is a mapping that JSON can hold, in the form of MongoDB, Chroma and Pinecone::

    {"document": "a.md"}                                          equal to a value
    {"page": {"$gte": 3, "$lt": 7}}                               in an interval
    {"date": {"$gte": "2024-01-01", "$lt": "2025-01-01"}}         ... of time
    {"tags": {"$in": ["tax", "law"]}, "author.name": "Ada"}       several fields: all of them
    {"$or": [{"page": 1}, {"$not": {"lang": {"$exists": True}}}]}

Operators of a field are ``$eq $ne $gt $gte $lt $lte $in $nin $exists``.
Operators of filters are ``$and $or $not``.

- Fields are paths, see :mod:`semclass.index.columns`. ``_id`` is the passage's id, and takes only
  ``$eq $ne $in $nin``.
- A list matches if one of its elements does. The bounds in one mapping form one interval, and a single value must be in
  this interval.
- Values of different types never match, and cause no error: ``{"page": 3}`` does not find ``"3"``.
- A field that no passage of the index has causes a warning, because it is usually misspelt.
- Only ``$ne``, ``$nin``, ``$not``, ``{"$exists": False}`` and ``{"lang": None}`` find a field that is missing, null or an
  empty list. The first four are the exact opposites of ``$eq``, ``$in``, the negated filter, and ``{"$exists": True}``.
- Bounds that are dates in ISO 8601 are compared, as times, with metadata texts that are dates, see
  :func:`semclass.index.columns.instant`. Other text bounds are compared with all texts, by code points. ``$eq`` and ``$in``
  compare texts character by character.
"""

from __future__ import annotations

import json
import math
import operator
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.checks import short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import IntArray
from semclass.index.columns import FIRST_CODE, MAX_TEXT_LENGTH, NO_TIME, Column, Columns, Scalar, instant

BoolArray: TypeAlias = npt.NDArray[np.bool_]

ID = "_id"
"""The field name for a passage's id."""

FIELD_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists")
FILTER_OPERATORS = ("$and", "$or", "$not")

MAX_NAMED_FIELDS = 20
"""Maximum number of fields that a message names."""

_FILTERS = ", ".join(FILTER_OPERATORS)
_MAX_DEPTH = 50
_BOUNDS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_ENDS = {"low": ("$gt", "$gte"), "high": ("$lt", "$lte")}


@dataclass(frozen=True)
class Filter:
    """A condition on passages.

    ``and``, ``or`` and ``not`` join the filters in `operands`. All other filters test the field `path`. ``exists`` has no
    values. ``in`` has the allowed values, or ids if the path is `ID`. ``number``, ``text`` and ``time`` (microseconds
    since 1970 UTC) have one or two bounds of an interval, such as ``("$gte", 3)``.
    """

    operator: str
    operands: tuple[Any, ...] = ()
    path: str = ""


def parse(where: Mapping[str, Any]) -> Filter:
    """Read a filter in the form that this module describes. An empty mapping matches every passage.

    Raises an InputError or InputTypeError that names the place, the given value and the allowed values.
    """
    return _filter(where, "where", 0)


def has_no_conditions(condition: Filter) -> bool:
    """Return whether a filter matches every passage, for example because all of its optional parts are missing."""
    joins = {"and": all, "or": any}.get(condition.operator)
    return joins is not None and joins(map(has_no_conditions, condition.operands))


def _fields_of(condition: Filter) -> set[str]:
    """Fields whose values a filter compares. Fields with only ``$exists`` are left out."""
    if condition.operator in ("and", "or", "not"):
        return set().union(*map(_fields_of, condition.operands))
    return {condition.path} - {ID} if condition.operator != "exists" else set()


def unknown_field(condition: Filter, known: Collection[str]) -> str:
    """Return a message that names an unknown field of a filter, and the known fields. Empty if all fields are known."""
    unknown = sorted(_fields_of(condition) - set(known))
    if not unknown:
        return ""
    near = get_close_matches(unknown[0], known, 1)
    instead = f"did you mean {near[0]!r}? " if near else ""
    more = f" and {len(known) - MAX_NAMED_FIELDS} more" if len(known) > MAX_NAMED_FIELDS else ""
    names = ", ".join(sorted(known)[:MAX_NAMED_FIELDS])
    return f"no passage has the field {unknown[0]!r}; {instead}fields are: {names or 'none'}{more}"


def _filter(where: object, at: str, depth: int) -> Filter:
    if not isinstance(where, Mapping):
        raise InputTypeError(f'{at} must be a mapping such as {{"page": {{"$gte": 3}}}}, not {short(where)}')
    if depth > _MAX_DEPTH:
        raise InputError(f"the filter is nested more than {_MAX_DEPTH} levels deep; write a flatter filter")
    return _joined("and", [_part(key, value, at, depth + 1) for key, value in where.items()])


def _joined(how: str, parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else Filter(how, tuple(parts))


def _part(key: object, value: object, at: str, depth: int) -> Filter:
    if not isinstance(key, str) or not key:
        raise InputTypeError(f"{at} has the key {short(key)}; give the name of a field, or one of {_FILTERS}")
    inside = f"{at}[{short(key)}]"
    if len(key) > MAX_TEXT_LENGTH:
        raise InputError(f"{inside}: the field name has {len(key)} characters; at most {MAX_TEXT_LENGTH} are allowed")
    if key == "$not":
        return Filter("not", (_filter(value, inside, depth),))
    if key in FILTER_OPERATORS:
        if not isinstance(value, (list, tuple)) or not value:
            raise InputTypeError(f"{inside} must be a list of at least one filter, not {short(value)}")
        return Filter(key[1:], tuple(_filter(part, f"{inside}[{i}]", depth) for i, part in enumerate(value)))
    if key.startswith("$"):
        raise InputError(f"{at} has the operator {short(key)}; give the name of a field, or one of {_FILTERS}")
    return _field(key, value, inside)


def _field(path: str, value: object, at: str) -> Filter:
    if not isinstance(value, Mapping):
        return _operator(path, "$eq", value, at)
    unknown = [key for key in value if key not in FIELD_OPERATORS]
    if unknown or not value:
        given = f"the operator {short(unknown[0])}" if unknown else "no operator"
        raise InputError(
            f"{at} has {given}; allowed are {', '.join(FIELD_OPERATORS)}; write a field of a nested object as "
            f'"{path}.name"'
        )
    parts = [_operator(path, key, item, f"{at}[{key!r}]") for key, item in value.items() if key not in _BOUNDS]
    if bounds := {key: item for key, item in value.items() if key in _BOUNDS}:
        parts.append(_interval(path, bounds, at))
    return _joined("and", parts)


def _operator(path: str, name: str, value: Any, at: str) -> Filter:
    if name == "$exists" and (not isinstance(value, bool) or path == ID):
        raise InputTypeError(f"{at} is {short(value)}; it must be true or false, for a field other than {ID!r}")
    negated = name in ("$ne", "$nin")
    if name == "$exists" or (value is None and path != ID and name in ("$eq", "$ne")):
        result, negated = Filter("exists", path=path), negated ^ (not value)
    else:
        if name in ("$eq", "$ne"):
            values = [_value(value, at)]
        elif isinstance(value, (list, tuple, set, frozenset)):
            values = [_value(item, f"{at}[{place}]") for place, item in enumerate(value)]
        else:
            raise InputTypeError(f"{at} must be a list of values, not {short(value)}")
        if path == ID and (wrong := [item for item in values if not isinstance(item, str)]):
            raise InputTypeError(f"{at} must be an id, which is a string, not {short(wrong[0])}")
        result = Filter("in", tuple(values), path)
    return Filter("not", (result,)) if negated else result


def _value(value: object, at: str) -> Scalar:
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > MAX_TEXT_LENGTH:
            raise InputError(f"{at} has {len(value)} characters; at most {MAX_TEXT_LENGTH} are allowed: {short(value)}")
        return str(value)
    if not isinstance(value, (int, float)):
        hint = "; for one of several values write {'$in': [...]}" if isinstance(value, (list, tuple)) else ""
        raise InputTypeError(f"{at} must be a string, a number, true or false, not {short(value)}{hint}")
    if not -sys.float_info.max <= value <= sys.float_info.max:
        raise InputError(f"{at} is {short(value)}; it must be a finite number")
    return value


def _interval(path: str, bounds: Mapping[str, object], at: str) -> Filter:
    if path == ID:
        raise InputError(f"{at} compares ids by order; allowed for {ID!r} are $eq, $ne, $in and $nin")
    for end, names in _ENDS.items():
        if bounds.keys() >= set(names):
            raise InputError(f"{at} has two {end} bounds; give either {' or '.join(names)}")
    operands, kinds = [], {}
    for name, bound in bounds.items():
        value: Any = _value(bound, f"{at}[{name!r}]")
        if isinstance(value, bool):
            raise InputTypeError(f"{at}[{name!r}] is {value}, but true and false have no order; use $eq")
        time = instant(value) if isinstance(value, str) else None
        kinds[name] = "time" if time is not None else "text" if isinstance(value, str) else "number"
        operands.append((name, value if time is None else time))
    if len(set(kinds.values())) > 1:
        given = " and ".join(f"{name} is a {kind}" for name, kind in kinds.items())
        raise InputTypeError(f"{at} mixes types ({given}); give both bounds as numbers, as dates or as texts")
    return Filter(next(iter(kinds.values())), tuple(operands), path)


# matching


def mask(condition: Filter, columns: Columns, find: Callable[[Sequence[str]], IntArray]) -> BoolArray:
    """Return whether each of n passages matches, bool (n,). `find` returns the rows of ids, -1 for an unknown id."""
    if condition.operator == "not":
        return ~mask(condition.operands[0], columns, find)
    if condition.operator in ("and", "or"):
        both = condition.operator == "and"
        masks = (mask(part, columns, find) for part in condition.operands)
        return reduce(np.logical_and if both else np.logical_or, masks, np.full(columns.n, both))
    result = np.zeros(columns.n, bool)
    if condition.path == ID:
        rows = find(condition.operands)
        result[rows[rows >= 0]] = True
    elif (column := columns.fields.get(condition.path)) is not None:
        return column.matches(_accepted(condition, column), columns.n)
    return result


def _accepted(condition: Filter, column: Column) -> BoolArray:
    """Whether each code of a column matches, bool of shape (number of codes,)."""
    accepted = np.zeros(FIRST_CODE + len(column.values), bool)
    if condition.operator == "exists":
        accepted[1:] = True
    elif condition.operator == "in":
        accepted[column.codes_of(condition.operands)] = True
    elif condition.operator == "time":
        within = [_BOUNDS[name](column.times, bound) for name, bound in condition.operands]
        accepted[FIRST_CODE + column.texts :] = np.logical_and.reduce([column.times != NO_TIME, *within])
    else:
        accepted[slice(*column.span(dict(condition.operands)))] = True
    return accepted


# filters of a command line

_SIGN = re.compile(r">=|<=|!=|==|[=<>!]")
_MEMBER = re.compile(r"\s(not\s+)?in\s*\(", re.IGNORECASE)
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^",\s][^,]*)\s*(?:,|$)', re.DOTALL)
"""Each pattern is applied from left to right, and none reads a character many times: the time is linear."""

_SIGNS = {"=": "$eq", "==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_OPERATORS = "=, !=, <, <=, >, >=, in, not in"


def read_terms(terms: Sequence[str], known: Collection[str] | None = None) -> dict[str, Any]:
    """Read filters of a command line, such as ``page>=2`` or JSON. If `known` is given, only its fields are allowed."""
    parts = [_term(term.strip()) for term in terms]
    where = parts[0] if len(parts) == 1 else {"$and": parts} if parts else {}
    if known is not None and (message := unknown_field(parse(where), known)):
        raise InputError(message)
    return where


def _term(term: str) -> dict[str, Any]:
    if term.startswith("{"):
        try:
            result: dict[str, Any] = json.loads(term)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the filter {short(term)} is not valid JSON ({error})") from error
        return result
    sign, member = _SIGN.search(term), _MEMBER.search(term)
    if member is not None and term.endswith(")") and (sign is None or member.start() < sign.start()):
        return {term[: member.start()].rstrip(): {"$nin" if member[1] else "$in": _items(term, member.end())}}
    path = term[: sign.start()].rstrip() if sign is not None else ""
    if sign is None or not path or sign[0] not in _SIGNS:
        raise InputError(
            f"the filter {short(term)} must be a comparison such as page>=3, document=a.md, lang!=de or lang in (de, en) "
            f'({_OPERATORS}), or JSON such as {{"tags": {{"$in": ["tax", "law"]}}}}'
        )
    text = term[sign.end() :].lstrip()
    if text.startswith(("=", "<", ">", "!")):
        raise InputError(
            f"the filter {short(term)} has no known operator; operators are {_OPERATORS}; quote a text that begins "
            f'like an operator: {path}="{short(text)}"'
        )
    if not text and sign[0] not in ("=", "==", "!="):
        raise InputError(f"the filter {short(term)} has no value; write a value after {sign[0]}")
    return {path: {_SIGNS[sign[0]]: _read_value(text)}}


def _items(term: str, start: int) -> list[Any]:
    """Read the values in brackets, which begin at a place and end before the last character."""
    values, end = [], len(term) - 1
    while (item := _ITEM.match(term, start, end)) is not None:
        values.append(_read_value(item[1].rstrip()))
        if item.end() == end and term[end - 1] != ",":
            return values
        start = item.end()
    raise InputError(f'the filter {short(term)} must list values, such as customer in (Acme, "Smith, Ltd")')


def _read_value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    infinite = isinstance(value, float) and not math.isfinite(value)
    return text if infinite or isinstance(value, (list, dict)) else value
