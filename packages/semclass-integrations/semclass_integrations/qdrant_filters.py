"""Translates filters of semclass to filters of Qdrant that select the same passages."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

from semclass import InputError
from semclass.plugins import ID, Filter, import_extra, short

MAX_PATH_PARTS = 4  # of a path in a filter
MAX_EXACT = 2**53  # whole numbers below it are exact as floats
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def requests() -> Any:
    """Return the client's module of requests."""
    return import_extra("qdrant_client.models", "qdrant", "semclass-integrations")


def point_id(name: str) -> int:
    """Return the number of the point that holds a passage: 63 bits of a hash of its id.

    The probability that two passages share a number is 5e-8 among a million passages, and 5e-4 among a hundred
    million. :meth:`QdrantIndex.add` refuses the second passage; within one upload, it would replace the first.
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def to_qdrant(condition: Filter) -> Any:
    """Translate a filter. Raises an InputError if Qdrant cannot apply it.

    Qdrant compares only whole numbers for equality, so an equality becomes an interval. Qdrant reads a dot in a key as
    nesting, and searches lists of objects only if the path marks them. So a dotted path becomes a condition for each
    of its readings.
    """
    return requests().Filter(must=[_condition(condition)])


def _condition(condition: Filter) -> Any:
    models, operator, operands = requests(), condition.operator, condition.operands
    if operator in ("and", "or", "not"):
        parts = [_condition(part) for part in operands]
        join = {"and": "must", "not": "must_not"}.get(operator)
        return models.Filter(**{join: parts}) if join else _any(parts)
    if condition.path == ID:
        return models.HasIdCondition(has_id=[point_id(name) for name in operands])
    paths = _paths(condition.path)
    if operator == "exists":
        missing = [models.IsEmptyCondition(is_empty=models.PayloadField(key=path)) for path in paths]
        return models.Filter(must_not=[models.Filter(must=missing)])
    tests = _among(condition) if operator == "in" else [_range(condition)]
    return _any([models.FieldCondition(key=path, **test) for path in paths for test in tests])


def _any(conditions: list[Any]) -> Any:
    """Match if at least one condition matches. Qdrant would match everything without conditions."""
    models = requests()
    return models.Filter(should=conditions) if conditions else models.HasIdCondition(has_id=[])


def _among(condition: Filter) -> list[dict[str, Any]]:
    models = requests()
    texts = [value for value in condition.operands if isinstance(value, str)]
    tests: list[dict[str, Any]] = [{"match": models.MatchAny(any=texts)}] if texts else []
    for value in condition.operands:
        if isinstance(value, bool):
            tests.append({"match": models.MatchValue(value=value)})
        elif not isinstance(value, str):
            number = _number(value, condition.path)
            tests.append({"range": models.Range(gte=number, lte=number)})
    return tests


def _range(condition: Filter) -> dict[str, Any]:
    if condition.operator == "text":
        raise InputError(
            f"the filter on {condition.path!r} compares the order of texts ({short(condition.operands[0][1])}); Qdrant "
            "orders only numbers and dates"
        )
    is_time = condition.operator == "time"
    read = _moment if is_time else _number
    ends = {name[1:]: read(bound, condition.path) for name, bound in condition.operands}
    return {"range": (requests().DatetimeRange if is_time else requests().Range)(**ends)}


def _number(value: float, path: str) -> float:
    if abs(value) >= MAX_EXACT:
        raise InputError(f"the filter on {path!r} has the number {value}; Qdrant needs numbers below 2**53")
    return value


def _moment(value: int, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError as error:
        raise InputError(f"the filter on {path!r} has a date outside the years 1 to 9999 in UTC") from error


def _paths(path: str) -> list[str]:
    """Return all readings of a path. A dot may lead to a nested object or to the objects of a list, or be part of a key."""
    parts = path.split(".")
    if len(parts) > MAX_PATH_PARTS or not all(parts) or '"' in path:
        raise InputError(
            f"Qdrant cannot filter on the field {path!r}; a name may have at most {MAX_PATH_PARTS} parts between dots, and "
            "a part may not be empty or contain quotation marks"
        )
    first, *others = parts
    readings = product(('"."', '"[]."', "."), repeat=len(others))
    return [
        f'metadata."{first}' + "".join(joint + part for joint, part in zip(joints, others, strict=True)) + '"'
        for joints in readings
    ]
