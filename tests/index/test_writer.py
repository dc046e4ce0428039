from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import ROOT, Counting, FakeEncoder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semclass import (
    ArtifactError,
    EncoderMismatchError,
    InputError,
    InputTypeError,
    Passage,
    PassageClassifier,
    PassageIndex,
)
from semclass.index import pending, store, writer
from semclass.index.ingest import FORMS
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.records import Query, Scoring
from semclass.index.store import describe
from semclass.index.verify import verify
from semclass.index.writer import IndexWriter, compact
from semclass.scoring.quantisation import Codebook, Codebooks

WORDS = ["red", "green", "blue", "boat", "hill", "lake", "stone", "tower", "bridge", "river"]


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda number: None)


@pytest.fixture(scope="module")
def passage_encoder():
    return PassageEncoder(PassageClassifier(FakeEncoder(), None), None, None)


def passages(*numbers, text="the {} boat", **metadata):
    return [Passage(str(number), text.format(WORDS[number % 10] + str(number)), metadata) for number in numbers]


@pytest.fixture
def folder(passage_encoder, tmp_path):
    PassageIndex.build(passages(*range(20)), passage_encoder=passage_encoder).save(tmp_path / "index")
    return tmp_path / "index"


def ids(index):
    return [passage.id for passage in index.passages(index.rows)]


def query(passage_encoder, text):
    found = passage_encoder.encoder.encode([text], views=("pooled", "tokens"))
    tokens = found.tokens.row(0)
    nothing = np.zeros(0)
    return Query(text, found.pooled[0], nothing, nothing, tokens, np.ones(len(tokens), np.float32), found.terms.row(0))


def ranking(index, passage_encoder, text, n=1000, **options):
    found = index.candidates(query(passage_encoder, text), n, Scoring(0.1), passage_encoder=passage_encoder, **options)
    return [(passage.id, score) for passage, score in zip(index.passages(found.rows), found.score, strict=True)]


def same_as_built_anew(index, passage_encoder):
    """Whether an index ranks as one that is built from its passages."""
    anew = PassageIndex.build(index.passages(index.rows), passage_encoder=passage_encoder)
    np.testing.assert_array_equal(index.idf, anew.idf)
    for text in ("the red0 boat", "green1 boat boat", "new words", "lake5"):
        ours, theirs = ranking(index, passage_encoder, text), ranking(anew, passage_encoder, text)
        # a product is rounded as its place in the matrix has it, so that equal ones may change places
        np.testing.assert_allclose([score for _, score in ours], [score for _, score in theirs], atol=1e-6)
        assert dict(ours) == pytest.approx(dict(theirs), abs=1e-6)


def test_passages_are_added_replaced_and_removed(folder, passage_encoder):
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        assert changed.add(passages(20, 21)) == 2
        assert changed.update(passages(3, text="a {} hill")) == 1
        assert changed.delete(["0", "20"]) == 2
        assert len(changed) == 20
        assert len(PassageIndex.load(folder)) == 20, "nothing is seen before the commit"
        assert "0" in ids(PassageIndex.load(folder))
    index = PassageIndex.load(folder)
    assert ids(index) == [str(number) for number in range(1, 20) if number != 3] + ["21", "3"]
    assert index.passages(index.find(["3"]))[0].text == "a lake3 hill".replace("lake", "boat")
    assert index.find(["0", "20", "21"]).tolist()[:2] == [-1, -1]
    same_as_built_anew(index, passage_encoder)


def test_only_new_texts_are_encoded(folder):
    encoder = Counting()
    passage_encoder = PassageEncoder(PassageClassifier(encoder, None), None, None)
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.update(passages(4, page=7))
        changed.delete(["5"])
    assert encoder.seen == []
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(30))
    assert set(encoder.seen) == {"the red30 boat"}
    index = PassageIndex.load(folder)
    assert index.passages(index.find(["4"]))[0].metadata == {"page": 7}
    same_as_built_anew(index, passage_encoder)


