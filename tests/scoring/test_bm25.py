from __future__ import annotations

import itertools
from dataclasses import fields

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.core.files import Files, load_arrays, names_of, save_arrays
from semclass.core.types import Ragged, ragged
from semclass.scoring import bm25
from semclass.scoring.bm25 import Postings, count_deleted, count_terms, merge
from semclass.scoring.vectors import top_k

VOCABULARY = 50


@pytest.fixture
def terms() -> Ragged:
    rng = np.random.default_rng(0)
    rows = [rng.zipf(1.4, size=rng.integers(1, 30)).clip(0, VOCABULARY - 1).astype(np.int32) for _ in range(60)]
    return ragged(rows, np.zeros(0, np.int32))


def scores(found: Postings, question: list[int] | np.ndarray) -> np.ndarray:
    return bm25.scores([found], bm25.statistics([found]), np.array(question, np.int64))


def stretches(terms: Ragged, *ends: int) -> list[Postings]:
    """Segments of a corpus."""
    cuts = [0, *ends, len(terms)]
    rows = [[terms.row(row) for row in range(*pair)] for pair in itertools.pairwise(cuts)]
    return [count_terms(ragged(some, np.zeros(0, np.int32))) for some in rows]


def assert_same(left: Postings, right: Postings) -> None:
    for item in fields(Postings):
        np.testing.assert_array_equal(getattr(left, item.name), getattr(right, item.name))


corpora = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=12), min_size=1, max_size=12)


def test_no_passage_exceeds_the_attainable_score(terms):
    found = count_terms(terms)
    known = bm25.statistics([found])
    for row in range(len(terms)):
        assert scores(found, terms.row(row)).max() < bm25.attainable(known, terms.row(row))
    absent = np.array([VOCABULARY, VOCABULARY])  # counts twice, as a term that no passage has
    assert bm25.attainable(known, absent) == pytest.approx(2 * 2.5 * known.idf(absent)[0])


@given(corpora)
def test_scores_equal_those_that_bm25s_computes(rows):
    terms = ragged([np.array(row, np.int64) for row in rows], np.zeros(0, np.int64))
    library = bm25s.BM25(k1=bm25.K1, b=bm25.B, method="atire", idf_method="lucene", backend="numpy")
    if not any(rows):
        return  # nothing to compare with: bm25s divides by the mean length
    library.index((rows, {str(i): i for i in range(VOCABULARY)}), create_empty_token=False, show_progress=False)
    question = np.arange(VOCABULARY)
    np.testing.assert_allclose(
        scores(count_terms(terms), question), library.get_scores_from_ids(question), rtol=1e-6, atol=1e-6
    )


def test_postings_count_terms_in_the_smallest_types():
    terms = ragged([np.array([3, 1, 3]), np.array([0]), np.array([], np.int64), np.array([3])], np.zeros(0, np.int64))
    found = count_terms(terms)
    assert found.terms.tolist() == [0, 1, 3]
    assert found.counts.tolist() == [1, 1, 2, 1]
    assert found.passages.tolist() == [1, 0, 0, 3]
    assert found.starts.tolist() == [0, 1, 2, 4]
    assert found.lengths.tolist() == [3, 1, 0, 1]
    assert found.counts.dtype == found.passages.dtype == found.starts.dtype == found.lengths.dtype == np.uint8
    assert found.document_frequencies.tolist() == [1, 1, 2]  # passages, not occurrences
    assert found.places_of(np.array([3, 2, 0, 4_000_000_000])).tolist() == [2, -1, 0, -1]


