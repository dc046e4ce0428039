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
from semclass.scoring.quantisation import CENTROIDS, LEVELS, Codebook, Codebooks, from_half_bytes, to_half_bytes


def make_codebook(seed: int, parts: int = 3, width: int = 2) -> Codebook:
    return Codebook(np.random.default_rng(seed).normal(size=(parts, CENTROIDS, width)).astype(np.float32))


seeds = st.integers(0, 2**32 - 1)
components = st.floats(-1e6, 1e6, width=32)
matrices = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=components)


@given(seeds, st.integers(0, 20))
def test_what_is_decoded_is_encoded_to_the_same_vector(seed, n):
    codebook = make_codebook(seed)
    codes = np.random.default_rng(seed).integers(0, CENTROIDS, (n, 3)).astype(np.uint8)
    vectors = codebook.decode(codes)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(codebook.decode(codebook.encode(vectors)), vectors)


@given(seeds, st.integers(1, 20))
def test_no_other_centroid_is_nearer(seed, n):
    codebook = make_codebook(seed)
    vectors = np.random.default_rng(seed + 1).normal(size=(n, 6)).astype(np.float32)
    found = codebook.decode(codebook.encode(vectors)).reshape(n, 3, 2)
    own = np.linalg.norm(vectors.reshape(n, 3, 2) - found, axis=2)
    for part in range(3):
        others = np.linalg.norm(vectors[:, None, 2 * part : 2 * part + 2] - codebook.centroids[part], axis=2)
        np.testing.assert_allclose(own[:, part], others.min(axis=1), rtol=1e-4, atol=1e-4)


def test_many_vectors_are_encoded_in_blocks():
    codebook = make_codebook(0)
    vectors = np.random.default_rng(1).normal(size=(9000, 6)).astype(np.float32)
    codes = codebook.encode(vectors)
    assert codes.shape == (9000, 3)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes[8500:], codebook.encode(vectors[8500:]))


@given(seeds, st.floats(1e-3, 1e3))
def test_half_bytes_keep_lengths_and_directions(seed, length):
    vectors = np.random.default_rng(seed).normal(size=(20, 64)).astype(np.float32) * np.float32(length)
    codes, scales = to_half_bytes(vectors)
    assert (codes.dtype, codes.shape, scales.dtype, scales.shape) == (np.uint8, (20, 32), np.float32, (20,))
    found = from_half_bytes(codes) * scales[:, None]
    own, lengths = (np.linalg.norm(each, axis=1) for each in (vectors, found))
    np.testing.assert_allclose(lengths, own, rtol=1e-5)
    cosines = (found * vectors).sum(axis=1) / own**2
    assert cosines.min() > 0.9  # a vector may have a component beyond the last level
    assert cosines.mean() > 0.98


@given(matrices)
def test_half_bytes_of_any_vectors_are_numbers(vectors):
    codes, scales = to_half_bytes(np.repeat(vectors, 2, axis=1))
    assert np.isfinite(scales).all()
    assert np.abs(from_half_bytes(codes)).max() < LEVELS
    assert (scales[~vectors.any(axis=1)] == 0).all()


def write(folder, codebook, *, encoder="fake", interaction="tokens", tokens=None):
    buffer = io.BytesIO()
    np.save(buffer, codebook.centroids.astype(np.float16))
    files = {"tokens.npy": buffer.getvalue() if tokens is None else tokens}
    artifacts.save(folder, "codebooks", files, {"encoder": encoder, "interaction": interaction})


def load(folder):
    return Codebooks.load(folder, encoder="fake", interaction="tokens")


def test_codebooks_come_back_from_disk(tmp_path):
    codebook = make_codebook(0)
    write(tmp_path, codebook)
    loaded = load(tmp_path)
    assert loaded.tokens.parts == 3
    np.testing.assert_allclose(loaded.tokens.centroids, codebook.centroids, atol=2e-3)


def test_codebooks_know_each_other_by_their_tables(tmp_path):
    for seed, name in ((0, "one"), (0, "same"), (1, "other")):
        write(tmp_path / name, make_codebook(seed))
    one, same, other = (load(tmp_path / name).fingerprint for name in ("one", "same", "other"))
    assert one == same
    assert one != other


@pytest.mark.parametrize("made_with", [{"encoder": "other"}, {"interaction": "other"}], ids=str)
def test_codebooks_of_other_vectors_are_refused(tmp_path, made_with):
    write(tmp_path, make_codebook(0), **made_with)
    with pytest.raises(EncoderMismatchError, match="train_codebooks"):
        load(tmp_path)


def test_a_file_that_is_no_table_is_refused(tmp_path):
    write(tmp_path, make_codebook(0), tokens=b"x")
    with pytest.raises(ArtifactError, match=r"tokens\.npy"):
        load(tmp_path)
