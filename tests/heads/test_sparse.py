"""Learnt words: which terms a text gets, and that batches and windows change nothing."""

import numpy as np
import pytest
from world import MODELS, FakeEncoder

from semclass import OnnxEncoder
from semclass.core.errors import ArtifactError
from semclass.core.types import Ragged, ragged
from semclass.heads.sparse import MAX_TERMS, SparseHead, no_sparse, pack, scores

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


def compared(head: SparseHead, pieces: Ragged) -> np.ndarray:
    """Inner products of each text with each."""
    found, dense = head.encode(pieces), np.zeros((len(pieces), 2**15))
    for row, weights in enumerate(dense):
        weights[found.row(row)[:, 0].astype(int)] = found.row(row)[:, 1]
    return dense @ dense.T


def test_learnt_words_connect_question_and_answer(encoder: OnnxEncoder, head: SparseHead) -> None:
    found = compared(head, encoder.tokenize(TEXTS))
    assert found[0, 1] > 2 * found[0, 2]
    words = head.encode(encoder.tokenize(TEXTS[:1])).values[:, 0].astype(int)
    assert {"capital", "france", "paris"} <= {encoder.vocabulary[word] for word in words}


def test_terms_are_heaviest_first(encoder: OnnxEncoder, head: SparseHead) -> None:
    found = head.encode(encoder.tokenize([" ".join(TEXTS) + " " + " ".join(encoder.vocabulary[5000:5400])]))
    terms, weights = found.values.T
    assert len(weights) == MAX_TERMS
    assert (weights[1:] <= weights[:-1]).all()
    assert weights[-1] > 0
    assert len(set(terms.tolist())) == MAX_TERMS


def test_batch_changes_nothing(encoder: OnnxEncoder, head: SparseHead) -> None:
    pieces = encoder.tokenize([*TEXTS, " ".join(TEXTS * 40)])
    together = head.encode(pieces)
    for row in range(len(pieces)):
        alone = head.encode(pieces.take(np.array([row])))
        np.testing.assert_array_equal(alone.values, together.row(row))


def test_other_word_pieces_are_refused() -> None:
    with pytest.raises(ArtifactError, match="encoder"):
        SparseHead.load(MODELS / "sparse", FakeEncoder())


def vectors(*rows: list[tuple[int, float]]) -> Ragged:
    return ragged([np.array(row, np.float32).reshape(-1, 2) for row in rows], np.zeros((0, 2), np.float32))


def test_scores_are_inner_products_to_a_byte() -> None:
    passages = vectors([(7, 2.0), (30_000, 1.0)], [], [(30_000, 4.0)])
    question = vectors([(30_000, 1.5), (9, 3.0)])
    packed = pack(passages)
    assert packed.values.shape == (3, 3)
    np.testing.assert_allclose(scores(question.values, packed), [1.5, 0, 6], atol=1.5 * 4 / 255 / 2)
    some = scores(question.values, packed.take(np.array([2, 0])))
    np.testing.assert_array_equal(some, scores(question.values, packed)[[2, 0]])


def test_a_small_weight_is_not_lost_and_nothing_scores_nothing() -> None:
    packed = pack(vectors([(1, 0.001)]))
    assert scores(vectors([(1, 1.0)]).values, packed)[0] > 0
    assert scores(no_sparse(1).values, packed).tolist() == [0]
    assert scores(vectors([(1, 1.0)]).values, pack(no_sparse(2))).tolist() == [0, 0]
