"""Haystack's filters in the language of :mod:`semclass.index.filters`."""

# ruff: noqa: E402 - import_extra says how Haystack is installed, before it is imported

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError, SemclassError, import_extra
from semclass.index import filters as semclass_filters
from semclass.index.metadata import instant

import_extra("haystack", "haystack")

from haystack.errors import FilterError


class FilterInputError(InputError, FilterError):
    """A filter that is malformed, or that an index cannot apply."""


def to_where(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Write a filter of Haystack in the language of :mod:`semclass.index.filters`.

    Fields are those of ``meta`` (``"meta.page"``, or ``"page"``) and ``"id"``; a passage has no other. What is found is
    what would be found among Haystack's documents, but for this: a list in ``meta`` matches by one of its elements, and an
    empty one counts as missing; 1 is not equal to ``True``; a value of another type than the one it is compared with does
    not match, and is no error; and a time without a zone is UTC.

    Parameters
    ----------
    filters
        ``{"field": ..., "operator": ..., "value": ...}`` with one of ``== != > >= < <= in`` and ``not in``, or
        ``{"operator": ..., "conditions": [...]}`` with ``AND``, ``OR`` or ``NOT``, which holds where not all conditions do.

    Returns
    -------
    dict
        For :meth:`semclass.HybridRetriever.search`.

    Raises
    ------
    FilterInputError
        Naming what is malformed, or cannot be said.

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
_COMPARISONS = ("==", "!=", *_ORDER, "in", "not in")
_LOGIC = ("AND", "OR", "NOT")
_NOTHING: dict[str, Any] = {"$not": {}}
_NOT_PASSAGES = ("content", "blob", "score", "embedding", "sparse_embedding")


def _where(condition: object, at: str, depth: int) -> dict[str, Any]:
    """Write one condition."""
    if not isinstance(condition, Mapping):
        raise FilterInputError(f"{at} must be a mapping, not {short(condition)}")
    if depth > _DEPTH:
        raise FilterInputError(f"the filter is nested more than {_DEPTH} deep; write it flatter")
    if "field" in condition:
        return _comparison(condition, at)
    operator = _part(condition, "operator", at)
    parts = _part(condition, "conditions", at)
    if operator not in _LOGIC:
        raise FilterInputError(f"{at} has the operator {short(operator)}; between conditions it is one of {_LOGIC}")
    if not isinstance(parts, (list, tuple)):
        raise FilterInputError(f"{at}['conditions'] must be a list, not {short(parts)}")
    inside = [_where(part, f"{at}['conditions'][{place}]", depth + 1) for place, part in enumerate(parts)]
    if not inside:
        return {} if operator == "AND" else dict(_NOTHING)
    return {"$not": {"$and": inside}} if operator == "NOT" else {f"${operator.lower()}": inside}


def _comparison(condition: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Write what is asked of one field."""
    path = _path(condition["field"], at)
    operator = _part(condition, "operator", at)
    value = _part(condition, "value", at)
    if operator in _ORDER:
        return _ordered(path, operator, value, at)
    if operator not in _COMPARISONS:
        raise FilterInputError(f"{at} has the operator {short(operator)}; for a field it is one of {_COMPARISONS}")
    many = operator in ("in", "not in")
    if many and not isinstance(value, list):
        raise FilterInputError(f"{at}['value'] must be a list for {operator!r}, not {short(value)}")
    found = _among(path, value if many else [value], at)
    return found if operator in ("==", "in") else {"$not": found}


def _ordered(path: str, operator: str, value: Any, at: str) -> dict[str, Any]:
    """Write a bound; nothing is more or less than None."""
    if isinstance(value, str) and not _is_date(value):
        raise FilterInputError(
            f"{at} has the value {short(value)} for {operator!r}; of texts only dates in ISO 8601 have an order"
        )
    return dict(_NOTHING) if value is None else {path: {_ORDER[operator]: value}}


def _among(path: str, values: Sequence[Any], at: str) -> dict[str, Any]:
    """Write that a field has one of some values: None for a missing one, a date however it is written."""
    nested = [value for value in values if isinstance(value, (list, tuple, dict, set))]
    if nested:
        raise FilterInputError(
            f"{at} compares with {short(nested[0])}; a field is compared with one value, and with several by 'in'"
        )
    dates = [each for each in values if path != semclass_filters.ID and isinstance(each, str) and _is_date(each)]
    plain = [each for each in values if each is not None and not (isinstance(each, str) and each in dates)]
    parts: list[dict[str, Any]] = [{path: {"$gte": each, "$lte": each}} for each in dates]
    parts += [{path: {"$in": plain}}] if plain else []
    parts += [{path: None}] if any(each is None for each in values) else []
    return parts[0] if len(parts) == 1 else {"$or": parts} if parts else dict(_NOTHING)


def _is_date(text: str) -> bool:
    return instant(text) is not None


def _path(field: object, at: str) -> str:
    """Give the path of a field in a passage's metadata."""
    if not isinstance(field, str) or not field:
        raise FilterInputError(f"{at} has the field {short(field)}; a field is a name such as 'meta.page'")
    if field == "id":
        return semclass_filters.ID
    path = field.removeprefix("meta.")
    if field == "meta" or (path == field and field.partition(".")[0] in _NOT_PASSAGES):
        raise FilterInputError(f"{at} has the field {field!r}; passages are found by fields of meta and by id alone")
    if path == semclass_filters.ID or path.startswith("$"):
        raise FilterInputError(f"{at} has the field {field!r}, a name that fields of an index cannot be asked for by")
    return path


def _part(condition: Mapping[str, Any], key: str, at: str) -> Any:
    if key not in condition:
        raise FilterInputError(f"{at} has no {key!r}: {short(dict(condition))}")
    return condition[key]
