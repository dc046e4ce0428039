"""ONNX graphs: open them, cut them into parts, and find the ranges of their values on calibration texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper

Array = npt.NDArray[Any]
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


def reader_of(model: onnx.ModelProto, wanted: str) -> Reader:
    """A function from the token ids of a text to one tensor of an encoder graph, which is not changed."""
    inputs = list(model.graph.input)
    session = open_model(part(model, inputs, [helper.make_tensor_value_info(wanted, TensorProto.FLOAT, None)]))
    kind = {"kind": np.array(0, np.int64)} if any(item.name == "kind" for item in inputs) else {}
    return lambda ids: session.run(None, {**text_feed(ids), **kind})[0][0]


def passage_reader(model: onnx.ModelProto, wanted: str, shared: int, kind: int, kept: Array) -> Reader:
    """As :func:`reader_of`, for texts of which the layers above `shared` read only some pieces, `kept`, bool by id."""
    whole = with_outputs(model, [helper.make_tensor_value_info(wanted, TensorProto.FLOAT, None)])
    lower, upper = map(open_model, split(whole, shared))

    def read(ids: Sequence[int]) -> Array:
        (states,) = lower.run(None, text_feed(ids))
        given: Array = upper.run(None, packed_feed(states, np.flatnonzero(kept[ids]), kind))[0]
        return given[0]

    return read


def packed_feed(states: Array, places: Array, kind: int) -> dict[str, Array]:
    """What the upper part reads of a text, whose states are of shape (1, length, hidden): the pieces at some places."""
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


def split(model: onnx.ModelProto, layer: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Cut an encoder graph in two behind a layer: what gives its output as ``states``, and what goes on from there."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for node in whole.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == f"layer{layer}":
                    names[place] = "states"
    (gamma,) = (item for item in whole.graph.initializer if item.name == "embeddings.gamma")
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, ["batch", "length", gamma.dims[0]])
    inputs = {item.name: item for item in whole.graph.input}
    lower = part(whole, [inputs["input_ids"], inputs["attention_mask"]], [states])
    kind = [inputs["kind"]] if "kind" in inputs else []
    upper = part(whole, [states, inputs["attention_mask"], *kind], list(whole.graph.output))
    return lower, upper


def with_outputs(model: onnx.ModelProto, outputs: Iterable[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """A copy of a model with other outputs."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.output[:]
    found.graph.output.extend(outputs)
    return found


def probed(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """A part of a float32 graph with some tensors as further outputs."""
    there = {item.name for item in [*model.graph.input, *model.graph.output]}
    further = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names if name not in there]
    return with_outputs(model, [*model.graph.output, *further])


def part(
    model: onnx.ModelProto, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """Keep the nodes and constants that lie between some tensors and others."""
    known, needed, nodes = {item.name for item in inputs}, {item.name for item in outputs}, []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output) - known:
            nodes.append(node)
            needed.update(name for name in node.input if name)
    constants = [item for item in model.graph.initializer if item.name in needed]
    graph = helper.make_graph(nodes[::-1], model.graph.name, inputs, outputs, constants)
    kept = helper.make_model(graph, opset_imports=model.opset_import, producer_name=model.producer_name)
    kept.ir_version = model.ir_version
    return kept