@pytest.fixture(scope="module")
def of_form(tmp_path_factory):
    """A reader with codebooks, and what makes an index of a form with it."""
    rng = np.random.default_rng(0)
    book = Codebook(rng.normal(size=(16, 256, 1)).astype(np.float32))
    passage_encoder = PassageEncoder(PassageClassifier(FakeEncoder(), None), None, Codebooks("books", book, book))

    def make(form):
        folder = tmp_path_factory.mktemp(form) / "index"
        items = [Passage("a", "red boat"), Passage("b", "green hill hill hill"), Passage("c", "blue lake boat")]
        PassageIndex.build(items, passage_encoder=passage_encoder, form=form).save(folder)
        return folder, items

    return passage_encoder, make


@pytest.mark.parametrize("form", FORMS)
def test_an_index_of_each_form_is_changed_and_is_as_if_built_anew(of_form, form):
    passage_encoder, make = of_form
    folder, items = make(form)
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        new = [Passage(item.id, item.text, {"page": place}) for place, item in enumerate(reversed(items))]
        assert changed.update(new) == 3
        assert changed.update([Passage("d", "a tower")], missing="add") == 1
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        assert changed.update([Passage("b", "green hill hill hill", {"page": 7})]) == 1
        changed.delete(["a"])
        changed.commit(compact=True)
    verify(folder)
    index = PassageIndex.load(folder)
    anew = PassageIndex.build(index.passages(index.rows), passage_encoder=passage_encoder, form=form)
    assert {item.id: item.metadata.get("page") for item in index.passages(index.rows)} == {"b": 7, "c": 0, "d": None}
    ours, theirs = (found.segments[0].postings for found in (index, anew))
    np.testing.assert_array_equal(ours.lengths, theirs.lengths)
    np.testing.assert_array_equal(ours.passages, theirs.passages)
    for text in ("green hill", "a boat", "lake"):
        assert dict(ranking(index, passage_encoder, text)) == pytest.approx(
            dict(ranking(anew, passage_encoder, text)), abs=1e-6
        )


@pytest.mark.parametrize("form", FORMS)
def test_where_nothing_matches_nothing_is_found(of_form, form):
    passage_encoder, make = of_form
    folder, items = make(form)
    assert ranking(PassageIndex.load(folder), passage_encoder, "boat", where={"page": 99}) == []
    with IndexWriter.open(folder) as changed:
        changed.delete([item.id for item in items])
    assert ranking(PassageIndex.load(folder), passage_encoder, "boat") == []


def test_an_update_that_changes_nothing_is_no_change(folder, passage_encoder):
    before = (folder / "manifest.json").read_bytes()
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        assert changed.update(passages(4)) == 0
    assert (folder / "manifest.json").read_bytes() == before


def test_a_block_that_fails_changes_nothing(folder, passage_encoder):
    before = {path.name for path in folder.rglob("*")}
    with pytest.raises(KeyError), IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:  # noqa: PT012 - the block is meant
        changed.add(passages(20))
        changed.delete(["1"])
        raise KeyError("a mistake of the caller")
    assert {path.name for path in folder.rglob("*")} - {".lock"} == before - {".lock"}
    assert len(PassageIndex.load(folder)) == 20


def test_a_call_that_is_refused_changes_nothing_of_the_block(folder, passage_encoder):
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        with pytest.raises(InputError, match=r"passage id '3' is in the index already; replace"):
            changed.add(passages(40, 3))
        with pytest.raises(InputError, match=r"2 passage ids \('x', 'y'\) are not in the index"):
            changed.delete(["x", "1", "y"])
        with pytest.raises(InputError, match=r"passage id '77' is not in the index"):
            changed.update(passages(1, 77, text="{}"))
        with pytest.raises(InputError, match="comes twice"):
            changed.add(passages(50, 50))
        with pytest.raises(InputTypeError, match="type Passage"):
            changed.add(["text"])
        with pytest.raises(InputError, match="ids or a filter"):
            changed.delete()
        for where in ({}, {"$and": [{}, {}]}, {"$or": [{"lang": "de"}, {}]}):
            with pytest.raises(InputError, match="a filter without conditions would remove every passage"):
                changed.delete(where=where)
        with pytest.raises(InputError, match="missing"):
            changed.delete(["1"], missing="whatever")
        assert len(changed) == 20
        assert changed.delete(["x", "1"], missing="ignore") == 1
        assert changed.update(passages(1, 77), missing="add") == 2
    assert len(PassageIndex.load(folder)) == 21


