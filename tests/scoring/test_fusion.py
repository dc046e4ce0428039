"""Fusion of scores, against values that are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from semclass import InputError, InputTypeError
from semclass.scoring import FUSIONS
from semclass.scoring.fusion import DEPTH, fused, line, normalise, only_of, pool

DENSE = np.array([0.8, 0.2, 0.5, -0.1])
BM25 = np.array([0.0, 9.0, 4.5, 3.0])
NAN = np.nan

pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, n, elements=st.floats(-1, 1, width=32)),
        arrays(np.float64, n, elements=st.floats(0, 40, width=32)),
    )
)


def test_linear_is_the_sum_of_the_reference_system():
    np.testing.assert_allclose(fused(DENSE, BM25, "linear").score, [0.8, 1.1, 0.95, 0.2])
    np.testing.assert_allclose(fused(DENSE, BM25, "linear", weight=1).score, [0.8, 9.2, 5, 2.9])


def test_convex_combination():
    np.testing.assert_allclose(fused(DENSE, BM25, "convex", alpha=0.5).score, [0.5, 1 / 6 + 0.5, 1 / 3 + 0.25, 1 / 6])


def test_few_candidates_are_compared_with_zero():
    dense, bm25 = np.linspace(0.5, 1, DEPTH), np.zeros(DEPTH)
    assert fused(dense, bm25, "convex", alpha=1.0).score[0] == 0
    assert fused(dense[:-1], bm25[:-1], "convex", alpha=1.0).score[0] == pytest.approx(dense[0] / dense[-2])


def test_reciprocal_ranks_count_from_one_and_k_is_60():
    # without a term of the question, a passage has no rank in BM25's list
    np.testing.assert_allclose(fused(DENSE, BM25, "rrf").score, [1 / 61, 1 / 63 + 1 / 61, 2 / 62, 1 / 64 + 1 / 63])
    parts = fused(np.array([1.0, 3.0, 3.0, NAN, 2.0]), np.zeros(5), "rrf", depth=3).parts
    np.testing.assert_allclose(parts["dense"], [-np.inf, 1 / 61, 1 / 62, -np.inf, 1 / 63])


def test_bm25_has_its_full_weight_from_a_score_on():
    found = {top: fused(DENSE, BM25, "convex", alpha=0.5, bm25_top=top).parts for top in (0, 9, 18)}
    assert found[0]["bm25"].tolist() == found[9]["bm25"].tolist() == pytest.approx([0, 1 / 2, 1 / 4, 1 / 6])
    assert found[18]["bm25"].tolist() == pytest.approx([0, 1 / 4, 1 / 8, 1 / 12])
    assert found[18]["dense"].tolist() == found[0]["dense"].tolist()


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_method_is_a_line_along_its_weight(weight):
    base, signal = line(DENSE, BM25, "convex", 18.0)
    np.testing.assert_allclose(base + weight * signal, fused(DENSE, BM25, "convex", alpha=weight, bm25_top=18.0).score)
    base, signal = line(DENSE, BM25, "linear")
    np.testing.assert_allclose(base + weight * signal, fused(DENSE, BM25, "linear", weight=weight).score)


@pytest.mark.parametrize(("alpha", "best"), [(0.0, [1, 2]), (0.5, [0, 1, 2]), (1.0, [0, 2])])
def test_a_list_that_counts_for_nothing_is_not_looked_at(alpha, best):
    assert np.flatnonzero(fused(DENSE, BM25, "convex", alpha=alpha, depth=2).score > -np.inf).tolist() == best


@pytest.mark.parametrize("n", [1, 3, 200])
def test_equal_scores_are_kept_if_they_are_hits(n):
    """As LlamaIndex has it. Some peers give 0 to a single candidate, which then looks like no hit at all."""
    assert normalise(np.full(n, 0.3)).tolist() == [1.0] * n
    assert normalise(np.zeros(n)).tolist() == [0.0] * n


@pytest.mark.parametrize("method", FUSIONS)
def test_a_question_without_terms_is_ranked_by_vectors(method):
    found = fused(DENSE, np.zeros(4), method, depth=4)
    assert found.parts["bm25"].tolist() == [0] * 4
    assert np.argsort(-found.score).tolist() == [0, 2, 1, 3]
    assert len(fused(np.array([]), np.array([]), method, depth=5).score) == 0


def test_what_a_system_did_not_return_is_no_better_than_its_last():
    found = np.array([3.0, NAN, 1.0])
    np.testing.assert_array_equal(fused(np.zeros(3), found, "linear", weight=0.5).score, [1.5, 0.5, 0.5])
    np.testing.assert_array_equal(fused(DENSE, np.full(4, NAN), "linear").score, DENSE)
    np.testing.assert_array_equal(normalise(found), [1, 0, 1 / 3])
    np.testing.assert_array_equal(normalise(np.array([NAN, NAN])), [0, 0])
    np.testing.assert_array_equal(fused(found, np.zeros(3), "rrf").score, [1 / 61, 0, 1 / 62])


options = st.fixed_dictionaries(
    {
        "method": st.sampled_from(FUSIONS),
        "alpha": st.floats(0, 1),
        "weight": st.floats(0, 2),
        "depth": st.none() | st.integers(1, 15),
    }
)


@given(pairs, options)
def test_scores_of_the_two_lists_are_all_that_is_needed(both, options):
    score, parts = fused(*both, **options)
    assert list(parts) == ["dense", "bm25"]
    np.testing.assert_array_equal(score, parts["dense"] + parts["bm25"])
    assert not np.isnan(score).any()
    only = None if options["depth"] is None else only_of(options["method"], options["alpha"])
    rows = pool(*both, options["depth"] or len(score), only=only)
    assert np.flatnonzero(score > -np.inf).tolist() == rows.tolist()
    if options["depth"] is not None:
        np.testing.assert_array_equal(fused(*(scores[rows] for scores in both), **options).score, score[rows])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"method": "convex", "alpha": 1.5}, InputError, "alpha is 1.5"),
        ({"method": "convex", "alpha": "half"}, InputTypeError, "alpha must be a number"),
        ({"method": "linear", "weight": -1}, InputError, "weight is -1"),
        ({"method": "sum"}, InputError, "method is 'sum'"),
        ({"depth": 0}, InputError, "depth is 0"),
        ({"bm25": BM25[:2]}, InputError, r"scores have the shapes \(4,\) and \(2,\)"),
    ],
)
def test_what_is_not_allowed_is_named(given, error, message):
    with pytest.raises(error, match=message):
        fused(**{"dense": DENSE, "bm25": BM25, **given})
