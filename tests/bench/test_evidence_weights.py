"""Weights of evidence: what is counted, and what is chosen."""

import numpy as np
import pytest

from bench import evidence_weights
from bench.evidence_weights import Judged, choose, figures, pool, without
from semclass.ranking.features import PAIR_FEATURES

USED = PAIR_FEATURES[:2]


def judged(rng, questions=40, candidates=12, helpful=0):
    """Two features of every candidate; one of them is large where a passage is relevant."""
    gains = (rng.random((questions, candidates)) < 0.15) * rng.integers(1, 4, (questions, candidates))
    features = rng.normal(size=(len(PAIR_FEATURES), questions, candidates)).round(1)
    features[helpful] += 2 * (gains > 0)
    score = -np.sort(-rng.random((questions, candidates)).round(1), axis=1)
    score[:3, 8:] = -np.inf
    gains[:3, 8:] = 0
    best = -np.sort(-gains.astype(float), axis=1)[:, :10]
    return Judged(score, features, gains, np.maximum(evidence_weights.dcg(best), 1))


def sorted_ndcg(some, weights):
    """The same by sorting every question's candidates."""
    found = []
    for row in range(len(some.score)):
        keys = some.score[row] + sum(weight * some.features[place, row] for place, weight in enumerate(weights))
        order = np.argsort(-keys, kind="stable")[:10]
        found.append((some.gains[row, order] / np.log2(2 + np.arange(len(order)))).sum() / some.ideal[row])
    return np.mean(found)


@pytest.fixture
def sets():
    rng = np.random.default_rng(0)
    return {"docs": judged(rng), "cacm": judged(rng, candidates=20), "contrast": judged(rng, candidates=10, helpful=1)}


@pytest.mark.parametrize("weights", [(0, 0), (0.5, -0.25)])
def test_figures_are_those_of_a_stable_sort(sets, weights):
    pooled = pool(sets, USED)
    found = figures(pooled, evidence_weights.ahead_by(pooled, np.array(weights)))
    assert found[:2] == pytest.approx([sorted_ndcg(sets[name], weights) for name in ("docs", "cacm")], abs=0.01)


def test_what_helps_gets_weight_and_a_domain_left_out_counts_nothing(sets):
    pooled = pool(sets, USED)
    assert (choose(pooled) > 0).all()
    others = without(pooled, "contrast")
    assert others.names == ("docs", "cacm")
    assert choose(others)[0] > choose(others)[1]
    np.testing.assert_array_equal(choose(others), choose(pool({name: sets[name] for name in others.names}, USED)))


def test_the_report_has_a_row_for_each_set(sets):
    text = evidence_weights.report(sets, USED, None)
    assert all(f"| {name} |" in text for name in sets)
    assert "chosen on the other sets" in text
    assert "| all | 0.5 | 0 |" in evidence_weights.report(sets, USED, dict(zip(USED, (0.5, 0), strict=True)))
