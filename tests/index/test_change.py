from __future__ import annotations

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import BOOKS, FAKE, ROOT, WORDS, Counting, FakeEncoder, passage_encoder_of, passages, scores

from semclass import (
    ArtifactError,
    EncoderMismatchError,
    InputError,
    InputTypeError,
    Passage,
    PassageIndex,
    Report,
    SkippedWarning,
    build_index,
    change_index,
)
from semclass.documents.readers import read_passages
from semclass.index.folder import describe, locked, store
from semclass.index.verify import verify
from semclass.index.writer import sync_index


def change(folder, **options):
    return change_index(folder, **{"passage_encoder": FAKE, **options})


def ids(index):
    return [passage.id for passage in index.passages(index.rows)]


def assert_ranks_as_rebuilt(index, passage_encoder=FAKE, *, small=False):
    rebuilt = PassageIndex.build(index.passages(index.rows), passage_encoder=passage_encoder, small=small)
    terms = rebuilt.segments[0].postings.terms
    np.testing.assert_array_equal(index.statistics.idf(terms), rebuilt.statistics.idf(terms))
    provided = [item.evidence(item.rows, passage_encoder).provides for item in (index, rebuilt)]
    np.testing.assert_array_equal(provided[0].values, provided[1].values)
    np.testing.assert_array_equal(provided[0].offsets, provided[1].offsets)
    for text in ("the red0 boat", "green1 boat boat", "new words", "lake5"):
        ours, theirs = (scores(found, text, passage_encoder=passage_encoder) for found in (index, rebuilt))
        # products depend a little on the place of a row in its matrix, so that equal scores may change places
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_passages_without_text_are_told_and_left_out(index_folder, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "the boat"}\n{"text": " "}\n{"text": "", "title": "Boats"}\n')
    new = read_passages(tmp_path / "a.jsonl")
    with pytest.warns(SkippedWarning, match="'2' is left out"):
        assert change(index_folder, add=new, existing="replace").passages == 19
    with pytest.warns(SkippedWarning, match="'2' is left out"):
        assert len(build_index(tmp_path / "other", new, passage_encoder=FAKE)) == 2
    with pytest.warns(SkippedWarning, match="'2' is left out"):
        assert sync_index(index_folder, new, passage_encoder=FAKE)
    assert ids(PassageIndex.load(index_folder)) == ["1", "3"]


def test_passages_are_added_replaced_and_deleted(index_folder):
    assert change(index_folder, add=passages(20, 21)) == Report(2, 0, 0, passages=22, segments=2)
    new = [*passages(3, text="a {} hill"), *passages(4), *passages(22)]
    assert change(index_folder, add=new, existing="replace", delete=["0", "20"]) == Report(1, 1, 2, 21, 2)
    index = PassageIndex.load(index_folder)
    assert ids(index) == [str(number) for number in range(1, 20) if number != 3] + ["21", "3", "22"]
    assert index.passages(index.find(["3"]))[0].text == "a boat3 hill"
    assert index.find(["0", "20"]).tolist() == [-1, -1]
    assert [item.id for item in index.passages(index.find(["22", "1", "22"]))] == ["22", "1", "22"]
    assert_ranks_as_rebuilt(index)


def test_only_new_texts_are_encoded(index_folder):
    encoder = Counting()
    before = (index_folder / "manifest.json").read_bytes()
    options = {"existing": "replace", "passage_encoder": passage_encoder_of(encoder)}
    assert change(index_folder, add=passages(4), **options).changed == 0
    assert (index_folder / "manifest.json").read_bytes() == before
    change(index_folder, add=passages(4, page=7), delete=["5"], **options)
    assert encoder.seen == []
    change(index_folder, add=passages(30), **options)
    assert set(encoder.seen) == {"the red30 boat"}
    index = PassageIndex.load(index_folder)
    assert index.passages(index.find(["4"]))[0].metadata == {"page": 7}
    assert_ranks_as_rebuilt(index)


