"""Asking a language model: order, failures, the cache, parameters; against a stub on this machine."""

import copy

import pytest
from stub_endpoint import CUT, FILTERED, STALL, stub_endpoint

from semclass.core.errors import ArtifactError, InputError
from semclass_llm.endpoint import client
from semclass_llm.endpoint.bill import Bill
from semclass_llm.endpoint.client import Chat, Endpoint, EndpointError, replies, user
from semclass_llm.endpoint.kept import Reply

pytest.importorskip("openai")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    async def no_pause(seconds):
        pass

    monkeypatch.setattr("anyio.sleep", no_pause)


def ask(stub, prompts, **options):
    endpoint = Endpoint(stub.url, "a-model", **{"retries": 2, "concurrency": 4, **options})
    return list(replies(endpoint, map(user, prompts), max_tokens=16))


def test_replies_come_in_the_order_of_the_conversations():
    with stub_endpoint(lambda prompt, before: f"heard {prompt}") as stub:
        prompts = [f"word {number}" for number in range(200)]
        found = ask(stub, prompts)
    assert [reply.text for reply in found] == [f"heard {prompt}" for prompt in prompts]
    assert {(reply.prompt_tokens, reply.completion_tokens) for reply in found} == {(2, 3)}
    assert set(stub.asked.values()) == {1}


def test_what_fails_is_tried_again_and_what_fails_for_good_is_said():
    rules = {
        "busy": lambda before: "yes" if before == 2 else 429,
        "cut": lambda before: CUT if before == 0 else "yes",
        "stalls": lambda before: STALL if before == 0 else "yes",
        "broken": lambda before: 500,
        "not taken": lambda before: 400,
        "filtered": lambda before: FILTERED,
        "fine": lambda before: "yes",
    }
    with stub_endpoint(lambda prompt, before: rules[prompt](before)) as stub:
        found = dict(zip(rules, ask(stub, rules, timeout=0.3), strict=True))
    assert [found[name].text for name in ("busy", "cut", "stalls", "fine")] == ["yes"] * 4
    assert (found["broken"].text, found["broken"].error) == (None, "InternalServerError 500")
    assert stub.asked["broken"] == 3
    assert (found["not taken"].error, found["not taken"].refused) == ("BadRequestError 400", True)
    assert (found["filtered"].text, found["filtered"].refused, found["filtered"].error) == ("", True, None)


def test_what_was_replied_is_never_asked_again(tmp_path):
    cache, prompts = tmp_path / "kept" / "replies.jsonl", [f"word {number}" for number in range(30)]
    with stub_endpoint(lambda prompt, before: 500 if before == 0 and prompt == "word 7" else "yes") as stub:
        first = ask(stub, prompts, cache=cache, retries=0)
        assert [reply.error for reply in first].count(None) == 29
        cache.write_bytes(cache.read_bytes()[:-20])  # killed in the middle of a line
        again = ask(stub, prompts, cache=cache, retries=0)
    assert {reply.text for reply in again} == {"yes"}
    assert [reply.cached for reply in again].count(False) == 2
    assert sum(stub.asked.values()) == 32
    cache.write_text('{"key": 1, "words": 2}\n')
    with pytest.raises(ArtifactError, match="not a reply"):
        ask(stub, prompts, cache=cache)


def test_nobody_there_and_a_service_that_goes_away(monkeypatch):
    with pytest.raises(EndpointError, match=r"http://127\.0\.0\.1:9/v1 gave no answer: APIConnectionError"):
        list(replies(Endpoint("http://user:secret@127.0.0.1:9/v1", "m", retries=0), [user("hello")], max_tokens=4))
    monkeypatch.setattr(client, "IN_A_ROW", 5)
    with (
        stub_endpoint(lambda prompt, before: "yes" if int(prompt) < 8 else 503) as stub,
        pytest.raises(EndpointError, match="5 times in a row"),
    ):
        ask(stub, map(str, range(500)), retries=0)
    assert len(stub.asked) < 150


def test_parameters_are_those_that_the_service_takes():
    with stub_endpoint(lambda prompt, before: 400 if "temperature" in stub.requests[-1] else "yes") as stub:
        assert [reply.text for reply in ask(stub, ["a", "b"], concurrency=1)] == ["yes", "yes"]
    assert "max_completion_tokens" in stub.requests[-1]
    assert stub.asked["b"] == 1


@pytest.mark.parametrize("wrong", [{"url": "localhost:8000"}, {"concurrency": 0}, {"model": " "}, {"timeout": 0}])
def test_an_endpoint_that_cannot_be(wrong):
    with pytest.raises(InputError):
        Endpoint(**{"url": "http://localhost/v1", "model": "m", **wrong})


def test_the_key_is_not_shown():
    assert "secret" not in repr(Endpoint("http://localhost/v1", "m", key="secret"))


def test_a_chat_finds_out_once_what_the_service_takes_and_counts_what_it_asked():
    def rule(prompt, before):
        return 400 if "max_tokens" in stub.requests[-1] else f"heard {prompt}"

    with stub_endpoint(rule) as stub:
        chat = Chat(Endpoint(stub.url, "m", retries=0, concurrency=1))
        found = [reply.text for number in range(3) for reply in chat.ask([f"word {number}"], max_tokens=8)]
        assert (found, len(stub.requests)) == (["heard word 0", "heard word 1", "heard word 2"], 4)
        assert chat.ask(["again"], max_tokens=8)[0].text == "heard again"
        assert chat.ask([], max_tokens=8) == []
        assert copy.deepcopy(chat) is chat  # frameworks copy what they hold
    bill = chat.bill.figures()
    assert (bill["calls"], bill["prompt_tokens"], bill["tokens_counted_by"]) == (4, 7, "the service")
    assert str(chat.bill).startswith("4 calls, 7 tokens")


def test_what_a_chat_was_given_counts_where_the_service_goes_away(monkeypatch):
    monkeypatch.setattr(client, "IN_A_ROW", 3)
    with stub_endpoint(lambda prompt, before: "yes" if prompt in "ab" else 500) as stub:
        chat = Chat(Endpoint(stub.url, "m", retries=0, concurrency=1))
        found = chat.ask([*"abcdefgh"], max_tokens=8)
    assert [reply.text for reply in found] == ["yes", "yes", *[None] * 6]
    assert chat.bill.failed == 6
    nobody = Chat(Endpoint("http://127.0.0.1:9/v1", "m", retries=0))
    assert "gave no answer" in nobody.ask(["a"], max_tokens=8)[0].error


def test_tokens_are_estimated_where_the_service_counts_none():
    bill = Bill()
    assert bill.add("12345678", Reply("1234")) == ""
    assert (bill.prompt_tokens, bill.answer_tokens, bill.counted_by) == (2, 1, "characters")
    assert [bill.add("", Reply(None, "why")), bill.add("", Reply("", refused=True))] == ["failed", "refused"]
