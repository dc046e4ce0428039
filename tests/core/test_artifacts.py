from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat

import numpy as np
import pytest
from world import MODELS

from semclass import ArtifactError, EncoderMismatchError
from semclass.core import artifacts
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


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (flipped, r"model\.onnx was changed"),
        (lambda path: path.write_bytes(path.read_bytes()[:-10]), r"model\.onnx has \d+ bytes, not"),
        (lambda path: path.unlink(), r"model\.onnx does not exist"),
        pytest.param(
            lambda path: (path.unlink(), os.mkfifo(path)),
            r"model\.onnx cannot be read .*not a regular file",  # and is not waited for
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes"),
        ),
        (lambda path: path.with_name("manifest.json").write_text('{"protocol": 1,'), "cannot be read as JSON"),
    ],
)
def test_a_damaged_file_is_named(head_folder, encoder, damage, says):
    damage(head_folder / "model.onnx")
    with pytest.raises(ArtifactError, match=says):
        Head.load(head_folder, encoder=encoder.fingerprint)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"protocol": 99}, "protocol 99"),
        ({"kind": "encoder"}, "'encoder', not 'head'"),
        ({"inputs": {"pooled": 7}}, "has inputs"),
        ({"link": "tanh"}, "link 'tanh'"),
        ({"files": {}}, "lists no files"),
        ({"threshold": [0.5]}, "1 thresholds for 6 classes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_manifest_that_does_not_fit_is_refused(head_folder, encoder, fields, says):
    edit_manifest(head_folder, **fields)
    with pytest.raises(ArtifactError, match=says):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_a_head_for_another_encoder_is_refused(head_folder):
    with pytest.raises(EncoderMismatchError, match="trained for encoder"):
        Head.load(head_folder, encoder="another")


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (("table.npy", (3, None)), r"table\.npy has the shape \(2, 3\), not \(3, any\)"),
        (("table.npy", (2,)), "has the shape"),
        (("other.npy", None), "lists no file 'other.npy'"),
    ],
)
def test_features_and_shapes_are_compared(tmp_path, wanted, says):
    np.save(tmp_path / "table.npy", np.zeros((2, 3)))
    files = {"table.npy": (tmp_path / "table.npy").read_bytes()}
    artifacts.save(tmp_path, "table", files, {"features": ["a", "b"], "encoder": None})
    found = artifacts.load_artifact(tmp_path, "table", encoder="any", features=["a", "b"])
    assert found.array("table.npy", (2, None)).shape == (2, 3)
    with pytest.raises(ArtifactError, match=says):
        found.array(*wanted)
    with pytest.raises(ArtifactError, match="the features of the model in"):
        artifacts.load_artifact(tmp_path, "table", features=["b", "a"])


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


@pytest.mark.parametrize(("number", "raises"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_flushed_has_the_new_file(tmp_path, monkeypatch, number, raises):
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


def test_a_link_that_leads_out_of_a_model_is_not_followed(head_folder, encoder, tmp_path):
    name = "model.onnx"
    (head_folder / name).replace(tmp_path / "elsewhere")
    (head_folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match=f"{name} leads out of .*cp -rL"):
        Head.load(head_folder, encoder=encoder.fingerprint)
    (head_folder / name).unlink()
    (head_folder / name).symlink_to(name)
    with pytest.raises(ArtifactError, match=f"{name}"):
        Head.load(head_folder, encoder=encoder.fingerprint)
    (head_folder / name).unlink()
    (tmp_path / "elsewhere").replace(head_folder / "inside")
    (head_folder / name).symlink_to("inside")
    assert Head.load(head_folder, encoder=encoder.fingerprint).classes


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a\0b"])
def test_a_name_that_leads_out_of_a_model_is_refused(head_folder, encoder, name):
    manifest = json.loads((head_folder / "manifest.json").read_text())
    secret = b"secret"
    (head_folder.parent / "secret").write_bytes(secret)
    record = {"bytes": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    edit_manifest(head_folder, files={**manifest["files"], name: record})
    with pytest.raises(ArtifactError, match=r"leads out of|cannot be read"):
        Head.load(head_folder, encoder=encoder.fingerprint)


def test_what_is_swapped_after_it_was_verified_is_not_read(tmp_path):
    artifacts.save(tmp_path, "head", {"words.txt": b"right", "idf.npy": b"right"}, {})
    artifact = artifacts.load_artifact(tmp_path, "head")
    (tmp_path / "words.txt").write_bytes(b"wrong")
    assert artifact.read("words.txt") == b"right"
    with pytest.raises(ArtifactError, match=r"words\.txt was changed"):
        artifact.read("words.txt")  # its bytes were given away
    with pytest.raises(ArtifactError, match="cannot be read"):
        artifact.array("idf.npy")
