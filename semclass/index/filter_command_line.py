"""Filters as they are written on a command line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.index.filters import parse, unknown_field
from semclass.index.metadata import instant

_TERM = re.compile(r"\s*([^=<>!]*[^=<>!\s])\s*(>=|<=|!=|==|=|>|<)\s*(.*?)\s*", re.DOTALL)

_SET = re.compile(r"\s*([^=<>!]*?[^=<>!\s])\s+(not\s+)?in\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_ITEM = r'\s*("(?:[^"\\]|\\.)*"|[^",\s](?:[^,]*[^,\s])?)\s*'
_ITEMS = re.compile(f"{_ITEM}(?:,{_ITEM})*")

_LAST = "\U0010ffff"
"""Comes after every other character."""

_TERM_OPERATORS = {"=": "$eq", "==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}


_OPERATORS = "=, !=, <, <=, >, >=, in, not in"


def read_terms(terms: Sequence[str], known: Collection[str] | None = None) -> dict[str, Any]:
    """Read filters as they are written on a command line; fields are among the known ones, if these are given."""
    filters = [_term(term) for term in terms]
    where = filters[0] if len(filters) == 1 else {"$and": filters} if filters else {}
    if known is not None and (message := unknown_field(parse(where), known)):
        raise InputError(message)
    return where


def _term(term: str) -> dict[str, Any]:
    if term.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(term)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the filter {short(term)} is not valid JSON ({error})") from error
        return found
    if (one_of := _SET.fullmatch(term)) is not None:
        path, negated, text = one_of.groups()
        if _ITEMS.fullmatch(text) is None:
            raise InputError(f'the filter {short(term)} must list values, such as customer in (Acme, "Smith, Ltd")')
        values = [_read_value(item) for item in re.findall(f"{_ITEM}(?:,|$)", text)]
        return {path: {"$nin" if negated else "$in": values}}
    parts = _TERM.fullmatch(term)
    if parts is None:
        raise InputError(
            f"the filter {short(term)} must be a comparison such as page>=3, document=a.md, lang!=de or lang in (de, en) "
            f"({_OPERATORS}), "
            'or JSON such as {"tags": {"$in": ["tax", "law"]}}'
        )
    path, operator, text = parts.groups()
    if text.startswith(("=", "<", ">", "!")):
        raise InputError(
            f"the filter {short(term)} has no known operator; operators are {_OPERATORS}; quote a text that begins "
            f'like an operator: {path}="{text}"'
        )
    if not text.strip() and operator not in ("=", "!="):
        raise InputError(f"the filter {short(term)} has no value; write a value after {operator}")
    if len(text) > 1 and text.endswith("*") and operator in ("=", "==", "!="):
        return _prefix(path, text[:-1], term, negated=operator == "!=")
    return {path: {_TERM_OPERATORS[operator]: _read_value(text)}}


def _prefix(path: str, text: str, term: str, *, negated: bool) -> dict[str, Any]:
    """Read what a text begins with."""
    if instant(text) is not None:
        raise InputError(f"the filter {short(term)} compares a date with a text; write a bound, such as {path}>={text}")
    found = {path: {"$gte": text, "$lt": text + _LAST}}
    return {"$not": found} if negated else found


def _read_value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    infinite = isinstance(value, float) and not math.isfinite(value)
    return text if infinite or isinstance(value, (list, dict)) else value
