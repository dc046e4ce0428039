"""Fusion of scores, against formulas of others that are written down here a second time, passage by passage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from semclass import InputError, InputTypeError
from semclass.scoring.fusion import DEPTH, KINDS, METHODS, fused, line, normalise, pool, ranks

DENSE = np.array([0.8, 0.2, 0.5, -0.1])
BM25 = np.array([0.0, 9.0, 4.5, 3.0])
NAN = np.nan

scores = arrays(np.float64, st.integers(1, 12), elements=st.floats(-1, 1, width=32))
pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, n, elements=st.floats(-1, 1, width=32)),
        arrays(np.float64, n, elements=st.floats(0, 40, width=32)),
    )
)


# -- formulas, worked out by hand -----------------------------------------------------------------------------------------


def test_linear_is_the_sum_of_the_reference_system():
    np.testing.assert_allclose(fused(DENSE, BM25, "linear").score, [0.8, 1.1, 0.95, 0.2])
    np.testing.assert_allclose(fused(DENSE, BM25, "linear", weight=1).score, [0.8, 9.2, 5, 2.9])


def test_scores_on_one_scale():
    np.testing.assert_allclose(normalise(BM25, "min-max"), [0, 1, 0.5, 1 / 3])
    np.testing.assert_allclose(normalise(np.array([2.0, 3.0, 4.0]), "min-max"), [0, 0.5, 1])
    np.testing.assert_allclose(normalise(np.array([2.0, 3.0, 4.0]), "from-zero"), [0.5, 0.75, 1])
    np.testing.assert_allclose(normalise(DENSE, "from-zero"), normalise(DENSE, "min-max"))  # the least is below 0


def test_convex_combination():
    np.testing.assert_allclose(fused(DENSE, BM25, "convex", alpha=0.5).score, [0.5, 1 / 6 + 0.5, 1 / 3 + 0.25, 1 / 6])


def test_few_candidates_are_compared_with_zero_and_many_with_the_least():
    dense, bm25 = np.linspace(0.5, 1, DEPTH), np.zeros(DEPTH)
    assert fused(dense, bm25, "convex", alpha=1.0).score[0] == 0
    assert fused(dense[:-1], bm25[:-1], "convex", alpha=1.0).score[0] == pytest.approx(dense[0] / dense[-2])


def test_reciprocal_ranks_count_from_one_and_k_is_60():
    assert ranks(DENSE).tolist() == [1, 3, 2, 4]
    assert ranks(BM25, above=0.0).tolist() == [0, 1, 2, 3]  # without a term of the question, a passage has no rank
    np.testing.assert_allclose(fused(DENSE, BM25, "rrf").score, [1 / 61, 1 / 63 + 1 / 61, 2 / 62, 1 / 64 + 1 / 63])


def test_ranks_within_a_list_of_some_length():
    assert ranks(np.array([1.0, 3.0, 3.0, NAN, 2.0]), 3).tolist() == [0, 1, 2, 0, 3]


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_method_is_a_line_along_its_weight(weight):
    base, signal = line(DENSE, BM25, "convex")
    np.testing.assert_allclose(base + weight * signal, fused(DENSE, BM25, "convex", alpha=weight).score)
    base, signal = line(DENSE, BM25, "linear")
    np.testing.assert_allclose(base + weight * signal, fused(DENSE, BM25, "linear", weight=weight).score)


# -- parity with named peers, formulas written as these publish them ------------------------------------------------------


def ranx_min_max(results: dict[str, float]) -> dict[str, float]:
    """ranx, normalization/min_max_norm.py."""
    least, most = min(results.values()), max(results.values())
    return {name: (score - least) / max(most - least, 1e-9) for name, score in results.items()}


def ranx_wsum(runs: list[dict[str, float]], weights: list[float]) -> dict[str, float]:
    """ranx, fusion/wsum.py: a run that lacks a passage adds nothing."""
    names = {name for run in runs for name in run}
    return {name: sum(w * run[name] for run, w in zip(runs, weights, strict=True) if name in run) for name in names}


def langchain_rrf(rankings: list[list[str]], c: int = 60) -> dict[str, float]:
    """LangChain's EnsembleRetriever.weighted_reciprocal_rank with weights of 1; ranx's rrf, and that of the paper."""
    found: dict[str, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, start=1):
            found[name] = found.get(name, 0.0) + 1 / (rank + c)
    return found


def named(values: np.ndarray) -> dict[str, float]:
    return {f"p{place}": float(value) for place, value in enumerate(values) if not np.isnan(value)}


def ranking(run: dict[str, float]) -> list[str]:
    return sorted(run, key=lambda name: -run[name])


@pytest.fixture(params=range(5))
def both(request):
    """Scores of passages as cosines and BM25 are; some of them the same."""
    rng = np.random.default_rng(request.param)
    dense = np.round(rng.uniform(-0.2, 0.9, 150), 3)
    return dense, np.round(rng.exponential(5, 150) + 0.1, 2)


def agree(found: np.ndarray, peer: dict[str, float]) -> None:
    np.testing.assert_allclose(found, [peer[f"p{place}"] for place in range(len(found))], rtol=0, atol=1e-12)


def test_weighted_sums_as_in_ranx(both):
    runs = [named(scores) for scores in both]
    agree(fused(*both, "linear").score, ranx_wsum(runs, [1, 0.1]))
    agree(fused(*both, "convex", alpha=0.3).score, ranx_wsum([ranx_min_max(run) for run in runs], [0.3, 0.7]))


def test_min_max_of_lists_that_differ_as_in_ranx(both):
    """What is not in a list adds nothing."""
    dense, bm25 = (np.where(ranks(scores, 100) > 0, scores, NAN) for scores in both)
    peer = ranx_wsum([ranx_min_max(named(dense)), ranx_min_max(named(bm25))], [0.55, 0.45])
    found = fused(dense, bm25, "convex", depth=100)
    assert {name for name, score in named(found.score).items() if score > -np.inf} == set(peer)
    rows = pool(dense, bm25, 100)
    np.testing.assert_allclose(found.score[rows], [peer[f"p{row}"] for row in rows], rtol=0, atol=1e-12)


def test_reciprocal_ranks_as_in_langchain_and_ranx(both):
    agree(fused(*both, "rrf").score, langchain_rrf([ranking(named(row)) for row in both]))


# -- single candidates, ties, nothing at all ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_scores_are_kept_if_they_are_hits(n, kind):
    """As LlamaIndex has it. Some peers give 0 to a single candidate, which then looks like no hit at all."""
    assert normalise(np.full(n, 0.3), kind).tolist() == [1.0] * n
    assert normalise(np.zeros(n), kind).tolist() == [0.0] * n


def test_a_single_hit_of_bm25_counts_where_others_have_none():
    bm25 = np.array([NAN, 4.0, NAN, NAN])
    assert fused(DENSE, bm25, "convex", alpha=0.0).score.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("method", METHODS)
def test_a_question_whose_terms_no_passage_has_is_ranked_by_vectors(method):
    found = fused(DENSE, np.zeros(4), method, depth=4)
    assert found.parts["bm25"].tolist() == [0] * 4
    assert np.argsort(-found.score).tolist() == [0, 2, 1, 3]


def test_no_scores_at_all():
    for kind in KINDS:
        assert normalise(np.array([]), kind).tolist() == []
        assert normalise(np.array([NAN, NAN]), kind).tolist() == [0, 0]
    for method in METHODS:
        assert len(fused(np.array([]), np.array([]), method, depth=5).score) == 0


# -- scores that are not known, lists of some length ----------------------------------------------------------------------


def test_what_a_system_did_not_return_is_no_better_than_its_last():
    found = np.array([3.0, NAN, 1.0])
    np.testing.assert_array_equal(fused(np.zeros(3), found, "linear", weight=0.5).score, [1.5, 0.5, 0.5])
    np.testing.assert_array_equal(fused(DENSE, np.full(4, NAN), "linear").score, DENSE)
    np.testing.assert_array_equal(normalise(found, "min-max"), [1, 0, 0])
    np.testing.assert_array_equal(fused(found, np.zeros(3), "rrf").score, [1 / 61, 0, 1 / 62])


def test_passages_outside_both_lists_have_no_score():
    found = fused(DENSE, BM25, "convex", alpha=0.5, depth=1)
    assert pool(DENSE, BM25, 1).tolist() == [0, 1]
    np.testing.assert_array_equal(found.score[2:], [-np.inf, -np.inf])
    np.testing.assert_array_equal(found.parts["dense"], [0.5, 0.125, -np.inf, -np.inf])


def test_a_passage_of_one_list_has_but_one_rank():
    found = fused(DENSE, BM25, "rrf", depth=2)
    assert found.parts["dense"].tolist() == [1 / 61, 0, 1 / 62, -np.inf]
    assert found.parts["bm25"].tolist() == [0, 1 / 61, 1 / 62, -np.inf]


options = st.fixed_dictionaries(
    {
        "method": st.sampled_from(METHODS),
        "alpha": st.floats(0, 1),
        "weight": st.floats(0, 2),
        "depth": st.none() | st.integers(1, 15),
    }
)


@given(pairs, options)
def test_parts_add_up_and_nothing_is_nan(both, options):
    kept = [scores.copy() for scores in both]
    score, parts = fused(*both, **options)
    assert list(parts) == ["dense", "bm25"]
    np.testing.assert_array_equal(score, parts["dense"] + parts["bm25"])
    assert not np.isnan(score).any()
    inside = pool(*both, options["depth"] or len(score))
    assert np.flatnonzero(score > -np.inf).tolist() == inside.tolist()
    for before, after in zip(kept, both, strict=True):
        np.testing.assert_array_equal(before, after)


@given(pairs, options.filter(lambda found: found["depth"] is not None))
def test_scores_of_the_two_lists_are_all_that_is_needed(both, options):
    """A large corpus hands in what its lists hold, and gets the same."""
    whole = fused(*both, **options)
    rows = pool(*both, options["depth"])
    few = fused(*(scores[rows] for scores in both), **options)
    np.testing.assert_array_equal(few.score, whole.score[rows])


@given(scores, st.sampled_from(KINDS))
def test_every_normalisation_keeps_the_order(values, kind):
    scaled = normalise(values, kind)
    assert (np.diff(scaled[np.argsort(values, kind="stable")]) >= 0).all()
    assert 0 <= scaled.min() <= scaled.max() <= 1


# -- what is not allowed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: normalise(DENSE, "max"), "kind is 'max'"),
        (lambda: fused(DENSE, BM25, "convex", alpha=1.5), "alpha is 1.5; it must be"),
        (lambda: fused(DENSE, BM25, "linear", weight=-1), "weight is -1; it must be"),
        (lambda: fused(DENSE, BM25[:2]), r"scores have the shapes \(4,\), \(2,\)"),
        (lambda: fused(DENSE, BM25, "sum"), "method is 'sum'"),
        (lambda: fused(DENSE, BM25, depth=0), "depth is 0"),
        (lambda: line(DENSE, BM25, "rrf"), "method is 'rrf'"),
    ],
)
def test_what_is_not_allowed_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_alpha_that_is_no_number():
    with pytest.raises(InputTypeError, match="alpha must be a number"):
        fused(DENSE, BM25, "convex", alpha="half")


def test_results_can_be_written_as_json():
    found = fused(DENSE, BM25, "rrf")
    assert json.dumps({name: part.tolist() for name, part in found.parts.items()})
