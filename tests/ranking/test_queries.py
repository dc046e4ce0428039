"""What is read of questions that are no questions: one word of a hundred thousand characters."""

from __future__ import annotations

import pytest

from semclass.core.errors import TruncationWarning
from semclass.heads.asked import PIECES

WORDS = {"marks": "a,b;", "Chinese": "我们在河边看见灯塔"}
"""What has no white space, and falls into many word pieces."""


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("classes", [True, False])
def test_a_question_is_compared_by_a_bounded_number_of_its_word_pieces(models, word, classes):
    with pytest.warns(TruncationWarning):
        (query,) = models.encode([(word * 25_000)[:99_000]], classes=classes)
    assert len(query.terms) == PIECES
    assert len(query.tokens) == len(query.weights) <= PIECES
    assert query.weights.sum() == pytest.approx(1)


def test_a_long_word_beside_a_question_leaves_the_question(models):
    (query,) = models.encode(
        [f"{'x' * 20_000} came up. Many things were tried on it since. " * 3 + "Who built the bridge?"]
    )
    assert query.query_used.endswith("Who built the bridge?")
