"""Reading passages of an index back by their ids and by their documents."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import FakeEncoder

from semclass import HybridRetriever, InputTypeError, Passage, PassageClassifier, PassageIndex
from semclass.context.build import build_context
from semclass.context.window import by_document
from semclass.index import pending
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.writer import IndexWriter

READER = PassageEncoder(PassageClassifier(FakeEncoder(), None), None, None)


def passages(document, *texts):
    return [Passage(f"{document}#{n}", text, {"document": document, "paragraph": n}) for n, text in enumerate(texts, 1)]


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Of three segments, from the last of which a passage was removed."""
    monkeypatch.setattr(pending, "WIDER", 0)  # so that small segments are not joined
    PassageIndex.build(
        [*passages("a.md", "one", "two"), *passages("b.md", "three"), Passage("x", "alone")], passage_encoder=READER
    ).save(tmp_path)
    for more in (passages("c.md", "four", "five"), passages("d.md", "six", "seven")):
        with IndexWriter.open(tmp_path, passage_encoder=READER) as changed:
            changed.add(more)
    with IndexWriter.open(tmp_path, passage_encoder=READER) as changed:
        changed.delete(["d.md#1"])
    found = PassageIndex.load(tmp_path)
    assert len(found.segments) == 3
    return found


def test_passages_are_read_by_their_ids_in_the_order_of_the_ids(index):
    texts = [passage.text for passage in index.by_ids(["d.md#2", "x", "a.md#1", "x"])]
    assert texts == ["seven", "alone", "one", "alone"]
    assert index.by_ids(["a.md#2"]) == passages("a.md", "one", "two")[1:]


def test_ids_that_no_passage_has_are_left_out(index):
    assert [passage.id for passage in index.by_ids(["nothing", "b.md#1", "d.md#1"])] == ["b.md#1"]
    assert index.by_ids(["nothing"]) == index.by_ids([]) == []


def test_passages_are_read_by_their_documents_in_the_order_of_the_index(index):
    texts = [passage.text for passage in index.by_documents(["d.md", "c.md", "a.md"])]
    assert texts == ["one", "two", "four", "five", "seven"]
    assert index.by_documents(["nothing"]) == index.by_documents([]) == []


def test_one_segment_is_read_as_several_are():
    index = PassageIndex.build(passages("a.md", "one", "two"), passage_encoder=READER)
    assert index.by_documents(["a.md"]) == index.by_ids(["a.md#1", "a.md#2"]) == passages("a.md", "one", "two")
    assert index.by_documents(["b.md"]) == index.by_ids(["b"]) == []


@pytest.mark.parametrize("lookup", ["by_ids", "by_documents"])
def test_one_bare_name_is_refused(index, lookup):
    with pytest.raises(InputTypeError, match="must be a sequence of strings, not one string"):
        getattr(index, lookup)("a.md")
    with pytest.raises(InputTypeError, match=r"\[0\] must be a string, not int"):
        getattr(index, lookup)([5])


def test_filters_stay_remembered(index):
    where = {"document": "a.md"}
    before = index.mask(where)
    for number in range(20):
        index.by_documents([f"{number}.md"])
    assert index.mask(where) is before


def test_an_index_is_where_neighbours_and_parents_are(models, corpus):
    placed = [
        replace(item, metadata={"document": item.id.split("-")[0], "position": int(item.id.split("-")[1])})
        for item in corpus
    ]
    whole = Passage("all", " ".join(item.text for item in corpus[:3]))
    child = Passage("child", "The tower of the old abbey was painted by Ada.", {"parent": "all"})
    retriever = HybridRetriever(
        PassageIndex.build([*placed, whole, child], passage_encoder=models.passage_encoder), models
    )
    hits = retriever.search("Who designed the lighthouse?", k=2, where={"document": "lighthouse"})
    context = build_context(hits, documents=retriever.index.by_documents)
    assert context == build_context(hits, documents=by_document(placed))
    assert len(context.text) > sum(len(hit.text) for hit in hits)
    hits = retriever.search("Who painted the abbey?", k=1, where={"_id": "child"})
    assert build_context(hits, parents=retriever.index.by_ids).text.endswith(whole.text)
