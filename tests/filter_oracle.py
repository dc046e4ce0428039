"""The meaning of a filter for one passage, by its metadata: tests compare columns and other engines with it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.index.columns import Columns, instant, is_scalar, key_text
from semclass.index.filters import ID, Filter, mask

COMPARE = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def matches(condition: Filter, metadata: Mapping[str, Any], id: str | None = None) -> bool:  # noqa: A002
    """Whether a passage with some metadata, and perhaps an id, matches."""
    if condition.operator in ("and", "or", "not"):
        parts = [matches(part, metadata, id) for part in condition.operands]
        return all(parts) if condition.operator == "and" else any(parts) ^ (condition.operator == "not")
    if condition.path == ID:
        return id in condition.operands
    return any(_meets(condition, value) for value in _values(metadata, condition.path))


def _meets(condition: Filter, value: Any) -> bool:
    kind = condition.operator
    if kind == "exists":
        return True
    if not isinstance(value, (str, int, float)) or not is_scalar(value):
        return False
    if kind == "in":
        # true is no number here, but Python takes it for 1
        return any(isinstance(value, bool) == isinstance(each, bool) and value == each for each in condition.operands)
    if isinstance(value, bool) or isinstance(value, str) != (kind != "number"):
        return False
    own = instant(value) if kind == "time" else value
    return own is not None and all(COMPARE[name](own, bound) for name, bound in condition.operands)


def _values(metadata: Mapping[Any, Any], path: str) -> Iterator[Any]:
    """The values at a path: one value, or the elements of a list."""
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
