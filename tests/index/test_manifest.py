"""Folders that may become an index or not, and errors about manifests that cannot be used."""

from __future__ import annotations

import errno
import json
import os

import pytest
from world import FAKE, passages

from semclass import ArtifactError, PassageIndex, build_index, change_index
from semclass.core import artifacts
from semclass.index.folder import check_target, describe

WRITERS = {
    "build": lambda folder: build_index(folder, passages(1, 2), passage_encoder=FAKE, replace=True),
    "save": lambda folder: PassageIndex.build(passages(1, 2), passage_encoder=FAKE).save(folder),
}
write_index = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)

OTHERS = ["data-2024", "segment-analysis.csv", "segment-0123456789abcdef"]


@write_index
@pytest.mark.parametrize(
    ("path", "text"),
    [
        *[(f"{name}/thesis.txt", "years of work") for name in OTHERS],
        *[("manifest.json", text) for text in ('{"name": "my app"}', "{")],
    ],
)
def test_a_folder_of_other_things_is_refused(tmp_path, write, path, text):
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    with pytest.raises(ArtifactError, match="holds other files"):
        write(tmp_path)
    assert (tmp_path / path).read_text() == text


def test_files_of_others_in_an_index_stay(index_folder):
    kept = [*OTHERS[:2], ".hidden.npy", ".notes.part"]
    for name in kept:
        (index_folder / name).write_text("mine")
    change_index(index_folder, add=passages(20), passage_encoder=FAKE)
    assert [(index_folder / name).read_text() for name in kept] == ["mine"] * len(kept)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, r"of 20 passages already; give --replace \(replace=True\)"),
        ({"tuned": {"weights": {"bm25_weight": 2}}}, "in its place, without its tuned weights"),
        ({"tuned": {"weights": {"bm25_weight": -1}}}, r"cannot be used \(.*tune --reset.*\); give --replace"),
        ({"protocol": 1}, r"cannot be used \(.* has protocol 1; .*\); give --replace"),
        (None, r"cannot be used \(.*manifest.json is damaged .*\); give --replace"),
    ],
)
def test_an_index_is_not_replaced_without_leave(index_folder, changes, says):
    path = index_folder / "manifest.json"
    path.write_text("{" if changes is None else json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ArtifactError, match=f"holds an index .*{says}"):
        check_target(index_folder, replace=False)
    with pytest.raises(ArtifactError, match=f"holds an index .*{says}"):
        build_index(index_folder, passages(1, 2), passage_encoder=FAKE)
    assert len(build_index(index_folder, passages(1, 2), passage_encoder=FAKE, replace=True)) == 2


def test_an_index_that_is_compacted_while_it_is_loaded(index_folder, monkeypatch):
    read = artifacts.read_file

    def compacted_first(*arguments, **options):
        monkeypatch.setattr(artifacts, "read_file", read)
        change_index(index_folder, add=passages(20), compact=True, passage_encoder=FAKE)
        return read(*arguments, **options)

    monkeypatch.setattr(artifacts, "read_file", compacted_first)
    assert len(PassageIndex.load(index_folder, verify=True)) == 21


@pytest.mark.parametrize("file", ["segment", "manifest"])
def test_a_full_disk_leaves_an_index_unchanged(index_folder, monkeypatch, file):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full_at_the_manifest(path, data):
        raise ArtifactError(f"{path} cannot be written: No space left on device")

    def names(folder):
        return {path.name for path in folder.iterdir() if not path.name.startswith(".building-")}

    before, new = names(index_folder), index_folder.parent / "new"
    with monkeypatch.context() as patch:
        if file == "segment":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(artifacts, "write_atomic", full_at_the_manifest)
        for write in (
            lambda: change_index(index_folder, add=passages(20), passage_encoder=FAKE),
            lambda: WRITERS["save"](new),
        ):
            with pytest.raises(ArtifactError, match="No space left"):
                write()
    assert names(index_folder) - {".lock"} == before - {".lock"}
    assert len(PassageIndex.load(index_folder)) == 20
    assert [path.name for path in new.iterdir()] == [".lock"]
    assert not list(index_folder.glob(".building-*"))


def first(values):
    return values["segments"][0]


DAMAGES = {
    "no bytes": lambda values: first(values)["files"].update({"excerpts.npy": {}}),
    "a file is not listed": lambda values: first(values)["files"].pop("records.npy"),
    "a name that leads away": lambda values: first(values).update(name="../index"),
    "more removed than there are": lambda values: first(values).update(kept="eJz7DwABAQEA"),
    "no number of passages": lambda values: first(values).update(passages="20"),
    "a threshold too many": lambda values: values.update(thresholds=[0.5]),
    "no segments": lambda values: values.update(segments=[]),
    "another protocol": lambda values: values.update(protocol=12),
    "no thresholds": lambda values: values.pop("thresholds"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_manifest_is_named(index_folder, damage):
    change_index(index_folder, delete=["1"])
    path = index_folder / "manifest.json"
    values = json.loads(path.read_text())
    damage(values)
    path.write_text(json.dumps(values))
    for read in (PassageIndex.load, describe):
        said = "(the description of its .* is invalid|has protocol 12|has no field 'thresholds')"
        with pytest.raises(ArtifactError, match=f"{said}.*`semclass index build --replace`"):
            read(index_folder)


def test_a_place_without_an_index_is_named(tmp_path):
    (tmp_path / "notes.txt").touch()
    for place, says in (
        ("nowhere", r"nowhere does not exist; build .*`semclass index build FILES --out .*nowhere`"),
        ("", r"holds no index \(manifest.json is missing\); build one with `semclass index"),
        ("notes.txt", "notes.txt is a file"),
    ):
        with pytest.raises(ArtifactError, match=says):
            PassageIndex.load(tmp_path / place)


@write_index
def test_a_damaged_index_is_repaired_by_building_it_again(index_folder, write):
    path = next(index_folder.glob("segment-*/records.npy"))
    data = path.read_bytes()
    path.write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
    with pytest.raises(ArtifactError, match="was changed"):
        PassageIndex.load(index_folder)
    write(index_folder)
    assert len(PassageIndex.load(index_folder, verify=True)) == 2
    assert not list(index_folder.glob(".building-*"))
