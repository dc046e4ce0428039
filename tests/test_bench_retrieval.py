"""Retrieval beside its peers: each ranks as its documentation says."""

import numpy as np
import pytest

from bench import lexical
from semclass import bm25
from semclass.types import Ragged

TEXTS = ["The cat sat on the mat.", "A dog barks at a cat, and the cats run.", "Bridges are built of granite."]


@pytest.mark.parametrize("make", [lexical.by_bm25s, lexical.by_rank_bm25])
def test_peers_find_the_passage_with_the_questions_words(make):
    pytest.importorskip("Stemmer")
    search = make(TEXTS)
    assert search("What are bridges built of?", 1) == [2]
    assert sorted(search("cat", 3)) == [0, 1, 2]


def test_bm25s_stems_and_rank_bm25_does_not():
    pytest.importorskip("Stemmer")
    assert lexical.by_bm25s(TEXTS)("bridge", 1) == [2]
    assert lexical.rank_bm25([lexical.words(text) for text in TEXTS]).get_scores(["bridge"]).tolist() == [0, 0, 0]


def test_rank_bm25_gives_the_same_scores_with_the_same_idf():
    terms = [[1, 2, 2], [2, 3], [4, 1, 1, 1]]
    model = lexical.rank_bm25(terms, same_idf=True)
    ragged = Ragged(np.concatenate(terms), np.array([0, 3, 5, 9]))
    ours = bm25.model(bm25.postings(ragged, np.ones(5, bool)))
    np.testing.assert_allclose(bm25.scores(ours, np.array([1, 3])), model.get_scores([1, 3]), rtol=1e-5)
