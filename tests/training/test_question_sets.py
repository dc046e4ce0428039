"""Known words, and the forms in which questions are typed."""

import random

import pytest

pytest.importorskip("sklearn")
from question_sets import frequent_words, misspell

QUESTION = "What is the capital of Peru ?"


def test_words_are_ranked_by_vocabulary_and_questions():
    vocabulary = {"[PAD]": 0, "a": 1, "the": 2, "war": 3, "what": 4, "##ing": 5, "1999": 6}
    assert frequent_words(vocabulary, []) == ["the", "war", "what"]
    assert frequent_words(vocabulary, ["What is what?", "what war"])[0] == "what"
    # words that questions hold three times are known too
    assert frequent_words(vocabulary, ["Lima, Peru"] * 3) == ["the", "lima", "peru", "war", "what"]


def test_a_slip_changes_one_long_enough_word_and_little_of_it():
    rng = random.Random(0)
    for _ in range(200):
        pairs = zip(misspell(QUESTION, rng).split(" "), QUESTION.split(" "), strict=True)
        changed = [(slipped, word) for slipped, word in pairs if slipped != word]
        assert len(changed) <= 1
        assert all(abs(len(slipped) - len(word)) <= 1 for slipped, word in changed)
    assert misspell("Who is it ?", rng, 4) == "Who is it ?"
    assert misspell("12 + 30 ?", rng) == "12 + 30 ?"
