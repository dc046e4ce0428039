from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import Counting, FakeEncoder
from test_writer import passages, same_as_built_anew

from semclass import ArtifactError, InputError, Passage, PassageClassifier, PassageIndex, TruncationWarning
from semclass.cli.main import cli
from semclass.index import build, segment
from semclass.index.build import build_index
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.store import AREA, describe
from semclass.index.verify import verify
from semclass.index.writer import IndexWriter


class StoppedError(Exception):
    """What stops a build in a test."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Groups of a few passages, as if they were thousands."""
    monkeypatch.setattr(build, "GROUP", 8)
    monkeypatch.setattr("semclass.index.ingest.CHUNK", 3)
    monkeypatch.setattr("os.fsync", lambda number: None)


@pytest.fixture
def passage_encoder():
    return PassageEncoder(PassageClassifier(FakeEncoder(), None), None, None)


def content(folder):
    """Bytes of all files of an index, without the lock."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def stopping(items, after):
    for number, item in enumerate(items):
        if number == after:
            raise StoppedError
        yield item


def test_it_is_what_a_build_in_memory_gives(tmp_path, passage_encoder):
    done = []
    index = build_index(
        tmp_path / "index", iter(passages(*range(30))), passage_encoder=passage_encoder, progress=done.append
    )
    PassageIndex.build(passages(*range(30)), passage_encoder=passage_encoder).save(tmp_path / "memory")
    assert content(tmp_path / "index") == content(tmp_path / "memory")
    assert (len(index), len(index.segments), sum(done)) == (30, 1, 30)
    same_as_built_anew(index, passage_encoder)
    assert verify(tmp_path / "index")["passages"] == 30


def test_the_number_of_workers_changes_nothing(tmp_path, passage_encoder):
    for workers in (1, 2, 5):
        build_index(tmp_path / str(workers), passages(*range(50)), passage_encoder=passage_encoder, workers=workers)
    assert content(tmp_path / "1") == content(tmp_path / "2") == content(tmp_path / "5")
    with pytest.raises(InputError, match="workers"):
        build_index(tmp_path / "0", passages(1), passage_encoder=passage_encoder, workers=0)


@pytest.mark.parametrize("after", [1, 8, 17, 25, 29])
def test_a_build_that_was_stopped_goes_on(tmp_path, after):
    encoder = Counting()
    passage_encoder = PassageEncoder(PassageClassifier(encoder, None), None, None)
    everything = passages(*range(30))
    build_index(tmp_path / "whole", everything, passage_encoder=passage_encoder)
    with pytest.raises(StoppedError):
        build_index(tmp_path / "index", stopping(everything, after), passage_encoder=passage_encoder, workers=1)
    encoder.seen.clear()
    done = []
    build_index(tmp_path / "index", everything, passage_encoder=passage_encoder, progress=done.append)
    assert content(tmp_path / "index") == content(tmp_path / "whole")
    assert sum(done) == 30
    assert not (tmp_path / "index" / AREA).exists()
    assert len(set(encoder.seen)) <= 30 - max(after - 8, 0) // 8 * 8, "what was done is not read again"


def test_passages_that_changed_are_read_again_and_those_before_them_are_not(tmp_path):
    encoder = Counting()
    passage_encoder = PassageEncoder(PassageClassifier(encoder, None), None, None)
    before, after = passages(*range(30)), passages(*range(10)) + passages(*range(10, 30), text="other {}")
    with pytest.raises(StoppedError):
        build_index(tmp_path / "index", stopping(before, 26), passage_encoder=passage_encoder)
    encoder.seen.clear()
    with pytest.warns(UserWarning, match="continues after 8 passages"):
        build_index(tmp_path / "index", after, passage_encoder=passage_encoder)
    assert {item.text for item in after[8:]} <= set(encoder.seen)
    assert not {item.text for item in after[:8]} & set(encoder.seen)
    build_index(tmp_path / "whole", after, passage_encoder=passage_encoder)
    assert content(tmp_path / "index") == content(tmp_path / "whole")


def test_what_was_done_with_other_models_or_options_is_not_dropped_without_a_word(tmp_path, passage_encoder):
    with pytest.raises(StoppedError):
        build_index(tmp_path / "index", stopping(passages(*range(30)), 26), passage_encoder=passage_encoder)
    journal = (tmp_path / "index" / AREA / "journal.json").read_bytes()
    with pytest.raises(
        ArtifactError, match=r"other models or options was stopped in .* after [0-9]+ passages; .*--no-resume"
    ):
        build_index(tmp_path / "index", passages(*range(30)), passage_encoder=passage_encoder, form="lean")
    assert (tmp_path / "index" / AREA / "journal.json").read_bytes() == journal
    build_index(tmp_path / "index", passages(*range(30)), passage_encoder=passage_encoder, form="lean", resume=False)
    assert PassageIndex.load(tmp_path / "index").form == "lean"


def test_what_a_stopped_build_takes_is_told(tmp_path, passage_encoder):
    build_index(tmp_path / "index", passages(1, 2), passage_encoder=passage_encoder)
    assert describe(tmp_path / "index")["unfinished"] == 0
    with pytest.raises(StoppedError):
        build_index(tmp_path / "index", stopping(passages(*range(30)), 26), passage_encoder=passage_encoder)
    taken = describe(tmp_path / "index")["unfinished"]
    assert taken == sum(path.stat().st_size for path in (tmp_path / "index" / AREA).rglob("*") if path.is_file()) > 0
    said = CliRunner().invoke(cli, ["index", "info", str(tmp_path / "index")]).output
    assert f"a build that is not complete takes {taken / 1e6:.1f} MB more" in said
    with IndexWriter.open(tmp_path / "index") as changed:
        changed.delete(["1"])
    assert describe(tmp_path / "index")["unfinished"] == taken, "it can still go on"


def test_what_a_build_did_goes_with_its_commit_also_if_it_is_killed_then(tmp_path, passage_encoder, monkeypatch):
    def killed(folder, kept):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("semclass.index.store.clean", killed)
        with pytest.raises(KeyboardInterrupt):
            build_index(tmp_path / "index", passages(*range(30)), passage_encoder=passage_encoder)
    assert describe(tmp_path / "index")["unfinished"] == 0
    with IndexWriter.open(tmp_path / "index") as changed:
        changed.delete(["1"])
    assert {path.name.partition("-")[0] for path in (tmp_path / "index").iterdir()} <= {
        ".lock",
        "manifest.json",
        "segment",
        "removed",
    }


def test_a_journal_or_a_group_that_is_damaged_is_made_again(tmp_path, passage_encoder):
    for damaged, says in (("journal.json", "its journal is damaged"), ("part-000001/pooled.npy", "continues after 8")):
        with pytest.raises(StoppedError):
            build_index(tmp_path / "index", stopping(passages(*range(30)), 27), passage_encoder=passage_encoder)
        (tmp_path / "index" / AREA / damaged).write_bytes(b"{}")
        with pytest.warns(UserWarning, match=says):
            build_index(tmp_path / "index", passages(*range(30)), passage_encoder=passage_encoder)
        verify(tmp_path / "index")
    with pytest.raises(StoppedError):
        build_index(tmp_path / "index", stopping(passages(*range(30)), 27), passage_encoder=passage_encoder)
    build_index(tmp_path / "index", passages(*range(30)), passage_encoder=passage_encoder, resume=False)


def test_an_older_index_is_there_until_the_new_one_is_complete(tmp_path, passage_encoder):
    build_index(tmp_path / "index", passages(1, 2), passage_encoder=passage_encoder)
    with pytest.raises(StoppedError):
        build_index(tmp_path / "index", stopping(passages(*range(30)), 26), passage_encoder=passage_encoder)
    assert len(PassageIndex.load(tmp_path / "index")) == 2
    build_index(tmp_path / "index", passages(*range(30)), passage_encoder=passage_encoder)
    assert len(PassageIndex.load(tmp_path / "index")) == 30


def test_bad_passages_are_refused(tmp_path, passage_encoder):
    with pytest.raises(InputError, match="no passages"):
        build_index(tmp_path / "index", [], passage_encoder=passage_encoder)
    assert not (tmp_path / "index").exists()
    with pytest.raises(InputError, match="passage id '3' comes twice"):
        build_index(tmp_path / "index", passages(*range(20), 3), passage_encoder=passage_encoder)
    with pytest.raises(InputError, match="text of passage 'a' is empty"):
        build_index(tmp_path / "other", [Passage("a", " ")], passage_encoder=passage_encoder)


def test_an_index_that_is_built_meanwhile_stays_where_it_may_not_be_replaced(tmp_path, passage_encoder):
    def late():
        build_index(tmp_path / "index", passages(1, 2), passage_encoder=passage_encoder)
        yield from passages(*range(20))

    with pytest.raises(ArtifactError, match="holds an index of 2 passages already; give --replace"):
        build_index(tmp_path / "index", late(), passage_encoder=passage_encoder, replace=False)
    assert describe(tmp_path / "index")["passages"] == 2
    assert len(build_index(tmp_path / "index", passages(1), passage_encoder=passage_encoder)) == 1


def test_long_passages_are_named_once_however_many_threads_read(tmp_path, models):
    items = [Passage(str(number), "word " * (4200 if number % 4 == 1 else 1)) for number in range(9)]
    with pytest.warns(TruncationWarning, match="2 of 9 passages are longer .*'1'") as caught:
        build_index(tmp_path / "index", items, passage_encoder=models.passage_encoder, workers=3)
    assert len(caught) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_however_many_passages_are_built_or_added_few_files_are_open(tmp_path, passage_encoder, monkeypatch):
    monkeypatch.setattr("semclass.index.writer.FLUSH", 2)
    monkeypatch.setattr("semclass.index.writer.BATCH", 2)
    monkeypatch.setattr("semclass.index.pending.SMALL", 1)
    opened, most = segment.Segment.open.__func__, []

    def counting(cls, *arguments):
        found = opened(cls, *arguments)
        most.append(len(list(Path("/proc/self/fd").iterdir())))
        return found

    monkeypatch.setattr(segment.Segment, "open", classmethod(counting))
    before = len(list(Path("/proc/self/fd").iterdir()))
    everything = passages(*range(160))
    build_index(tmp_path / "index", everything, passage_encoder=passage_encoder, workers=1)  # 20 groups
    with IndexWriter.open(tmp_path / "index", passage_encoder=passage_encoder) as changed:
        changed.add(passages(*range(500, 600)), workers=1)  # 34 chunks of 3
        for number in range(600, 640, 4):
            changed.add(passages(*range(number, number + 4)), workers=1)
        changed.update(passages(*range(50), text="new {}"), workers=1)
        changed.update(passages(*range(100, 150), page=1), workers=1)
        changed.update(passages(*range(600, 620), page=2), workers=1)
    assert max(most) - before < 256
    verify(tmp_path / "index")
    assert len(PassageIndex.load(tmp_path / "index")) == 300
    build_index(tmp_path / "whole", everything, passage_encoder=passage_encoder, workers=1)
    monkeypatch.setattr(build, "GROUP", 400)
    build_index(tmp_path / "once", everything, passage_encoder=passage_encoder, workers=1)
    assert content(tmp_path / "whole") == content(tmp_path / "once")
