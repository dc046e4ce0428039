"""The guard of the shipped models' quality: they hold their records, and a damaged one is found."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from world import MODELS

from semclass.core import artifacts

pytest.importorskip("ir_measures")

from bench import guard


def test_heads_of_texts_hold_their_records() -> None:
    """``python -m bench.guard`` measures every model."""
    assert guard.complaints(MODELS, ["questions", "passages", "in_scope", "generic", "language"]) == []


def test_every_shipped_model_is_the_recorded_one() -> None:
    folders = {str(path.parent.relative_to(MODELS)) for path in MODELS.rglob(artifacts.MANIFEST)}
    recorded = {name: entry["manifest"] for name, entry in artifacts.read_json(guard.RECORD)["models"].items()}
    assert {name: artifacts.sha256_of(MODELS / name / artifacts.MANIFEST) for name in folders} == recorded


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A copy of the heads that read one text or two, beside the shipped encoder."""
    for name in ("questions", "passages", "entailment"):
        shutil.copytree(MODELS / name, tmp_path / name)
    (tmp_path / "encoder").symlink_to(MODELS / "encoder")
    return tmp_path


def rewrite(folder: Path, name: str, data: bytes) -> None:
    """Put another file into a model folder, as if training had made it."""
    (folder / name).write_bytes(data)
    manifest = artifacts.read_json(folder / artifacts.MANIFEST)
    manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / artifacts.MANIFEST).write_bytes(artifacts.dump_json(manifest))


def with_noise(network: bytes, scale: float) -> bytes:
    """A network whose float weights are off by a share of their spread."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load_from_string(network)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.ndim > 1:
            noise = rng.normal(scale=scale * values.std(), size=values.shape).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values + noise, tensor.name))
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("name", "network", "score"),
    [
        ("questions", "model.onnx", "accuracy, fine"),
        ("passages", "model.onnx", "right decisions"),
        ("entailment", "head.onnx", "probability of what is right"),
    ],
)
def test_a_damaged_head_is_found(models: Path, name: str, network: str, score: str) -> None:
    rewrite(models / name, network, with_noise((models / name / network).read_bytes(), 1.0))
    *lost, changed = guard.complaints(models, [name])
    recorded = artifacts.read_json(guard.RECORD)["models"][name]["scores"][score]
    (told,) = (complaint for complaint in lost if f": {score} on" in complaint)
    assert told.startswith(
        f"models/{name}: {score} on the fixed set of bench/guard.json was {recorded:.4f} when it was"
    )
    assert told.endswith("points are lost, 0.5 are allowed")
    assert f"models/{name}/manifest.json is not the one whose scores were recorded" in changed


def test_a_record_keeps_what_differs_by_rounding_alone(models: Path) -> None:
    old = guard.new_record(models, {"questions": {"accuracy": 0.9}}, {"models": {}})
    near, far = ({"questions": {"accuracy": value}} for value in (0.898, 0.8))
    assert guard.new_record(models, near, old)["models"] == old["models"]
    assert guard.new_record(models, far, old)["models"]["questions"]["scores"] == {"accuracy": 0.8}
    rewrite(models / "questions", "notes.txt", b"trained again")
    assert guard.new_record(models, near, old)["models"]["questions"]["scores"] == {"accuracy": 0.898}
