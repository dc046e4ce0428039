"""The filters of :mod:`semclass.filters`, described for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semclass.columns import LONGEST
from semclass.filters import ID

_NAME = r"^([^$_]|_$|_[^i]|_i$|_i[^d]|_id[\s\S])"
"""Names of fields: any but those of operators, which start with a dollar, and :data:`semclass.filters.ID`."""

_BOUNDS = ("$gt", "$gte", "$lt", "$lte")

_TEXT = {"type": "string", "maxLength": LONGEST}

_VALUE = {"anyOf": [_TEXT, {"type": "number"}, {"type": "boolean"}]}


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
        "description": "Which passages may be found, by their metadata: all conditions hold. At most 50 are nested.",
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
        "description": "What is asked of a field: a value, null for a field that is missing, or operators. Two bounds "
        "are of one type: numbers, dates or other texts.",
        "anyOf": [_VALUE, {"type": "null"}, _of_field({"type": "number"}), _of_field(_TEXT)],
    },
    "IdFilter": {"description": "What is asked of a passage's id.", "anyOf": [_TEXT, _of_id()]},
}
"""JSON schemas by name, for the document's ``components``."""

FILTER = {"$comment": "Filter"}
"""Stands for the schema of that name: pydantic follows references, and knows only those to its own models."""
