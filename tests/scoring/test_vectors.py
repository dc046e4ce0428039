from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from threading import Barrier

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semclass.core.types import Ragged, offsets_of
from semclass.scoring import vectors
from semclass.scoring.dense import shares_of
from semclass.scoring.quantisation import from_quarter_bytes, to_quarter_bytes
from semclass.scoring.topk import SIMILARITIES, unit
from semclass.scoring.vectors import Vectors, digits_of, value_of

DIM = 32


def made(n: int, kind: str = "cosine", *, coded: bool = True, dim: int = DIM) -> Vectors:
    """Vectors of n passages of one to four sentences."""
    rng = np.random.default_rng(0)
    offsets = offsets_of(rng.integers(1, 5, n))
    found = rng.normal(size=(offsets[-1], dim)).astype(np.float32)
    found = unit(found) if kind == "cosine" else found
    shares = shares_of(found, rng.integers(1, 40, len(found)).astype(np.float32), offsets)
    codes, scales = to_quarter_bytes(found) if coded else (found, np.ones(len(found), np.float32))
    return Vectors(Ragged(codes, offsets), scales, shares, kind)


def expected_of(found: Vectors, question: np.ndarray) -> np.ndarray:
    """The formula, passage by passage."""
    values = (
        found.sentences.values
        if found.sentences.values.dtype == np.float32
        else from_quarter_bytes(found.sentences.values)
    )
    question, scores = unit(question) if found.similarity == "cosine" else question, []
    for begin, end in pairwise(found.sentences.offsets.tolist()):
        own = (values * found.scales[:, None])[begin:end].astype(np.float64)
        shares, lengths = found.shares[begin:end].astype(np.float64), np.linalg.norm(own, axis=1)
        mean, products = shares @ own @ question, own @ question
        if found.similarity == "l2":
            length, square = shares @ lengths / shares.sum(), question @ question
            mean, products = 1 + mean - (length**2 + square) / 2, 1 + products - (lengths**2 + square) / 2
        scores.append((mean + products.max()) / 2)
    return np.array(scores)


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
    expected = expected_of(made(n, kind), 2 * asked())
    np.testing.assert_allclose(made(n, kind).scores(2 * asked()), expected, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(vectors, "LAID_OUT", 32)  # as many sentences have it, with graphs of their own
    np.testing.assert_allclose(made(n, kind).scores(2 * asked()), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_float32_vectors_are_compared_as_they_are(kind):
    found = made(50, kind, coded=False)
    np.testing.assert_allclose(found.scores(asked()), expected_of(found, asked()), atol=1e-5)
    np.testing.assert_array_equal(found.scores_at(asked(), np.array([3, 40])), found.scores(asked())[[3, 40]])


@pytest.mark.parametrize("block", [16, 32, 1000])
def test_a_score_is_the_same_number_on_every_way(monkeypatch, block):
    expected = made(100).scores(asked())
    rows = np.array([0, 5, 6, 99])
    np.testing.assert_array_equal(made(100).scores_at(asked(), rows), expected[rows])
    monkeypatch.setattr(vectors, "BLOCK", 7)
    monkeypatch.setattr(vectors, "WIDE", block)
    monkeypatch.setattr(vectors, "LAID_OUT", block)
    np.testing.assert_array_equal(made(100).scores(asked()), expected)
    np.testing.assert_array_equal(made(100).scores_at(asked(), rows), expected[rows])


def test_threads_that_ask_at_once_lay_out_once(monkeypatch):
    monkeypatch.setattr(vectors, "LAID_OUT", 100)
    threads, calls, product_with = 4, [], vectors.product_with
    start = Barrier(threads)
    monkeypatch.setattr(vectors, "product_with", lambda weights: calls.append(1) or product_with(weights))

    def ask():
        start.wait()
        return found.scores(asked())

    found = made(100)
    with ThreadPoolExecutor(threads) as pool:
        scores = [future.result() for future in [pool.submit(ask) for _ in range(threads)]]
    assert len(calls) == 1
    np.testing.assert_array_equal(scores[0], scores[-1])


def test_vectors_of_length_1_are_alike_by_every_similarity():
    one = made(20, coded=False)
    found = [replace(one, similarity=kind).scores(asked()) for kind in SIMILARITIES]
    for scores in found[1:]:
        np.testing.assert_allclose(scores, found[0], atol=1e-6)


def test_products_cannot_overflow_16_bits(monkeypatch):
    codes, ones = np.full((40, 512), 255, np.uint8), np.ones(40, np.float32)
    for laid_out in (40, 41):
        monkeypatch.setattr(vectors, "LAID_OUT", laid_out)
        found = Vectors(Ragged(codes, np.arange(41)), ones, ones, "ip").scores(np.ones(2048, np.float32))
        np.testing.assert_allclose(found, 3 * 2048, rtol=1e-6)
