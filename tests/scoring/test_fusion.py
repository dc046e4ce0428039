"""Fusion of scores, against formulas of others that are written down here a second time, passage by passage."""

from __future__ import annotations

import json
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from semclass import InputError, InputTypeError
from semclass.scoring.fusion import KINDS, METHODS, convex, ensemble, fused, linear, normalise, pool, ranks, rrf

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


def test_linear_is_the_sum_of_the_thesis():
    np.testing.assert_allclose(linear(DENSE, BM25, 0.1), [0.8, 1.1, 0.95, 0.2])
    np.testing.assert_allclose(fused(DENSE, BM25, "linear").score, [0.8, 1.1, 0.95, 0.2])


def test_min_max():
    np.testing.assert_allclose(normalise(BM25, "min-max"), [0, 1, 0.5, 1 / 3])


def test_z_score_is_in_deviations_of_the_population():
    np.testing.assert_allclose(normalise(np.array([1.0, 2.0, 3.0]), "z-score"), [-(1.5**0.5), 0, 1.5**0.5])


def test_theoretical_bounds_leave_a_poor_list_poor():
    np.testing.assert_allclose(normalise(DENSE, "theoretical", low=-1), [1, 1.2 / 1.8, 1.5 / 1.8, 0.5])
    np.testing.assert_allclose(normalise(np.array([0.1, 0.05]), "theoretical", low=-1, high=1), [0.55, 0.525])
    assert normalise(np.array([0.1, 0.05]), "min-max")[1] == 0
    assert normalise(np.array([0.0, 1.0, 3.0]), "min-max", low=1).tolist() == [
        -0.5,
        0,
        1,
    ]  # below the bound it is below 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("min-max", [0.5 + 0, 1 / 6 + 0.5, 1 / 3 + 0.25, 0 + 1 / 6]),
        ("theoretical", [0.5 + 0, 1.2 / 3.6 + 0.5, 1.5 / 3.6 + 0.25, 0.25 + 1 / 6]),
    ],
)
def test_convex_combination(kind, expected):
    np.testing.assert_allclose(convex(DENSE, BM25, 0.5, kind), expected)


def test_reciprocal_ranks_count_from_one_and_k_is_60():
    first, second = ranks(DENSE), ranks(BM25, above=0.0)
    assert first.tolist() == [1, 3, 2, 4]
    assert second.tolist() == [0, 1, 2, 3]  # without a term of the question, a passage is not in BM25's list
    np.testing.assert_allclose(rrf(first, second), [1 / 61, 1 / 63 + 1 / 61, 2 / 62, 1 / 64 + 1 / 63])
    np.testing.assert_allclose(rrf(first, second, k=1, weights=[2, 0.5]), [1, 0.5 + 0.25, 2 / 3 + 0.5 / 3, 0.4 + 0.125])


def test_ranks_within_a_list_of_some_length():
    assert ranks(np.array([1.0, 3.0, 3.0, NAN, 2.0]), 3).tolist() == [0, 1, 2, 0, 3]


def test_several_encoders_are_a_weighted_mean():
    np.testing.assert_allclose(ensemble([DENSE, -DENSE], [3, 1]), DENSE / 2)
    np.testing.assert_allclose(ensemble([DENSE, DENSE]), DENSE)
    np.testing.assert_allclose(ensemble([DENSE, 100 * DENSE], kind="z-score"), normalise(DENSE, "z-score"))
    np.testing.assert_allclose(ensemble([DENSE], kind="theoretical"), normalise(DENSE, "theoretical", low=-1))


def test_wordings_of_a_question_score_as_their_mean_vector():
    rng = np.random.default_rng(0)
    passages, wordings = rng.normal(size=(20, 8)), rng.normal(size=(3, 8))
    weights = np.array([0.5, 0.3, 0.2])
    expected = passages @ (weights @ wordings)
    np.testing.assert_allclose(ensemble(wordings @ passages.T, weights.tolist()), expected, atol=1e-12)


# -- parity with named peers, formulas written as these publish them ------------------------------------------------------


