from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import MODELS
from hypothesis import given
from hypothesis import strategies as st

from semclass import ArtifactError, EncoderMismatchError, OnnxEncoder
from semclass.core import artifacts
from semclass.core.onnx_sessions import check_complete, open_session
from semclass.heads.head import Head


@pytest.fixture
def head_folder(tmp_path):
    """A copy of a shipped head that a test may damage."""
    folder = tmp_path / "head"
    folder.mkdir()
    for path in (MODELS / "passages").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def edit_manifest(folder, **fields):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_shipped_head_loads(head_folder, encoder):
    head = Head.load(head_folder, encoder=encoder.fingerprint)
    assert head.classes == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    assert all(0 < threshold < 1 for threshold in head.thresholds)


def test_a_threshold_for_each_class_or_none(head_folder, encoder):
    edit_manifest(head_folder, threshold=[0.5])
    with pytest.raises(ArtifactError, match="1 thresholds for 6 classes"):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_a_file_that_was_edited_is_named(head_folder, encoder):
    path = head_folder / "model.onnx"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"model\.onnx was changed"):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_a_file_that_was_cut_short_is_named(head_folder, encoder):
    path = head_folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArtifactError, match=r"model\.onnx has \d+ bytes where"):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_a_missing_file_is_named(head_folder, encoder):
    (head_folder / "model.onnx").unlink()
    with pytest.raises(ArtifactError, match=r"model\.onnx is missing"):
        Head.load(head_folder, encoder=encoder.fingerprint)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"protocol": 99}, "protocol 99"),
        ({"kind": "encoder"}, "describes 'encoder', but 'head'"),
        ({"inputs": {"pooled": 7}}, "has inputs"),
        ({"classes": ["a", "b"]}, "for 2 classes"),
        ({"link": "tanh"}, "link 'tanh'"),
        ({"files": {}}, "lists no files"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_manifest_that_does_not_fit_is_refused(head_folder, encoder, fields, says):
    edit_manifest(head_folder, **fields)
    with pytest.raises(ArtifactError, match=says):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_a_broken_manifest_is_refused(head_folder, encoder):
    (head_folder / "manifest.json").write_text('{"protocol": 1,')
    with pytest.raises(ArtifactError, match="cannot be read as JSON"):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_a_head_for_another_encoder_is_refused(head_folder):
    with pytest.raises(EncoderMismatchError, match="use that encoder, or train the head"):
        Head.load(head_folder, encoder="another")


def test_an_encoder_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ArtifactError, match="does not exist"):
        OnnxEncoder.load(tmp_path / "nowhere")


def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match="No space left"):
        artifacts.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_manifests_are_written_the_same_each_time(tmp_path):
    for name in ("a", "b"):
        artifacts.save(tmp_path / name, "head", {"x": b"1"}, {"z": 1, "a": {"c": 1, "b": 2}})
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()


def test_a_file_that_goes_while_it_is_looked_at_is_missing(tmp_path, monkeypatch):
    def gone(path):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    (tmp_path / "a").write_bytes(b"1")
    monkeypatch.setattr(artifacts, "sha256_of", gone)
    with pytest.raises(ArtifactError, match="a is missing; ask again"):
        artifacts.check_files(tmp_path, {"a": {"bytes": 1, "sha256": ""}}, "ask again")
    with pytest.raises(ArtifactError, match="cannot be read"):
        artifacts.check_files(tmp_path, {"a" * 300: {"bytes": 1, "sha256": ""}}, "ask again")


