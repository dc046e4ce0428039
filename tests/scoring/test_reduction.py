"""Reduced vectors: the nearest passages are among those that are found, and most cells are left alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.core.files import Files
from semclass.scoring import reduction
from semclass.scoring.quantisation import from_quarter_bytes, to_quarter_bytes
from semclass.scoring.reduction import reduce_vectors
from semclass.scoring.topk import unit

DIM = 32


def made(n: int) -> tuple[np.ndarray, np.ndarray]:
    return to_quarter_bytes(unit(np.random.default_rng(0).normal(size=(n, DIM)).astype(np.float32)))


def asked(seed: int = 9) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=DIM).astype(np.float32))


def products(codes: np.ndarray, levels: np.ndarray, question: np.ndarray) -> np.ndarray:
    return from_quarter_bytes(codes) @ question * levels


def test_reduced_vectors_of_all_dimensions_find_the_nearest():
    codes, levels = made(300)
    found = reduce_vectors(codes, levels).nearest(asked(), 20)
    expected = np.argsort(-products(codes, levels, asked()))
    assert 60 <= len(found) < 200
    assert set(expected[:20].tolist()) <= set(found.tolist())


def clustered(n: int, clusters: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Vectors about some directions, which are those of the first ones."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(clusters, DIM))
    vectors = directions[np.arange(n) % clusters] + 0.3 * rng.normal(size=(n, DIM))
    return to_quarter_bytes(unit(vectors.astype(np.float32)))


@pytest.fixture
def small_cells(monkeypatch):
    """Hundreds of passages have as many cells as millions have."""
    monkeypatch.setattr(reduction, "CELL", 25)
    monkeypatch.setattr(reduction, "CLUSTERED", 0)


@pytest.mark.usefixtures("small_cells")
def test_what_is_allowed_far_from_the_question_is_found(monkeypatch):
    codes, levels = clustered(2000, 10)
    question, allowed = from_quarter_bytes(codes[0]) * levels[0], np.arange(2000) % 10 == 1
    sizes, found = looked_at(monkeypatch), reduce_vectors(codes, levels)
    rows = found.nearest(question, 2, allowed)
    assert len(rows) >= 2 * reduction.WIDER
    assert allowed[rows].all()
    assert sum(sizes) >= 2000


def looked_at(monkeypatch) -> list[int]:
    """How many passages each product is with, from now on."""
    sizes, half_byte_product_with = [], reduction.half_byte_product_with

    def counting(weights):
        session = half_byte_product_with(weights)
        return SimpleNamespace(run=lambda *args: sizes.append(len(weights)) or session.run(*args))

    monkeypatch.setattr(reduction, "half_byte_product_with", counting)
    return sizes


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("allowed", [None, np.arange(500) % 100 > 0], ids=["all", "some removed"])
def test_a_question_near_some_passages_leaves_most_cells_alone(monkeypatch, allowed):
    codes, levels = clustered(500, 10)
    sizes, found = looked_at(monkeypatch), reduce_vectors(codes, levels)
    assert len(found.starts) > 10
    question = from_quarter_bytes(codes[0]) * levels[0]
    nearest = found.nearest(question, 5, allowed)
    assert 15 <= sum(sizes) < 250
    assert set((nearest % 10).tolist()) == {0}  # all of them are about the first direction


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("clusters", [1, 10])
def test_only_what_is_allowed_is_near(monkeypatch, clusters):
    monkeypatch.setattr(reduction, "CELL", 200 // clusters)
    codes, levels = made(200)
    found, allowed = reduce_vectors(codes, levels), np.arange(200) % 3 == 0
    assert len(found.starts) == clusters + 1
    rows = found.nearest(asked(), 10, allowed)
    assert len(rows) >= 10
    assert allowed[rows].all()
    assert found.nearest(asked(), 500, allowed).tolist() == np.flatnonzero(allowed).tolist()
    assert found.nearest(asked(), 5, np.zeros(200, bool)).tolist() == []


@pytest.mark.usefixtures("small_cells")
@given(st.integers(0, 10_000), st.integers(1, 80), st.floats(0, 0.2))
def test_as_many_as_are_allowed_are_found_wherever_they_are(seed, n, share):
    codes, levels = clustered(300, 7)
    rng = np.random.default_rng(seed)
    allowed = rng.random(300) < share
    question = (from_quarter_bytes(codes) * levels[:, None])[rng.integers(300)]
    rows = reduce_vectors(codes, levels).nearest(question, n, allowed)
    assert allowed[rows].all()
    assert (np.diff(rows) > 0).all()
    assert len(rows) >= min(reduction.WIDER * n, int(allowed.sum()))


@pytest.mark.usefixtures("small_cells")
def test_longer_vectors_have_larger_products():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(500, DIM)).astype(np.float32) * rng.choice([0.1, 1, 10], (500, 1)).astype(np.float32)
    codes, levels = to_quarter_bytes(vectors)
    found = reduce_vectors(codes, levels)
    hits = [
        np.isin(np.argsort(-products(codes, levels, asked(seed=seed)))[:10], found.nearest(asked(seed=seed), 20))
        for seed in range(20)
    ]
    assert np.mean(hits) > 0.95


@pytest.mark.usefixtures("small_cells")
def test_what_is_saved_finds_the_same(tmp_path):
    found = reduce_vectors(*made(100))
    reduction.save(found, tmp_path / "reduced")
    assert {path.stem for path in (tmp_path / "reduced").iterdir()} == set(reduction.PARTS)
    opened = reduction.load(Files(tmp_path / "reduced"))
    assert opened.nearest(asked(), 10).tolist() == found.nearest(asked(), 10).tolist()
