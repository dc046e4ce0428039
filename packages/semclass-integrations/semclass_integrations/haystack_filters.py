"""Translates filters of Haystack to filters of :mod:`semclass.index.filters`."""

# ruff: noqa: E402 - import_extra says how Haystack is installed, before it is imported

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError, SemclassError, import_extra
from semclass.index import filters as semclass_filters
from semclass.index.columns import instant

import_extra("haystack", "haystack")

from haystack.errors import FilterError


class FilterInputError(InputError, FilterError):
    """A filter is malformed, or an index cannot apply it."""


def to_where(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a filter of Haystack to a filter of :mod:`semclass.index.filters`.

    You can filter by fields of ``meta`` (``"meta.page"``, or ``"page"``) and by ``"id"``. The filter selects the same
    documents as in Haystack, with four exceptions. A list in ``meta`` matches if one of its elements does, and an empty
    list counts as missing. 1 is not equal to ``True``. Values of different types do not match, and raise no error. A
    time without a zone is UTC.

    Parameters
    ----------
    filters
        ``{"field": ..., "operator": ..., "value": ...}`` with one of ``== != > >= < <= in`` and ``not in``, or
        ``{"operator": ..., "conditions": [...]}`` with ``AND``, ``OR`` or ``NOT``. ``NOT`` matches unless all
        conditions match.

    Raises
    ------
    FilterInputError
        If the filter is malformed or cannot be translated. The message names the part of the filter.

    Examples
    --------
    >>> to_where({"field": "meta.page", "operator": ">=", "value": 3})
    {'page': {'$gte': 3}}
    """
    where = _where(filters, "filters", 0)
    try:
        semclass_filters.parse(where)
    except SemclassError as error:
        raise FilterInputError(f"the filters {short(filters)} cannot be applied: {error}") from error
    return where


_DEPTH = 50
_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_OPERATORS = ("==", "!=", *_ORDER, "in", "not in")
_LOGIC = ("AND", "OR", "NOT")
_NOTHING: dict[str, Any] = {"$not": {}}
_NOT_PASSAGES = ("content", "blob", "score", "embedding", "sparse_embedding")


def _where(condition: object, at: str, depth: int) -> dict[str, Any]:
    if not isinstance(condition, Mapping):
        raise FilterInputError(f"{at} must be a mapping, not {short(condition)}")
    if depth > _DEPTH:
        raise FilterInputError(f"the filter is nested more than {_DEPTH} levels deep; write a flatter filter")
    of_field = "field" in condition
    keys = ("operator", "value" if of_field else "conditions")
    if missing := [key for key in keys if key not in condition]:
        raise FilterInputError(f"{at} has no key {missing[0]!r}: {short(dict(condition))}")
    operator, value = (condition[key] for key in keys)
    if operator not in (allowed := _OPERATORS if of_field else _LOGIC):
        raise FilterInputError(f"{at} has the operator {short(operator)}; allowed operators are {allowed}")
    if operator in (*_LOGIC, "in", "not in") and not isinstance(value, list if of_field else (list, tuple)):
        raise FilterInputError(f"{at}[{keys[1]!r}] must be a list for {operator!r}, not {short(value)}")
    if of_field:
        return _comparison(_path(condition["field"], at), operator, value, at)
    inside = [_where(part, f"{at}['conditions'][{place}]", depth + 1) for place, part in enumerate(value)]
    if not inside:
        return {} if operator == "AND" else dict(_NOTHING)
    return {"$not": {"$and": inside}} if operator == "NOT" else {f"${operator.lower()}": inside}


def _comparison(path: str, operator: str, value: Any, at: str) -> dict[str, Any]:
    """Compare a field: None stands for a missing one, a date is found however it is written."""
    if operator in _ORDER:
        if isinstance(value, str) and instant(value) is None:
            raise FilterInputError(
                f"{at} has the value {short(value)} for {operator!r}; give a number, or a date in ISO 8601"
            )
        return dict(_NOTHING) if value is None else {path: {_ORDER[operator]: value}}  # nothing is more than None
    values = value if operator in ("in", "not in") else [value]
    parts: list[dict[str, Any]] = []
    plain = []
    for each in values:
        if each is None:
            parts.append({path: None})
        elif path != semclass_filters.ID and isinstance(each, str) and instant(each) is not None:
            parts.append({path: {"$gte": each, "$lte": each}})
        else:
            plain.append(each)
    parts += [{path: {"$in": plain}}] if plain else []
    found = {"$or": parts} if parts else dict(_NOTHING)
    return found if operator in ("==", "in") else {"$not": found}


def _path(field: object, at: str) -> str:
    """Give the path of a field in a passage's metadata."""
    if not isinstance(field, str) or not field:
        raise FilterInputError(f"{at} has the field {short(field)}; give a name such as 'meta.page'")
    if field == "id":
        return semclass_filters.ID
    path = field.removeprefix("meta.")
    not_meta = path == field and field.partition(".")[0] in ("meta", *_NOT_PASSAGES)
    if not_meta or path == semclass_filters.ID or path.startswith("$"):
        raise FilterInputError(f"{at} has the field {field!r}; allowed are fields of meta, and id")
    return path
