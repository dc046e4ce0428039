from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import BOOKS, FAKE, ROOT, WORDS, Counting, FakeEncoder, passage_encoder_of, passages, scores

from semclass import ArtifactError, EncoderMismatchError, InputError, InputTypeError, Passage, PassageIndex
from semclass.index.commit import describe, store_tuned
from semclass.index.verify import verify
from semclass.index.writer import IndexWriter, compact


def ids(index):
    return [passage.id for passage in index.passages(index.rows)]


def assert_ranks_as_rebuilt(index, passage_encoder=FAKE, *, small=False):
    rebuilt = PassageIndex.build(index.passages(index.rows), passage_encoder=passage_encoder, small=small)
    np.testing.assert_array_equal(index.idf, rebuilt.idf)
    for text in ("the red0 boat", "green1 boat boat", "new words", "lake5"):
        ours, theirs = (scores(found, text, passage_encoder=passage_encoder) for found in (index, rebuilt))
        # products depend a little on the place of a row in its matrix, so that equal scores may change places
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_passages_are_added_replaced_and_removed(index_folder):
    with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:
        assert index.add(passages(20, 21)) == 2
        assert index.update(passages(3, text="a {} hill")) == 1
        assert index.update(passages(4)) == 0, "it is the same"
        assert index.delete(["0", "20"]) == 2
        assert len(index) == 20
        assert len(PassageIndex.load(index_folder)) == 20, "readers see changes after the commit"
        assert "0" in ids(PassageIndex.load(index_folder))
    index = PassageIndex.load(index_folder)
    assert ids(index) == [str(number) for number in range(1, 20) if number != 3] + ["21", "3"]
    assert index.passages(index.find(["3"]))[0].text == "a boat3 hill"
    assert index.find(["0", "20", "21"]).tolist()[:2] == [-1, -1]
    assert_ranks_as_rebuilt(index)


def test_only_new_texts_are_encoded(index_folder):
    encoder = Counting()
    before = (index_folder / "manifest.json").read_bytes()
    with IndexWriter.open(index_folder, passage_encoder=passage_encoder_of(encoder)) as index:
        assert index.update(passages(4)) == 0
    assert (index_folder / "manifest.json").read_bytes() == before
    with IndexWriter.open(index_folder, passage_encoder=passage_encoder_of(encoder)) as index:
        index.update(passages(4, page=7))
        index.delete(["5"])
    assert encoder.seen == []
    with IndexWriter.open(index_folder, passage_encoder=passage_encoder_of(encoder)) as index:
        index.add(passages(30))
    assert set(encoder.seen) == {"the red30 boat"}
    index = PassageIndex.load(index_folder)
    assert index.by_ids(["4"])[0].metadata == {"page": 7}
    assert_ranks_as_rebuilt(index)


@pytest.mark.parametrize(("books", "small"), [(BOOKS, False), (None, False), (BOOKS, True)])
def test_an_index_of_each_form_is_updated(tmp_path, books, small):
    passage_encoder = passage_encoder_of(FakeEncoder(), books)
    items = [Passage("a", "red boat"), Passage("b", "green hill hill hill"), Passage("c", "blue lake boat")]
    PassageIndex.build(items, passage_encoder=passage_encoder, small=small).save(tmp_path)
    with IndexWriter.open(tmp_path, passage_encoder=passage_encoder) as index:
        new = [Passage(item.id, item.text, {"page": place}) for place, item in enumerate(reversed(items))]
        assert index.update(new) == 3
        assert index.update([Passage("d", "a tower")], missing="add") == 1
    with IndexWriter.open(tmp_path, passage_encoder=passage_encoder) as index:
        assert index.update([Passage("b", "green hill hill hill", {"page": 7})]) == 1
        index.delete(["a"])
        index.commit(compact=True)
    verify(tmp_path)
    index = PassageIndex.load(tmp_path)
    assert {item.id: item.metadata.get("page") for item in index.passages(index.rows)} == {"b": 7, "c": 0, "d": None}
    assert_ranks_as_rebuilt(index, passage_encoder, small=small)
    assert scores(index, "boat", passage_encoder=passage_encoder, where={"page": 99}) == {}
    with IndexWriter.open(tmp_path) as index:
        index.delete(["b", "c", "d"])
    assert scores(PassageIndex.load(tmp_path), "boat", passage_encoder=passage_encoder) == {}
    with IndexWriter.open(tmp_path, passage_encoder=passage_encoder) as index:
        index.add(items)
    assert_ranks_as_rebuilt(PassageIndex.load(tmp_path), passage_encoder, small=small)


