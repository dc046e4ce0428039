"""Questions that the index answers, made once for those who open the page."""

from __future__ import annotations

import asyncio

import pytest

from semclass import HybridRetriever, Passage, PassageIndex
from semclass_serve import examples
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

MANUAL = {
    "7.20.1. Activating the pump": "Open the cover of the boiler and press the red key of the pump for two seconds.",
    "7.20.2. What is the warranty?": "The warranty of the burner ends two years after the day on which it was bought.",
    "7.20.3. Colours": "The boiler can be bought in white, in grey and, at a higher price, in green.",
    "asn1 boiler_tree": "The function makes a tree of all parts of the boiler, and returns its root.",
    "7.20.4. Noise of the fan": "A fan that hums has dust on its blades, which a soft brush takes off.",
    "7.20.5. Where can I buy oil?": "Oil is sold by the shop in Harbour Street and, in winter, by the mill.",
}
"""Sections by their headings."""


@pytest.fixture(scope="module")
def manual(models):
    passages = [Passage(title, text, {"headings": ["7. Boiler manual", title]}) for title, text in MANUAL.items()]
    return HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)


def test_the_questions_are_made_once_and_answered_by_the_index(models, manual, monkeypatch):
    made = []
    real = examples.make
    monkeypatch.setattr(examples, "make", lambda index: made.append(index) or real(index))
    asked = examples.Examples(Engine(models, manual, Settings()))

    async def together():
        return await asyncio.gather(*(asked.get() for _ in range(3)))

    first, *others = asyncio.run(together())
    assert others == [first, first]
    assert made == [manual]
    assert 0 < len(first) <= examples.MOST
    assert all(manual.search(question).certainty in ("strong", "likely") for question in first)


def test_those_that_are_set_are_given(models):
    assert asyncio.run(examples.Examples(Engine(models, None, Settings(examples=("Who?",)))).get()) == ["Who?"]


def test_without_an_index_there_are_none(models):
    assert asyncio.run(examples.Examples(Engine(models, None, Settings())).get()) == []


def test_passages_without_headings_give_none(models):
    index = PassageIndex.build([Passage("a", "Oil is sold by the mill.")], passage_encoder=models.passage_encoder)
    assert examples.make(HybridRetriever(index, models)) == []


def test_headings_that_are_questions_come_first_and_then_titles_without_their_numbers(manual):
    found = examples.make(manual)
    assert found == ["What is the warranty?", "Where can I buy oil?", "Boiler manual: Colours"]
