"""Columns of metadata in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import dump_json, parse_json
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY, Files
from semclass.index.columns import Column, Columns

VALUES, DIRECTORY = "columns.npy", "columns.json"
"""The two files of saved columns: all arrays one after another, and where each of them is."""

_ALIGNMENT = 64
_ARRAYS = ("codes", "rows", "integers", "floats", "strings", "offsets", "times")
_UNSIGNED = ("|u1", "<u2", "<u4", "<u8")
_DTYPES = {"integers": ("<i8",), "floats": ("<f8",), "strings": ("|u1",), "offsets": ("<i8",), "times": ("<i8",)}


def save(columns: Columns, folder: Path) -> None:
    """Write columns as two files, `VALUES` and `DIRECTORY`, without flushing them to the disk."""
    directory: dict[str, dict[str, list[Any]]] = {}
    end = 0
    for path, column in columns.fields.items():
        directory[path] = {}
        for name in _ARRAYS:
            values = getattr(column, name)
            directory[path][name] = [values.dtype.str, end, len(values)]
            end += _padded(values.nbytes)
    with (folder / VALUES).open("wb") as file:
        # not through a memory map: a full disk would end the process and not raise an error
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (end,)})
        for column in columns.fields.values():
            for name in _ARRAYS:
                values = getattr(column, name)
                file.write(values.data)
                file.write(bytes(_padded(values.nbytes) - values.nbytes))
    (folder / DIRECTORY).write_bytes(dump_json({"passages": len(columns), "bytes": end, "fields": directory}))


def load(files: Files) -> Columns:
    """Read saved columns; an ArtifactError if the two files do not belong together."""
    path = files.folder / DIRECTORY
    directory, whole = parse_json(files.data(DIRECTORY), path, REMEDY), files.array(VALUES)
    try:
        if whole.dtype != np.uint8 or whole.shape != (directory["bytes"],):
            raise ValueError(f"{whole.dtype} of shape {whole.shape} where {directory['bytes']} bytes belong")
        fields = {
            name: Column(**{kind: _view(whole, kind, *arrays[kind]) for kind in _ARRAYS})
            for name, arrays in directory["fields"].items()
        }
        passages = directory["passages"]
        if not isinstance(passages, int) or passages < 0:
            raise ValueError(f"metadata of {passages} passages")
        return Columns(passages, fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path} does not fit {VALUES} ({error}); {REMEDY}") from error


def _view(whole: npt.NDArray[np.uint8], kind: str, dtype: str, begin: int, length: int) -> npt.NDArray[Any]:
    if dtype not in _DTYPES.get(kind, _UNSIGNED):
        raise ValueError(f"{kind} of type {dtype}")
    numbers, end = np.dtype(dtype), len(whole)
    if not (0 <= begin <= end and begin % _ALIGNMENT == 0 and 0 <= length <= (end - begin) // numbers.itemsize):
        raise ValueError(f"{length} numbers at byte {begin} of {end}")
    return whole[begin : begin + length * numbers.itemsize].view(numbers)


def check(columns: Columns) -> None:
    """Raise a ValueError where filters would read beyond an array."""
    for path, column in columns.fields.items():
        rows, offsets = column.rows, column.offsets
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(column.strings) or (np.diff(offsets) < 0).any():
            raise ValueError(f"the string offsets of {path!r} do not match its text")
        if int(column.codes.max(initial=0)) >= column.starts[3]:
            raise ValueError(f"a code of {path!r} has no value")
        if len(column.times) not in (0, len(offsets) - 1):
            raise ValueError(f"{path!r} has {len(column.times)} times for {len(offsets) - 1} strings")
        if len(rows) == 0 and len(column.codes) not in (0, len(columns)):
            raise ValueError(f"{path!r} has {len(column.codes)} codes for {len(columns)} passages")
        if len(rows) and (len(rows) != len(column.codes) or rows[-1] >= len(columns) or (rows[1:] < rows[:-1]).any()):
            raise ValueError(f"the codes of {path!r} do not match the passages")


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
