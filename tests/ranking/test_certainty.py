"""How sure the first place is, in a word, and how probable it is that passages answer at all."""

from __future__ import annotations

import numpy as np
import pytest

from semclass import HybridRetriever, Passage, PassageIndex, Reranker
from semclass.ranking.certainty import LEAD_WEIGHT, answerable, certainty

BOUNDS = {"strong": 0.5, "likely": 0.1, "near": 0.4, "relevance": 0.1}
TOWN = (
    "The lighthouse of Sandrey Bay was built between 1871 and 1874 by the engineer Ada Merriweather.",
    "Puffins dig burrows in the cliffs, and lay one egg a year.",
    "The museum is closed on Mondays.",
)
BUILT, FINISHED, ANSWER = "Who built the lighthouse?", "When was the lighthouse finished?", "lighthouse-2"


@pytest.mark.parametrize(
    ("lead", "behind", "near", "relevance", "word"),
    [
        (0.6, 0.0, 0.7, 0.5, "strong"),
        (0.6, 0.0, 0.3, 0.5, "strong"),
        (0.6, 2.5, 0.7, 0.5, "likely"),  # another one gives more of what is asked
        (0.3, -1.0, 0.7, 0.0, "likely"),
        (0.05, -1.0, 0.7, 0.5, "weak"),  # the second is level with it
        (0.6, 0.0, 0.3, 0.0, "weak"),  # nothing is about the question
    ],
)
def test_a_word_says_how_sure_the_first_place_is(lead, behind, near, relevance, word):
    standing = {"lead": lead, "behind": behind, "near": near, "relevance": relevance}
    assert certainty(standing, BOUNDS) == word


@pytest.mark.parametrize("options", [{}, {"method": "deep"}, {"weights": {"alpha": 0.4, "evidence": 1.5}}])
@pytest.mark.parametrize(("question", "word"), [(BUILT, "strong"), ("How many burrows does a budget need?", "weak")])
def test_certainty_is_a_word_for_all_weights_and_deep(models, options, question, word):
    index = PassageIndex.build([Passage(text[:9], text) for text in TOWN], passage_encoder=models.passage_encoder)
    for result in (
        Reranker(models).rerank(question, TOWN, **options),
        HybridRetriever(index, models).search(question, **options),
    ):
        assert result.certainty == word


def test_copies_of_an_answer_are_level(models):
    assert Reranker(models).rerank(BUILT, [TOWN[0], TOWN[0], *TOWN[1:]]).certainty == "weak"


def test_one_passage_leads_nobody_and_plain_fusion_has_no_word(models, retriever):
    assert Reranker(models).rerank(BUILT, TOWN[:1]).certainty is None
    assert retriever.search(BUILT, method="convex").certainty is None


def test_answerable_is_the_relevance_of_the_first_raised_by_its_lead():
    order, score, relevance = np.array([1, 0, 2]), np.array([0.5, 0.75, 0.0]), np.array([0.9, 0.5, 0.9])
    assert answerable(order, score, relevance) == pytest.approx(1 / (1 + np.exp(-LEAD_WEIGHT * 0.25)))
    assert answerable(order[:1], score, relevance) == pytest.approx(0.5)
    assert answerable(order[:0], score, relevance) == 0


def test_a_question_with_its_answer_gets_more_than_without_it(retriever, models):
    known = retriever.search(FINISHED).answerable
    assert 1 > known > retriever.search(FINISHED, where={"_id": {"$ne": ANSWER}}).answerable
    assert known > models.answerable_from > retriever.search("At what temperature does tungsten melt?").answerable > 0
    assert retriever.search(FINISHED, method="deep").answerable == known
    assert retriever.search(FINISHED, method="hybrid").answerable is None
    assert retriever.search(FINISHED, where={"_id": "none"}).answerable == 0
