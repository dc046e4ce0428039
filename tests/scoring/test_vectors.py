from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semclass.scoring import vectors
from semclass.scoring.quantisation import from_int8, to_int8
from semclass.scoring.topk import SIMILARITIES, similarity, unit
from semclass.scoring.vectors import Vectors, digits_of, value_of

DIM = 32


def made(n: int, dim: int = DIM, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return to_int8(unit(np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)))


def asked(dim: int = DIM, seed: int = 9) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=dim).astype(np.float32))


# numbers that float32 holds with fewer digits have none left to be rounded
@given(st.lists(st.floats(-1e3, 1e3, width=32, allow_subnormal=False), min_size=1, max_size=40))
@example([2.0**-126])  # the least that float32 holds with all digits
def test_a_question_in_digits_is_the_question(values):
    vector = np.array(values, np.float32)
    digits, step = digits_of(vector)
    assert np.abs(digits).max() <= vectors.LARGEST
    np.testing.assert_allclose(value_of(digits, step), vector, atol=1e-6 * np.abs(vector).max())


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize("n", [0, 1, 70])
def test_scores_are_those_of_the_formula(monkeypatch, kind, n):
    codes, levels = made(n)
    expected = similarity(from_int8(codes, levels), 2 * asked(), kind)
    np.testing.assert_allclose(Vectors(codes, levels, kind).scores(2 * asked()), expected, atol=1e-5)
    monkeypatch.setattr(vectors, "LAID_OUT", 32)  # as many passages have it, with graphs of their own
    np.testing.assert_allclose(Vectors(codes, levels, kind).scores(2 * asked()), expected, atol=1e-5)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_float32_vectors_are_compared_as_they_are(kind):
    vectors = from_int8(*made(50))
    found = Vectors(vectors, np.ones(50, np.float32), kind)
    np.testing.assert_allclose(found.scores(asked()), similarity(vectors, asked(), kind), atol=1e-6)
    np.testing.assert_array_equal(found.scores_at(asked(), np.array([3, 40])), found.scores(asked())[[3, 40]])


@pytest.mark.parametrize("block", [16, 32, 1000])
def test_a_score_is_the_same_number_on_every_way(monkeypatch, block):
    codes, levels = made(100)
    expected = Vectors(codes, levels).scores(asked())
    rows = np.array([0, 5, 6, 99])
    np.testing.assert_array_equal(Vectors(codes, levels).scores_at(asked(), rows), expected[rows])
    monkeypatch.setattr(vectors, "ROWS", 7)
    monkeypatch.setattr(vectors, "BLOCK", block)
    monkeypatch.setattr(vectors, "LAID_OUT", block)
    np.testing.assert_array_equal(Vectors(codes, levels).scores(asked()), expected)
    np.testing.assert_array_equal(Vectors(codes, levels).scores_at(asked(), rows), expected[rows])


def test_threads_that_ask_at_once_lay_out_once(monkeypatch):
    codes, levels = made(100)
    monkeypatch.setattr(vectors, "LAID_OUT", 100)
    threads, calls, product_with = 4, [], vectors.product_with
    start = Barrier(threads)
    monkeypatch.setattr(vectors, "product_with", lambda weights: calls.append(1) or product_with(weights))

    def ask():
        start.wait()
        return found.scores(asked())

    found = Vectors(codes, levels)
    with ThreadPoolExecutor(threads) as pool:
        scores = [future.result() for future in [pool.submit(ask) for _ in range(threads)]]
    assert len(calls) == 1
    np.testing.assert_array_equal(scores[0], scores[-1])


def test_products_cannot_overflow_16_bits(monkeypatch):
    codes, levels = np.full((40, 1024), 127, np.int8), np.ones(40, np.float32)
    for laid_out in (40, 41):
        monkeypatch.setattr(vectors, "LAID_OUT", laid_out)
        found = Vectors(codes, levels, "ip").scores(np.ones(1024, np.float32))
        np.testing.assert_allclose(found, 127 * 1024, rtol=1e-6)
