"""Reading the first candidates together with the question."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from semclass import HybridRetriever, Reranker
from semclass.heads.deep import MAX_PIECES, chosen_sentences, pairs_of
from semclass.ranking.methods import METHODS

QUESTION = "When was the stone bridge built?"
TEXTS = [
    "The stone bridge was built from granite blocks.",
    "Masons finished the crossing of the river in 1874.",
    "When was the stone bridge built? Nobody in the town can say.",
    "Bridges are built of stone, wood or steel.",
    "The town has a stone bridge, a mill and a market.",
    "A ferry crossed the river every hour.",
    "Granite is a hard stone.",
]


@pytest.fixture(scope="module")
def retriever(models) -> HybridRetriever:
    return HybridRetriever.from_passages(TEXTS, models=models)


def test_the_most_valuable_sentences_are_read_in_order():
    sentences = [f"Sentence {number} has {'many ' * 15}words." for number in range(6)]
    chosen = chosen_sentences("Numbers", " ".join(sentences), np.array([0.1, 0.9, 0.2, 0.3, 0.8, 0.7], np.float32))
    assert chosen == [f"Numbers {sentences[1]}", sentences[4]]


def test_of_a_long_question_the_end_is_read(models):
    long = " ".join(["before"] * 200) + " who built it?"
    ((states, marks),) = pairs_of(models.encoder, [long], [["Ada built it."]])
    assert len(states) == len(marks) <= MAX_PIECES + 10
    assert (marks == 1).sum() >= 2  # "built" and "it", though they stand at the end


def test_pairs_are_judged_one_by_one(models):
    pairs = [(QUESTION, [TEXTS[1]]), (QUESTION, TEXTS[:2]), ("Who?", ["A ferry."])]
    together = models.deep.read(*zip(*pairs, strict=True))
    alone = [models.deep.read([question], [sentences])[0] for question, sentences in pairs]
    np.testing.assert_allclose(together, alone, atol=0.05)


def test_the_head_orders_the_first_ones_before_the_others(retriever):
    first, count = retriever.search(QUESTION, k=7), METHODS["deep"].joint_top_k
    hits = retriever.search(QUESTION, k=7, method="deep", explain=True)
    assert {hit.id for hit in hits[:count]} == {hit.id for hit in first[:count]}
    assert [hit.id for hit in hits[count:]] == [hit.id for hit in first[count:]]
    assert all(one.score >= other.score for one, other in itertools.pairwise(hits))
    assert min(hit.explanation.parts["deep"] for hit in hits[:count]) == 0
    without = retriever.search(QUESTION, k=7, method="deep", weights={"deep": 0.0})
    assert [hit.id for hit in without] == [hit.id for hit in first]


def test_an_answer_is_told_from_what_resembles_one(models):
    answer = "The stone bridge was finished in 1874, after two years of work."
    hits = Reranker(models).rerank(QUESTION, [*TEXTS[2:], answer], method="deep")
    assert (hits[0].text, hits[0].components["relevance"] > 0.5) == (answer, True)