@pytest.mark.parametrize("rows", [[[1, 2], [2] * 300], [[row % 7, 7 + row % 3] for row in range(400)]])
def test_segments_are_merged_in_memory_and_on_the_disk(tmp_path, rows):
    together = ragged([np.array(row) for row in rows], np.zeros(0, np.int64))
    parts, whole = stretches(together, len(rows) // 2), count_terms(together)
    for merged in (
        merge(parts),
        merge(parts, folder=tmp_path / "bm25"),
        load_arrays(Postings, Files(tmp_path / "bm25")),
    ):
        assert_same(merged, whole)
        assert merged.counts.dtype == whole.counts.dtype
        assert merged.passages.dtype == whole.passages.dtype
    save_arrays(whole, tmp_path / "saved")
    for name in names_of(Postings):
        assert (tmp_path / "saved" / name).read_bytes() == (tmp_path / "bm25" / name).read_bytes()


@pytest.mark.parametrize("block", [1, 7, 100])
def test_blocks_change_nothing(monkeypatch, terms, block):
    parts = stretches(terms, 25)
    question, dead = np.arange(VOCABULARY), np.arange(0, 25, 3)
    whole = bm25.scores(parts, bm25.statistics(parts), question)
    deleted = count_deleted(parts[0], dead)
    monkeypatch.setattr(bm25, "READ_POSTINGS", block)
    monkeypatch.setattr(bm25, "SCORED_POSTINGS", block)
    np.testing.assert_array_equal(bm25.scores(parts, bm25.statistics(parts), question), whole)
    np.testing.assert_array_equal(count_deleted(parts[0], dead).document_frequencies, deleted.document_frequencies)
    assert_same(merge(parts), count_terms(terms))


@given(corpora, st.data())
def test_segments_score_as_one_index_of_what_is_there(rows, data):
    terms = ragged([np.array(row, np.int64) for row in rows], np.zeros(0, np.int64))
    parts = stretches(terms, data.draw(st.integers(0, len(rows))))
    dead = [
        np.array(sorted(data.draw(st.sets(st.integers(0, max(len(part) - 1, 0)), max_size=len(part)))))
        for part in parts
    ]
    deleted = [count_deleted(part, rows) for part, rows in zip(parts, dead, strict=True)]
    there = np.concatenate([~np.isin(np.arange(len(part)), rows) for part, rows in zip(parts, dead, strict=True)])
    known, question = bm25.statistics(parts, deleted), np.arange(VOCABULARY)
    left = count_terms(ragged([terms.row(row) for row in np.flatnonzero(there)], np.zeros(0, np.int64)))
    expected = bm25.statistics([left])
    assert known.passages == expected.passages == there.sum()
    assert known.average == expected.average
    np.testing.assert_array_equal(known.frequencies(question), expected.frequencies(question))
    np.testing.assert_array_equal(bm25.scores(parts, known, question)[there], scores(left, question))
    keep = np.split(there, [len(parts[0])])
    assert_same(merge(parts, keep), left)


@st.composite
def asked(draw):
    """Segments, a question, how many passages are wanted, and which may be found."""
    rows = draw(st.lists(st.lists(st.integers(0, 15), max_size=8), min_size=1, max_size=40))
    parts = stretches(
        ragged([np.array(row, np.int64) for row in rows], np.zeros(0, np.int64)), draw(st.integers(0, len(rows)))
    )
    question = np.array(draw(st.lists(st.integers(0, 15), max_size=6)), np.int64)
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)).map(np.array))
    return parts, question, draw(st.integers(1, 45)), allowed


@pytest.mark.parametrize("frequent", [1, 8, 10_000], ids="a term is frequent if more than 1 of {} has it".format)
@pytest.mark.parametrize("n", [1, 7, 300])
def test_the_best_of_many_segments_are_those_of_scoring_all(monkeypatch, frequent, n):
    monkeypatch.setattr(bm25, "FREQUENT_SHARE", frequent)
    rng = np.random.default_rng(n)
    rows = [rng.zipf(1.3, rng.integers(0, 20)).clip(0, VOCABULARY - 1) for _ in range(900)]
    parts = stretches(ragged(rows, np.zeros(0, np.int64)), 400, 410, 410, 700)
    known = bm25.statistics(parts)
    for question in (rng.integers(0, VOCABULARY, size) for size in (1, 2, 5, 12)):
        every = bm25.scores(parts, known, question)
        rows, found = bm25.best(parts, known, question, n)
        expected = top_k(every, n)
        np.testing.assert_array_equal(rows, expected[every[expected] > 0])
        np.testing.assert_array_equal(found, every[rows])


@given(asked(), st.data())
def test_some_passages_score_as_among_all(made, data):
    parts, question, _, _ = made
    known = bm25.statistics(parts)
    every = bm25.scores(parts, known, question)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(every) - 1)))), np.int64)
    np.testing.assert_array_equal(bm25.scores_at(parts, known, question, rows), every[rows])


def test_space_on_the_disk_is_taken_before_a_file_is_mapped(tmp_path):
    array = bm25._mapped(tmp_path / "array.npy", np.dtype(np.uint32), 100_000)  # a full disk would end the process
    assert (tmp_path / "array.npy").stat().st_blocks * 512 >= array.nbytes
    assert np.load(tmp_path / "array.npy").sum() == 0
