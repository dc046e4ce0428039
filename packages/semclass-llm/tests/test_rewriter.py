"""Questions rewritten by a language model: what is searched for, what it cost, and what becomes of bad answers."""

import pytest
from stub_endpoint import FILTERED, stub_endpoint

from semclass.core.errors import InputError
from semclass_llm.endpoint.client import Endpoint
from semclass_llm.rewriting import WAYS
from semclass_llm.rewriting.rewriter import Rewriter
from semclass_llm.rewriting.transform import RewriteWarning, Rewritten, rewritten

pytest.importorskip("openai")

QUESTION = "When was it opened, and who built it?"
SAID = {
    "Rewrite": "Rewritten question: When was the bridge opened, and who built it?",
    "Step": "<think>What is it about?</think>What is the history of the bridge?",
    "Split": "1. When was it opened?\n2. Who built it?\n",
    "Word": "- Who made it, and when did it open?\n- In which year was it finished, and by whom?",
    "Imagine": "The bridge was opened in 1874.\nAda Merriweather built it.",
}
"""What a model says, by the first word of a prompt."""


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
        ("step-back", (QUESTION, "What is the history of the bridge?"), ()),
        ("sub-questions", ("When was it opened?", "Who built it?"), ()),
        (
            "wordings",
            (QUESTION, "Who made it, and when did it open?", "In which year was it finished, and by whom?"),
            (),
        ),
        ("hyde", (QUESTION,), ("The bridge was opened in 1874. Ada Merriweather built it.",)),
    ],
)
def test_each_way_says_what_is_searched_for(way, questions, passages):
    found, rewriter, stub = rewrite(way)
    assert (found.asked, found.questions, found.passages, found.why) == (QUESTION, questions, passages, "")
    calls = 0 if way == "conversation" else 1  # nothing was said before
    assert found.cost.calls == rewriter.chat.bill.calls == sum(stub.asked.values()) == calls
    assert (found.cost.prompt_tokens > 0) == (found.cost.answer_tokens > 0) == bool(calls)


@pytest.mark.parametrize("way", WAYS)
def test_what_was_said_before_takes_one_more_call(way):
    found, _, stub = rewrite(way, history=["Tell me about the bridge.", "It is in Aldermere."])
    alone = "When was the bridge opened, and who built it?"
    first, *others = stub.asked
    assert "- Tell me about the bridge.\n- It is in Aldermere.\n" in first
    assert all(alone in prompt for prompt in others)
    assert found.cost.calls == len(stub.asked) == (1 if way == "conversation" else 2)
    assert found.asked == QUESTION
    assert way == "sub-questions" or found.questions[0] == alone


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (FILTERED, "refused"),
        ("I'm sorry, but I can't help with that?", "refused"),
        ("", "nonsense"),
        ("!?", "nonsense"),
        (500, "failed"),
    ],
)
def test_bad_answers_leave_the_question_as_it_was_asked(way, said, why):
    found, rewriter, _ = rewrite(way, lambda prompt, before: said, history=["Tell me about the bridge."])
    assert (found.questions, found.passages, found.why) == ((QUESTION,), (), why)
    assert (getattr(found.cost, why), getattr(rewriter.chat.bill, why)) == (1, 1)
    assert found.cost.calls == 1
    assert found.said


def test_where_nobody_answers_the_next_question_is_tried_again():
    with stub_endpoint(lambda prompt, before: 500 if len(stub.requests) < 2 else as_told(prompt, before)) as stub:
        rewriter = Rewriter("hyde", Endpoint(stub.url, "m", retries=0))
        assert [bool(rewriter(QUESTION).passages) for _ in range(3)] == [False, True, True]
    assert (rewriter.chat.bill.failed, rewriter.chat.bill.calls) == (1, 3)


def test_an_answer_that_is_no_question_is_nonsense_unless_none_was_asked():
    for question, why in (("When was it built?", "nonsense"), ("bridge history", "")):
        found, _, _ = rewrite("step-back", lambda prompt, before: "history of bridges", question=question)
        assert found.why == why


def test_a_passage_that_repeats_the_question_is_nonsense():
    assert rewrite("hyde", lambda prompt, before: QUESTION)[0].why == "nonsense"


def test_nothing_is_paid_for_twice(tmp_path):
    cache = tmp_path / "replies.jsonl"
    with stub_endpoint(as_told) as stub:
        rewriter = Rewriter("hyde", Endpoint(stub.url, "m", cache=cache))
        assert [rewriter(QUESTION).cost.cached for _ in range(2)] == [0, 1]
        assert Rewriter("hyde", Endpoint(stub.url, "m", cache=cache))(QUESTION).cost.cached == 1
    assert sum(stub.asked.values()) == 1


def test_what_cannot_be_is_refused_at_the_door():
    endpoint = Endpoint("http://localhost/v1", "m")
    with pytest.raises(InputError, match="'step-back'"):
        Rewriter("backwards", endpoint)
    with pytest.raises(InputError, match="empty"):
        Rewriter("hyde", endpoint)(" ")
    for parts in (((),), (("Who?", "Why?"), ("A passage.",)), ((" ",),)):
        with pytest.raises(InputError):
            Rewritten("Who?", *parts)


def test_who_searches_is_warned():
    with pytest.warns(RewriteWarning, match="nonsense"):
        rewritten(lambda question, history: Rewritten(question, (question,), why="nonsense"), "Who?")
