from __future__ import annotations

import json

import pytest
from conftest import FakeEncoder
from test_writer import passages

from semclass import ArtifactError, PassageClassifier, PassageIndex
from semclass.core import artifacts
from semclass.index import store
from semclass.index.build import build_index
from semclass.index.lock import LOCK
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.target import check_target
from semclass.index.writer import IndexWriter

READER = PassageEncoder(PassageClassifier(FakeEncoder(), None), None, None)


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda number: None)


@pytest.fixture
def folder(tmp_path):
    PassageIndex.build(passages(*range(20)), passage_encoder=READER).save(tmp_path / "index")
    return tmp_path / "index"


OTHERS = ["data-2024", "segment-analysis.csv", "removed-files.npz", "segment-0123456789abcdef", "thesis.doc"]


@pytest.mark.parametrize("name", OTHERS)
def test_a_folder_that_holds_other_things_is_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.txt").write_text("years of work")
    for build in (
        lambda: build_index(tmp_path, passages(1), passage_encoder=READER),
        PassageIndex.build(passages(1), passage_encoder=READER).save,
    ):
        with pytest.raises(ArtifactError, match="holds other things"):
            build(*([] if build.__name__ == "<lambda>" else [tmp_path]))
    assert (tmp_path / name / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, r"of 20 passages already; give --replace \(replace=True\) to build another one in its place, add"),
        ({"tuned": {"weights": {"bm25_weight": 2}}}, "in its place, without its tuned weights, add to it"),
        (
            {"tuned": {"weights": {"bm25_weight": -1}}},
            r"cannot be used \(.* `semclass tune --reset` it\); give --replace",
        ),
        ({"protocol": 1}, r"cannot be used \(.* has protocol 1; .*\); give --replace"),
        (None, r"cannot be used \(.*manifest.json is damaged .*\); give --replace"),
    ],
)
def test_an_index_stays_where_it_may_not_be_replaced(folder, changes, says):
    path = folder / "manifest.json"
    path.write_text("{" if changes is None else json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ArtifactError, match=f"holds an index .*{says}"):
        check_target(folder, replace=False)
    check_target(folder)


@pytest.mark.parametrize("name", ["keep.txt", "part-1", "journal.json.old", ".git"])
def test_a_hidden_folder_that_only_has_the_name_of_ours_is_somebody_elses(tmp_path, folder, name):
    for place in (tmp_path / "package", folder):
        (place / store.AREA / name).mkdir(parents=True)
        with pytest.raises(ArtifactError, match=r"holds other things \('.build'\)"):
            build_index(place, passages(1), passage_encoder=READER)
        assert (place / store.AREA / name).is_dir()


def test_a_folder_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "notes.txt").touch()
    for place in (tmp_path / ("a" * 300), tmp_path / "notes.txt" / "index"):
        with pytest.raises(ArtifactError, match=r"cannot be read: .*; name another folder"):
            check_target(place)


def test_a_folder_without_an_index_needs_no_leave(tmp_path):
    (tmp_path / store.AREA).mkdir()  # what a build that was stopped leaves
    (tmp_path / LOCK).touch()
    check_target(tmp_path, replace=False)
    check_target(tmp_path / "new", replace=False)


def test_what_somebody_put_beside_an_index_stays(folder):
    kept = [*OTHERS[:3], ".hidden.npz", ".notes.part"]
    for name in kept:
        (folder / name).write_text("mine")
    with IndexWriter.open(folder, passage_encoder=READER) as changed:
        changed.add(passages(20))
    assert [(folder / name).read_text() for name in kept] == ["mine"] * len(kept)


@pytest.mark.parametrize(
    "text", ['{"name": "my web app"}', "{", '{"kind": "index", "protocol": 99}', '{"kind": "head"}']
)
def test_a_manifest_of_something_else_or_of_a_newer_version_is_not_replaced(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"holds other things \('manifest.json'\)"):
        build_index(tmp_path, passages(1), passage_encoder=READER)
    assert (tmp_path / "manifest.json").read_text() == text


def test_an_index_of_an_earlier_version_or_with_a_damaged_manifest_is_replaced(folder):
    for text in ("{", json.dumps({"kind": "index", "protocol": 1})):
        (folder / "manifest.json").write_text(text)
        assert len(build_index(folder, passages(1, 2), passage_encoder=READER)) == 2
    assert store.describe(folder)["passages"] == 2


