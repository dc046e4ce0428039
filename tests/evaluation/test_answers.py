"""How near a written answer is to the right ones."""

import pytest

from semclass import InputError, InputTypeError
from semclass.evaluation.answers import exact_match, token_f1


def test_an_answer_matches_whatever_its_case_articles_and_punctuation():
    assert exact_match("The Kittiwake.", ["kittiwake"]) == 1
    assert exact_match("the ferry Kittiwake", ["kittiwake"]) == 0
    assert exact_match("in 1874", ["1874", "in 1874"]) == 1


@pytest.mark.parametrize(
    ("answer", "references", "f1"),
    [
        ("october 1874", ["In October 1874"], 0.8),
        ("red and white", ["white and red"], 1.0),
        ("red red red", ["red and white bands"], 2 / 7),  # a word counts as often as it occurs in both
        ("1871", ["1874"], 0.0),
        ("1871", ["1874", "1871"], 1.0),
        ("", ["1874"], 0.0),
        ("the", ["a"], 1.0),
    ],
)
def test_f1_of_the_words_that_an_answer_shares(answer, references, f1):
    assert token_f1(answer, references) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("answer", "references", "error"),
    [
        (None, ["1874"], InputTypeError),
        ("1874", "1874", InputTypeError),
        ("1874", [], InputError),
        ("1", [" "], InputError),
    ],
)
@pytest.mark.parametrize("measure", [exact_match, token_f1])
def test_what_cannot_be_compared_is_refused(measure, answer, references, error):
    with pytest.raises(error):
        measure(answer, references)
