"""Sentences that answer a question."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semclass import HybridRetriever, InputError, Models, Passage
from semclass.ranking.ask import MAX_OF_PASSAGE

TOWER = "# Tower\n\nAll work on it was done in the year 1901. It is forty metres high, and made of granite."
BRIDGE = "Ada Merriweather built the bridge over the river. It was opened to trams and people in 1874."
PASSAGES = [
    Passage("town.md#1", BRIDGE, {"document": "town.md", "heading": "Bridge"}),
    Passage("town.md#2", TOWER, {"document": "town.md", "heading": "Tower"}),
    Passage("copy.md#1", BRIDGE, {"document": "copy.md"}),
]


@pytest.fixture(scope="module")
def retriever(models):
    return HybridRetriever.from_passages(PASSAGES, models=models)


def test_the_sentence_that_answers_comes_first_with_its_place(retriever):
    answer = retriever.ask("When was all work on the tower done?")
    first = answer.sentences[0]
    assert (first.text, first.id) == ("All work on it was done in the year 1901.", "town.md#2")
    assert TOWER[first.start : first.end] == first.text
    assert first.metadata["heading"] == "Tower"
    assert answer.answered
    assert 0 <= answer.answerable <= 1
    assert [one.score for one in answer.sentences] == sorted((one.score for one in answer.sentences), reverse=True)


def test_a_sentence_comes_once_and_few_of_a_passage(retriever, models):
    texts = [one.text for one in retriever.ask("Who built the bridge?", 10).sentences]
    assert len(texts) == len(set(texts)) == 4
    assert not any(text.startswith("#") for text in texts)
    text = " ".join(f"The bridge number {number} was built by a person named Ada." for number in range(9))
    answer = HybridRetriever.from_passages([text], models=models).ask("Who built the bridge?", 9)
    assert len(answer.sentences) == MAX_OF_PASSAGE


def test_an_index_with_a_threshold_says_that_nothing_answers(retriever):
    question = "At what temperature does tungsten melt?"
    assert retriever.ask(question).answered
    tuned = {"answerable": {"from": 0.015}}
    assert not replace(retriever, index=replace(retriever.index, tuned=tuned)).ask(question).answered
    nothing = retriever.ask("Who built the bridge?", where={"document": "none.md"})
    assert (nothing.sentences, nothing.answered) == ((), False)


def test_options_are_those_of_a_search(retriever):
    answer = retriever.ask("Who built the bridge?", 1, where={"document": "copy.md"})
    assert [one.id for one in answer.sentences] == ["copy.md#1"]
    with pytest.raises(InputError, match="k is 0"):
        retriever.ask("Who?", 0)


def test_without_pair_heads_sentences_are_ranked_by_vectors(fake_encoder):
    retriever = HybridRetriever.from_passages(["the red boat", "a cake"], models=Models.load(encoder=fake_encoder))
    answer = retriever.ask("the red boat", 1)
    assert [one.id for one in answer.sentences] == ["0"]
    assert (answer.answered, answer.answerable) == (True, None)


def test_code_belongs_to_what_introduces_it(models):
    code = "```sh\npip install watchfiles\n```"
    text = f"# Watch\n\nInstall this:\n\n{code}\n\nIt may lie anywhere.\n\n```text\n1 file changed\n```"
    answer = HybridRetriever.from_passages([text], models=models).ask("What must be installed to watch?")
    assert {one.text for one in answer.sentences} == {
        "Install this: pip install watchfiles", "It may lie anywhere.", "1 file changed"
    }  # fmt: skip
