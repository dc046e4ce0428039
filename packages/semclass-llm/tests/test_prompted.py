"""Re-ranking by a prompted model, against a stub that knows what a model would say."""

import pytest
from stub_endpoint import FILTERED, stub_endpoint

from semclass import InputError, InputTypeError, Passage, SearchResult
from semclass_llm import Endpoint, PromptedReranker
from semclass_llm.prompted import PROMPTED

QUESTION = "When was the bridge opened?"
PASSAGES = [
    Passage("a", "The bridge was built of granite."),
    Passage("b", "Trams have crossed it since 1902."),
    Passage("c", "It was opened in October 1874.", {"title": "The bridge"}),
]


def rerank(rule, way, **options):
    with stub_endpoint(rule) as stub:
        reranker = PromptedReranker(Endpoint(stub.url, "m", retries=0), way)
        return reranker.rerank(QUESTION, PASSAGES, **options), reranker, list(stub.asked)


def judge(prompt, before):
    return "Yes." if "1874" in prompt.rpartition("Passage:")[2] else "No, it does not."


def test_a_passage_with_a_yes_comes_first():
    found, reranker, asked = rerank(judge, "pointwise")
    assert [(hit.id, hit.rank_before, hit.score) for hit in found] == [("c", 3, 1.0), ("a", 1, 0.0), ("b", 2, 0.0)]
    assert [hit.rank for hit in found] == [1, 2, 3]
    assert found[0].metadata == {"title": "The bridge"}
    assert reranker.chat.bill.calls == len(asked) == 3
    assert all("The bridge" in prompt for prompt in asked if "1874" in prompt)
    assert [hit.id for hit in rerank(judge, "pointwise", k=1)[0]] == ["c"]


def test_the_model_lists_the_passages_that_answer():
    found, reranker, asked = rerank(lambda prompt, before: "[3] > [1]", "listwise")
    assert [(hit.id, hit.score) for hit in found] == [("c", 1.0), ("a", 0.5), ("b", 0.0)]
    assert (reranker.chat.bill.calls, len(asked)) == (1, 1)
    assert "[1] The bridge was built of granite.\n[2]" in asked[0]


@pytest.mark.parametrize(("said", "counted"), [(FILTERED, "refused"), ("", "unreadable")])
@pytest.mark.parametrize("way", PROMPTED)
def test_where_nothing_can_be_read_the_order_stays(way, said, counted):
    found, reranker, _ = rerank(lambda prompt, before: said, way)
    assert [hit.id for hit in found] == ["a", "b", "c"]
    assert getattr(reranker.chat.bill, counted) == reranker.chat.bill.calls == (3 if way == "pointwise" else 1)


@pytest.mark.parametrize("way", PROMPTED)
def test_passages_without_text_come_last_and_are_not_shown(way):
    say = judge if way == "pointwise" else lambda prompt, before: "2"
    with stub_endpoint(say) as stub:
        found = PromptedReranker(Endpoint(stub.url, "m"), way).rerank(QUESTION, [" ", *PASSAGES[1:]])
        assert [hit.id for hit in found] == ["c", "b", "0"]
        assert len(stub.asked) == (2 if way == "pointwise" else 1)


def test_several_questions_at_once_give_what_each_gives_alone():
    with stub_endpoint(judge) as stub:
        reranker = PromptedReranker(Endpoint(stub.url, "m"))
        many = reranker.rerank_many([QUESTION, "Who?"], [PASSAGES, []])
        assert many == [reranker.rerank(QUESTION, PASSAGES), SearchResult((), "Who?")]
        with pytest.raises(InputError, match="one sequence per question"):
            reranker.rerank_many([QUESTION], [])
    for wrong in ("text", [3]):
        with pytest.raises(InputTypeError):
            reranker.rerank(QUESTION, wrong)
    with pytest.raises(InputError, match="'listwise'"):
        PromptedReranker(Endpoint(stub.url, "m"), "pairwise")
