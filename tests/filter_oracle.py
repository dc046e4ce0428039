"""What a filter means for one passage, read off its metadata: what tests compare columns and other engines with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.index.columns import Columns, instant, is_scalar, key_text, number
from semclass.index.filters import Among, And, Exists, Filter, Ids, Not, Or, Range, mask


def matches(condition: Filter, metadata: Mapping[str, Any], id: str | None = None) -> bool:  # noqa: A002
    """Whether a passage with some metadata, and perhaps an id, matches."""
    if isinstance(condition, And):
        return all(matches(part, metadata, id) for part in condition.parts)
    if isinstance(condition, Or):
        return any(matches(part, metadata, id) for part in condition.parts)
    if isinstance(condition, Not):
        return not matches(condition.part, metadata, id)
    if isinstance(condition, Ids):
        return id in condition.ids
    return any(_meets(condition, value) for value in _values(metadata, condition.path))


def _meets(condition: Among | Range | Exists, value: object) -> bool:
    if isinstance(condition, Exists):
        return True
    if not isinstance(value, (str, int, float)) or not is_scalar(value):
        return False
    if isinstance(condition, Among):
        # true is no number here, but Python takes it for 1
        return any(isinstance(value, bool) == isinstance(each, bool) and value == each for each in condition.values)
    if isinstance(value, bool) or isinstance(value, str) != (condition.kind != "number"):
        return False
    if isinstance(value, str):
        time = instant(value) if condition.kind == "time" else value
        return time is not None and _within(condition, time)
    return _within(condition, number(value))


def _within(condition: Range, value: Any) -> bool:
    above = condition.low is None or (value > condition.low if condition.low_open else value >= condition.low)
    below = condition.high is None or (value < condition.high if condition.high_open else value <= condition.high)
    return above and below


def _values(metadata: Mapping[Any, Any], path: str) -> Iterator[Any]:
    """What a path leads to: a value, or the elements of a list."""
    for key, value in metadata.items():
        name = key_text(key)
        if value is None or not path.startswith(name):
            continue
        items = value if isinstance(value, (list, tuple)) else [value]
        if path == name:
            yield from items
        elif path[len(name)] == ".":
            for item in items:
                if isinstance(item, dict):
                    yield from _values(item, path[len(name) + 1 :])


def mask_without_ids(condition: Filter, columns: Columns) -> npt.NDArray[np.bool_]:
    """Which passages match a filter that asks for no ids."""
    return mask(condition, columns, lambda ids: np.full(len(ids), -1, np.int64))
