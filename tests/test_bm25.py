from __future__ import annotations

import bm25s
import numpy as np
import pytest
import rank_bm25
from hypothesis import given
from hypothesis import strategies as st

from semclass import bm25
from semclass.types import Ragged, ragged

VOCABULARY = 50


@pytest.fixture
def terms() -> Ragged:
    rng = np.random.default_rng(0)
    rows = [rng.zipf(1.4, size=rng.integers(1, 30)).clip(0, VOCABULARY - 1).astype(np.int32) for _ in range(60)]
    return ragged(rows, np.zeros(0, np.int32))


def build(terms: Ragged, is_term: np.ndarray | None = None) -> bm25s.BM25:
    return bm25.model(bm25.postings(terms, np.ones(VOCABULARY, bool) if is_term is None else is_term))


class ReferenceBM25(rank_bm25.BM25Okapi):
    """rank-bm25's scores with the inverse document frequency that is never negative."""

    def _calc_idf(self, nd):
        self.idf = {term: np.log1p((self.corpus_size - df + 0.5) / (df + 0.5)) for term, df in nd.items()}


@pytest.mark.parametrize("question", [[1], [1, 2, 3], [2, 2, 7], [49, 1]], ids=str)
def test_scores_equal_rank_bm25(terms, question):
    model = build(terms)
    reference = ReferenceBM25([terms.row(i).tolist() for i in range(len(terms))], k1=bm25.K1, b=bm25.B)
    np.testing.assert_allclose(bm25.scores(model, np.array(question)), reference.get_scores(question), atol=1e-5)


@given(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=12), min_size=1, max_size=12))
def test_scores_equal_those_that_bm25s_computes(rows):
    terms = ragged([np.array(row, np.int64) for row in rows], np.zeros(0, np.int64))
    library = bm25s.BM25(k1=bm25.K1, b=bm25.B, method="atire", idf_method="lucene", backend="numpy")
    if not any(rows):
        return  # nothing to compare with: bm25s divides by the mean length
    library.index((rows, {str(i): i for i in range(VOCABULARY)}), create_empty_token=False, show_progress=False)
    question = np.arange(VOCABULARY)
    np.testing.assert_allclose(
        bm25.scores(build(terms), question), library.get_scores_from_ids(question), rtol=1e-5, atol=1e-6
    )


def test_what_is_saved_scores_the_same(terms, tmp_path):
    found = bm25.postings(terms, np.ones(VOCABULARY, bool))
    question = np.array([1, 2, 5])
    bm25.save(found, tmp_path / "bm25")
    loaded = bm25.load(tmp_path / "bm25")
    assert len(loaded) == len(terms)
    np.testing.assert_array_equal(bm25.scores(bm25.model(loaded), question), bm25.scores(bm25.model(found), question))


def test_postings_count_terms_in_the_smallest_types_that_hold_them():
    terms = ragged([np.array([3, 1, 3]), np.array([0]), np.array([], np.int64), np.array([3])], np.zeros(0, np.int64))
    is_term = np.array([False, True, True, True, True])
    found = bm25.postings(terms, is_term)
    assert found.counts.tolist() == [1, 2, 1]
    assert found.passages.tolist() == [0, 0, 3]
    assert found.starts.tolist() == [0, 0, 1, 1, 3, 3]
    assert found.lengths.tolist() == [3, 0, 0, 1]
    assert {array.dtype for array in (found.counts, found.passages, found.starts, found.lengths)} == {
        np.dtype(np.uint8)
    }
    np.testing.assert_array_equal(found.document_frequencies, bm25.document_frequencies(terms, 5) * is_term)


def test_a_term_may_come_more_often_than_a_byte_can_count():
    found = bm25.postings(ragged([np.full(300, 2), np.array([1])], np.zeros(0, np.int64)), np.ones(3, bool))
    assert found.counts.tolist() == [1, 300]
    assert found.counts.dtype == np.uint16


def test_passages_without_terms_score_0():
    model = bm25.model(bm25.postings(ragged([np.array([], np.int64)], np.zeros(0, np.int64)), np.ones(3, bool)))
    np.testing.assert_array_equal(bm25.scores(model, np.array([1, 2])), [0])


def test_pieces_that_are_no_terms_count_neither_as_matches_nor_as_length(terms):
    is_term = np.ones(VOCABULARY, bool)
    is_term[1] = False
    model = build(terms, is_term)
    without = ragged([row[row != 1] for row in map(terms.row, range(len(terms)))], np.zeros(0, np.int32))
    expected = build(without)
    np.testing.assert_allclose(
        bm25.scores(model, np.array([1, 2, 3])), bm25.scores(expected, np.array([2, 3])), atol=1e-6
    )


def test_a_few_passages_are_scored_as_an_index_of_them_would(terms):
    # the same formula by another route: given its own document frequencies, the result must be the same
    idf = bm25.idf_table(bm25.document_frequencies(terms, VOCABULARY), len(terms))
    question = np.array([1, 2, 2, 40])
    model = build(terms)
    np.testing.assert_allclose(bm25.score_few(terms, question, idf), bm25.scores(model, question), atol=1e-5)


def test_document_frequency_counts_passages_not_occurrences():
    terms = ragged([np.array([3, 3, 3]), np.array([3, 1])], np.zeros(0, np.int64))
    assert bm25.document_frequencies(terms, 5).tolist() == [0, 1, 0, 2, 0]


def test_scores_do_not_depend_on_the_blocks_they_are_computed_in(monkeypatch):
    rng = np.random.default_rng(0)
    terms = ragged([rng.integers(0, 40, size) for size in rng.integers(0, 30, 50)], np.zeros(0, np.int64))
    found = bm25.postings(terms, np.arange(60) % 7 != 0)
    whole = bm25.model(found).scores["data"]
    for block in (1, 7, 100):
        monkeypatch.setattr(bm25, "BLOCK", block)
        np.testing.assert_array_equal(bm25.model(found).scores["data"], whole)