def ranx_min_max(results: dict[str, float]) -> dict[str, float]:
    """ranx, normalization/min_max_norm.py."""
    least, most = min(results.values()), max(results.values())
    return {name: (score - least) / max(most - least, 1e-9) for name, score in results.items()}


def ranx_zmuv(results: dict[str, float]) -> dict[str, float]:
    """ranx, normalization/zmuv_norm.py: zero mean, unit variance."""
    values = list(results.values())
    mean, deviation = statistics.fmean(values), statistics.pstdev(values)
    return {name: (score - mean) / max(deviation, 1e-9) for name, score in results.items()}


def ranx_wsum(runs: list[dict[str, float]], weights: list[float]) -> dict[str, float]:
    """ranx, fusion/wsum.py: a run that lacks a passage adds nothing."""
    names = {name for run in runs for name in run}
    return {name: sum(w * run[name] for run, w in zip(runs, weights, strict=True) if name in run) for name in names}


def weighted_rrf(rankings: list[list[str]], weights: list[float], c: int = 60) -> dict[str, float]:
    """LangChain's EnsembleRetriever.weighted_reciprocal_rank; with weights of 1, ranx's rrf and that of the paper."""
    found: dict[str, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, name in enumerate(ranking, start=1):
            found[name] = found.get(name, 0.0) + weight / (rank + c)
    return found


def tm2c2(dense: dict[str, float], bm25: dict[str, float], alpha: float) -> dict[str, float]:
    """Bruch, Gai and Ingber (2023): theoretical minima -1 and 0, observed maxima."""
    most_dense, most_bm25 = max(dense.values()), max(bm25.values())
    return {name: alpha * (dense[name] + 1) / (most_dense + 1) + (1 - alpha) * bm25[name] / most_bm25 for name in dense}


def named(values: np.ndarray) -> dict[str, float]:
    return {f"p{place}": float(value) for place, value in enumerate(values) if not np.isnan(value)}


def ranking(run: dict[str, float]) -> list[str]:
    return sorted(run, key=lambda name: -run[name])


@pytest.fixture(params=range(5))
def both(request):
    """Scores of fifty passages as cosines and BM25 are; some of them the same."""
    rng = np.random.default_rng(request.param)
    dense = np.round(rng.uniform(-0.2, 0.9, 50), 3)
    return dense, np.round(rng.exponential(5, 50) + 0.1, 2)


def agree(found: np.ndarray, peer: dict[str, float]) -> None:
    np.testing.assert_allclose(found, [peer[f"p{place}"] for place in range(len(found))], rtol=0, atol=1e-12)


def test_min_max_and_weighted_sum_as_in_ranx(both):
    runs = [named(scores) for scores in both]
    for scores, run in zip(both, runs, strict=True):
        agree(normalise(scores, "min-max"), ranx_min_max(run))
        agree(normalise(scores, "z-score"), ranx_zmuv(run))
    agree(convex(*both, 0.3), ranx_wsum([ranx_min_max(run) for run in runs], [0.3, 0.7]))
    agree(convex(*both, 0.3, "z-score"), ranx_wsum([ranx_zmuv(run) for run in runs], [0.3, 0.7]))
    agree(linear(*both, 0.1), ranx_wsum(runs, [1, 0.1]))
    agree(ensemble(both, [2, 6]), ranx_wsum(runs, [0.25, 0.75]))


def test_min_max_of_lists_that_differ_as_in_ranx(both):
    """What is not in a list adds nothing."""
    dense, bm25 = (scores.copy() for scores in both)
    dense[ranks(dense, 20) == 0] = NAN
    bm25[ranks(bm25, 20) == 0] = NAN
    peer = ranx_wsum([ranx_min_max(named(dense)), ranx_min_max(named(bm25))], [0.55, 0.45])
    found = fused(dense, bm25, "convex", depth=20)
    assert {name for name, score in named(found.score).items() if score > -np.inf} == set(peer)
    rows = pool(dense, bm25, 20)
    np.testing.assert_allclose(found.score[rows], [peer[f"p{row}"] for row in rows], rtol=0, atol=1e-12)


def test_theoretical_bounds_as_in_tm2c2(both):
    agree(convex(*both, 0.8, "theoretical"), tm2c2(*map(named, both), 0.8))


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.7, 0.3]])
def test_reciprocal_ranks_as_in_langchain_and_ranx(both, weights):
    agree(rrf(*map(ranks, both), weights=weights), weighted_rrf([ranking(named(row)) for row in both], weights))


