"""Questions that a language model writes from passages, and which of them are kept."""

import time

import pytest
from stub_endpoint import stub_endpoint

from semclass import Passage
from semclass_llm import Chat, Endpoint, keep_good, write_questions
from semclass_llm.questions import WrittenQuestion


@pytest.fixture
def drafts(corpus):
    passages = {passage.id: passage for passage in corpus}
    return lambda *pairs: [WrittenQuestion(text, passages[name]) for text, name in pairs]


def test_a_model_writes_questions_and_bad_replies_are_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    passages = [Passage(str(number), f"text {number}.") for number in range(4)]
    replies = {"text 0.": "What is 0?\nWhy is 0?\nWho is 0?", "text 1.": "Well.", "text 2.": 500, "text 3.": 400}
    with stub_endpoint(lambda prompt, before: replies[prompt.split("\n")[-1]]) as stub:
        chat = Chat(Endpoint(stub.url, "m", retries=0, cache=tmp_path / "kept.jsonl"))
        questions = write_questions(passages, chat, 2)
    assert questions == [WrittenQuestion(text, passages[0]) for text in ("What is 0?", "Why is 0?")]
    bill = chat.bill
    assert (bill.calls, bill.refused, bill.failed, bill.unreadable) == (4, 1, 1, 1)


def test_questions_are_kept_whose_passage_is_found_and_answers(retriever, drafts):
    questions = drafts(
        ("Who runs the archive and the sail loft?", "museum-1"),
        ("Who runs the archive and the sail loft??", "museum-1"),
        ("Who designed the tower?", "ferry-2"),
        ("How high is the highest mountain of Peru?", "town-2"),
        ("What does the passage say of the lens?", "lighthouse-6"),
        ("A tide table for the bay hangs at the harbour office and is printed every Friday", "tide-3"),
    )
    kept, dropped = keep_good(retriever, questions, first=3)
    assert kept == questions[:1]
    assert dropped == {"repeated": 1, "not found": 2, "speaks of the passage": 1, "passage itself": 1}


def test_a_passage_that_is_found_need_not_answer(retriever, drafts):
    question = drafts(("Why was the museum closed by the county in the war of 1848?", "museum-4"))
    assert keep_good(retriever, question, first=30) == ([], {"not answered": 1})
