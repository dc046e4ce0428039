"""Judgements of hits, stored beside an index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from semclass import ArtifactError, InputError, InputTypeError, Passage, PassageIndex, build_index
from semclass.index import feedback
from semclass.index.feedback import add_judgement, by_question, read_judgements
from semclass.index.sync import sync_index
from semclass.index.verify import verify

PASSAGES = [
    Passage("a.md#1", "The bridge was built of granite by Ada Merriweather.", {"document": "a.md"}),
    Passage("b.md#1", "The bridge was opened in October 1874.", {"document": "b.md"}),
]
WHO, WHEN = "Who built the bridge?", "When was it opened?"


@pytest.fixture
def folder(tmp_path, models):
    build_index(tmp_path / "index", PASSAGES, passage_encoder=models.passage_encoder)
    return tmp_path / "index"


def test_of_each_question_and_passage_the_last_judgement_counts(folder):
    index = PassageIndex.load(folder)
    assert read_judgements(folder) == []
    add_judgement(index, WHO, "a.md#1", False)
    first = add_judgement(index, f" {WHO}\n", "a.md#1", True)
    second = add_judgement(index, WHO, "b.md#1", False)
    add_judgement(index, WHEN, "b.md#1", True)
    add_judgement(index, WHEN, "b.md#1", None)  # a slip
    assert read_judgements(folder) == [first, second]
    assert by_question([first, second]) == {WHO: {"a.md#1": True, "b.md#1": False}}


def test_judgements_stay_when_the_index_changes(folder, models):
    add_judgement(PassageIndex.load(folder), WHO, "a.md#1", True)
    sync_index(folder, PASSAGES[1:], cutting={}, passage_encoder=models.passage_encoder)
    verify(folder)
    assert len(read_judgements(folder)) == 1
    add_judgement(PassageIndex.load(folder), WHO, "a.md#1", None)  # of a passage that is gone
    build_index(folder, PASSAGES, passage_encoder=models.passage_encoder, replace=True)
    assert read_judgements(folder) == []


def test_writers_at_the_same_time_lose_nothing(folder):
    index = PassageIndex.load(folder)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_judgement(index, f"{WHO} {number}", "a.md#1", True), range(50)))
    assert len(read_judgements(folder)) == 50


def test_what_a_crash_left_of_a_line_spoils_no_other(folder):
    index = PassageIndex.load(folder)
    add_judgement(index, WHO, "a.md#1", True)
    path = folder / feedback.FEEDBACK
    path.write_bytes(path.read_bytes() + b'{"question": "Wh')
    assert len(read_judgements(folder)) == 1
    add_judgement(index, WHEN, "b.md#1", True)
    with pytest.raises(ArtifactError, match="line 2"):
        read_judgements(folder)
    path.write_bytes(b"\n".join(line for line in path.read_bytes().splitlines() if line.endswith(b"}")) + b"\n")
    assert [judgement.question for judgement in read_judgements(folder)] == [WHO, WHEN]


def test_what_cannot_be_stored_is_refused(folder, models, monkeypatch):
    index = PassageIndex.load(folder)
    with pytest.raises(InputError, match=r"none\.md"):
        add_judgement(index, WHO, "none.md", True)
    with pytest.raises(InputError, match="question"):
        add_judgement(index, " ", "a.md#1", True)
    with pytest.raises(InputTypeError, match="right"):
        add_judgement(index, WHO, "a.md#1", 1)
    with pytest.raises(InputError, match="memory"):
        add_judgement(PassageIndex.build(PASSAGES, passage_encoder=models.passage_encoder), WHO, "a.md#1", True)
    monkeypatch.setattr(feedback, "MOST", 50)
    with pytest.raises(ArtifactError, match="full"):
        add_judgement(index, WHO, "a.md#1", True)


def test_a_file_that_cannot_be_read_or_written_is_named(folder):
    index, path = PassageIndex.load(folder), folder / feedback.FEEDBACK
    path.mkdir()
    with pytest.raises(ArtifactError, match="written"):
        add_judgement(index, WHO, "a.md#1", True)
    path.rmdir()
    for line in ('{"question": 1}', '{"question": "a", "passage": "b", "when": "c", "right": 1}', "[]"):
        path.write_text(f"\n{line}\n")
        with pytest.raises(ArtifactError, match="line 2"):
            read_judgements(folder)