@pytest.mark.parametrize(("books", "small"), [(BOOKS, False), (None, False), (BOOKS, True)])
def test_an_index_of_each_form_is_changed(tmp_path, books, small):
    encoder = passage_encoder_of(FakeEncoder(provided=8), books)
    items = [Passage("a", "red boat"), Passage("b", "green hill hill hill"), Passage("c", "blue lake boat")]
    PassageIndex.build(items, passage_encoder=encoder, small=small).save(tmp_path)
    new = [Passage(item.id, item.text, {"page": place}) for place, item in enumerate(reversed(items))]
    report = change(tmp_path, add=[*new, Passage("d", "a tower")], existing="replace", passage_encoder=encoder)
    assert (report.added, report.changed) == (1, 3)
    again = [Passage("b", "green hill hill hill", {"page": 7})]
    change(tmp_path, add=again, existing="replace", delete=["a"], compact=True, passage_encoder=encoder)
    verify(tmp_path)
    index = PassageIndex.load(tmp_path)
    assert {item.id: item.metadata.get("page") for item in index.passages(index.rows)} == {"b": 7, "c": 0, "d": None}
    assert_ranks_as_rebuilt(index, encoder, small=small)
    change_index(tmp_path, delete=["b", "c", "d"])
    assert scores(PassageIndex.load(tmp_path), "boat", passage_encoder=encoder) == {}
    change(tmp_path, add=items, passage_encoder=encoder)
    assert_ranks_as_rebuilt(PassageIndex.load(tmp_path), encoder, small=small)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"add": passages(40, 3)}, InputError, "passage id '3' is in the index already"),
        ({"add": passages(50, 50)}, InputError, "comes twice"),
        ({"add": ["text"]}, InputTypeError, "type Passage"),
        ({"delete": ["x", "1", "y"]}, InputError, r"2 passage ids \('x', 'y'\) are not in the index"),
        ({"delete": ["1"], "missing": "whatever"}, InputError, "missing"),
        ({"add": [], "existing": "whatever"}, InputError, "existing"),
        ({"delete": {}}, InputError, "would delete every passage"),
        ({"delete": {"$or": [{"a": 1}, {}]}}, InputError, "would delete every passage"),
        ({"add": [*passages(40), 3], "delete": ["1"]}, InputTypeError, "type Passage"),
        (
            {"add": passages(40), "passage_encoder": passage_encoder_of(FakeEncoder(fingerprint="other"))},
            EncoderMismatchError,
            "with encoder 'fake', but the models have 'other'",
        ),
    ],
)
def test_a_refused_change_changes_nothing(index_folder, options, error, says):
    before = {path.name for path in index_folder.rglob("*")} - {".lock"}
    with pytest.raises(error, match=says):
        change(index_folder, **options)
    assert {path.name for path in index_folder.rglob("*")} - {".lock"} == before
    assert change(index_folder, delete=["x", "1"], missing="ignore").passages == 19


def test_passages_are_deleted_and_found_by_a_filter(index_folder):
    change(index_folder, add=passages(30, 31, 32, 33, lang="de"))
    assert change(index_folder, delete={"lang": "de", "_id": {"$in": ["30", "31"]}}).deleted == 2
    index = PassageIndex.load(index_folder)
    assert set(scores(index, "the red0 boat", 2, where={"lang": "de"})) == {"32", "33"}
    assert index.mask({"lang": "de"}).sum() == 2
    assert index.mask().sum() == len(index) == 22


def test_a_loaded_index_is_a_snapshot_until_it_is_refreshed(index_folder, tmp_path):
    snapshot = PassageIndex.load(index_folder)
    before = scores(snapshot, "the red0 boat")
    change(index_folder, add=passages(20, text="red0 {}"), delete=["1"])
    newer = snapshot.refresh()
    assert newer.segments[0] is snapshot.segments[0], "unchanged segments are shared"
    assert newer.refresh() is newer
    with pytest.raises(ArtifactError, match="was changed after it was loaded; call refresh"):
        snapshot.save(index_folder)
    snapshot.save(tmp_path / "copy")
    change(index_folder, delete=[str(number) for number in range(12) if number != 1], compact=True)
    assert scores(snapshot, "the red0 boat") == before
    assert ids(snapshot)[3] == "3"
    assert ids(newer.refresh()) == [str(number) for number in range(12, 21)]
    newer.refresh().save(index_folder)
    with pytest.raises(InputError, match="built in memory"):
        PassageIndex.build(passages(1), passage_encoder=FAKE).refresh()


