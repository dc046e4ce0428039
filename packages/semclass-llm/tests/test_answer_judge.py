"""Faithfulness and answer relevance by a language model, which a stub plays."""

from __future__ import annotations

import pytest
from stub_endpoint import FILTERED, stub_endpoint

from semclass_llm.answer_judge import judge_answers
from semclass_llm.answers import WrittenAnswer
from semclass_llm.endpoint.client import Endpoint, EndpointError

pytest.importorskip("openai")

ASKED = "Who designed the tower?"
ANSWER = WrittenAnswer(ASKED, "Ada designed it. It is tall.", contexts=("Ada designed the tower.",))


def judged(answers, encoder, statements="1. Ada designed the tower.\n2. The tower is tall.", support="1", asked=ASKED):
    """What the judge finds, where the model gives these replies."""

    def rule(prompt, before):
        return statements if prompt.startswith("Split") else support if prompt.startswith("Which") else asked

    with stub_endpoint(rule) as stub:
        return judge_answers(answers, Endpoint(stub.url, "m", retries=0), encoder)


def test_faithfulness_is_the_share_of_supported_statements_and_relevance_a_cosine(encoder):
    figures, bill = judged([ANSWER], encoder)
    assert figures["faithfulness"].value == 0.5
    assert figures["answer_relevance"].value == pytest.approx(1, abs=1e-5)
    assert (bill.calls, bill.nonsense) == (3, 0)
    others, _ = judged([ANSWER], encoder, support="1, 2.", asked="1. How tall is the tower?\n2. Who is Ada?")
    assert others["faithfulness"].value == 1
    assert 0.1 < others["answer_relevance"].value < 0.9


def test_none_is_an_answer_of_the_judge(encoder):
    figures, _ = judged([ANSWER], encoder, support="None.", asked="none")
    assert figures["faithfulness"].value == figures["answer_relevance"].value == 0
    assert "faithfulness" not in judged([ANSWER], encoder, statements="none")[0]  # it states nothing


def test_an_empty_answer_states_nothing_and_is_irrelevant(encoder):
    figures, bill = judged([ANSWER, WrittenAnswer(ASKED, " ", contexts=("x",)), WrittenAnswer(ASKED, "Ada.")], encoder)
    assert figures["faithfulness"].questions == 1  # one has no contexts
    assert figures["answer_relevance"].questions == 3
    assert figures["answer_relevance"].value == pytest.approx(2 / 3, abs=1e-5)
    assert bill.calls == 4


def test_what_a_model_says_around_its_list_is_no_statement(encoder):
    said = "Here are the statements:\n\n1. Ada designed the tower.\n2) The tower is tall.\n\nI hope this helps."
    assert judged([ANSWER], encoder, statements=said)[0]["faithfulness"].value == 0.5
    assert judged([ANSWER], encoder, statements="She did.")[1].nonsense == 1


def test_a_reply_that_cannot_be_read_is_counted_and_its_answer_left_out(encoder):
    figures, bill = judged([ANSWER], encoder, support="Statement 1 is supported, statement 2 is not.")
    assert list(figures) == ["answer_relevance"]
    assert bill.nonsense == 1
    figures, bill = judged([ANSWER], encoder, asked=FILTERED)
    assert list(figures) == ["faithfulness"]
    assert bill.refused == 1


def test_a_service_that_is_not_there_is_an_error(encoder):
    with stub_endpoint(lambda prompt, before: 500) as stub, pytest.raises(EndpointError, match="judged no answer"):
        judge_answers([ANSWER], Endpoint(stub.url, "m", retries=0), encoder)
