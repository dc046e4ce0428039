"""Questions that the index answers, made once for those who open the page."""

from __future__ import annotations

import asyncio

from semclass import HybridRetriever, Passage, PassageIndex
from semclass.demo import CORPUS
from semclass.documents.readers import read_corpus
from semclass.service import examples
from semclass.service.engine import Engine
from semclass.service.settings import Settings


def test_the_questions_are_made_once_and_answered_by_the_index(models, monkeypatch):
    retriever = HybridRetriever(PassageIndex.build(read_corpus(CORPUS), passage_encoder=models.passage_encoder), models)
    made = []
    real = examples.make
    monkeypatch.setattr(examples, "make", lambda index: made.append(index) or real(index))
    asked = examples.Examples(Engine(models, retriever, Settings()))

    async def together():
        return await asyncio.gather(*(asked.get() for _ in range(3)))

    first, *others = asyncio.run(together())
    assert others == [first, first]
    assert made == [retriever]
    assert 0 < len(first) <= examples.MOST
    assert all(retriever.search(question)[0].certainty in ("strong", "likely") for question in first)


def test_those_that_are_set_are_given(models):
    assert asyncio.run(examples.Examples(Engine(models, None, Settings(examples=("Who?",)))).get()) == ["Who?"]


def test_without_an_index_there_are_none(models):
    assert asyncio.run(examples.Examples(Engine(models, None, Settings())).get()) == []


def test_what_nothing_can_be_made_of_gives_none(models):
    index = PassageIndex.build([Passage("a", "0 0 0")], passage_encoder=models.passage_encoder)
    assert examples.make(HybridRetriever(index, models)) == []