def test_a_block_that_fails_changes_nothing(index_folder):
    before = {path.name for path in index_folder.rglob("*")}
    with pytest.raises(KeyError), IndexWriter.open(index_folder, passage_encoder=FAKE) as index:  # noqa: PT012 - the block is meant
        index.add(passages(20))
        index.delete(["1"])
        raise KeyError("a mistake of the caller")
    assert {path.name for path in index_folder.rglob("*")} - {".lock"} == before - {".lock"}
    assert len(PassageIndex.load(index_folder)) == 20


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda index: index.add(passages(40, 3)), InputError, "passage id '3' is in the index already"),
        (lambda index: index.add(passages(50, 50)), InputError, "comes twice"),
        (lambda index: index.add(["text"]), InputTypeError, "type Passage"),
        (lambda index: index.update(passages(1, 77, text="{}")), InputError, "'77' is not in the index"),
        (lambda index: index.delete(["x", "1", "y"]), InputError, r"2 passage ids \('x', 'y'\) are not in the index"),
        (lambda index: index.delete(["1"], missing="whatever"), InputError, "missing"),
        (lambda index: index.delete(), InputError, "ids or where"),
        (lambda index: index.delete(where={}), InputError, "would remove every passage"),
        (lambda index: index.delete(where={"$and": [{}, {}]}), InputError, "would remove every passage"),
        (lambda index: index.delete(where={"$or": [{"a": 1}, {}]}), InputError, "would remove every passage"),
    ],
)
def test_a_refused_call_changes_nothing(index_folder, call, error, says):
    with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:
        with pytest.raises(error, match=says):
            call(index)
        assert len(index) == 20
        assert index.delete(["x", "1"], missing="ignore") == 1
        assert index.update(passages(1, 77), missing="add") == 2
    assert len(PassageIndex.load(index_folder)) == 21


def test_passages_are_removed_and_found_by_a_filter(index_folder):
    with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:
        index.add(passages(30, 31, 32, 33, lang="de"))
        assert index.delete(where={"lang": "de", "_id": {"$in": ["30", "31"]}}) == 2
    index = PassageIndex.load(index_folder)
    assert set(scores(index, "the red0 boat", 2, where={"lang": "de"})) == {"32", "33"}
    assert index.mask({"lang": "de"}).sum() == 2
    assert index.mask().sum() == len(index) == 22
    with IndexWriter.open(index_folder) as index:
        assert index.delete(where={"lang": "de"}) == 2
        assert index.delete(where={"lang": "de"}) == 0


def test_a_loaded_index_is_a_snapshot_until_it_is_refreshed(index_folder):
    snapshot = PassageIndex.load(index_folder)
    before = scores(snapshot, "the red0 boat")
    with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:
        index.add(passages(20, text="red0 {}"))
        index.delete(["1"])
    newer = snapshot.refresh()
    assert newer.segments[0] is snapshot.segments[0], "what did not change is shared"
    assert newer.refresh() is newer
    with IndexWriter.open(index_folder) as index:
        index.delete([str(number) for number in range(12) if number != 1])
    compact(index_folder)
    assert scores(snapshot, "the red0 boat") == before
    assert snapshot.passage(3).id == "3"
    assert ids(newer.refresh()) == [str(number) for number in range(12, 21)]
    with pytest.raises(InputError, match="built in memory"):
        PassageIndex.build(passages(1), passage_encoder=FAKE).refresh()


def test_a_snapshot_is_not_saved_over_later_commits(index_folder, tmp_path):
    snapshot = PassageIndex.load(index_folder)
    snapshot.save(index_folder)
    with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:
        index.add(passages(20))
    with pytest.raises(ArtifactError, match="was changed after it was loaded; call refresh"):
        snapshot.save(index_folder)
    assert len(PassageIndex.load(index_folder)) == 21
    snapshot.save(tmp_path / "copy")
    snapshot.refresh().save(index_folder)
    assert describe(index_folder)["segments"] == [21]


def test_there_is_one_writer(index_folder):
    script = f"""
from semclass import IndexWriter
with IndexWriter.open({str(index_folder)!r}) as index:
    index.delete(["1"])
"""
    other = {"args": [sys.executable, "-c", script], "cwd": ROOT, "capture_output": True, "text": True, "check": False}
    with IndexWriter.open(index_folder):
        for write in (
            lambda: PassageIndex.build(passages(1), passage_encoder=FAKE).save(index_folder),
            lambda: store_tuned(index_folder, {}),
        ):
            with pytest.raises(ArtifactError, match="another writer"):
                write()
        assert "another writer" in subprocess.run(**other).stderr
    assert subprocess.run(**other).returncode == 0
    assert len(PassageIndex.load(index_folder)) == 19


