"""Approximate search: the nearest passages are among the returned ones, and most clusters are left out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.core.types import Ragged, offsets_of
from semclass.scoring import approximation
from semclass.scoring.approximation import ApproximateScores, reduce_vectors
from semclass.scoring.dense import Vectors, shares_of
from semclass.scoring.vectors import from_quarter_bytes, to_quarter_bytes, unit

DIM = 32
QUESTION = unit(np.random.default_rng(9).normal(size=DIM).astype(np.float32))


def made(n: int) -> tuple[np.ndarray, np.ndarray]:
    return to_quarter_bytes(unit(np.random.default_rng(0).normal(size=(n, DIM)).astype(np.float32)))


def clustered(n: int, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors about some directions, which are those of the first ones."""
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(clusters, DIM))
    vectors = directions[np.arange(n) % clusters] + 0.3 * rng.normal(size=(n, DIM))
    return to_quarter_bytes(unit(vectors.astype(np.float32)))


@pytest.fixture
def small_clusters(monkeypatch):
    """Hundreds of excerpts have as many clusters as millions have."""
    monkeypatch.setattr(approximation, "CLUSTER_SIZE", 25)
    monkeypatch.setattr(approximation, "CLUSTERED_FROM", 0)


def compared(monkeypatch) -> list[int]:
    """How many excerpts each later product is with."""
    sizes, half_byte_product_with = [], approximation.half_byte_product_with

    def counting(weights):
        session = half_byte_product_with(weights)
        return SimpleNamespace(run=lambda *args: sizes.append(len(weights)) or session.run(*args))

    monkeypatch.setattr(approximation, "half_byte_product_with", counting)
    return sizes


@pytest.mark.parametrize("block", [4, 30, 10_000])
@pytest.mark.parametrize("counts", [np.array([1]), np.array([7, 1, 2, 1, 7, 40]), np.arange(200) % 5 + 1])
def test_approximate_scores_are_near_the_exact_ones(monkeypatch, block, counts):
    monkeypatch.setattr(approximation, "PRODUCT_BLOCK", block)  # a longer passage has a product of its own
    rng, offsets = np.random.default_rng(0), offsets_of(counts)
    rows = unit(rng.normal(size=(offsets[-1], DIM)).astype(np.float32))
    shares = shares_of(rows, rng.integers(1, 40, len(rows)).astype(np.float32), offsets)
    codes, scales = to_quarter_bytes(rows)
    near = ApproximateScores.of(reduce_vectors(codes, scales), shares, offsets, mean_weight=0.5)
    exact = Vectors(Ragged(codes, offsets), scales, shares).scores(QUESTION)
    assert sorted(near.rows.tolist()) == list(range(len(counts)))
    np.testing.assert_allclose(near.scores(QUESTION), exact[near.rows], atol=0.1)


def test_the_nearest_are_found_without_clusters():
    codes, scales = made(300)
    rows = reduce_vectors(codes, scales).nearest(QUESTION, 20)
    nearest = np.argsort(-(from_quarter_bytes(codes) @ QUESTION * scales))[:20]
    assert 60 <= len(rows) < 200
    assert set(nearest.tolist()) <= set(rows.tolist())


@pytest.mark.usefixtures("small_clusters")
def test_allowed_excerpts_far_from_the_question_are_found(monkeypatch):
    codes, scales = clustered(2000, 10)
    question, allowed = from_quarter_bytes(codes[0]) * scales[0], np.arange(2000) % 10 == 1
    sizes = compared(monkeypatch)
    rows = reduce_vectors(codes, scales).nearest(question, 2, allowed)
    assert len(rows) >= 2 * approximation.OVERFETCH
    assert allowed[rows].all()
    assert sum(sizes) >= 2000


@pytest.mark.usefixtures("small_clusters")
@pytest.mark.parametrize("allowed", [None, np.arange(500) % 100 > 0], ids=["all", "some deleted"])
def test_most_clusters_are_left_out(monkeypatch, allowed):
    codes, scales = clustered(500, 10)
    sizes, reduced = compared(monkeypatch), reduce_vectors(codes, scales)
    rows = reduced.nearest(from_quarter_bytes(codes[0]) * scales[0], 5, allowed)
    assert len(reduced.means) >= 10
    assert 15 <= sum(sizes) < 250
    assert set((rows % 10).tolist()) == {0}  # all of them are about the first direction


@pytest.mark.usefixtures("small_clusters")
@given(st.integers(0, 10_000), st.integers(1, 80), st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_only_allowed_excerpts_are_found_and_enough_of_them(seed, n, share):
    codes, scales = clustered(300, 7)
    rng = np.random.default_rng(seed)
    allowed = rng.random(300) < share
    question = (from_quarter_bytes(codes) * scales[:, None])[rng.integers(300)]
    rows = reduce_vectors(codes, scales).nearest(question, n, allowed)
    assert allowed[rows].all()
    assert (np.diff(rows) > 0).all()
    assert len(rows) >= min(approximation.OVERFETCH * n, int(allowed.sum()))