def test_a_full_disk_leaves_the_index_as_it_was(folder, passage_encoder, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = (folder / "manifest.json").read_bytes()
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(20))
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(ArtifactError, match="No space left on device; an older index there is unchanged"):
                changed.commit()
        assert (folder / "manifest.json").read_bytes() == before
        assert changed.commit(), "what was to be written is still known when there is space again"
    assert len(PassageIndex.load(folder)) == 21
    assert len(list(folder.glob("segment-*"))) == 2


def test_passages_are_removed_by_a_filter(folder, passage_encoder):
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(30, 31, 32, lang="de"))
        assert changed.delete(where={"lang": "de", "_id": {"$in": ["30", "31"]}}) == 2
    assert ids(PassageIndex.load(folder))[-1] == "32"
    with IndexWriter.open(folder) as changed:
        assert changed.delete(where={"lang": "de"}) == 1
        assert changed.delete(where={"lang": "de"}) == 0
    assert len(PassageIndex.load(folder)) == 20


def test_a_filter_applies_before_ranking(folder, passage_encoder):
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(30, 31, page=1))
        changed.add(passages(32, page=2))
        changed.delete(["31"])
    index = PassageIndex.load(folder)
    found = ranking(index, passage_encoder, "the red0 boat", 2, where={"page": {"$gte": 1}})
    assert {name for name, _ in found} == {"30", "32"}
    assert index.mask({"page": 1}).sum() == 1
    assert index.mask({"page": 1}) is index.mask({"page": 1}), "it is remembered"
    for page in range(3, 20):
        assert not index.mask({"page": page}).any()
    assert index.mask().sum() == len(index) == 22


def test_all_can_be_removed_and_others_added(folder, passage_encoder):
    with IndexWriter.open(folder) as changed:
        changed.delete(map(str, range(20)))
    index = PassageIndex.load(folder)
    assert len(index) == 0
    assert ranking(index, passage_encoder, "red") == []
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(3))
    assert ids(PassageIndex.load(folder)) == ["3"]
    same_as_built_anew(PassageIndex.load(folder), passage_encoder)


def test_a_snapshot_is_not_disturbed(folder, passage_encoder):
    snapshot = PassageIndex.load(folder)
    before = ranking(snapshot, passage_encoder, "the red0 boat")
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(20, text="red0 {}"))
        changed.delete([str(number) for number in range(12)])
    compact(folder)
    assert ranking(snapshot, passage_encoder, "the red0 boat") == before
    assert snapshot.passage(3).id == "3"
    newer = snapshot.refresh()
    assert ids(newer) == [str(number) for number in range(12, 21)]
    assert newer.refresh() is newer


def test_a_snapshot_is_not_saved_over_what_others_committed(folder, passage_encoder, tmp_path):
    snapshot = PassageIndex.load(folder)
    snapshot.save(folder)  # nobody else did anything
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(20))
    with pytest.raises(ArtifactError, match="was changed since it was loaded; refresh it"):
        snapshot.save(folder)
    assert len(PassageIndex.load(folder)) == 21
    snapshot.save(tmp_path / "copy")
    snapshot.refresh().save(folder)
    assert describe(folder)["segments"] == [21]


def test_refresh_shares_what_did_not_change(folder, passage_encoder):
    snapshot = PassageIndex.load(folder)
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(20))
        changed.delete(["1"])
    newer = snapshot.refresh()
    assert newer.segments[0] is snapshot.segments[0]
    with IndexWriter.open(folder) as changed:
        changed.delete(["20"])
    assert newer.refresh().deleted[0] is newer.deleted[0]
    with pytest.raises(InputError, match="built in memory"):
        PassageIndex.build(passages(1), passage_encoder=passage_encoder).refresh()


def test_there_is_one_writer(folder, passage_encoder):
    other = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from semclass.index.writer import IndexWriter
try:
    with IndexWriter.open({str(folder)!r}) as changed:
        print(changed.delete(["1"]))
