"""The filters of semclass in the form that Qdrant takes, selecting the same passages.

Qdrant compares numbers for equality only as whole numbers, so an equality becomes an interval. It takes a dot in a key for
nesting and does not look into lists of objects unless a path says so, so a dotted path becomes the alternatives that it
stands for. A list of texts must not be empty. What cannot be translated is refused.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import product
from types import ModuleType
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.index.filters import Among, And, Exists, Filter, Ids, Not, Or, Range
from semclass.integrations.qdrant_collection import client_models, point_id

_SEGMENTS = 4
_EXACT = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_qdrant(condition: Filter) -> Any:
    """Translate a filter over the field ``metadata`` of payloads."""
    models = client_models()
    return models.Filter(must=[_condition(condition, models)])


def _condition(condition: Filter, models: ModuleType) -> Any:
    if isinstance(condition, And):
        return models.Filter(must=[_condition(part, models) for part in condition.parts])
    if isinstance(condition, Or):
        return _any(models, [_condition(part, models) for part in condition.parts])
    if isinstance(condition, Not):
        return models.Filter(must_not=[_condition(condition.part, models)])
    if isinstance(condition, Ids):
        return models.HasIdCondition(has_id=[point_id(name) for name in condition.ids])
    paths = _paths(condition.path)
    if isinstance(condition, Exists):
        missing = [models.IsEmptyCondition(is_empty=models.PayloadField(key=path)) for path in paths]
        return models.Filter(must_not=[models.Filter(must=missing)])
    tests = [_range(condition, models)] if isinstance(condition, Range) else _among(condition, models)
    return _any(models, [models.FieldCondition(key=path, **test) for path in paths for test in tests])


def _any(models: ModuleType, conditions: list[Any]) -> Any:
    """At least one of some conditions; none of no conditions, where Qdrant takes all."""
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
    read, kind = (_moment, models.DatetimeRange) if condition.kind == "time" else (_number, models.Range)
    ends = {
        "gt" if condition.low_open else "gte": condition.low,
        "lt" if condition.high_open else "lte": condition.high,
    }
    return {"range": kind(**{name: read(end, condition.path) for name, end in ends.items() if end is not None})}


def _number(value: float, path: str) -> float:
    if abs(value) >= _EXACT:
        raise InputError(f"the filter on {path!r} has the number {value}; Qdrant rounds numbers of 2**53 and more")
    return value


def _moment(value: int, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError as error:
        raise InputError(f"the filter on {path!r} has a date that is before the year 1 or after 9999 in UTC") from error


def _paths(path: str) -> list[str]:
    """All that a path may mean: each dot is of a nested object, of each object of a list, or part of a key."""
    segments = path.split(".")
    if len(segments) > _SEGMENTS or not all(segments) or '"' in path:
        raise InputError(
            f"Qdrant cannot filter on the field {path!r}: at most {_SEGMENTS} parts, none empty, no quotation marks"
        )
    first, *others = segments
    paths = []
    for joints in product(('"."', '"[]."', "."), repeat=len(others)):
        rest = "".join(joint + segment for joint, segment in zip(joints, others, strict=True))
        paths.append(f'metadata."{first}{rest}"')
    return paths
