"""The filters of :mod:`semclass.index.filters`, described for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semclass.index.columns import MAX_TEXT_LENGTH
from semclass.index.filters import ID
from semclass_serve.answers import invalid

_NAME = r"^([^$_]|_$|_[^i]|_i$|_i[^d]|_id[\s\S])"
"""Names of fields: any but those of operators, which start with a dollar, and :data:`semclass.index.filters.ID`."""

_BOUNDS = ("$gt", "$gte", "$lt", "$lte")

_TEXT = {"type": "string", "maxLength": MAX_TEXT_LENGTH}

_VALUE = {"anyOf": [_TEXT, {"type": "number"}, {"type": "boolean"}]}


MOST_CONDITIONS = 500
"""Operators and fields of a filter: each looks at all passages."""

MOST_VALUES = 10_000
"""Values that these name."""


def check_filter(where: Mapping[str, Any]) -> None:
    """Refuse a filter that would hold up a search for long; what it says is checked when it is read."""
    conditions, values, rest = 0, 0, [where]
    while rest:
        part: Any = rest.pop()
        if isinstance(part, Mapping):
            conditions += len(part)
            rest.extend(part.values())
        elif isinstance(part, list):
            rest.extend(part)
        else:
            values += 1
    if conditions > MOST_CONDITIONS or values > MOST_VALUES:
        raise invalid(
            f"where has {conditions} conditions and {values} values; at most {MOST_CONDITIONS} and {MOST_VALUES} are "
            "allowed in one request"
        )


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _operators(allowed: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping of at least one operator."""
    return {"type": "object", "minProperties": 1, "additionalProperties": False, "properties": dict(allowed)}


def _of_field(bound: Mapping[str, Any]) -> dict[str, Any]:
    """Operators of a field, with bounds of one type, one at each end."""
    operators = {
        **{name: {"anyOf": [_VALUE, {"type": "null"}]} for name in ("$eq", "$ne")},
        **dict.fromkeys(_BOUNDS, bound),
        **{name: {"type": "array", "items": _VALUE} for name in ("$in", "$nin")},
        "$exists": {"type": "boolean"},
        "$not": _ref("FieldFilter"),
    }
    twice = [{"required": ["$gt", "$gte"]}, {"required": ["$lt", "$lte"]}]
    return {**_operators(operators), "not": {"anyOf": twice}}


def _of_id() -> dict[str, Any]:
    """Operators of an id."""
    operators = {
        **dict.fromkeys(("$eq", "$ne"), _TEXT),
        **{name: {"type": "array", "items": _TEXT} for name in ("$in", "$nin")},
        "$not": _ref("IdFilter"),
    }
    return _operators(operators)


FILTERS: dict[str, dict[str, Any]] = {
    "Filter": {
        "description": "Conditions on the metadata of passages; all must hold. At most 50 levels may be "
        f"nested, with at most {MOST_CONDITIONS} fields and operators and {MOST_VALUES} values.",
        "type": "object",
        "properties": {
            **{name: {"type": "array", "minItems": 1, "items": _ref("Filter")} for name in ("$and", "$or")},
            "$not": _ref("Filter"),
            ID: _ref("IdFilter"),
        },
        "patternProperties": {_NAME: _ref("FieldFilter")},
        "additionalProperties": False,
    },
    "FieldFilter": {
        "description": "Condition on a field: a value, null for a missing field, or operators. Two bounds "
        "must have the same type: numbers, dates or other texts.",
        "anyOf": [_VALUE, {"type": "null"}, _of_field({"type": "number"}), _of_field(_TEXT)],
    },
    "IdFilter": {"description": "Condition on a passage's id.", "anyOf": [_TEXT, _of_id()]},
}
"""JSON schemas by name, for the document's ``components``."""

FILTER = {"$comment": "Filter"}
"""Stands for the schema of that name: pydantic follows references, and knows only those to its own models."""