def test_haystack_counts_from_zero_and_adds_61():
    """haystack/utils/misc.py: weight * 1 / (61 + rank0) is 1 / (60 + rank1); LlamaIndex's 60 + rank0 is k = 59."""
    for rank in range(5):
        one = np.array([rank + 1])
        assert rrf(one)[0] == pytest.approx(1 / (61 + rank), abs=1e-15)
        assert rrf(one, k=59)[0] == pytest.approx(1 / (60 + rank), abs=1e-15)


# -- single candidates, ties, nothing at all ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
def test_equal_scores_are_kept_if_they_are_hits(n):
    """As LlamaIndex has it. Some peers give 0 to a single candidate, which then looks like no hit at all."""
    assert normalise(np.full(n, 7.0), "min-max").tolist() == [1.0] * n
    assert normalise(np.full(n, 0.3), "min-max").tolist() == [1.0] * n
    assert normalise(np.zeros(n), "min-max").tolist() == [0.0] * n
    assert normalise(np.full(n, 0.1), "z-score").tolist() == [0.0] * n
    assert normalise(np.full(n, 7.0), "theoretical", low=0).tolist() == [1.0] * n
    assert normalise(np.zeros(n), "theoretical", low=0).tolist() == [0.0] * n


def test_a_single_hit_of_bm25_counts_where_others_have_none():
    bm25 = np.array([NAN, 4.0, NAN, NAN])
    assert convex(DENSE, bm25, 0.0).tolist() == [0, 1, 0, 0]


def test_a_question_whose_terms_no_passage_has_is_ranked_by_vectors():
    for method in METHODS:
        found = fused(DENSE, np.zeros(4), method, depth=4)
        assert found.parts["bm25"].tolist() == [0] * 4
        assert np.argsort(-found.score).tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_no_scores_at_all(kind):
    low = -1 if kind == "theoretical" else None
    assert normalise(np.array([]), kind, low=low).tolist() == []
    assert normalise(np.array([NAN, NAN]), kind, low=low).tolist() == [0, 0]
    for method in METHODS:
        assert len(fused(np.array([]), np.array([]), method, kind=kind, depth=5).score) == 0


# -- scores that are not known, lists of some length ----------------------------------------------------------------------


def test_what_a_system_did_not_return_is_no_better_than_its_last():
    found = np.array([3.0, NAN, 1.0])
    np.testing.assert_array_equal(linear(np.zeros(3), found, 0.5), [1.5, 0.5, 0.5])
    np.testing.assert_array_equal(linear(DENSE, np.full(4, NAN), 0.5), DENSE)
    np.testing.assert_array_equal(normalise(found, "min-max"), [1, 0, 0])
    np.testing.assert_array_equal(normalise(found, "z-score"), [1, -1, -1])
    np.testing.assert_array_equal(normalise(found, "theoretical", low=0), [1, 0, 1 / 3])
    np.testing.assert_array_equal(ensemble([found, found]), [3, 1, 1])
    np.testing.assert_array_equal(rrf(ranks(found)), [1 / 61, 0, 1 / 62])


def test_passages_outside_both_lists_have_no_score():
    found = fused(DENSE, BM25, "convex", alpha=0.5, depth=1)
    assert pool(DENSE, BM25, 1).tolist() == [0, 1]
    np.testing.assert_array_equal(found.score, [0.5, 0.5, -np.inf, -np.inf])
    np.testing.assert_array_equal(found.parts["dense"], [0.5, 0, -np.inf, -np.inf])


def test_a_passage_of_one_list_has_but_one_rank():
    found = fused(DENSE, BM25, "rrf", depth=2)
    assert found.parts["dense"].tolist() == [1 / 61, 0, 1 / 62, -np.inf]
    assert found.parts["bm25"].tolist() == [0, 1 / 61, 1 / 62, -np.inf]