except Exception as error:
    print(type(error).__name__, error)
"""
    run = [sys.executable, "-c", other]
    with IndexWriter.open(folder):
        with pytest.raises(ArtifactError, match="is being changed by another writer; wait"), IndexWriter.open(folder):
            pass
        with pytest.raises(ArtifactError, match="another writer"):
            PassageIndex.build(passages(1), passage_encoder=passage_encoder).save(folder)
        with pytest.raises(ArtifactError, match="another writer"):
            store.store_tuned(folder, {})
        assert "ArtifactError the index" in subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "1\n"


def test_a_writer_is_of_no_use_after_its_block(folder, passage_encoder):
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(passages(20))
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as other:
        other.add(passages(21))
    for late in (
        lambda: changed.add(passages(22)),
        lambda: changed.update(passages(2)),
        lambda: changed.delete(["1"]),
        lambda: changed.commit(),
    ):
        with pytest.raises(InputError, match="the block of this writer has ended; open the index again"):
            late()
    assert ids(PassageIndex.load(folder))[-2:] == ["20", "21"]


def test_threads_that_share_a_writer_take_turns(folder, passage_encoder):
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:

        def add(first):
            for number in range(first, first + 20):
                changed.add(passages(number), workers=1)
                changed.delete([str(number)] if number % 5 == 0 else [])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, [100, 200, 300, 400]))
    index = PassageIndex.load(folder)
    expected = [str(first + place) for first in (100, 200, 300, 400) for place in range(20) if place % 5]
    assert sorted(ids(index)[20:]) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_in_the_block_neither_commits_nor_keeps_the_lock(folder, tmp_path):
    script = f"""
import os, sys, time
sys.path[:0] = {[str(ROOT), str(ROOT / "tests")]!r}
from semclass import InputError, PassageIndex
from semclass.index.writer import IndexWriter
folder = {str(folder)!r}
read, write = os.pipe()
try:
    with IndexWriter.open(folder) as changed:
        changed.delete(["1"])
        leaves = os.fork()
        if leaves:
            stays = os.fork()
            if not stays:
                os.close(write)
                os.read(read, 1)  # lives on, and has the file of the lock open
                os._exit(0)
            _, status = os.waitpid(leaves, 0)
            assert os.WEXITSTATUS(status) == 3, status
            assert len(PassageIndex.load(folder)) == 20
except InputError as error:
    assert "belongs to the process" in str(error)
    os._exit(3)
assert len(PassageIndex.load(folder)) == 19
with IndexWriter.open(folder) as changed:
    changed.delete(["2"])
