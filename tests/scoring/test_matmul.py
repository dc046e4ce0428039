from __future__ import annotations

import numpy as np
import pytest

from semclass.scoring.vectors import float_products, half_byte_product_with, product_with


@pytest.mark.parametrize(("m", "n", "dim"), [(1, 1, 1), (3, 50, 7), (12, 1300, 384), (0, 4, 3), (4, 0, 3)])
def test_products_of_floats_are_those_of_numpy(m, n, dim):
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=(count, dim)).astype(np.float32) for count in (m, n))
    found = float_products(left, right)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, left @ right.T, atol=1e-4)


def test_products_of_integers_are_exact():
    rng = np.random.default_rng(0)
    codes = rng.integers(-127, 128, (100, 30), np.int8)
    rows = rng.integers(-63, 64, (3, 30), np.int8)
    expected = rows.astype(np.int32) @ codes.T.astype(np.int32)
    np.testing.assert_array_equal(float_products(rows.astype(np.float32), codes.astype(np.float32)), expected)
    session = product_with(np.ascontiguousarray(codes.T))
    np.testing.assert_array_equal(session.run(None, {"a": (rows + 64).astype(np.uint8)})[0], expected)


@pytest.mark.parametrize("dim", [16, 64])
def test_products_with_half_bytes(dim):
    rng = np.random.default_rng(0)
    levels, rows = rng.integers(0, 16, (300, dim), np.uint8), rng.normal(size=(1, dim)).astype(np.float32)
    session = half_byte_product_with(levels[:, ::2] | levels[:, 1::2] << 4)
    expected = rows @ (levels.astype(np.float32) - 8).T
    np.testing.assert_allclose(session.run(None, {"a": rows})[0], expected, atol=0.1 * np.sqrt(dim))