def test_a_writer_is_of_no_use_after_its_block(index_folder):
    with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:
        index.add(passages(20))
    for late in (lambda: index.add(passages(22)), lambda: index.delete(["1"]), index.commit):
        with pytest.raises(InputError, match="this writer is closed; open the index again"):
            late()
    assert len(PassageIndex.load(index_folder)) == 21


def test_threads_that_share_a_writer_take_turns(index_folder):
    with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:

        def add(first):
            for number in range(first, first + 20):
                index.add(passages(number), workers=1)
                index.delete([str(number)] if number % 5 == 0 else [])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, [100, 200, 300, 400]))
    expected = [str(first + place) for first in (100, 200, 300, 400) for place in range(20) if place % 5]
    assert sorted(ids(PassageIndex.load(index_folder))[20:]) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_neither_commits_nor_keeps_the_lock(index_folder):
    script = f"""
import os
from semclass import IndexWriter, InputError
folder = {str(index_folder)!r}
read, write = os.pipe()
try:
    with IndexWriter.open(folder) as index:
        index.delete(["1"])
        leaves = os.fork()
        if leaves:
            stays = os.fork()
            if not stays:
                os.close(write)
                os.read(read, 1)  # lives on, with the lock file open
                os._exit(0)
            assert os.WEXITSTATUS(os.waitpid(leaves, 0)[1]) == 3
except InputError as error:
    os._exit(3 if "belongs to the process" in str(error) else 4)
with IndexWriter.open(folder) as index:
    index.delete(["2"])
os.write(write, b" ")
os.waitpid(stays, 0)
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)
    assert len(PassageIndex.load(index_folder)) == 18


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs flock")
def test_a_file_system_without_locks_is_refused(index_folder, monkeypatch):
    def no_locks(number, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(ArtifactError, match="No locks available"), IndexWriter.open(index_folder):
        pass


def test_the_models_must_be_those_of_the_index(index_folder):
    other = passage_encoder_of(FakeEncoder(fingerprint="other"))
    says = "with encoder 'fake', the models have 'other'"
    with (
        pytest.raises(EncoderMismatchError, match=says),
        IndexWriter.open(index_folder, passage_encoder=other) as index,
    ):
        index.add(passages(20))
    assert len(PassageIndex.load(index_folder)) == 20


def test_segments_stay_few(index_folder):
    for number in range(20, 45):
        with IndexWriter.open(index_folder, passage_encoder=FAKE) as index:
            index.add(passages(number))
    found = describe(index_folder)
    assert 1 < len(found["segments"]) <= 4
    assert found["segments"][0] >= 20
    assert found["generation"] == 26
    assert len(list(index_folder.glob("segment-*"))) == len(found["segments"])
    assert_ranks_as_rebuilt(PassageIndex.load(index_folder))
    assert compact(index_folder)
    assert not compact(index_folder)
    assert describe(index_folder)["segments"] == [45]


def test_removed_passages_are_dropped_from_disk_when_they_are_more_than_half(index_folder):
    for deleted, left, kept in ([str(number) for number in range(10)], 10, 10), (["11"], 9, 0):
        with IndexWriter.open(index_folder) as index:
            index.delete(deleted)
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
    for step in data.draw(st.lists(st.sampled_from(["add", "update", "delete", "compact", "refresh"]), max_size=12)):
        chosen = data.draw(names)
        new = {name: Passage(name, data.draw(texts), {"n": data.draw(st.integers(0, 2))}) for name in chosen}
        if step == "refresh":
            index = index.refresh()
            continue
        with IndexWriter.open(folder, passage_encoder=FAKE) as changed:
            if step == "compact":
                changed.commit(compact=True)
            elif step == "delete":
                changed.delete(chosen, missing="ignore")
                known = {name: known[name] for name in known if name not in chosen}
            elif step == "add":
                new = {name: new[name] for name in new if name not in known}
                changed.add(new.values())
                known |= new
            else:
                changed.update(new.values(), missing="add")
                known |= new
    index = index.refresh()
    assert {passage.id: passage for passage in index.passages(index.rows)} == known
    if known:
        assert_ranks_as_rebuilt(index)
