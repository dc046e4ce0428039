"""An encoder that reads passages in its own way: only some of their word pieces, in one run that gives every view."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

from made_models import export

from semclass import ArtifactError, OnnxEncoder

TEXTS = [
    "The tower was designed by the engineer Ada Merriweather, and it was opened in 1932.",
    "Of the",
    "bridge",
    "Who designed the tower, and is it not open?",
]
VIEWS = ("pooled", "layers", "tokens", "weights", "asks", "provides", "expects")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return export(tmp_path_factory.mktemp("made"), tuned=True)


@pytest.fixture(scope="module")
def tuned(folder):
    return OnnxEncoder.load(folder)


def words(encoder, ids):
    return [encoder.vocabulary[place] for place in ids]


def test_articles_of_passages_are_not_read(tuned):
    encoding = tuned.for_passages.encode(TEXTS, views=("tokens",))
    read = encoding.pieces_read()
    assert words(tuned, read.row(0))[:4] == ["tower", "was", "designed", "by"]
    assert words(tuned, read.row(3)) == ["who", "designed", "tower", "is", "it", "not", "open", "?"]
    assert read.lengths().tolist() == encoding.tokens.lengths().tolist()
    assert read.lengths()[1] == 0
    assert words(tuned, encoding.terms.row(1)) == ["of", "the"]
    unread = tuned.for_passages.encode(TEXTS, views=())
    assert unread.kept.values.tolist() == read.values.tolist()


def test_every_word_of_a_question_is_read(tuned):
    encoding = tuned.encode(TEXTS, views=VIEWS)
    assert encoding.kept is None
    assert encoding.pieces_read() is encoding.terms
    assert (
        encoding.tokens.lengths().tolist() == encoding.weights.lengths().tolist() == encoding.terms.lengths().tolist()
    )
    assert encoding.weights.values.shape[1] == 1
    vectors = encoding.expects.reshape(len(TEXTS), -1, tuned.views["tokens"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=2), 1, atol=1e-5)


def test_beyond_the_last_window_nothing_is_read(tuned):
    encoding = tuned.for_passages.encode(["the tower " * 600, "tower"], views=("tokens",))
    assert encoding.truncated == [0]
    assert encoding.pieces_read().lengths().tolist() == encoding.tokens.lengths().tolist() == [16 * 62 // 2, 1]


def test_a_network_of_two_kinds_needs_the_pieces_it_keeps(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "encoder")
    path = tmp_path / "encoder" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["files"]["kept.npy"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"kept\.npy must exist"):
        OnnxEncoder.load(tmp_path / "encoder")
