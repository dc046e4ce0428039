"""Does a sentence answer a question: examples, what must not change a probability, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from world import MODELS

from semclass.core.errors import InputError, InputTypeError
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.entailment import EntailmentClassifier, pair_of

QUESTIONS = ["When was the bridge opened?", "Who designed the bridge?", "How long is the bridge?"]
SENTENCES = [
    "The bridge was opened to traffic in May 1932.",
    "It was designed by the engineer Emily Warren.",
    "The bridge is 503 metres long and carries eight lanes.",
]
PAIRS = list(zip(QUESTIONS, SENTENCES, strict=True))


@pytest.fixture(scope="module")
def classifier(encoder: OnnxEncoder) -> EntailmentClassifier:
    """The shipped networks."""
    return EntailmentClassifier.load(MODELS, encoder=encoder)


def test_each_question_finds_its_answer(classifier):
    table = classifier.predict_proba(product(QUESTIONS, SENTENCES))[:, 1].reshape(3, 3)
    assert table.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_head_that_reads_both_texts_together_has_a_say(classifier):
    alone = replace(classifier, joint=None).predict_proba(PAIRS)[:, 1]
    first, second, bias = classifier.joint.beside_entailment
    states, terms = classifier.encoder.encode([*QUESTIONS, *SENTENCES], views=("states",)), classifier.encoder.is_term
    pairs = [pair_of(states, row, states, [len(QUESTIONS) + row], terms) for row in range(len(QUESTIONS))]
    together = classifier.joint.compare(pairs)
    odds = first * np.log(alone / (1 - alone)) + second * together + bias
    np.testing.assert_allclose(classifier.predict_proba(PAIRS)[:, 1], 1 / (1 + np.exp(-odds)), atol=5e-3)


def test_a_text_without_a_word_answers_nothing(classifier):
    pairs = [("\x00", SENTENCES[0]), (QUESTIONS[0], "\x00\x01")]
    assert classifier.predict_proba(pairs)[:, 1].tolist() == [0.0, 0.0]


def test_what_is_refused(classifier):
    with pytest.raises(InputError, match=r"sentences\[0\] is empty"):
        classifier.predict_proba([(QUESTIONS[0], " ")])
    for wrong in ("ab", [("only one",)], ["ab"], 3):
        with pytest.raises(InputTypeError, match="pairs"):
            classifier.predict(wrong)
