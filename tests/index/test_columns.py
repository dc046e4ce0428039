"""Metadata as columns: dates, numbers, files, and the joining of parts."""

import shutil

import pytest

from semclass.core.errors import ArtifactError
from semclass.core.files import Files
from semclass.index.columns import DIRECTORY, VALUES, columns_of, instant, load, save


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-1-2", 86400),
        ("1970-01-01 00:00:01.5", 1.5),
        ("1970-01-01T00:00:00 UTC", 0),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T01:00:00+0130", -1800),
        ("1970-01-01t00:00:00-01", 3600),
        ("0001-01-01T00:00:00+05:00", -62135596800 - 5 * 3600),
        ("1970-02-30", None),
        ("1970-01-01T00:00:00+24:00", None),
        ("1970-01-01 and on", None),
    ],
)
def test_dates(text, seconds):
    assert instant(text) == (None if seconds is None else round(seconds * 1e6))


@pytest.mark.parametrize(
    "metadata", [[], [{}], [{"a": [1, 2.5, "x", True, {"b": "2024-01-01"}]}, {"a": {"b": "é"}}, {"c": 0}]]
)
def test_saved_columns_are_the_same_and_outlive_their_folder(metadata, tmp_path):
    columns = columns_of(metadata)
    folder = tmp_path / "columns"
    folder.mkdir()
    save(columns, folder)
    opened = load(Files(folder))
    shutil.rmtree(folder)
    assert (opened.n, list(opened.fields)) == (columns.n, list(columns.fields))
    for path, column in columns.fields.items():
        other = opened.fields[path]
        assert other.values == column.values
        for values, others in ((column.codes, other.codes), (column.rows, other.rows)):
            assert (others.dtype, others.tolist()) == (values.dtype, values.tolist()), path


def test_damaged_columns_are_refused(tmp_path):
    save(columns_of([{"a": n} for n in range(100)]), tmp_path)
    values, directory = ((tmp_path / name).read_bytes() for name in (VALUES, DIRECTORY))
    for name, whole, damages in (
        (VALUES, values, [values[:-64], values[:50], b""]),
        (DIRECTORY, directory, [directory.replace(b"100", b"900"), directory.replace(b'"codes"', b'"cods"'), b"{}"]),
    ):
        for damaged in damages:
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(ArtifactError, match=VALUES):
                load(Files(tmp_path))
        (tmp_path / name).write_bytes(whole)
    load(Files(tmp_path))
    (tmp_path / VALUES).unlink()
    with pytest.raises(ArtifactError, match=VALUES):
        load(Files(tmp_path))
