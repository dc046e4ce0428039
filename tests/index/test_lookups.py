"""Reading passages of an index back by their ids and by their documents."""

from __future__ import annotations

import pytest
from world import FAKE

from semclass import Passage, PassageIndex, change_index
from semclass.index import segments_in_progress


def passages(document, *texts):
    return [Passage(f"{document}#{n}", text, {"document": document}) for n, text in enumerate(texts, 1)]


ALL = [*passages("a.md", "one", "two"), *passages("c.md", "four", "five"), Passage("x", "alone")]


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Of two segments, from the first of which a passage was deleted."""
    monkeypatch.setattr(segments_in_progress, "GROWTH", 0)  # so that small segments are not joined
    PassageIndex.build([*ALL[:2], Passage("c.md#0", "removed", {"document": "c.md"})], passage_encoder=FAKE).save(
        tmp_path
    )
    change_index(tmp_path, add=ALL[2:], delete=["c.md#0"], passage_encoder=FAKE)
    found = PassageIndex.load(tmp_path)
    assert len(found.segments) == 2
    return found


def test_passages_are_read_by_their_ids(index):
    texts = [passage.text for passage in index.by_ids(["c.md#2", "x", "nothing", "a.md#1", "x", "c.md#0"])]
    assert texts == ["five", "alone", "one", "alone"]
    assert index.by_ids(["a.md#2"]) == ALL[1:2]
    assert index.by_ids(["nothing"]) == index.by_ids([]) == []


def test_masks_of_filters_are_remembered(index):
    where = {"document": "a.md"}
    before = index.mask(where)
    assert index.mask(where) is before
