"""Re-ranking by a prompted model, against a stub that knows what a model would say."""

import math

import pytest
from stub_endpoint import FILTERED, stub_endpoint

from semclass import Hit, Passage
from semclass.core.errors import InputError
from semclass.ranking.methods import PROMPTED
from semclass.ranking.result import SearchResult
from semclass_llm.endpoint.client import Endpoint
from semclass_llm.prompted import UNKNOWN, PromptedReranker, Shot, lead, lead_below

pytest.importorskip("openai")

QUESTION = "When was the bridge opened?"
PASSAGES = [
    Passage("a", "The bridge was built of granite."),
    Passage("b", "Trams have crossed it since 1902."),
    Passage("c", "It was opened in October 1874.", {"title": "The bridge"}),
]
SHOTS = (
    Shot("Who paints?", ("He sings.", "Ada paints."), 1),
    Shot("Who sings?", ("Berta sings.", "She paints."), 0),
)


def rerank(rule, way, passages=PASSAGES, shots=(), **options):
    with stub_endpoint(rule) as stub:
        reranker = PromptedReranker(Endpoint(stub.url, "m", retries=0), way, shots)
        return reranker.rerank(QUESTION, passages, **options), reranker, list(stub.asked)


def judge(prompt, before):
    return "Yes." if "1874" in prompt.rpartition("Passage:")[2] else "No, it does not."


def test_a_passage_with_a_yes_comes_first_and_the_others_keep_their_order():
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


@pytest.mark.parametrize(
    ("said", "counted"),
    [(500, "failed"), (FILTERED, "refused"), ("I would rather talk of something else.", "nonsense"), ("", "nonsense")],
)
@pytest.mark.parametrize("way", PROMPTED)
def test_where_nothing_can_be_read_the_order_stays_and_is_counted(way, said, counted):
    found, reranker, _ = rerank(lambda prompt, before: said, way)
    assert [hit.id for hit in found] == ["a", "b", "c"]
    assert getattr(reranker.chat.bill, counted) == reranker.chat.bill.calls == (3 if way == "pointwise" else 1)


def test_a_passage_of_which_nothing_is_known_stands_between_yes_and_no():
    found, reranker, _ = rerank(lambda prompt, before: 400 if "Trams" in prompt else judge(prompt, before), "pointwise")
    assert [(hit.id, hit.score) for hit in found] == [("c", 1.0), ("b", UNKNOWN), ("a", 0.0)]
    assert (reranker.chat.bill.refused, reranker.chat.bill.failed) == (1, 0)


def test_none_of_them_is_an_answer():
    found, reranker, _ = rerank(lambda prompt, before: "None", "listwise")
    assert [hit.score for hit in found] == [0.0, 0.0, 0.0]
    assert reranker.chat.bill.nonsense == 0


def test_numbers_that_are_no_passage_do_not_count_and_long_lists_are_cut():
    passages = [f"passage {number}" for number in range(30)]
    found, _, asked = rerank(lambda prompt, before: "99, 0, 21, 20, 20, 2", "listwise", passages)
    assert [hit.index for hit in found[:3]] == [19, 1, 0]
    assert "[20]" in asked[0]
    assert "[21]" not in asked[0]


@pytest.mark.parametrize(("way", "answers"), [("pointwise", ["no", "yes", "yes", "no"]), ("listwise", ["2", "1"])])
def test_a_prompt_begins_with_the_shots(way, answers):
    _, _, asked = rerank(lambda prompt, before: "no", way, shots=SHOTS)
    examples = asked[0].split("\n\n")[1:-1]
    assert [example.rpartition("Answer: ")[2] for example in examples] == answers


def test_several_questions_at_once_give_what_each_gives_alone():
    with stub_endpoint(judge) as stub:
        reranker = PromptedReranker(Endpoint(stub.url, "m"))
        many = reranker.rerank_many([QUESTION, "Who?"], [PASSAGES, []])
        assert many == [reranker.rerank(QUESTION, PASSAGES), SearchResult((), "Who?")]
        with pytest.raises(InputError, match="one sequence per question"):
            reranker.rerank_many([QUESTION], [])
    with pytest.raises(InputError, match="'listwise'"):
        PromptedReranker(Endpoint(stub.url, "m"), "pairwise")
    with pytest.raises(InputError, match="position"):
        Shot("Who?", ("Ada.",), 1)


def found(*scores, certainty="likely"):
    """What a search gave, with these scores."""
    hits = tuple(
        Hit(passage.id, passage.text, passage.metadata, score, rank, rank + 3, {"dense": 0.5}, (), {})
        for rank, (passage, score) in enumerate(zip(PASSAGES, scores, strict=False), 1)
    )
    return SearchResult(hits, QUESTION, certainty)


SURE, UNSURE = found(3.0, 1.0, 0.5), found(1.2, 1.0, 0.5)


def test_the_model_is_asked_only_where_the_search_is_unsure_of_its_first_hit():
    with stub_endpoint(judge) as stub:
        reranker = PromptedReranker(Endpoint(stub.url, "m"))
        expected = reranker.estimate([SURE, UNSURE], 0.5)
        assert (expected.calls, len(stub.asked)) == (3, 0)
        same, other = reranker.rerank_unsure([SURE, UNSURE], 0.5)
        assert (reranker.chat.bill.calls, len(stub.asked)) == (3, 3)
        # two of the first: the one that answers is not among them
        assert [hit.id for hit in reranker.rerank_unsure([UNSURE], 0.5, first=2)[0]] == ["a", "b", "c"]
    assert same is SURE
    assert [(hit.id, hit.rank, hit.score, hit.components["entails"]) for hit in other] == [
        ("c", 1, 0.5, 1.0), ("a", 2, 1.2, 0.0), ("b", 3, 1.0, 0.0),
    ]  # fmt: skip
    assert (other.query_used, other.certainty) == (QUESTION, None)


def test_an_unsure_search_keeps_its_order_where_the_model_says_nothing():
    with stub_endpoint(lambda prompt, before: 500) as stub:
        reranker = PromptedReranker(Endpoint(stub.url, "m", retries=0), "listwise")
        (kept,) = reranker.rerank_unsure([UNSURE], 0.5)
    assert ([hit.id for hit in kept], kept.certainty) == (["a", "b", "c"], "likely")
    assert reranker.chat.bill.failed == 1


def test_a_share_of_the_questions_becomes_a_lead_below_which_they_are_sent():
    results = [found(lead, 0.0) for lead in (0.3, 0.1, 0.2, 0.4)]
    assert [lead_below(results, share) for share in (0, 0.25, 0.5, 1)] == [0.1, 0.2, 0.3, math.inf]
    assert lead(found(0.7)) == math.inf  # nothing else can come first
    with pytest.raises(InputError, match="share"):
        lead_below(results, 1.5)
    with pytest.raises(InputError, match="first"):
        PromptedReranker(Endpoint("http://localhost", "m")).estimate(results, 1.0, first=0)
