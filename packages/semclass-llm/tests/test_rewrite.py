"""Questions rewritten by a language model, and searches for them."""

import pytest
from stub_endpoint import FILTERED, stub_endpoint

from semclass import InputError
from semclass_llm import Endpoint, Rewriter, RewriteWarning, RewritingRetriever, Rewritten
from semclass_llm.rewrite import REWRITINGS

QUESTION = "When was it opened, and who built it?"
SAID = {
    "Rewrite": "Rewritten question: When was the bridge opened, and who built it?",
    "Split": "1. When was it opened?\n2. Who built it?\n",
    "Imagine": "The bridge was opened in 1874.\nAda Merriweather built it.",
}
"""Replies of a model, by the first word of a prompt."""


def as_told(prompt, before):
    return SAID[prompt.partition(" ")[0]]


def rewrite(way, rule=as_told, question=QUESTION, history=(), **options):
    with stub_endpoint(rule) as stub:
        rewriter = Rewriter(way, Endpoint(stub.url, "a-model", retries=0, **options))
        return rewriter(question, history), rewriter, stub


@pytest.mark.parametrize(
    ("way", "questions", "passages"),
    [
        ("conversation", (QUESTION,), ()),
        ("sub-questions", ("When was it opened?", "Who built it?"), ()),
        ("hyde", (QUESTION,), ("The bridge was opened in 1874. Ada Merriweather built it.",)),
    ],
)
def test_each_way_says_what_is_searched_for(way, questions, passages):
    found, rewriter, stub = rewrite(way)
    assert (found.original, found.questions, found.passages, found.why) == (QUESTION, questions, passages, "")
    calls = 0 if way == "conversation" else 1  # nothing was said before
    assert rewriter.chat.bill.calls == sum(stub.asked.values()) == calls


@pytest.mark.parametrize("way", REWRITINGS)
def test_what_was_said_before_takes_one_more_call(way):
    found, rewriter, stub = rewrite(way, history=["Tell me about the bridge.", "It is in Aldermere."])
    alone = "When was the bridge opened, and who built it?"
    first, *others = stub.asked
    assert "- Tell me about the bridge.\n- It is in Aldermere.\n" in first
    assert all(alone in prompt for prompt in others)
    assert rewriter.chat.bill.calls == len(stub.asked) == (1 if way == "conversation" else 2)
    assert found.original == QUESTION
    assert way == "sub-questions" or found.questions[0] == alone


@pytest.mark.parametrize("way", REWRITINGS)
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (FILTERED, "refused"),
        ("", "unreadable"),
        (500, "failed"),
    ],
)
def test_bad_answers_leave_the_question_as_it_was_asked(way, said, why):
    found, rewriter, _ = rewrite(way, lambda prompt, before: said, history=["Tell me about the bridge."])
    assert (found.questions, found.passages, found.why) == ((QUESTION,), (), why)
    assert (getattr(rewriter.chat.bill, why), rewriter.chat.bill.calls) == (1, 1)
    assert found.reply


def test_a_reply_without_a_question_may_be_unreadable():
    for question, why in (("When was it built?", "unreadable"), ("bridge history", "")):
        found, _, _ = rewrite("sub-questions", lambda prompt, before: "history of bridges", question=question)
        assert found.why == why


def test_what_cannot_be_is_refused_at_the_door():
    endpoint = Endpoint("http://localhost/v1", "m")
    with pytest.raises(InputError, match="'hyde'"):
        Rewriter("backwards", endpoint)
    with pytest.raises(InputError, match="empty"):
        Rewriter("hyde", endpoint)(" ")
    for parts in (((),), (("Who?", "Why?"), ("A passage.",)), ((" ",),)):
        with pytest.raises(InputError):
            Rewritten("Who?", *parts)


# -- searches

WHO, WHEN = "Who designed the lighthouse?", "When was the lighthouse finished?"
BOTH = "Who designed the lighthouse, and when was it finished?"


def rewriting(retriever, *questions, **fields):
    """A retriever whose questions always become the same."""
    return RewritingRetriever(
        retriever, lambda question, history=(): Rewritten(question, questions or (question,), **fields)
    )


def test_a_question_that_is_not_rewritten_gives_the_same_hits(retriever):
    assert rewriting(retriever).search(WHO) == retriever.search(WHO)
    with pytest.warns(RewriteWarning, match="unreadable"):
        assert rewriting(retriever, why="unreadable").search(WHO) == retriever.search(WHO)


@pytest.mark.parametrize("method", ["default", "convex"])
def test_the_first_of_each_part_come_first(retriever, method):
    parts = [retriever.search(text, 1, method=method)[0].id for text in (WHO, WHEN)]
    found = rewriting(retriever, WHO, WHEN).search(BOTH, 5, method=method, explain=True)
    assert [hit.id for hit in found[:2]] == list(dict.fromkeys(parts))
    assert found.query_used == f"{WHO}\n{WHEN}"
    assert [hit.rank for hit in found] == [1, 2, 3, 4, 5]
    assert list(found) == sorted(found, key=lambda hit: -hit.score)
