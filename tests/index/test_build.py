from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from test_change import assert_ranks_as_rebuilt, change
from world import FAKE, Counting, passage_encoder_of, passages

from semclass import ArtifactError, Passage, PassageIndex, TruncationWarning
from semclass.index import passage_encoder, segment, writer
from semclass.index.folder import AREA, describe
from semclass.index.verify import verify
from semclass.index.writer import build_index

ALL = passages(*range(30))


class StoppedError(Exception):
    """Stops a build."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of a few passages, each committed, as if they were many and took long."""
    monkeypatch.setattr(writer, "COMMIT_SECONDS", 0)
    monkeypatch.setattr(passage_encoder, "CHUNK_PASSAGES", 3)
    monkeypatch.setattr(writer, "COMPARED_PASSAGES", 3)


def content(folder):
    """Hashes of all files of an index, without the lock."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def stopped_build(folder, after=26, **options):
    """Build an index of all passages, but stop after some."""

    def some():
        yield from ALL[:after]
        raise StoppedError

    with pytest.raises(StoppedError):
        build_index(folder, some(), **{"passage_encoder": FAKE, "workers": 1, **options})


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_it_is_the_index_of_a_build_in_memory(tmp_path, workers):
    done = []
    index = build_index(tmp_path / "index", iter(ALL), passage_encoder=FAKE, workers=workers, progress=done.append)
    PassageIndex.build(ALL, passage_encoder=FAKE).save(tmp_path / "memory")
    assert content(tmp_path / "index") == content(tmp_path / "memory")
    assert (len(index), len(index.segments), sum(done)) == (30, 1, 30)
    assert_ranks_as_rebuilt(index)
    assert verify(tmp_path / "index")["passages"] == 30


@pytest.mark.parametrize("after", [1, 8, 17, 29])
def test_a_stopped_build_goes_on(tmp_path, after):
    encoder, done = Counting(), []
    for name in ("whole", "index"):
        build_index(tmp_path / name, passages(1, 2), passage_encoder=FAKE)
    build_index(tmp_path / "whole", ALL, passage_encoder=FAKE, replace=True)
    stopped_build(tmp_path / "index", after, workers=1, replace=True)
    assert len(PassageIndex.load(tmp_path / "index")) == 2, "an older index stays until the new one is complete"
    encoding = passage_encoder_of(encoder)
    build_index(tmp_path / "index", ALL, passage_encoder=encoding, progress=done.append, replace=True)
    assert content(tmp_path / "index") == content(tmp_path / "whole")
    assert sum(done) == 30
    assert not (tmp_path / "index" / AREA).exists()
    assert len(set(encoder.seen)) == 30 - (after - 1) // 3 * 3, "complete chunks are not encoded again"


@pytest.mark.parametrize("new", [ALL[:10] + passages(*range(10, 30), text="other {}"), ALL[:12], ALL[5:20][::-1]])
def test_a_stopped_build_goes_on_with_other_passages(tmp_path, new):
    encoder, texts = Counting(), {item.text for item in ALL[:24]}
    stopped_build(tmp_path / "index")
    index = build_index(tmp_path / "index", new, passage_encoder=passage_encoder_of(encoder))
    assert set(encoder.seen) == {item.text for item in new} - texts
    assert sorted(index.passages(index.rows), key=str) == sorted(new, key=str)
    assert_ranks_as_rebuilt(index)


def test_a_stopped_build_with_other_options_stays(tmp_path):
    stopped_build(tmp_path)
    kept = (tmp_path / AREA / "manifest.json").read_bytes()
    with pytest.raises(ArtifactError, match=r"build of [0-9]+ passages with other models or options; .*delete .*build"):
        build_index(tmp_path, ALL, passage_encoder=FAKE, small=True)
    assert (tmp_path / AREA / "manifest.json").read_bytes() == kept


def test_a_stopped_build_with_another_passage_head_is_refused(tmp_path, models):
    encoder = models.passage_encoder
    stopped_build(tmp_path, 10, passage_encoder=encoder)
    artifact = encoder.classifier.head.artifact
    files = {**artifact.manifest["files"], "model.onnx": {"sha256": "another"}}
    head = replace(encoder.classifier.head, artifact=replace(artifact, manifest={**artifact.manifest, "files": files}))
    other = replace(encoder, classifier=replace(encoder.classifier, head=head))
    with pytest.raises(ArtifactError, match="other models or options"):
        build_index(tmp_path, ALL, passage_encoder=other)


def test_the_size_of_a_stopped_build_is_shown(tmp_path):
    build_index(tmp_path, passages(1, 2), passage_encoder=FAKE)
    assert describe(tmp_path)["unfinished"] == 0
    stopped_build(tmp_path, replace=True)
    size = sum(path.stat().st_size for path in (tmp_path / AREA).rglob("*") if path.is_file())
    assert describe(tmp_path)["unfinished"] == size > 0
    change(tmp_path, delete=["1"])
    assert describe(tmp_path)["unfinished"] == size, "it can still go on"


@pytest.mark.parametrize("damaged", ["manifest.json", "segment-*/excerpts.npy"])
def test_a_damaged_part_of_a_stopped_build_is_made_again(tmp_path, damaged):
    stopped_build(tmp_path, 27)
    next((tmp_path / AREA).glob(damaged)).write_bytes(b"{}")
    with pytest.warns(UserWarning, match="starts again"):
        build_index(tmp_path, ALL, passage_encoder=FAKE)
    verify(tmp_path)


def test_an_index_that_appears_during_a_build_is_not_replaced(tmp_path):
    def late():
        build_index(tmp_path, passages(1, 2), passage_encoder=FAKE)
        yield from ALL

    with pytest.raises(ArtifactError, match="holds an index of 2 passages already; give --replace"):
        build_index(tmp_path, late(), passage_encoder=FAKE)
    assert describe(tmp_path)["passages"] == 2


def test_long_passages_are_named_once_by_all_threads(tmp_path, models):
    items = [Passage(str(number), "\u4e00" * (4100 if number % 4 == 1 else 1)) for number in range(9)]
    with pytest.warns(TruncationWarning, match="2 of 9 passages have a sentence .*'1'") as caught:
        build_index(tmp_path / "index", items, passage_encoder=models.passage_encoder, workers=3)
    assert len(caught) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_few_files_are_open_however_many_passages_come(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MEMORY_PASSAGES", 1)
    opened, most = segment.Segment.open.__func__, []

    def counting(cls, *arguments):
        most.append(len(list(Path("/proc/self/fd").iterdir())))
        return opened(cls, *arguments)

    monkeypatch.setattr(segment.Segment, "open", classmethod(counting))
    before = len(list(Path("/proc/self/fd").iterdir()))
    build_index(tmp_path, passages(*range(160)), passage_encoder=FAKE, workers=1)
    change(tmp_path, add=iter(passages(*range(500, 600))), workers=1)
    new = [*passages(*range(50), text="new {}"), *passages(*range(100, 150), page=1)]
    change(tmp_path, add=new, existing="replace", delete=["3", "105", "580"], workers=1)
    assert max(most) - before < 256
    assert verify(tmp_path)["passages"] == 259
    assert_ranks_as_rebuilt(PassageIndex.load(tmp_path))
