from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semclass.core.types import Ragged, offsets_of
from semclass.scoring import dense
from semclass.scoring.dense import Vectors, digits_of, shares_of, value_of
from semclass.scoring.vectors import from_quarter_bytes, to_quarter_bytes, unit

DIM = 32


def made(n: int, *, coded: bool = True) -> Vectors:
    """Vectors of n passages of one to four excerpts."""
    rng = np.random.default_rng(0)
    offsets = offsets_of(rng.integers(1, 5, n))
    rows = unit(rng.normal(size=(offsets[-1], DIM)).astype(np.float32))
    shares = shares_of(rows, rng.integers(1, 40, len(rows)).astype(np.float32), offsets)
    codes, scales = to_quarter_bytes(rows) if coded else (rows, np.ones(len(rows), np.float32))
    return Vectors(Ragged(codes, offsets), scales, shares)


def expected_of(vectors: Vectors, question: np.ndarray) -> np.ndarray:
    """The formula, passage by passage."""
    values = vectors.excerpts.values
    values = values if values.dtype == np.float32 else from_quarter_bytes(values)
    products = (values * vectors.scales[:, None]).astype(np.float64) @ unit(question)
    spans = list(pairwise(vectors.excerpts.offsets.tolist()))
    means = [vectors.shares[begin:end].astype(np.float64) @ products[begin:end] for begin, end in spans]
    return np.array([(mean + products[begin:end].max()) / 2 for mean, (begin, end) in zip(means, spans, strict=True)])


QUESTION = 2 * unit(np.random.default_rng(9).normal(size=DIM).astype(np.float32))


# numbers that float32 holds with fewer digits have none left to be rounded
@given(st.lists(st.floats(-1e3, 1e3, width=32, allow_subnormal=False), min_size=1, max_size=40))
@example([2.0**-126])  # the least that float32 holds with all digits
def test_a_question_in_digits_is_the_question(values):
    vector = np.array(values, np.float32)
    digits, step = digits_of(vector)
    assert np.abs(digits).max() <= dense.MAX_DIGIT
    np.testing.assert_allclose(value_of(digits, step), vector, atol=1e-6 * np.abs(vector).max())


@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("n", [0, 1, 70])
def test_scores_are_those_of_the_formula(monkeypatch, coded, n):
    vectors = made(n, coded=coded)
    expected = expected_of(vectors, QUESTION)
    np.testing.assert_allclose(vectors.scores(QUESTION), expected, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(dense, "LAYOUT_FROM", 32)
    np.testing.assert_allclose(made(n, coded=coded).scores(QUESTION), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("block", [16, 32, 1000])
@pytest.mark.parametrize("coded", [True, False])
def test_a_score_is_the_same_number_by_every_route(monkeypatch, block, coded):
    expected, rows = made(100, coded=coded).scores(QUESTION), np.array([0, 5, 6, 99])
    np.testing.assert_array_equal(made(100, coded=coded).scores_at(QUESTION, rows), expected[rows])
    for name, value in {"PRODUCT_BLOCK": 7, "LAYOUT_BLOCK": block, "LAYOUT_FROM": block}.items():
        monkeypatch.setattr(dense, name, value)
    np.testing.assert_array_equal(made(100, coded=coded).scores(QUESTION), expected)
    np.testing.assert_array_equal(made(100, coded=coded).scores_at(QUESTION, rows), expected[rows])


def test_products_cannot_overflow_16_bits(monkeypatch):
    codes, ones = np.full((40, 512), 255, np.uint8), np.ones(40, np.float32)
    question = np.ones(2048, np.float32)
    for layout_from in (40, 41):
        monkeypatch.setattr(dense, "LAYOUT_FROM", layout_from)
        scores = Vectors(Ragged(codes, np.arange(41)), ones, ones).scores(question)
        np.testing.assert_allclose(scores, 3 * 2048**0.5, rtol=1e-6)
