"""ONNX graphs: open them, read their tensors, and find the ranges of their values on calibration texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from command import Array
from semclass.encoders.onnx_encoder import PASSAGE, QUESTION

Reader = Callable[[Sequence[int]], Array]  # from the token ids of a text to one of its tensors

CONTRIB = "com.microsoft"
OPSETS = {"": 18, CONTRIB: 1}
IR_VERSION = 8  # version of the format, that onnxruntime has read since 2022


@dataclass(frozen=True)
class ActivationRange:
    """Extremes of each channel of a matrix product's input that calibration saw, float32 (channels,)."""

    low: Array
    high: Array


Ranges = dict[str, ActivationRange]  # by the name of the input


def int8_model(
    write: Callable[[Ranges | None], tuple[onnx.ModelProto, list[str]]], feeds: Iterable[Mapping[str, Array]]
) -> bytes:
    """Write a graph in float32, find the ranges of its matrix-product inputs on `feeds`, write it in int8."""
    model, probes = write(None)
    model, _ = write(calibrate(model, probes, feeds))
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def open_model(model: onnx.ModelProto | bytes, threads: int = 0) -> onnxruntime.InferenceSession:
    """Open a model that is not on disk; 0 threads are one for each core."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def text_feed(ids: Sequence[int]) -> dict[str, Array]:
    batch = np.array([ids], np.int64)
    return {"input_ids": batch, "attention_mask": np.ones_like(batch)}


def reader_of(lower: onnx.ModelProto, upper: onnx.ModelProto, wanted: str, kept: Array | None = None) -> Reader:
    """A function from the token ids of a text to one tensor of an encoder's upper part; with `kept`, read as a passage.

    Of a passage, the upper part reads the pieces that `kept` tells, bool by id.
    """
    first, second = open_model(lower), open_model(with_outputs(upper, [wanted]))
    names = [item.name for item in second.get_inputs()]

    def read(ids: Sequence[int]) -> Array:
        (states,) = first.run(["states"], text_feed(ids))
        places = np.arange(len(ids)) if kept is None else np.flatnonzero(kept[ids])
        feed = packed_feed(states, places, QUESTION if kept is None else PASSAGE)
        given: Array = second.run(None, {name: feed[name] for name in names})[0]
        return given[0]

    return read


def packed_feed(states: Array, places: Array, kind: int) -> dict[str, Array]:
    """Inputs of the upper part for a text with states of shape (1, length, hidden): the pieces at some places."""
    mask = np.ones((1, len(places)), np.int64)
    return {"states": states[:, places], "attention_mask": mask, "kind": np.array(kind, np.int64)}


def calibrate(model: onnx.ModelProto, names: Sequence[str], feeds: Iterable[Mapping[str, Array]]) -> Ranges:
    """Find the extremes of each channel of some inputs or outputs of a float32 graph over runs.

    Rounded to three significant digits, so that processors that round float32 sums differently find the same.
    """
    session = open_model(model)
    low: dict[str, Array] = {}
    high: dict[str, Array] = {}
    for feed in feeds:
        wanted = [name for name in names if name not in feed]
        found = {**feed, **dict(zip(wanted, session.run(wanted, dict(feed)), strict=True))}
        for name in names:
            rows = found[name].reshape(-1, found[name].shape[-1])
            low[name] = np.minimum(low.get(name, np.inf), rows.min(axis=0))
            high[name] = np.maximum(high.get(name, -np.inf), rows.max(axis=0))
    return {name: ActivationRange(_rounded(low[name]), _rounded(high[name])) for name in names}


def _rounded(values: Array) -> Array:
    return np.array([float(f"{value:.3g}") for value in values], np.float32)


def with_outputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """A copy of a model whose outputs are some of its tensors."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.output[:]
    found.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    return found
