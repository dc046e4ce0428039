"""How sure the first place is, in a word, and how probable it is that passages answer at all."""

from __future__ import annotations

import numpy as np
import pytest

from semclass import HybridRetriever, Reranker
from semclass.ranking.methods import LEAD_WEIGHT, answerable, certainty

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
        (0.2, -1.0, 0.7, 0.0, "likely"),
        (0.05, -1.0, 0.7, 0.5, "weak"),  # the second is level with it
        (0.6, 0.0, 0.3, 0.0, "weak"),  # nothing is about the question
    ],
)
def test_a_word_says_how_sure_the_first_place_is(lead, behind, near, relevance, word):
    assert certainty(lead, behind, near, relevance) == word


@pytest.mark.parametrize("options", [{}, {"weights": {"alpha": 0.4, "evidence": 1.5}}])
def test_certainty_is_that_of_the_first_hit_for_all_weights(models, options):
    reranker, retriever = Reranker(models), HybridRetriever.from_passages(TOWN, models=models)
    for question, word in ((BUILT, "strong"), ("How many burrows does a budget need?", "weak")):
        assert reranker.rerank(question, TOWN, **options).certainty == word
        assert retriever.search(question, **options).certainty == word
    assert reranker.rerank(BUILT, [TOWN[0], *TOWN], **options).certainty == "weak"  # a copy is level
    assert reranker.rerank(BUILT, TOWN[:1], **options).certainty is None


def test_answerable_is_relevance_raised_by_the_lead():
    assert answerable(0.25, 0.5) == pytest.approx(1 / (1 + np.exp(-LEAD_WEIGHT * 0.25)))
    assert answerable(0.0, 0.5) == pytest.approx(0.5)


def test_a_question_with_its_answer_gets_more_than_without_it(retriever, models):
    with_answer = retriever.search(FINISHED).answerable
    assert 1 > with_answer > retriever.search(FINISHED, where={"_id": {"$ne": ANSWER}}).answerable
    assert with_answer > 0.015 > retriever.search("At what temperature does tungsten melt?").answerable
    fusion = retriever.search(FINISHED, method="hybrid")
    assert (fusion.answerable, fusion.certainty) == (None, None)
