from __future__ import annotations

import numpy as np
import pytest
import rank_bm25

from semclass import bm25
from semclass.types import Ragged, ragged

VOCABULARY = 50


@pytest.fixture
def terms() -> Ragged:
    rng = np.random.default_rng(0)
    rows = [rng.zipf(1.4, size=rng.integers(1, 30)).clip(0, VOCABULARY - 1).astype(np.int32) for _ in range(60)]
    return ragged(rows, np.zeros(0, np.int32))


class ReferenceBM25(rank_bm25.BM25Okapi):
    """rank-bm25's scores with the inverse document frequency that is never negative."""

    def _calc_idf(self, nd):
        self.idf = {term: np.log1p((self.corpus_size - df + 0.5) / (df + 0.5)) for term, df in nd.items()}


@pytest.mark.parametrize("question", [[1], [1, 2, 3], [2, 2, 7], [49, 1]], ids=str)
def test_scores_equal_rank_bm25(terms, question):
    model = bm25.build(terms, np.ones(VOCABULARY, bool))
    reference = ReferenceBM25([terms.row(i).tolist() for i in range(len(terms))], k1=bm25.K1, b=bm25.B)
    np.testing.assert_allclose(bm25.scores(model, np.array(question)), reference.get_scores(question), atol=1e-5)


def test_what_is_saved_scores_the_same(terms, tmp_path):
    model = bm25.build(terms, np.ones(VOCABULARY, bool))
    question = np.array([1, 2, 5])
    before = bm25.scores(model, question)
    bm25.save(model, tmp_path / "bm25")
    np.testing.assert_array_equal(bm25.scores(bm25.load(tmp_path / "bm25"), question), before)


def test_pieces_that_are_no_terms_count_neither_as_matches_nor_as_length(terms):
    is_term = np.ones(VOCABULARY, bool)
    is_term[1] = False
    model = bm25.build(terms, is_term)
    without = ragged([row[row != 1] for row in map(terms.row, range(len(terms)))], np.zeros(0, np.int32))
    expected = bm25.build(without, np.ones(VOCABULARY, bool))
    np.testing.assert_allclose(
        bm25.scores(model, np.array([1, 2, 3])), bm25.scores(expected, np.array([2, 3])), atol=1e-6
    )


def test_a_few_passages_are_scored_as_an_index_of_them_would(terms):
    # the same formula by another route: given its own document frequencies, the result must be the same
    idf = bm25.idf_table(bm25.document_frequencies(terms, VOCABULARY), len(terms))
    question = np.array([1, 2, 2, 40])
    model = bm25.build(terms, np.ones(VOCABULARY, bool))
    np.testing.assert_allclose(bm25.score_few(terms, question, idf), bm25.scores(model, question), atol=1e-5)


def test_document_frequency_counts_passages_not_occurrences():
    terms = ragged([np.array([3, 3, 3]), np.array([3, 1])], np.zeros(0, np.int64))
    assert bm25.document_frequencies(terms, 5).tolist() == [0, 1, 0, 2, 0]
