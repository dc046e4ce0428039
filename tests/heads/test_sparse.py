"""Learnt words: which terms a text gets, and that batches and windows change nothing."""

import numpy as np
import pytest
from world import MODELS, FakeEncoder

from semclass import OnnxEncoder
from semclass.core.errors import ArtifactError
from semclass.core.types import Ragged
from semclass.heads.sparse import MAX_TERMS, SparseHead

TEXTS = [
    "What is the capital of France?",
    "Paris is the largest city of France.",
    "The pump must be oiled once a week.",
    "?",
]


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder.load(MODELS / "encoder")


@pytest.fixture(scope="module")
def head(encoder: OnnxEncoder) -> SparseHead:
    return SparseHead.load(MODELS / "sparse", encoder)


def scores(head: SparseHead, pieces: Ragged) -> np.ndarray:
    """Inner products of each text with each."""
    found, dense = head.encode(pieces), np.zeros((len(pieces), 2**15))
    for row, weights in enumerate(dense):
        weights[found.terms.row(row)] = found.weights.row(row)
    return dense @ dense.T


def test_learnt_words_connect_question_and_answer(encoder: OnnxEncoder, head: SparseHead) -> None:
    found = scores(head, encoder.tokenize(TEXTS))
    assert found[0, 1] > 2 * found[0, 2]
    words = head.encode(encoder.tokenize(TEXTS[:1])).terms.row(0)
    assert {"capital", "france", "paris"} <= {encoder.vocabulary[word] for word in words}


def test_terms_are_heaviest_first(encoder: OnnxEncoder, head: SparseHead) -> None:
    found = head.encode(encoder.tokenize([" ".join(TEXTS) + " " + " ".join(encoder.vocabulary[5000:5400])]))
    weights = found.weights.row(0)
    assert len(weights) == MAX_TERMS
    assert (weights[1:] <= weights[:-1]).all()
    assert weights[-1] > 0
    assert len(set(found.terms.row(0).tolist())) == MAX_TERMS


def test_batch_changes_nothing(encoder: OnnxEncoder, head: SparseHead) -> None:
    pieces = encoder.tokenize([*TEXTS, " ".join(TEXTS * 40)])
    together = head.encode(pieces)
    for row in range(len(pieces)):
        alone = head.encode(pieces.take(np.array([row])))
        np.testing.assert_array_equal(alone.terms.values, together.terms.row(row))
        np.testing.assert_array_equal(alone.weights.values, together.weights.row(row))


def test_other_word_pieces_are_refused() -> None:
    with pytest.raises(ArtifactError, match="encoder"):
        SparseHead.load(MODELS / "sparse", FakeEncoder())
