"""Fusion against ranx, to 1e-12 on the same lists.

One list has passages that the other has not, as the lists of search engines do.
"""

from __future__ import annotations

import numpy as np
import pytest

from semclass.scoring.fusion import fused

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

N = 150
NAMES = [f"p{place}" for place in range(N)]
ALPHA = 0.7


@pytest.fixture(params=range(3), scope="module")
def lists(request):
    """Scores of passages by two systems, the first 100 of each; NaN for the others. No two are the same."""
    rng = np.random.default_rng(request.param)
    both = rng.uniform(-0.2, 0.9, N), rng.exponential(5, N)
    return [np.where(scores >= np.sort(scores)[-100], scores, np.nan) for scores in both]


def best_first(scores: np.ndarray) -> list[tuple[str, float]]:
    order = np.argsort(-scores)[: np.count_nonzero(~np.isnan(scores))]
    return [(NAMES[row], float(scores[row])) for row in order]


def agree(found: np.ndarray, peer: dict[str, float], lists: list[np.ndarray]) -> None:
    listed = [row for row in range(N) if not all(np.isnan(scores[row]) for scores in lists)]
    assert {NAMES[row] for row in listed} == set(peer)
    np.testing.assert_allclose(found[listed], [peer[NAMES[row]] for row in listed], rtol=0, atol=1e-12)


def least_is(scores: np.ndarray, value: float) -> np.ndarray:
    """Scores in which what is not known is a number, as in peers that take 0."""
    return np.where(np.isnan(scores), value, scores)


@pytest.fixture(scope="module")
def ranx():
    return pytest.importorskip("ranx")


@pytest.fixture
def runs(ranx, lists):
    return [ranx.Run({"q": dict(best_first(scores))}) for scores in lists]


def fused_by_ranx(ranx, runs, **options) -> dict[str, float]:
    return dict(ranx.fuse(runs=[ranx.Run({"q": dict(run["q"])}) for run in runs], **options)["q"])


def test_convex_combination_by_ranx(ranx, runs, lists):
    peer = fused_by_ranx(ranx, runs, norm="min-max", method="wsum", params={"weights": [ALPHA, 1 - ALPHA]})
    agree(fused(*lists, "convex", alpha=ALPHA).score, peer, lists)


def test_weighted_sums_by_ranx(ranx, runs, lists):
    peer = fused_by_ranx(ranx, runs, norm=None, method="wsum", params={"weights": [1.0, 0.1]})
    agree(fused(*(least_is(scores, 0) for scores in lists), "linear").score, peer, lists)


def test_reciprocal_ranks_by_ranx(ranx, runs, lists):
    agree(fused(*lists, "rrf").score, fused_by_ranx(ranx, runs, norm=None, method="rrf", params={"k": 60}), lists)
