"""Vectors in few bytes: what decoding gives back, and what is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from semclass.core import artifacts
from semclass.core.errors import ArtifactError, EncoderMismatchError
from semclass.scoring.vectors import (
    CENTROIDS,
    SCALE,
    SCALE_BYTES,
    Codebooks,
    from_quarter_bytes,
    from_scaled_bytes,
    to_quarter_bytes,
    to_scaled_bytes,
)


def make_codebooks(seed: int) -> Codebooks:
    rng = np.random.default_rng(seed)
    pieces = rng.integers(-60, 60, (9, 6)).astype(np.int8)
    return Codebooks("", pieces, rng.normal(size=(3, CENTROIDS, 2)).astype(np.float32))


seeds = st.integers(0, 2**32 - 1)
components = st.floats(-1e6, 1e6, width=32)
matrices = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=components)


@given(seeds, st.integers(1, 20))
def test_no_other_centroid_is_nearer(seed, n):
    books, pieces = make_codebooks(seed), np.zeros(n, np.uint16)
    vectors = np.random.default_rng(seed + 1).normal(size=(n, 6)).astype(np.float32)
    usual = books.usual(pieces)
    found = (books.decode(books.encode(vectors, pieces), pieces) - usual).reshape(n, 3, 2)
    rest = vectors - usual
    own = np.linalg.norm(rest.reshape(n, 3, 2) - found, axis=2)
    for part in range(3):
        others = np.linalg.norm(rest[:, None, 2 * part : 2 * part + 2] - books.centroids[part], axis=2)
        np.testing.assert_allclose(own[:, part], others.min(axis=1), rtol=1e-4, atol=1e-4)


@given(seeds, st.floats(1e-3, 1e3))
def test_quarter_bytes_keep_products_and_directions(seed, length):
    vectors = np.random.default_rng(seed).normal(size=(20, 64)).astype(np.float32) * np.float32(length)
    codes, scales = to_quarter_bytes(vectors)
    assert (codes.dtype, codes.shape, scales.dtype, scales.shape) == (np.uint8, (20, 16), np.float32, (20,))
    found = from_quarter_bytes(codes) * scales[:, None]
    own, lengths = (np.linalg.norm(each, axis=1) for each in (vectors, found))
    products = (found * vectors).sum(axis=1)
    np.testing.assert_allclose(products, own**2, rtol=1e-4)
    cosines = products / own / lengths
    assert cosines.min() > 0.8
    assert cosines.mean() > 0.92


def test_a_row_of_quarter_bytes_brings_its_scale():
    vectors = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32) * 7
    rows = to_scaled_bytes(vectors)
    assert rows.shape == (5, 2 + SCALE_BYTES)
    codes, scales = to_quarter_bytes(vectors)
    np.testing.assert_allclose(from_scaled_bytes(rows), from_quarter_bytes(codes) * scales[:, None], rtol=1e-3)


def test_a_token_is_the_usual_vector_of_its_piece_and_the_rest():
    books, pieces = make_codebooks(0), np.array([3, 8, 3], np.uint16)
    assert books.usual(pieces)[1].tolist() == pytest.approx((books.pieces[8] / SCALE).tolist())
    vectors = books.usual(pieces) + books.centroids[[0, 1, 2], [1, 2, 3]].ravel()
    codes = books.encode(vectors, pieces)
    assert codes.tolist() == [[1, 2, 3]] * 3
    np.testing.assert_allclose(books.decode(codes, pieces), vectors, rtol=1e-6)


def write(folder, seed, *, encoder="fake", rest=None):
    books, buffers = make_codebooks(seed), (io.BytesIO(), io.BytesIO())
    for array, buffer in zip((books.pieces, books.centroids.astype(np.float16)), buffers, strict=True):
        np.save(buffer, array)
    files = {"pieces.npy": buffers[0].getvalue(), "rest.npy": buffers[1].getvalue() if rest is None else rest}
    artifacts.save(folder, "codebooks", files, {"encoder": encoder})


def load(folder):
    return Codebooks.load(folder, encoder_fingerprint="fake")


def test_codebooks_come_back_from_disk(tmp_path):
    write(tmp_path, 0)
    loaded, books = load(tmp_path), make_codebooks(0)
    np.testing.assert_array_equal(loaded.pieces, books.pieces)
    np.testing.assert_allclose(loaded.centroids, books.centroids, atol=2e-3)


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [({"encoder": "other"}, EncoderMismatchError, "trained for"), ({"rest": b"x"}, ArtifactError, r"rest\.npy")],
)
def test_codebooks_that_do_not_fit_are_refused(tmp_path, damage, error, says):
    write(tmp_path, 0, **damage)
    with pytest.raises(error, match=says):
        load(tmp_path)
