"""Opening ONNX models: the one place that sets threads and other options of onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import onnxruntime

from semclass.core.artifacts import Artifact
from semclass.core.errors import ArtifactError

DEEPEST = 64
"""Deepest nesting of graphs that is looked into."""

# parts of a model that may hold arrays, by the numbers of their fields (onnx.proto, IR version 13)
_TENSOR: Final[dict[int, Any]] = {}
_SPARSE = {1: _TENSOR, 2: _TENSOR}
_ATTRIBUTE: dict[int, Any] = {5: _TENSOR, 10: _TENSOR, 22: _SPARSE, 23: _SPARSE}
_NODE = {5: _ATTRIBUTE}
_GRAPH = {1: _NODE, 5: _TENSOR, 15: _SPARSE}
_ATTRIBUTE |= {6: _GRAPH, 11: _GRAPH}
_MODEL = {7: _GRAPH, 20: {1: _GRAPH, 2: _GRAPH}, 25: {7: _NODE, 11: _ATTRIBUTE}}

EXTERNAL_DATA, DATA_LOCATION = 13, 14
"""Fields of a tensor: where its data is, if not in the model; and whether it is elsewhere."""


def session_options(threads: int, *, optimise: bool = True) -> onnxruntime.SessionOptions:
    """Options of every session, see :func:`open_session`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors reach the caller as exceptions
    # waiting threads that spin would take processor time from the rest of a service
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_ENABLE_BASIC
    return options


def open_session(artifact: Artifact, name: str, threads: int, *, optimise: bool = True) -> onnxruntime.InferenceSession:
    """Open a verified ONNX model of a folder on the CPU; many threads may share the session."""
    path, data = artifact.path(name), artifact.read(name)
    check_complete(data, path)
    options = session_options(threads, optimise=optimise)
    # not guessed from the content: what was looked through is what is opened
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises bare classes of its own for every cause
        raise ArtifactError(f"{path} cannot be opened by onnxruntime: {error}") from error
    session._model_bytes = b""  # it would keep them for a change of providers; they take as much memory as the model
    return session


def check_complete(model: bytes, path: Path) -> None:
    """Refuse a model with arrays in other files, which nobody verified; `path` is for messages."""
    data, parts = memoryview(model), [(0, len(model), _MODEL, 0)]
    while parts:
        begin, end, inside, depth = parts.pop()
        if depth > DEEPEST:
            raise ArtifactError(f"{path} is no model that is read here: it has graphs within graphs, {depth} deep")
        for number, value, first, last in _fields(data, begin, end, path):
            if inside is _TENSOR and (number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0)):
                raise ArtifactError(
                    f"{path} has arrays in other files, which nobody verified; save it with all its data inside "
                    "(onnx.save_model(..., save_as_external_data=False))"
                )
            if number in inside and value is None:
                parts.append((first, last, inside[number], depth + 1))


def _fields(data: memoryview, begin: int, end: int, path: Path) -> Iterator[tuple[int, int | None, int, int]]:
    """Each field of a message: its number, its value if that is a number, and where its bytes begin and end."""
    while begin < end:
        key, begin = _varint(data, begin, end, path)
        number, kind = key >> 3, key & 7
        value: int | None = None
        if kind == 0:
            value, last = _varint(data, begin, end, path)
        elif kind == 2:
            length, begin = _varint(data, begin, end, path)
            last = begin + length
        elif kind in _FIXED:
            value, last = -1, begin + _FIXED[kind]
        else:  # groups, which ONNX has none of
            last = end + 1
        if last > end:
            raise ArtifactError(f"{path} is no ONNX model: it is cut short, or something else")
        yield number, value, begin, last
        begin = last


_FIXED: Mapping[int, int] = {1: 8, 5: 4}
"""Bytes of a field of fixed size, by its kind."""


def _varint(data: memoryview, begin: int, end: int, path: Path) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place after it."""
    value = 0
    for place in range(begin, min(begin + 10, end)):
        value |= (data[place] & 127) << 7 * (place - begin)
        if data[place] < 128:
            return value, place + 1
    raise ArtifactError(f"{path} is no ONNX model: it is cut short, or something else")
