from __future__ import annotations

import pytest

from semclass import Reranker
from semclass.ranking.methods import METHODS, RERANKING

QUESTION = "When was the lighthouse finished?"


@pytest.mark.parametrize("method", METHODS)
def test_parts_add_up_to_the_score(retriever, models, corpus, method):
    hits = list(retriever.search(QUESTION, 5, explain=True, method=method))
    if method in RERANKING:
        hits += Reranker(models).rerank(QUESTION, corpus[:5], method=method, explain=True)
    for hit in hits:
        total = sum(hit.explanation.parts.values())
        assert hit.explanation.total == pytest.approx(total, abs=1e-9)
        assert hit.score == pytest.approx(total, abs=1e-5)


def test_words_classes_and_their_matches_are_shown(retriever):
    (hit,) = retriever.search(QUESTION, 1, explain=True)
    words = {item.word: item for item in hit.explanation.words}
    assert hit.id == "lighthouse-2"
    assert words["lighthouse"].exact
    assert words["lighthouse"].match == "lighthouse"
    assert all(-1.01 <= item.cosine <= 1.01 for item in hit.explanation.words)
    first = hit.explanation.classes[0]
    assert (first.name, first.provided) == ("NUM", pytest.approx(hit.probabilities["NUM"]))


def test_a_repeated_word_comes_once_with_the_weight_of_both(retriever):
    def weights(question):
        words = retriever.search(question, 1, explain=True)[0].explanation.words
        assert len({item.word for item in words}) == len(words)
        assert sum(item.weight for item in words) <= 1 + 1e-6
        return {item.word: item.weight for item in words}

    once = weights("Which lighthouse was finished?")
    twice = weights("Which lighthouse was finished, the old lighthouse or not?")
    ratio = 2 * once["lighthouse"] / once["finished"]
    assert twice["lighthouse"] / twice["finished"] == pytest.approx(ratio)


def test_hits_without_explain_have_no_explanation(retriever):
    assert all(hit.explanation is None for hit in retriever.search(QUESTION, 3))
