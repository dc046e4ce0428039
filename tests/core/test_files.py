"""Ragged arrays in files: rows are read by position, and files are closed when nobody needs them."""

import copy
import gc
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from semclass.core.errors import ArtifactError, ChangedFileError
from semclass.core.files import Files
from semclass.core.types import Ragged

OFFSETS = np.array([0, 2, 2, 5])


@pytest.fixture(params=["pread", "map"])
def stored(request, tmp_path, monkeypatch):
    values = np.arange(20, dtype=np.uint16).reshape(5, 4)
    np.save(tmp_path / "values.npy", values)
    if request.param == "map":
        monkeypatch.delattr(os, "pread")
    return Files(tmp_path).rows("values.npy", OFFSETS), Ragged(values, OFFSETS)


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
    return Files(folder).rows("values.npy", np.array([0, 100, 200]))


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - bytes of our own


@pytest.mark.parametrize("copied", [copy.deepcopy, replace, pickled])
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


def overwritten(path):
    with path.open("r+b") as file:
        file.seek(150)
        file.write(b"other")


@pytest.mark.parametrize(
    "change", [lambda path: os.truncate(path, 250), lambda path: os.truncate(path, 0), overwritten, Path.touch]
)
def test_a_file_that_is_written_into_is_noticed(change, tmp_path):
    found = opened(tmp_path)
    assert len(found.take(np.array([0, 1])).values) == 200
    change(tmp_path / "values.npy")
    with pytest.raises(ChangedFileError, match=r"values\.npy was overwritten or truncated") as caught:
        found.take(np.array([0, 1]))
    assert caught.value.path == tmp_path / "values.npy"
    assert isinstance(caught.value, ArtifactError)


def test_a_file_that_is_replaced_or_removed_is_read_as_it_was(tmp_path):
    found = opened(tmp_path)
    np.save(tmp_path / "other.npy", np.zeros(200, np.uint8))
    (tmp_path / "other.npy").replace(tmp_path / "values.npy")
    (tmp_path / "values.npy").unlink()
    assert found.take(np.array([0, 1])).values.tolist() == list(range(200))


def test_what_every_search_reads_is_in_memory(tmp_path):
    np.save(tmp_path / "values.npy", np.arange(10_000))
    found = Files(tmp_path).array("values.npy")
    os.truncate(tmp_path / "values.npy", 200)
    assert found.sum() == 49_995_000
    assert not found.flags.writeable


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "values.npy")  # would be waited for
    files = Files(tmp_path)
    with pytest.raises(ArtifactError, match="not a regular file"):
        files.array("values.npy")
    with pytest.raises(ArtifactError, match="not a regular file"):
        files.rows("values.npy", OFFSETS)
