"""A model is opened from verified bytes alone: one with arrays in other files is refused."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import MODELS
from hypothesis import given
from hypothesis import strategies as st

from semclass import ArtifactError
from semclass.core import artifacts
from semclass.core.onnx_sessions import check_complete, open_session


def graph_of(tensor, place):
    """A model that adds an array to its input; where it keeps the array is for the caller to choose."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in ("x", "probabilities")]
    constant = onnx.helper.make_node("Constant", [], ["w"], value=tensor)
    add = onnx.helper.make_node("Add", ["x", "w"], ["probabilities"])
    if place == "initializer":
        graph = onnx.helper.make_graph([add], "made", ends[:1], ends[1:], [tensor])
    elif place == "attribute":
        graph = onnx.helper.make_graph([constant, add], "made", ends[:1], ends[1:])
    elif place == "branch":
        token_encoder = onnx.helper.make_graph(
            [constant], "inner", [], [onnx.helper.make_tensor_value_info("w", 1, [4])]
        )
        yes = onnx.helper.make_tensor("yes", onnx.TensorProto.BOOL, [], [True])
        either = onnx.helper.make_node("If", ["yes"], ["w"], then_branch=token_encoder, else_branch=token_encoder)
        graph = onnx.helper.make_graph([either, add], "made", ends[:1], ends[1:], [yes])
    else:
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Own", ["x"], ["probabilities"], domain="own")], "made", *(ends[:1], ends[1:])
        )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]
    functions = [onnx.helper.make_function("own", "Own", ["x"], ["probabilities"], [constant, add], opsets[:1])]
    return onnx.helper.make_model(
        graph, opset_imports=opsets, functions=functions if place == "function" else [], ir_version=9
    )


PLACES = ("initializer", "attribute", "branch", "function")


def elsewhere(location="w.bin"):
    tensor = onnx.TensorProto(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


@pytest.mark.parametrize("place", PLACES)
def test_a_model_with_all_its_arrays_inside_is_not_refused(place, tmp_path):
    inside = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4], np.ones(4))
    model = graph_of(inside, place).SerializeToString()
    check_complete(model, tmp_path)
    artifacts.save(tmp_path, "head", {"model.onnx": model}, {})
    session = open_session(artifacts.load(tmp_path, "head"), "model.onnx", 1)
    assert session.run(None, {"x": np.zeros(4, np.float32)})[0].tolist() == [1, 1, 1, 1]


def test_the_shipped_models_are_complete():
    paths = sorted(MODELS.rglob("*.onnx"))
    assert len(paths) == 8
    for path in paths:
        check_complete(path.read_bytes(), path)


@given(st.binary(max_size=200), st.integers(0, 200), st.sampled_from(PLACES))
def test_whatever_bytes_a_model_has_it_is_refused_or_onnxruntimes_to_judge(data, cut, place):
    model = graph_of(onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4], np.ones(4)), place).SerializeToString()
    for made in (data, model[:cut] + data + model[cut:], model[:cut]):
        with contextlib.suppress(ArtifactError):
            check_complete(made, MODELS)


def test_graphs_within_graphs_are_looked_into_to_a_depth():
    def field(number, data):
        length = len(data)
        digits = [length >> shift & 127 for shift in range(0, max(length.bit_length(), 1), 7)]
        return bytes([number << 3 | 2, *(digit | 128 for digit in digits[:-1]), digits[-1]]) + data

    graph = b""
    for _ in range(10_000):
        graph = field(1, field(5, field(6, graph)))
    with pytest.raises(ArtifactError, match="graphs within graphs"):
        check_complete(field(7, graph), MODELS)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", ["w.bin", "../w.bin", "/etc/hostname", "*/_ORT_MEM_ADDR_/*"])
def test_a_model_with_arrays_in_other_files_is_refused(tmp_path, place, location):
    artifacts.save(tmp_path, "head", {"model.onnx": graph_of(elsewhere(location), place).SerializeToString()}, {})
    with pytest.raises(ArtifactError, match=r"model\.onnx has arrays in other files"):
        open_session(artifacts.load(tmp_path, "head"), "model.onnx", 1)


def test_a_model_in_onnxruntimes_own_format_is_refused(tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "own.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    model = str(MODELS / "passages" / "model.onnx")
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    artifacts.save(tmp_path, "head", {"model.onnx": (tmp_path / "own.ort").read_bytes()}, {})
    with pytest.raises(ArtifactError, match="no ONNX model"):
        open_session(artifacts.load(tmp_path, "head"), "model.onnx", 1)