def test_an_index_that_is_changed_while_it_is_verified_is_opened_as_it_is_then(folder, monkeypatch):
    read = artifacts.read_file

    def compacted_first(*arguments, **options):
        monkeypatch.setattr(artifacts, "read_file", read)
        with IndexWriter.open(folder, passage_encoder=READER) as changed:
            changed.add(passages(20))
            changed.commit(compact=True)
        return read(*arguments, **options)

    monkeypatch.setattr(artifacts, "read_file", compacted_first)
    assert len(PassageIndex.load(folder, verify=True)) == 21


def test_a_commit_that_fails_leaves_no_segment_behind(folder, monkeypatch):
    def full(path, data):
        raise ArtifactError(f"cannot write {path}: No space left on device; nothing was changed")

    def changed():
        with IndexWriter.open(folder, passage_encoder=READER) as changed:
            changed.add(passages(20))

    before = {path.name for path in folder.iterdir()}
    monkeypatch.setattr(artifacts, "write_atomic", full)
    for change in (changed, PassageIndex.build(passages(1), passage_encoder=READER).save):
        with pytest.raises(ArtifactError, match="No space left"):
            change(*([] if change is changed else [folder]))
        assert {path.name for path in folder.iterdir()} == before
    assert len(PassageIndex.load(folder)) == 20
    with pytest.raises(ArtifactError, match="No space left"):
        PassageIndex.build(passages(1), passage_encoder=READER).save(folder.parent / "new")
    assert {path.name for path in (folder.parent / "new").iterdir()} == {".lock"}


def first(values):
    return values["segments"][0]


DAMAGES = {
    "no bytes": lambda values: first(values)["files"].update({"pooled.npy": {}}),
    "no files": lambda values: first(values).update(files={}),
    "a file is not listed": lambda values: first(values)["files"].pop("records.npy"),
    "a file too many": lambda values: first(values)["files"].update({"../x": first(values)["files"]["records.npy"]}),
    "a name that leads away": lambda values: first(values).update(name="../index"),
    "no name of what was removed": lambda values: first(values)["removed"].pop("name"),
    "more removed than there are": lambda values: first(values)["removed"].update(passages=99),
    "what was removed is no mapping": lambda values: first(values).update(removed=[1]),
    "no number of passages": lambda values: first(values).update(passages="20"),
    "no classes": lambda values: values.update(classes=None),
    "thresholds": lambda values: values.update(thresholds="x"),
    "a threshold too many": lambda values: values.update(thresholds=[0.5]),
    "encoder": lambda values: values.update(encoder=7),
    "generation": lambda values: values.update(generation=-1),
    "no segments": lambda values: values.update(segments=[]),
    "segments": lambda values: values.update(segments=[[]]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_manifest_is_named_with_what_helps(folder, damage):
    with IndexWriter.open(folder) as changed:
        changed.delete(["1"])
    values = json.loads((folder / "manifest.json").read_text())
    damage(values)
    (folder / "manifest.json").write_text(json.dumps(values))
    for reading in (PassageIndex.load, store.describe):
        with pytest.raises(
            ArtifactError, match=r"does not describe its .*build it again with `semclass index build --replace`"
        ):
            reading(folder)


def test_a_manifest_that_cannot_be_read_is_named_with_what_helps(folder):
    path = folder / "manifest.json"
    for text in (path.read_bytes()[:100], b"[]", b"\xff"):
        path.write_bytes(text)
        with pytest.raises(
            ArtifactError, match=r"manifest.json is damaged .*build it again with `semclass index build --replace`"
        ):
            PassageIndex.load(folder)
    path.unlink()
    path.mkdir()
    with pytest.raises(ArtifactError, match=r"manifest.json cannot be read: Is a directory"):
        PassageIndex.load(folder)


def test_a_place_without_an_index_is_told_with_how_one_is_made(tmp_path):
    with pytest.raises(
        ArtifactError, match=r"nowhere does not exist; make .*`semclass index build FILES --out .*nowhere`"
    ):
        PassageIndex.load(tmp_path / "nowhere")
    with pytest.raises(
        ArtifactError, match=r"holds no index \(manifest.json is missing\); make one with `semclass index"
    ):
        PassageIndex.load(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ArtifactError, match=r"notes.txt is a file, and not the folder of an index"):
        PassageIndex.load(tmp_path / "notes.txt")


def test_a_damaged_index_is_repaired_by_building_it_again(folder):
    for again in (
        lambda: build_index(folder, passages(*range(20)), passage_encoder=READER),
        lambda: PassageIndex.build(passages(*range(20)), passage_encoder=READER).save(folder),
    ):
        path = next(folder.glob("segment-*/records.npy"))
        data = path.read_bytes()
        path.write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
        with pytest.raises(ArtifactError, match="was changed"):
            PassageIndex.load(folder)
        again()
        assert len(PassageIndex.load(folder, verify=True)) == 20
        assert not list(folder.glob(".building-*"))
