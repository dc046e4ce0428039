from __future__ import annotations

import numpy as np
import pytest
from conftest import FAKE, Counting, passage_encoder_of

FIRST, SECOND = "The keeper lit the lamp of the lighthouse at dusk.", "His boat was painted green by the boys."


def test_every_sentence_is_read_by_itself(models):
    evidence, cut = models.passage_encoder.read([f"{FIRST} {SECOND}", SECOND])
    assert cut == ()
    assert evidence.sentences.lengths().tolist() == [2, 1]
    np.testing.assert_allclose(evidence.sentences.row(0)[1], evidence.sentences.row(1)[0], atol=1e-5)
    own = evidence.tokens.row(1)
    np.testing.assert_allclose(evidence.tokens.row(0)[-len(own) :], own, atol=1e-5)


def test_weights_of_a_question_sum_to_one(models):
    (query,) = models.encode(["When was the lighthouse finished?"])
    assert query.weights.sum() == pytest.approx(1)
    assert len(query.weights) == len(query.tokens) == len(query.terms)


def test_there_is_a_token_vector_for_each_term_however_long_a_word(models):
    # a "word" of 600 pieces is one sentence that the encoder reads only the beginning of
    evidence, _ = models.passage_encoder.read([FIRST, "x" + "\u4e00" * 600, SECOND])
    assert evidence.tokens.lengths().tolist() == evidence.terms.lengths().tolist()


def test_without_a_branch_the_view_tokens_is_read():
    evidence, _ = FAKE.read(["the red boat", "a green hill"])
    assert FAKE.interaction == "tokens"
    assert evidence.tokens.lengths().tolist() == [3, 3]
    np.testing.assert_allclose(np.linalg.norm(evidence.sentences.values, axis=1), 1, atol=1e-5)


def test_passages_of_one_sentence_are_encoded_once():
    encoder = Counting()
    passage_encoder = passage_encoder_of(encoder)
    texts = ["a red boat", "the first sentence is this one. the second sentence is that one.", "a green hill"]
    found, _ = passage_encoder.read(texts)
    assert encoder.seen.count("a red boat") == encoder.seen.count("a green hill") == 1
    for row, text in enumerate(texts):
        alone, _ = passage_encoder.read([text])
        for name in ("tokens", "sentences", "terms"):
            np.testing.assert_array_equal(getattr(found, name).row(row), getattr(alone, name).row(0))
        np.testing.assert_array_equal(found.pooled[row], alone.pooled[0])
