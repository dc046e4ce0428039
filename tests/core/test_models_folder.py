"""Models that are packages of their own, found by their names."""

from __future__ import annotations

import sys

import pytest
from made_models import export

from semclass import HybridRetriever, Models
from semclass.core import artifacts
from semclass.core.artifacts import default_models, models_folder
from semclass.core.errors import ArtifactError, EncoderMismatchError, InputError
from semclass.encoders.onnx_encoder import open_encoder


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package of models with the name `tiny`, and give its folder."""
    site, folder = tmp_path / "site", tmp_path / "site" / "tiny_models" / "models"
    export(folder, prefixes=("query: ", "passage: "))
    (site / "tiny_models" / "__init__.py").write_text(
        "from pathlib import Path\nFOLDER = Path(__file__).parent / 'models'\n"
    )
    about = site / "tiny_models-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-models\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[semclass.models]\ntiny = tiny_models:FOLDER\nbroken = tiny_models:NOTHING\n"
    )
    monkeypatch.delitem(sys.modules, "tiny_models", raising=False)
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    return folder


def test_an_installed_package_is_found_by_its_name(installed):
    assert models_folder("tiny") == installed
    retriever = HybridRetriever.from_passages(["A red boat.", "A green hill."], models="tiny")
    assert retriever.search("red boat")[0].id == "0"
    assert Models.load("tiny").encoder.prefix
    assert open_encoder("tiny").fingerprint == Models.load("tiny").encoder.fingerprint


def test_an_index_of_other_models_names_them(installed, tmp_path):
    folder = tmp_path / "index"
    HybridRetriever.from_passages(["A red boat.", "A green hill."], models="tiny").index.save(folder)
    with pytest.raises(EncoderMismatchError, match="--models, --encoder"):
        HybridRetriever.load(folder)


def test_models_may_have_weights_of_fusion_of_their_own(installed):
    assert "coverage" not in Models.load("tiny").weights
    artifacts.save(installed / "fusion", "fusion", {"weights.json": b'{"alpha": 0.6, "coverage": 0.2}'}, {})
    weights = Models.load("tiny").weights
    assert (weights["alpha"], weights["coverage"]) == (0.6, 0.2)
    artifacts.save(installed / "fusion", "fusion", {"weights.json": b'{"alpha": 2}'}, {})
    with pytest.raises(InputError, match="alpha is 2"):
        Models.load("tiny")
    (installed / "fusion" / "weights.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"weights\.json"):
        Models.load("tiny")


def test_a_folder_goes_before_a_package_of_the_same_name(installed, tmp_path):
    (tmp_path / "tiny").mkdir()
    assert models_folder("tiny").resolve() == tmp_path / "tiny"
    assert models_folder(None) == default_models()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("multilingual", r"not installed; run: pip install semclass-multilingual .*\./packages/semclass-multilingual"),
        ("broken", "'broken' cannot be opened: .*NOTHING.*install it again"),
        ("nowhere", "no folder 'nowhere', and no installed package .*broken"),
    ],
)
def test_what_is_not_installed_is_said_with_what_to_do(installed, monkeypatch, name, says):
    if name == "multilingual":
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    with pytest.raises(ArtifactError, match=says):
        Models.load(name)
