"""Ragged arrays in files: rows are read by position, and files are closed when nobody needs them."""

import copy
import gc
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

from semclass.errors import ArtifactError
from semclass.stored import open_ragged
from semclass.types import Ragged

OFFSETS = np.array([0, 2, 2, 5])


@pytest.fixture(params=["pread", "map"])
def stored(request, tmp_path, monkeypatch):
    values = np.arange(20, dtype=np.uint16).reshape(5, 4)
    np.save(tmp_path / "values.npy", values)
    if request.param == "map":
        monkeypatch.delattr(os, "pread")
    return open_ragged(tmp_path / "values.npy", OFFSETS), Ragged(values, OFFSETS)


@pytest.mark.parametrize("rows", [[0], [2, 0], [1], [1, 2, 1, 0], []])
def test_rows_are_those_of_the_array(stored, rows):
    found, whole = stored
    taken, wanted = (ragged.take(np.array(rows, np.int64)) for ragged in (found, whole))
    np.testing.assert_array_equal(taken.values, wanted.values)
    np.testing.assert_array_equal(taken.offsets, wanted.offsets)
    assert (taken.values.dtype, taken.values.shape) == (wanted.values.dtype, wanted.values.shape)


def opened(folder):
    values = np.arange(200, dtype=np.uint8)
    np.save(folder / "values.npy", values)
    return open_ragged(folder / "values.npy", np.array([0, 100, 200]))


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - bytes of our own


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, replace, pickled])
def test_a_copy_outlives_what_it_was_copied_from(copied, tmp_path):
    first = opened(tmp_path)
    other = copied(first)
    del first
    gc.collect()
    np.save(tmp_path / "other.npy", np.zeros(999, np.uint8))
    with (tmp_path / "other.npy").open("rb"):  # would get the number of a file that was closed too early
        assert other.take(np.array([1])).values.tolist() == list(range(100, 200))


def test_the_file_is_closed_with_its_last_user(tmp_path):
    found = opened(tmp_path)
    number = found.file.number
    os.fstat(number)
    del found
    gc.collect()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)


def test_a_file_that_is_cut_short_is_noticed(tmp_path):
    found = opened(tmp_path)
    os.truncate(tmp_path / "values.npy", 250)
    with pytest.raises(ArtifactError, match="cut short"):
        found.take(np.array([0, 1]))
