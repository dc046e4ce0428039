"""A model is opened from verified bytes alone: one with arrays in other files is refused."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from world import MODELS

from semclass import ArtifactError
from semclass.core import artifacts
from semclass.core.artifacts import open_session


def opened(folder, model):
    artifacts.save(folder, "head", {"model.onnx": model}, {})
    return open_session(artifacts.load_artifact(folder, "head"), "model.onnx", 1)


def adding(tensor, place):
    """A model that adds an array to its input, and keeps the array in a named place."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in ("x", "probabilities")]
    add = onnx.helper.make_node("Add", ["x", "w"], ["probabilities"])
    constant = onnx.helper.make_node("Constant", [], ["w"], value=tensor)
    nodes, held = ([add], [tensor]) if place == "initializer" else ([constant, add], [])
    graph = onnx.helper.make_graph(nodes, "made", ends[:1], ends[1:], held)
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    return made.SerializeToString()


def test_a_model_with_all_its_arrays_inside_is_opened(tmp_path):
    inside = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4], np.ones(4))
    session = opened(tmp_path, adding(inside, "attribute"))
    assert session.run(None, {"x": np.zeros(4, np.float32)})[0].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("place", ["initializer", "attribute"])
@pytest.mark.parametrize("location", ["w.bin", "/etc/hostname", "*/_ORT_MEM_ADDR_/*"])
def test_a_model_with_arrays_in_other_files_is_refused(tmp_path, place, location):
    tensor = onnx.TensorProto(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    with pytest.raises(ArtifactError, match=r"model\.onnx keeps arrays in other files"):
        opened(tmp_path, adding(tensor, place))


def test_a_model_in_onnxruntimes_own_format_is_refused(tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "own.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    model = str(MODELS / "passages" / "model.onnx")
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    with pytest.raises(ArtifactError, match="cannot be opened"):
        opened(tmp_path, (tmp_path / "own.ort").read_bytes())