@pytest.mark.parametrize(("number", "raises"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_flushed_is_not_a_file_that_was_not_written(tmp_path, monkeypatch, number, raises):
    flushed = os.fsync

    def only_files(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        flushed(file)

    monkeypatch.setattr(os, "fsync", only_files)
    said = pytest.raises(ArtifactError, match="was replaced, but") if raises else contextlib.nullcontext()
    with said:
        artifacts.write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


# -- what is read is what was verified -----------------------------------------------------------------------------------


def resign(folder):
    """Write the right sizes and hashes of the files into the manifest, as if it had been made so."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["files"]:
        data = (folder / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(manifest))


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
        branch = onnx.helper.make_graph([constant], "inner", [], [onnx.helper.make_tensor_value_info("w", 1, [4])])
        yes = onnx.helper.make_tensor("yes", onnx.TensorProto.BOOL, [], [True])
        either = onnx.helper.make_node("If", ["yes"], ["w"], then_branch=branch, else_branch=branch)
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
@pytest.mark.parametrize("location", ["w.bin", "../w.bin", "/etc/hostname", "*/_ORT_MEM_ADDR_/*"])
def test_a_model_with_arrays_in_other_files_is_refused(head_folder, encoder, monkeypatch, place, location):
    # where onnxruntime would look for what it is given as bytes
    monkeypatch.chdir(head_folder)
    np.zeros(4, np.float32).tofile(head_folder / "w.bin")
    (head_folder / "model.onnx").write_bytes(graph_of(elsewhere(location), place).SerializeToString())
    resign(head_folder)
    with pytest.raises(ArtifactError, match=r"model\.onnx has arrays in other files"):
        Head.load(head_folder, encoder=encoder.fingerprint)


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


def test_a_model_in_onnxruntimes_own_format_is_refused(head_folder, encoder):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(head_folder / "own.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(head_folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    (head_folder / "own.ort").replace(head_folder / "model.onnx")
    resign(head_folder)
    with pytest.raises(ArtifactError, match="no ONNX model"):
        Head.load(head_folder, encoder=encoder.fingerprint)


@pytest.mark.parametrize("name", ["model.onnx", "reliability.png"])
def test_a_link_that_leads_out_of_a_model_is_not_followed(head_folder, encoder, tmp_path, name):
    (head_folder / name).replace(tmp_path / "elsewhere")
    (head_folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match=f"{name} leads out of .*cp -rL"):
        Head.load(head_folder, encoder=encoder.fingerprint)
    (head_folder / name).unlink()
    (head_folder / name).symlink_to(name)
    with pytest.raises(ArtifactError, match=f"{name}"):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_a_link_that_stays_in_a_model_is_followed(head_folder, encoder):
    (head_folder / "model.onnx").replace(head_folder / "real.onnx")
    (head_folder / "model.onnx").symlink_to("real.onnx")
    assert Head.load(head_folder, encoder=encoder.fingerprint).classes


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "sub/../../secret", "a\0b"])
def test_a_name_that_leads_out_of_a_model_is_refused(head_folder, encoder, name):
    manifest = json.loads((head_folder / "manifest.json").read_text())
    secret = b"secret"
    (head_folder.parent / "secret").write_bytes(secret)
    record = {"bytes": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    edit_manifest(head_folder, files={**manifest["files"], name: record})
    with pytest.raises(ArtifactError, match=r"leads out of|cannot be read"):
        Head.load(head_folder, encoder=encoder.fingerprint)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_model_and_is_not_waited_for(head_folder, encoder):
    (head_folder / "model.onnx").unlink()
    os.mkfifo(head_folder / "model.onnx")
    with pytest.raises(ArtifactError, match=r"model\.onnx is no regular file"):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_what_is_swapped_after_it_was_verified_is_not_read(head_folder, tmp_path):
    for name, data in (("words.txt", b"right"), ("idf.npy", b"right")):
        (head_folder / name).write_bytes(data)
    manifest = json.loads((head_folder / "manifest.json").read_text())
    edit_manifest(head_folder, files={**manifest["files"], "words.txt": {}, "idf.npy": {}})
    resign(head_folder)
    artifact = artifacts.load(head_folder, "head")
    for name in ("words.txt", "model.onnx"):
        (head_folder / name).write_bytes(b"wrong")
    assert artifact.read("words.txt") == b"right"
    with pytest.raises(ArtifactError, match=r"words\.txt was changed"):
        artifact.read("words.txt")  # its bytes were given away
    assert open_session(artifact, "model.onnx", 1).get_outputs()[0].name == "probabilities"
    with pytest.raises(ArtifactError, match="cannot be read"):
        artifact.array("idf.npy")
