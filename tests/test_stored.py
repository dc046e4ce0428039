"""Ragged arrays in files: rows are read by position, and files are closed when nobody needs them."""

import gc
import os

import numpy as np
import pytest

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


def test_the_file_is_closed_with_its_last_user(tmp_path):
    np.save(tmp_path / "values.npy", np.zeros(3, np.uint8))
    found = open_ragged(tmp_path / "values.npy", np.array([0, 3]))
    file = found.file
    os.fstat(file)
    del found
    gc.collect()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file)
