"""Answers measured against right ones, and judged by a language model, which a stub plays."""

import pytest
from stub_endpoint import FILTERED, stub_endpoint

from semclass_llm import Chat, Endpoint, EndpointError, WrittenAnswer, judge_answers

ASKED = "Who designed the tower?"
ANSWER = WrittenAnswer(ASKED, "Ada designed it. It is tall.", contexts=("Ada designed the tower.",))


def judged(answers, encoder, statements="1. Ada designed the tower.\n2. The tower is tall.", support="1", asked=ASKED):
    """The judgements and the bill, where the model gives these replies."""

    def rule(prompt, before):
        return statements if prompt.startswith("Split") else support if prompt.startswith("Which") else asked

    with stub_endpoint(rule) as stub:
        chat = Chat(Endpoint(stub.url, "m", retries=0))
        return judge_answers(answers, chat, encoder), chat.bill


def test_faithfulness_is_a_share_and_relevance_a_cosine(encoder):
    (one,), bill = judged([ANSWER], encoder)
    assert (one.faithfulness, one.relevance) == (0.5, pytest.approx(1, abs=1e-5))
    assert (bill.calls, bill.unreadable) == (3, 0)
    (one,), _ = judged([ANSWER], encoder, support="1, 2.", asked="1. How tall is the tower?\n2. Who is Ada?")
    assert one.faithfulness == 1
    assert 0.1 < one.relevance < 0.9


def test_none_is_an_answer_of_the_judge(encoder):
    (one,), _ = judged([ANSWER], encoder, support="None.", asked="none")
    assert (one.faithfulness, one.relevance) == (0, 0)
    assert judged([ANSWER], encoder, statements="none")[0][0].faithfulness is None  # it states nothing


def test_an_empty_answer_states_nothing_and_is_irrelevant(encoder):
    ones, bill = judged([ANSWER, WrittenAnswer(ASKED, " ", contexts=("x",)), WrittenAnswer(ASKED, "Ada.")], encoder)
    assert [one.faithfulness for one in ones] == [0.5, None, None]  # the last has no contexts
    assert [one.relevance for one in ones] == pytest.approx([1, 0, 1], abs=1e-5)
    assert bill.calls == 4


def test_an_unreadable_reply_is_counted_and_gives_none(encoder):
    (one,), bill = judged([ANSWER], encoder, support="Statement 1 is supported, statement 2 is not.")
    assert (one.faithfulness, bill.unreadable) == (None, 1)
    (one,), bill = judged([ANSWER], encoder, asked=FILTERED)
    assert (one.relevance, bill.refused) == (None, 1)
    with stub_endpoint(lambda prompt, before: 500) as stub, pytest.raises(EndpointError, match="judged no answer"):
        judge_answers([ANSWER], Chat(Endpoint(stub.url, "m", retries=0)), encoder)
