"""The filters of semclass in the form that Qdrant takes, selecting the same passages.

Where the two differ, the translation makes up for it: Qdrant compares numbers for equality only as whole numbers, so that
an equality becomes an interval; it does not look into lists of objects, and takes a dot in a key for nesting, unless a path
says so, so that a dotted path becomes the alternatives that it stands for; a list of texts must not be empty. What
cannot be made up for is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError, import_extra
from semclass.index.filters import ID, Among, And, Exists, Filter, Ids, Not, Or, Range

_SEGMENTS = 4
_EXACT = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_qdrant(condition: Filter, *, key: str = "metadata", point_id: Callable[[str], int | str] | None = None) -> Any:
    """Translate a filter."""
    models = import_extra("qdrant_client.models", "qdrant")
    return models.Filter(must=[_condition(condition, models, key, point_id)])


def _condition(condition: Filter, models: ModuleType, key: str, point_id: Callable[[str], int | str] | None) -> Any:
    inside = partial(_condition, models=models, key=key, point_id=point_id)
    if isinstance(condition, And):
        return models.Filter(must=[inside(part) for part in condition.parts])
    if isinstance(condition, Or):
        return _any(models, [inside(part) for part in condition.parts])
    if isinstance(condition, Not):
        return models.Filter(must_not=[inside(condition.part)])
    if isinstance(condition, Ids):
        if point_id is None:
            raise InputError(f"a filter on {ID!r} is not possible here")
        return models.HasIdCondition(has_id=[point_id(name) for name in condition.ids])
    paths = _paths(key, condition.path)
    if isinstance(condition, Exists):
        there = [models.IsEmptyCondition(is_empty=models.PayloadField(key=path)) for path in paths]
        return _any(models, [models.Filter(must_not=[empty]) for empty in there])
    tests = [_range(condition, models)] if isinstance(condition, Range) else _among(condition, models)
    return _any(models, [models.FieldCondition(key=path, **test) for path in paths for test in tests])


def _any(models: ModuleType, conditions: list[Any]) -> Any:
    """At least one of some conditions; none of no conditions, where Qdrant takes all."""
    if len(conditions) == 1:
        return conditions[0]
    return models.Filter(should=conditions) if conditions else models.HasIdCondition(has_id=[])


def _among(condition: Among, models: ModuleType) -> list[dict[str, Any]]:
    texts = [value for value in condition.values if isinstance(value, str)]
    tests: list[dict[str, Any]] = [{"match": models.MatchAny(any=texts)}] if texts else []
    for value in condition.values:
        if isinstance(value, bool):
            tests.append({"match": models.MatchValue(value=value)})
        elif not isinstance(value, str):
            number = _number(value, condition.path)
            tests.append({"range": models.Range(gte=number, lte=number)})
    return tests


def _range(condition: Range, models: ModuleType) -> dict[str, Any]:
    if condition.kind == "text":
        given = short(condition.high if condition.low is None else condition.low)
        raise InputError(
            f"the filter on {condition.path!r} puts texts in order ({given}); Qdrant orders numbers and dates only"
        )
    read = _moment if condition.kind == "time" else _number
    ends = {
        name: read(value, condition.path)
        for name, value in (
            ("gt" if condition.low_open else "gte", condition.low),
            ("lt" if condition.high_open else "lte", condition.high),
        )
        if value is not None
    }
    return {"range": models.DatetimeRange(**ends) if condition.kind == "time" else models.Range(**ends)}


def _number(value: float, path: str) -> float:
    if abs(value) >= _EXACT:
        raise InputError(f"the filter on {path!r} has the number {value}; Qdrant rounds numbers of 2**53 and more")
    return value


def _moment(value: int, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError as error:
        raise InputError(f"the filter on {path!r} has a date that is before the year 1 or after 9999 in UTC") from error


def _paths(key: str, path: str) -> list[str]:
    """Give all that a path may mean: each dot is of a nested object, of each object of a list, or part of a key."""
    segments = path.split(".")
    if len(segments) > _SEGMENTS or not all(segments) or '"' in path:
        raise InputError(
            f"Qdrant cannot filter on the field {path!r}: at most {_SEGMENTS} parts, none empty, no quotation marks"
        )
    paths = []
    for dots in product((".", "[].", None), repeat=len(segments) - 1):
        keys = [segments[0]]
        joints = []
        for dot, segment in zip(dots, segments[1:], strict=True):
            if dot is None:
                keys[-1] += "." + segment
            else:
                keys.append(segment)
                joints.append(dot)
        quoted = [f'"{name}"' for name in keys]
        paths.append(key + "." + "".join(name + joint for name, joint in zip(quoted, [*joints, ""], strict=True)))
    return paths
