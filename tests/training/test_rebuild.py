"""The order in which shipped models are made again, and what the encoder's card tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from world import ROOT

pytest.importorskip("onnx")
pytest.importorskip("sklearn")

from export_encoder import encoder_card
from rebuild import steps


def made(tuned=(), deep=()):
    """The folder that each step writes, in order."""
    found = steps(Path("data"), Path("models"), Path("teacher"), tuned, deep, "source", 1)
    return [options[options.index("--out") + 1] for _, *options in found]


def test_a_teacher_is_made_before_its_pupil():
    folders = made()
    assert folders[:3] == ["models/entailment", "models/deep", "teacher/questions"]
    assert folders[3] == "models/questions"
    _, *learnt = steps(Path("data"), Path("models"), Path("teacher"), (), (), "source", 1)[3]
    assert learnt[learnt.index("--teacher") + 1] == "teacher"


def test_a_tuned_encoder_is_exported_first():
    tuned = [Path("tuned.npz"), Path("again.npz")]
    assert made(tuned, deep=[Path("first.npz"), Path("second.npz")]) == ["models/encoder", *made()]


def test_every_script_is_there():
    weights = [Path("tuned.npz")], [Path("deep.npz")]
    for script, *_ in steps(Path("data"), Path("models"), Path("teacher"), *weights, "source", 1):
        assert (ROOT / "training" / script).is_file()


MANIFEST = json.loads((ROOT / "models" / "encoder" / "manifest.json").read_text())


def test_the_card_of_the_shipped_encoder_is_that_of_its_manifest():
    text = (ROOT / "models" / "encoder" / "README.md").read_text(encoding="utf-8")
    assert text == encoder_card(MANIFEST["name"], MANIFEST)
    assert "the original in float32, which was not tuned" in text
