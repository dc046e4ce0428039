"""What a corpus can be asked, and what not."""

from __future__ import annotations

import pytest
from world import MODELS

from semclass import ScopeClassifier

ASKED = [
    "Who wrote Hamlet?",
    "symptoms of measles",
    "Show me the minutes of the last meeting.",
    "how do I set up a printer",
]
CHATTED = [
    "Tell me a joke",
    "hello there",
    "Turn off the lights in the kitchen.",
    "I am so tired today.",
    "thanks a lot",
]


@pytest.fixture(scope="module")
def classifier(encoder):
    return ScopeClassifier.load(MODELS, encoder=encoder)


def test_questions_keywords_and_requests_are_in_scope_and_chit_chat_is_not(classifier):
    given = classifier.predict_proba([*ASKED, *CHATTED])[:, 1]
    assert given[: len(ASKED)].min() > given[len(ASKED) :].max()
    assert classifier.predict(ASKED) == ["in scope"] * len(ASKED)


def test_another_threshold_may_be_asked_for(classifier):
    assert classifier.predict(ASKED, threshold=0.0) == ["in scope"] * len(ASKED)
    assert classifier.predict(CHATTED, threshold=0.9) == ["out of scope"] * len(CHATTED)