os.write(write, b" ")
os.waitpid(stays, 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(PassageIndex.load(folder)) == 18


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs flock")
def test_a_file_system_without_locks_is_told_from_another_writer(folder, monkeypatch):
    def no_locks(number, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with (
        pytest.raises(ArtifactError, match=r"No locks available.*a file system that has locks"),
        IndexWriter.open(folder),
    ):
        pass


def test_the_models_must_be_those_of_the_index(folder):
    other = PassageEncoder(PassageClassifier(FakeEncoder(fingerprint="other"), None), None, None)
    said = "with encoder 'fake', the models have 'other'"
    with pytest.raises(EncoderMismatchError, match=said), IndexWriter.open(folder, passage_encoder=other) as changed:
        changed.add(passages(20))
    assert len(PassageIndex.load(folder)) == 20
    with pytest.raises(ArtifactError, match="nothing does not exist"), IndexWriter.open(folder / "nothing"):
        pass


def test_segments_stay_few(folder, passage_encoder):
    for number in range(20, 45):
        with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
            changed.add(passages(number))
    found = describe(folder)
    assert 1 < len(found["segments"]) <= 4
    assert found["segments"][0] >= 20
    assert found["generation"] == 26
    same_as_built_anew(PassageIndex.load(folder), passage_encoder)
    there = [path for path in folder.iterdir() if path.name.startswith("segment-")]
    assert len(there) == len(found["segments"])
    assert compact(folder)
    assert not compact(folder)
    assert describe(folder)["segments"] == [45]


@dataclass
class Sized:
    """What the plan asks of a piece."""

    live: int
    entry: object


@pytest.mark.parametrize(
    ("loads", "added", "commits"),
    [([], 1, 10_000), ([10**6] * 8, 1, 1000), ([10**6] * 8, 1000, 1000), ([20, 3 * 10**6, 5], 1, 1000)],
)
def test_segments_stay_few_and_passages_are_seldom_written_again(loads, added, commits):
    sizes, written = [], []
    for new in [*loads, *[added] * commits]:
        groups = pending.plan([*(Sized(size, "there") for size in sizes), Sized(new, None)])
        sizes = [sum(piece.live for piece in group) for group in groups]
        written.append(sum(sizes[place] for place, group in enumerate(groups) if group[-1].entry is None))
        assert len(sizes) <= 1 + np.log(sum(sizes)) / np.log(pending.WIDER)
    assert sum(written[: len(loads)]) <= 4 * sum(loads)
    assert sum(written[len(loads) :]) <= 12 * added * commits
    assert sizes == sorted(sizes, reverse=True)


def test_what_is_new_in_one_commit_is_one_segment():
    old, new = [Sized(1000, "there"), Sized(400, "there")], [Sized(1, None), Sized(100, None), Sized(2, None)]
    assert pending.plan([*old, *new]) == [[old[0]], [old[1]], new]
    assert pending.plan([*old, *new, Sized(40, None)]) == [[*old, *new, Sized(40, None)]]


def test_what_was_removed_goes_when_it_is_more_than_half(folder):
    with IndexWriter.open(folder) as changed:
        changed.delete([str(number) for number in range(10)])
    assert (describe(folder)["passages"], describe(folder)["removed"]) == (10, 10)
    with IndexWriter.open(folder) as changed:
        changed.delete(["11"])
    assert (describe(folder)["passages"], describe(folder)["removed"]) == (9, 0)


def test_many_passages_are_added_in_bounded_memory(folder, passage_encoder, monkeypatch):
    monkeypatch.setattr(writer, "FLUSH", 3)
    monkeypatch.setattr(writer, "BATCH", 8)
    monkeypatch.setattr(pending, "SMALL", 4)
    monkeypatch.setattr("semclass.index.ingest.CHUNK", 4)
    new = passages(*range(100, 200))
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
        changed.add(iter(new))
        for number in range(10):
            changed.add(passages(300 + number))
        changed.delete(["150", "301"])
        changed.update(passages(160, text="{}"))
    index = PassageIndex.load(folder)
    assert len(index) == 128
    assert len(index.segments) == 1
    same_as_built_anew(index, passage_encoder)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_after_any_changes_it_is_as_if_built_anew(tmp_path_factory, data):
    passage_encoder = PassageEncoder(PassageClassifier(FakeEncoder(), None), None, None)
    folder = tmp_path_factory.mktemp("any") / "index"
    known = {str(number): Passage(str(number), f"{WORDS[number]} boat") for number in range(5)}
    PassageIndex.build(known.values(), passage_encoder=passage_encoder).save(folder)
    index = PassageIndex.load(folder)
    names = st.lists(st.integers(0, 12).map(str), unique=True, max_size=6)
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
    for step in data.draw(st.lists(st.sampled_from(["add", "update", "delete", "compact", "refresh"]), max_size=12)):
        if step == "compact":
            compact(folder)
        elif step == "refresh":
            index = index.refresh()
        else:
            chosen = data.draw(names)
            with IndexWriter.open(folder, passage_encoder=passage_encoder) as changed:
                if step == "delete":
                    changed.delete(chosen, missing="ignore")
                    known = {name: known[name] for name in known if name not in chosen}
                else:
                    new = {
                        name: Passage(name, data.draw(texts), {"n": data.draw(st.integers(0, 2))}) for name in chosen
                    }
                    if step == "add":
                        new = {name: new[name] for name in new if name not in known}
                    (changed.add if step == "add" else changed.update)(
                        new.values(), **({} if step == "add" else {"missing": "add"})
                    )
                    known |= new
    index = index.refresh()
    assert {passage.id: passage for passage in index.passages(index.rows)} == known
    if known:
        same_as_built_anew(index, passage_encoder)
