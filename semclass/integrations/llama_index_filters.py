"""LlamaIndex's metadata filters in the language of :mod:`semclass.index.filters`."""

# ruff: noqa: E402 - import_extra says how LlamaIndex is installed, before it is imported

from __future__ import annotations

from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError, InputTypeError, import_extra

import_extra("llama_index.core", "llama-index")

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters


def to_where(filters: MetadataFilters) -> dict[str, Any]:
    """Write LlamaIndex's metadata filters as semclass has them, see :mod:`semclass.index.filters`.

    Parameters
    ----------
    filters
        With any operators but ``text_match`` and ``text_match_insensitive``; nested ones are fine. ``any``, ``all`` and
        ``contains`` look at the elements of a list. ``not`` is true where none of its filters is.

    Returns
    -------
    dict
        What `where` of a search takes.

    Raises
    ------
    InputError
        If a filter cannot be said, or a key begins with ``$``.
    InputTypeError
        If `filters` are no ``MetadataFilters``.
    """
    if not isinstance(filters, MetadataFilters):
        raise InputTypeError(f"filters must be LlamaIndex MetadataFilters, not {short(filters)}")
    parts = [to_where(each) if isinstance(each, MetadataFilters) else _term(each) for each in filters.filters]
    if not parts:
        return {}
    if filters.condition in (None, FilterCondition.AND):
        return parts[0] if len(parts) == 1 else {"$and": parts}
    return {"$or": parts} if filters.condition == FilterCondition.OR else {"$not": {"$or": parts}}


_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.ANY: "$in",
    FilterOperator.CONTAINS: "$eq",
}


def _term(term: MetadataFilter) -> dict[str, Any]:
    key, value, operator = term.key, term.value, term.operator
    if not key or key.startswith("$"):
        raise InputError(f"a filter has the key {key!r}; keys must be names of fields, which do not begin with '$'")
    if operator == FilterOperator.IS_EMPTY:
        return {key: {"$exists": False}}
    if operator == FilterOperator.ALL:
        if not isinstance(value, list) or not value:
            raise InputError(f"the filter on {key!r} is {operator.value!r} of {short(value)}; give a list of values")
        return {"$and": [{key: {"$eq": each}} for each in value]}
    if operator not in _OPERATORS:
        raise InputError(
            f"the filter on {key!r} is {operator.value!r}, and texts are compared as a whole here; allowed are "
            f"{', '.join(repr(each.value) for each in (*_OPERATORS, FilterOperator.ALL, FilterOperator.IS_EMPTY))}"
        )
    return {key: {_OPERATORS[operator]: value}}
