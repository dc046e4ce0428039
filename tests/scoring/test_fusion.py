"""Fusion of scores, against values that are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from semclass.scoring.fusion import DEPTH, FUSIONS, fused, normalise, pool

DENSE = np.array([0.8, 0.2, 0.5, -0.1])
BM25 = np.array([0.0, 9.0, 4.5, 3.0])
NAN = np.nan

pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, n, elements=st.floats(-1, 1, width=32)),
        arrays(np.float64, n, elements=st.floats(0, 40, width=32)),
    )
)


ONES = {"dense": 1.0, "bm25": 1.0}


def fused_two(dense, bm25, method="linear", weights=None, **options):
    return fused({"dense": dense, "bm25": bm25}, method, ONES | (weights or {}), **options)


def score(*args, **options):
    return sum(fused_two(*args, **options).values())


def test_linear_is_the_sum_of_the_reference_system():
    np.testing.assert_allclose(score(DENSE, BM25, weights={"bm25": 0.1}), [0.8, 1.1, 0.95, 0.2])
    np.testing.assert_allclose(score(DENSE, BM25), [0.8, 9.2, 5, 2.9])


def test_convex_combination():
    halves = {"dense": 0.5, "bm25": 0.5}
    np.testing.assert_allclose(score(DENSE, BM25, "convex", halves), [0.5, 1 / 6 + 0.5, 1 / 3 + 0.25, 1 / 6])


def test_any_number_of_signals_is_fused():
    three = {"dense": DENSE, "bm25": BM25, "sparse": BM25}
    weights = {"dense": 0.5, "bm25": 0.25, "sparse": 0.25}
    found = fused(three, "convex", weights)
    np.testing.assert_allclose(sum(found.values()), score(DENSE, BM25, "convex", {"dense": 0.5, "bm25": 0.5}))
    assert list(found) == list(three)
    assert fused({"bm25": BM25}, "rrf", ONES)["bm25"].argmax() == 1


def test_few_candidates_are_compared_with_zero():
    dense = np.linspace(0.5, 1, DEPTH)
    assert fused({"dense": dense}, "convex", ONES)["dense"][0] == 0
    assert fused({"dense": dense[:-1]}, "convex", ONES)["dense"][0] == pytest.approx(dense[0] / dense[-2])


def test_reciprocal_ranks_count_from_one_and_k_is_60():
    # without a term of the question, a passage has no rank in BM25's list
    np.testing.assert_allclose(score(DENSE, BM25, "rrf"), [1 / 61, 1 / 63 + 1 / 61, 2 / 62, 1 / 64 + 1 / 63])
    parts = fused_two(np.array([1.0, 3.0, 3.0, NAN, 2.0]), np.zeros(5), "rrf", depth=3)
    np.testing.assert_allclose(parts["dense"], [0, 1 / 61, 1 / 62, 0, 1 / 63])


def test_a_signal_has_its_full_weight_from_a_score_on():
    found = {top: fused_two(DENSE, BM25, "convex", {"bm25": 0.5}, tops={"bm25": top}) for top in (0, 9, 18)}
    assert found[0]["bm25"].tolist() == found[9]["bm25"].tolist() == pytest.approx([0, 1 / 2, 1 / 4, 1 / 6])
    assert found[18]["bm25"].tolist() == pytest.approx([0, 1 / 4, 1 / 8, 1 / 12])
    assert found[18]["dense"].tolist() == found[0]["dense"].tolist()


def test_lists_hold_hits_alone():
    assert pool({"dense": DENSE, "bm25": BM25}, 2).tolist() == [0, 1, 2]
    assert pool({"bm25": BM25}, 4).tolist() == [1, 2, 3]
    assert pool({"dense": DENSE}, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("n", [1, 3, 200])
def test_equal_scores_are_kept_if_they_are_hits(n):
    """As LlamaIndex has it. Some peers give 0 to a single candidate, which then looks like no hit at all."""
    assert normalise(np.full(n, 0.3)).tolist() == [1.0] * n
    assert normalise(np.zeros(n)).tolist() == [0.0] * n


@pytest.mark.parametrize("method", FUSIONS)
def test_a_question_without_terms_is_ranked_by_vectors(method):
    found = fused_two(DENSE, np.zeros(4), method, depth=4)
    assert found["bm25"].tolist() == [0] * 4
    assert np.argsort(-sum(found.values())).tolist() == [0, 2, 1, 3]
    assert len(score(np.array([]), np.array([]), method, depth=5)) == 0


def test_what_a_system_did_not_return_is_no_better_than_its_last():
    found = np.array([3.0, NAN, 1.0])
    np.testing.assert_array_equal(score(np.zeros(3), found, weights={"bm25": 0.5}), [1.5, 0.5, 0.5])
    np.testing.assert_array_equal(score(DENSE, np.full(4, NAN)), DENSE)
    np.testing.assert_array_equal(normalise(found), [1, 0, 1 / 3])
    np.testing.assert_array_equal(normalise(np.array([NAN, NAN])), [0, 0])
    np.testing.assert_array_equal(score(found, np.zeros(3), "rrf"), [1 / 61, 0, 1 / 62])


@given(pairs, st.sampled_from(FUSIONS), st.floats(0, 1), st.integers(1, 15))
def test_summands_are_numbers(both, method, alpha, depth):
    parts = fused_two(*both, method, {"dense": alpha, "bm25": 1 - alpha}, depth=depth)
    assert not np.isnan(sum(parts.values())).any()
