"""The HTTP service over an index that changes: new passages are found, damage is logged."""

from __future__ import annotations

import asyncio
import json
import weakref

import pytest

pytest.importorskip("fastapi")

from asked import asked, logged

from semclass import HybridRetriever, Models, Passage, PassageIndex, change_index
from semclass_serve.app import create_app
from semclass_serve.engine import Engine
from semclass_serve.reload import follow, look
from semclass_serve.settings import Settings

log = pytest.fixture(logged)

NEWS = Passage("news", "The ferry to Zanzibar was painted purple by Otto Quill.")
QUESTION = "Who painted the ferry to Zanzibar?"


@pytest.fixture
def folder(tmp_path, models, corpus):
    PassageIndex.build(corpus, passage_encoder=models.passage_encoder).save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def engine(folder, models):
    return Engine(models, HybridRetriever(PassageIndex.load(folder), models), Settings(refresh_seconds=0))


def add(folder, models, *passages):
    change_index(folder, add=passages, passage_encoder=models.passage_encoder)


def test_what_is_committed_is_found_without_another_start(engine, folder, models, corpus, log):
    with asked(create_app(engine, engine.settings)) as client:
        add(folder, models, NEWS)
        assert client.post("/api/search", {"question": QUESTION}).json()["hits"][0]["id"] != "news"
        assert client.run(look(engine)) == ""
        told = json.loads(log.written[-1])
        assert (told["event"], told["passages_before"], told["passages"]) == (
            "index changed",
            len(corpus),
            len(corpus) + 1,
        )
        assert client.post("/api/search", {"question": QUESTION}).json()["hits"][0]["id"] == "news"
        assert client.get("/api/info").json()["index"]["passages"] == len(corpus) + 1
        assert f"semclass_index_passages {len(corpus) + 1}.0" in client.get("/metrics").text


def test_nothing_happens_where_nothing_changed(engine, log):
    before = engine.retriever
    assert asyncio.run(look(engine)) == ""
    assert engine.retriever is before
    assert log.written == []


def test_an_index_that_was_replaced_is_let_go(engine, folder, models):
    old = weakref.ref(engine.retriever.index)
    add(folder, models, NEWS)
    asyncio.run(look(engine))
    assert old() is None


def test_a_damaged_index_is_told_of_once_and_the_one_before_is_kept(engine, folder, models, log):
    before, manifest = engine.retriever, folder / "manifest.json"
    content = manifest.read_bytes()
    manifest.write_text("{")

    async def looks():
        told = await look(engine)
        return told, await look(engine, told)

    first, second = asyncio.run(looks())
    assert "the old index stays in use" in first
    assert first == second
    assert [json.loads(line)["level"] for line in log.written] == ["warning"]
    assert engine.retriever is before
    assert before.search(QUESTION)
    manifest.write_bytes(content)
    add(folder, models, NEWS)
    assert asyncio.run(look(engine, second)) == ""
    assert len(engine.retriever.index) == len(before.index) + 1


def test_an_index_of_another_encoder_is_not_served(engine, folder, fake_encoder, corpus, log):
    before = engine.retriever
    PassageIndex.build(corpus, passage_encoder=Models.load(None, encoder=fake_encoder).passage_encoder).save(folder)
    assert "encoder" in asyncio.run(look(engine))
    assert engine.retriever is before


def test_the_folder_is_looked_at_again_and_again(engine, folder, models, corpus):
    async def scene():
        task = asyncio.create_task(follow(engine, 0.01))
        for number in range(3):
            add(folder, models, Passage(f"new {number}", f"Text {number}."))
            while len(engine.retriever.index) == len(corpus) + number:
                await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_only_an_index_in_a_folder_is_followed(models, retriever):
    for found in (None, retriever):
        asyncio.run(asyncio.wait_for(follow(Engine(models, found, Settings()), 0.01), 60))
