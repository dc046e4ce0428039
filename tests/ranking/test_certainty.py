"""How sure the first place is, in a word: by its lead, by what others provide, and by whether it is near at all."""

from __future__ import annotations

import pytest

from semclass import HybridRetriever, Passage, PassageIndex, Reranker
from semclass.ranking.certainty import Bounds, Standing

BOUNDS = Bounds(strong=0.5, likely=0.1, near=0.4, answers=0.1)
TOWN = (
    "The lighthouse of Sandrey Bay was built between 1871 and 1874 by the engineer Ada Merriweather.",
    "Puffins dig burrows in the cliffs, and lay one egg a year.",
    "The museum is closed on Mondays.",
)


@pytest.mark.parametrize(
    ("lead", "behind", "near", "answers", "word"),
    [
        (0.6, 0.0, 0.7, 0.5, "strong"),
        (0.6, 0.0, 0.3, 0.5, "strong"),
        (0.6, 2.5, 0.7, 0.5, "likely"),  # another one gives more of what is asked
        (0.3, -1.0, 0.7, 0.0, "likely"),
        (0.05, -1.0, 0.7, 0.5, "weak"),  # the second is level with it
        (0.6, 0.0, 0.3, 0.0, "weak"),  # nothing is about the question
    ],
)
def test_a_word_says_how_sure_the_first_place_is(lead, behind, near, answers, word):
    assert Standing(lead, behind, near, answers).word(BOUNDS) == word


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Who built the lighthouse?", "strong"),
        ("How many burrows does a budget need?", "weak"),
    ],
)
def test_the_certainty_of_the_first_place_is_a_word(models, question, word):
    for result in (
        Reranker(models).rerank(question, TOWN),
        HybridRetriever(
            PassageIndex.build([Passage(text[:9], text) for text in TOWN], passage_encoder=models.passage_encoder),
            models,
        ).search(question),
    ):
        assert result.certainty == word


def test_copies_of_an_answer_are_level(models):
    assert Reranker(models).rerank("Who built the lighthouse?", [TOWN[0], TOWN[0], *TOWN[1:]]).certainty == "weak"


@pytest.mark.parametrize(
    "options", [{"method": "learned"}, {"method": "deep"}, {"weights": {"alpha": 0.2}}, {"fusion": "rrf"}]
)
def test_what_was_not_measured_has_no_word(models, options):
    assert Reranker(models).rerank("Who built the lighthouse?", TOWN, **options).certainty is None


def test_one_passage_leads_nobody(models):
    assert Reranker(models).rerank("Who built the lighthouse?", TOWN[:1]).certainty is None
