"""Calls of a language model, against a stub on this machine: order, failures, limits, the cache, the bill."""

import copy
import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from stub_endpoint import CUT, FILTERED, STALL, stub_endpoint

from semclass import ArtifactError, InputError
from semclass_llm import Chat, Endpoint, endpoint


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def chat_of(stub, **options):
    return Chat(Endpoint(stub.url, "a-model", **{"retries": 2, "concurrency": 4, **options}))


def ask(stub, prompts, **options):
    return list(chat_of(stub, **options).ask(prompts, max_tokens=16))


def test_a_failed_call_is_repeated_and_then_gives_a_reason():
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
        replies = dict(zip(rules, ask(stub, rules, timeout=0.3), strict=True))
    assert [replies[name].text for name in ("busy", "cut", "stalls", "fine")] == ["yes"] * 4
    assert (replies["broken"].text, replies["broken"].error) == (None, "InternalServerError 500")
    assert stub.asked["broken"] == 3
    assert [replies[name].why for name in ("fine", "broken", "not taken", "filtered")] == [
        "", "failed", "refused", "refused"
    ]  # fmt: skip


def test_no_reply_is_paid_for_twice(tmp_path):
    cache, prompts = tmp_path / "kept" / "replies.jsonl", [f"word {number}" for number in range(30)]
    with stub_endpoint(lambda prompt, before: 500 if before == 0 and prompt == "word 7" else "yes") as stub:
        first = ask(stub, prompts, cache=cache, retries=0)
        assert [reply.error for reply in first].count(None) == 29
        cache.write_bytes(cache.read_bytes()[:-20])  # killed in the middle of a line
        again = ask(stub, prompts, cache=cache, retries=0)
    assert {reply.text for reply in again} == {"yes"}
    assert [reply.cached for reply in again].count(False) == 2
    assert sum(stub.asked.values()) == 32
    for line in ('{"key": 1, "words": 2}', "[]", "{"):
        cache.write_text(line + "\n")
        with pytest.raises(ArtifactError, match="not a reply"):
            ask(stub, prompts, cache=cache)


def test_a_service_that_goes_away_is_given_up_and_tried_again(monkeypatch):
    nobody = Chat(Endpoint("http://user:secret@127.0.0.1:9/v1", "m", retries=0))
    replies = list(nobody.ask(["a", "b"], max_tokens=4))
    assert {reply.error for reply in replies} == {"m at http://127.0.0.1:9/v1 gave no answer: APIConnectionError"}
    monkeypatch.setattr(endpoint, "FAILURES_IN_A_ROW", 5)
    down = True
    with stub_endpoint(lambda prompt, before: 503 if down and int(prompt) >= 8 else "yes") as stub:
        chat = chat_of(stub, retries=0)
        replies = list(chat.ask(map(str, range(500)), max_tokens=8))
        assert [reply.text for reply in replies] == ["yes"] * 8 + [None] * 492
        assert len(stub.asked) < 150
        assert (chat.bill.calls, chat.bill.failed) == (500, 492)
        assert "5 times in a row" in replies[-1].error
        down = False
        assert next(chat.ask(["99"], max_tokens=8)).text == "yes"


def test_parameters_are_found_out_once():
    with stub_endpoint(lambda prompt, before: 400 if "temperature" in stub.requests[-1] else "yes") as stub:
        chat = chat_of(stub, concurrency=1)
        assert [reply.text for reply in chat.ask(["a", "b"], max_tokens=8)] == ["yes", "yes"]
        assert next(chat.ask(["c"], max_tokens=8)).text == "yes"
        assert list(chat.ask([], max_tokens=8)) == []
    assert "max_completion_tokens" in stub.requests[-1]
    assert (stub.asked["b"], stub.asked["c"], chat.bill.calls) == (1, 1, 3)
    assert copy.deepcopy(chat) is chat  # frameworks copy what they hold


@pytest.mark.parametrize("wrong", [{"url": "localhost:8000"}, {"concurrency": 0}, {"model": " "}, {"timeout": 0}])
def test_an_endpoint_that_cannot_be_is_refused(wrong):
    with pytest.raises(InputError):
        Endpoint(**{"url": "http://localhost/v1", "model": "m", **wrong})
    assert "secret" not in repr(Endpoint("http://localhost/v1", "m", key="secret"))


# -- hostile services, on sockets of this machine


@contextmanager
def service(rule):
    """The address of a service that handles each connection by a rule."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:  # the block is over
                    return
                threading.Thread(target=handle, args=(connection,)).start()

        def handle(connection):
            with connection, connection.makefile("rb") as request:
                try:
                    length = int(next(line.split()[1] for line in request if line.lower().startswith(b"content-len")))
                    while request.readline().strip():
                        pass
                    rule(connection, request.read(length))
                except OSError:  # the other end has left
                    pass

        threading.Thread(target=serve).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        listening.shutdown(socket.SHUT_RDWR)


def head(length, status="200 OK", more=""):
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n".encode()


def saying(body, **options):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda connection, _: connection.sendall(head(len(body), **options) + body)


def call(url, **options):
    chat = Chat(Endpoint(url, "m", **{"retries": 0, "timeout": 20, **options}))
    chat.parameters[4] = {"max_tokens": 4}
    return next(chat.ask(["a secret prompt"], max_tokens=4))


@pytest.mark.parametrize(
    "body",
    [b"[" * 200_000, b"\xff\xfe", b"1" * 5000, {"choices": [{"message": {"content": {"a": 1}}}], "usage": []}],
    ids=["nested", "bytes", "a long number", "other types"],
)
def test_anything_but_a_chat_completion_is_a_failed_call(body):
    with service(saying(body)) as url:
        assert (reply := call(url)).error == "not a chat completion" or reply.text == ""


def test_no_redirect_is_followed():
    heard = []
    with (
        service(lambda connection, body: heard.append(body)) as other,
        service(saying(b"", status="307 Temporary Redirect", more=f"Location: {other}\r\n")) as url,
    ):
        reply = call(url)
    assert (reply.text, heard) == (None, [])
    assert "a redirect, which is not followed" in reply.error
