from __future__ import annotations

import contextlib
import errno
import json
import os
import stat

import pytest
from conftest import MODELS

from semclass import ArtifactError, EncoderMismatchError, OnnxEncoder, artifacts
from semclass.heads import Head


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