options = st.fixed_dictionaries(
    {
        "method": st.sampled_from(METHODS),
        "kind": st.sampled_from(KINDS),
        "alpha": st.floats(0, 1),
        "weight": st.floats(0, 2),
        "k": st.integers(1, 100),
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
    outside = np.ones(len(score), bool) if options["depth"] else np.zeros(len(score), bool)
    if options["depth"]:
        outside[pool(*both, options["depth"])] = False
    np.testing.assert_array_equal(score == -np.inf, outside)
    for before, after in zip(kept, both, strict=True):
        np.testing.assert_array_equal(before, after)


@given(pairs, options.filter(lambda found: found["depth"] is not None))
def test_scores_of_the_two_lists_are_all_that_is_needed(both, options):
    """A large corpus hands in what its lists hold, and gets the same."""
    whole = fused(*both, **options)
    rows = pool(*both, options["depth"])
    few = fused(*(scores[rows] for scores in both), **options)
    np.testing.assert_array_equal(few.score, whole.score[rows])


@given(pairs, st.floats(0, 1), st.integers(1, 15))
def test_with_theoretical_bounds_the_length_of_the_lists_changes_no_score(both, alpha, depth):
    """The largest score is in the list in any case."""
    rows = pool(*both, depth)
    few = fused(*both, "convex", alpha=alpha, kind="theoretical", depth=depth).score
    np.testing.assert_array_equal(few[rows], fused(*both, "convex", alpha=alpha, kind="theoretical").score[rows])


@given(scores, st.sampled_from(KINDS))
def test_every_normalisation_keeps_the_order(values, kind):
    scaled = normalise(values, kind, low=-1 if kind == "theoretical" else None)
    assert np.isfinite(scaled).all()
    order = np.argsort(values, kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()
    if kind != "z-score":
        assert scaled.min() >= 0
        assert scaled.max() <= 1


@given(scores, st.floats(0.1, 10), st.floats(-5, 5))
def test_min_max_and_z_score_know_no_scale(values, factor, shift):
    moved = values * factor + shift
    if np.ptp(values) > 0.01:
        for kind in ("min-max", "z-score"):
            np.testing.assert_allclose(normalise(moved, kind), normalise(values, kind), atol=1e-6)


# -- doors ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: normalise(DENSE, "max"),
            "kind is 'max'; it must be one of 'min-max', 'from-zero', 'z-score', 'theoretical'",
        ),
        (lambda: normalise(DENSE, "theoretical"), "theoretical bounds need low"),
        (lambda: normalise(DENSE, "z-score", low=0), "bounds, which z-score does not have"),
        (lambda: convex(DENSE, BM25, 1.5), "alpha is 1.5; it must be"),
        (lambda: linear(DENSE, BM25, -1), "weight is -1; it must be"),
        (lambda: linear(DENSE, BM25[:2], 0.1), r"scores have the shapes \(2,\), \(4,\)"),
        (lambda: fused(DENSE, BM25[:2]), "scores have the shapes"),
        (lambda: fused(DENSE, BM25, "sum"), "method is 'sum'"),
        (lambda: fused(DENSE, BM25, depth=0), "depth is 0"),
        (lambda: rrf(), "no scores to fuse"),
        (lambda: rrf(ranks(DENSE), k=0), "k is 0"),
        (lambda: rrf(ranks(DENSE), weights=[1, 1]), "2 weights for 1 rows"),
        (lambda: ensemble([DENSE, BM25], [0, 0]), "all weights are 0"),
        (lambda: ensemble([DENSE, BM25], [1, -1]), r"weights\[1\] is -1"),
        (lambda: ensemble([]), "no scores to fuse"),
    ],
)
def test_what_is_not_allowed_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_alpha_that_is_no_number():
    with pytest.raises(InputTypeError, match="alpha must be a number"):
        convex(DENSE, BM25, "half")


def test_results_are_written_as_they_are():
    found = fused(DENSE, BM25, "rrf")
    assert json.dumps({name: part.tolist() for name, part in found.parts.items()})
