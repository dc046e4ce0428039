"""Columns of Arrow: texts out of them, and results into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from semclass.core.errors import import_extra

EXTRA = "spark"

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = import_extra("pyarrow", EXTRA)


def holds_strings(kind: pa.DataType) -> bool:
    """Whether a column may hold texts; one of nulls alone may."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        check(kind)
        for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    )


def texts_of(column: pa.Array) -> list[Any]:
    """Texts of a column: strings, None for nulls, and bytes where a text is not valid UTF-8."""
    try:
        texts: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # Spark and Parquet let any bytes pass as a string
        return [_decoded(item) for item in column.cast(pa.large_binary()).to_pylist()]
    return texts


def fault_of(text: str | bytes | None, name: str) -> str | None:
    """What is wrong with a text of a column; None if nothing is."""
    if text is None:
        return f"{name} is null"
    if isinstance(text, bytes):
        return f"{name} is not valid UTF-8"
    return None if text.strip() else f"{name} is empty"


def _decoded(item: bytes | None) -> str | bytes | None:
    """A text of its bytes; the bytes where they are none."""
    try:
        return None if item is None else item.decode()
    except UnicodeDecodeError:
        return item


def array_of(values: Any, rows: list[int], count: int, kind: str) -> pa.Array:
    """An Arrow array of `count` values: those of `rows` as given, the others null."""
    if isinstance(values, np.ndarray):
        lengths = np.zeros(count, np.int32)
        lengths[rows] = values.shape[1]
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        return pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(values.ravel()), type=arrow_type(kind), mask=pa.array(lengths == 0)
        )
    spread: list[Any] = [None] * count
    for row, value in zip(rows, values, strict=True):
        spread[row] = value
    return pa.array(spread, arrow_type(kind))


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a type in Spark's words."""
    found: pa.DataType = {
        "string": pa.string(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "array<string>": pa.list_(pa.string()),
        "array<float>": pa.list_(pa.float32()),
        "map<string,double>": pa.map_(pa.string(), pa.float64()),
    }[kind]
    return found