def test_there_is_one_writer(index_folder):
    script = f"import semclass; semclass.change_index({str(index_folder)!r}, delete=['1'])"
    other = {"args": [sys.executable, "-c", script], "cwd": ROOT, "capture_output": True, "text": True, "check": False}
    with locked(index_folder):
        for write in (
            lambda: PassageIndex.build(passages(1), passage_encoder=FAKE).save(index_folder),
            lambda: store(index_folder, method=None),
        ):
            with pytest.raises(ArtifactError, match="another writer"):
                write()
        assert "another writer" in subprocess.run(**other).stderr
    assert subprocess.run(**other).returncode == 0
    assert len(PassageIndex.load(index_folder)) == 19


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("pipe", [True, False])
def test_a_lock_that_is_a_link_or_a_pipe_is_refused(index_folder, tmp_path, pipe):
    lock, target = index_folder / ".lock", tmp_path / "target"
    lock.unlink(missing_ok=True)
    os.mkfifo(lock) if pipe else lock.symlink_to(target)
    with pytest.raises(ArtifactError, match="cannot be written"):
        change_index(index_folder, delete=["0"])
    assert not target.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_keep_the_lock(index_folder):
    script = f"""
import os
from semclass import Passage, change_index
folder = {str(index_folder)!r}
read, write = os.pipe()
def forking():
    global child
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # lives on, with the lock file open
        os._exit(0)
    yield from ()
change_index(folder, add=forking(), delete=["1"])
change_index(folder, delete=["2"])
os.write(write, b" ")
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)
    assert len(PassageIndex.load(index_folder)) == 18


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs flock")
def test_a_file_system_without_locks_is_refused(index_folder, monkeypatch):
    def no_locks(number, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(ArtifactError, match="No locks available"):
        change(index_folder, delete=["1"])


def test_segments_stay_few(index_folder):
    for number in range(20, 45):
        change(index_folder, add=passages(number))
    description = describe(index_folder)
    assert 1 < len(description["segments"]) <= 4
    assert description["segments"][0] >= 20
    assert len(list(index_folder.glob("segment-*"))) == len(description["segments"])
    assert_ranks_as_rebuilt(PassageIndex.load(index_folder))
    assert change_index(index_folder, compact=True) == Report(0, 0, 0, 45, 1)
    written = (index_folder / "manifest.json").stat()
    assert change_index(index_folder, compact=True) == Report(0, 0, 0, 45, 1)
    assert (index_folder / "manifest.json").stat() == written, "nothing is written again"


def test_a_segment_of_mostly_deleted_passages_is_rewritten(index_folder):
    for deleted, left, kept in ([str(number) for number in range(10)], 10, 10), (["11"], 9, 0):
        change_index(index_folder, delete=deleted)
        assert (describe(index_folder)["passages"], describe(index_folder)["removed"]) == (left, kept)


@settings(max_examples=15)
@given(st.data())
def test_after_any_changes_it_ranks_as_rebuilt(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any") / "index"
    known = {str(number): Passage(str(number), f"{WORDS[number]} boat") for number in range(5)}
    PassageIndex.build(known.values(), passage_encoder=FAKE).save(folder)
    index = PassageIndex.load(folder)
    names = st.lists(st.integers(0, 12).map(str), unique=True, max_size=6)
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
    for step in data.draw(st.lists(st.sampled_from(["replace", "delete", "compact", "refresh"]), max_size=12)):
        chosen = data.draw(names)
        if step == "refresh":
            index = index.refresh()
        elif step == "compact":
            change_index(folder, compact=True)
        elif step == "delete":
            change_index(folder, delete=chosen, missing="ignore")
            known = {name: known[name] for name in known if name not in chosen}
        else:
            new = {name: Passage(name, data.draw(texts), {"n": data.draw(st.integers(0, 2))}) for name in chosen}
            change(folder, add=new.values(), existing="replace")
            known |= new
    index = index.refresh()
    assert {passage.id: passage for passage in index.passages(index.rows)} == known
    if known:
        assert_ranks_as_rebuilt(index)
