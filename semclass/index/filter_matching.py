"""Which passages match a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.types import IntArray
from semclass.index.columns import NO_TIME, Column, Columns
from semclass.index.filters import Among, And, Exists, Filter, Ids, Not, Or, Range

BoolArray: TypeAlias = npt.NDArray[np.bool_]


def mask(condition: Filter, columns: Columns, find: Callable[[Sequence[str]], IntArray]) -> BoolArray:
    """Which of n passages match, bool of shape (n,); `find` gives the rows of some ids, -1 for an unknown one."""
    if isinstance(condition, (And, Or)):
        found = np.full(len(columns), isinstance(condition, And))
        for part in condition.parts:
            other = mask(part, columns, find)
            found = found & other if isinstance(condition, And) else found | other
        return found
    if isinstance(condition, Not):
        return ~mask(condition.part, columns, find)
    if isinstance(condition, Ids):
        rows = find(condition.ids)
        found = np.zeros(len(columns), bool)
        found[rows[rows >= 0]] = True
        return found
    column = columns.fields.get(condition.path)
    if column is None:
        return np.zeros(len(columns), bool)
    return column.have(_accepted(condition, column), len(columns))


def _accepted(condition: Among | Range | Exists, column: Column) -> BoolArray:
    """Which codes of a column match, bool of shape (number of codes,)."""
    accepted = np.zeros(column.starts[3], bool)
    if isinstance(condition, Exists):
        accepted[1:] = True
    elif isinstance(condition, Among):
        accepted[column.codes_of(condition.values)] = True
    elif condition.kind == "time":
        if len(column.times):
            times = column.times
            found = times != NO_TIME
            if condition.low is not None:
                found &= times > condition.low if condition.low_open else times >= condition.low
            if condition.high is not None:
                found &= times < condition.high if condition.high_open else times <= condition.high
            accepted[column.starts[2] :] = found
    else:
        for begin, end in column.spans(condition.low, condition.high, condition.low_open, condition.high_open):
            accepted[begin:end] = True
    return accepted
