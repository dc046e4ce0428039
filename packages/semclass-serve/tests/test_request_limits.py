"""Limits of a request: size of its body, time of its answer, number of requests, clients that go away."""

import asyncio
import json
import time
from contextlib import contextmanager

import httpx
import pytest
from serving import client_of

from semclass_serve import door
from semclass_serve.engine import Engine
from semclass_serve.errors import ServiceError
from semclass_serve.limits import MAX_VALUES, Settings, check_body

PATH = "/api/classify/questions"
BODY = {"texts": ["Who built the bridge?"]}
CONTENT = json.dumps(BODY).encode()


class Held(Engine):
    """An engine whose questions wait until it is let go, and that counts the questions that were given up."""

    def __init__(self, models, settings):
        super().__init__(models, None, settings)
        self.begun, self.go, self.given_up = asyncio.Event(), asyncio.Event(), 0

    async def classify_questions(self, texts, **options):
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return await super().classify_questions(texts, **options)


@contextmanager
def held(models, **limits):
    engine = Held(models, Settings(**limits))
    engine.go.set()
    with client_of(engine) as client:
        engine.go.clear()
        engine.begun.clear()
        yield client, engine
        engine.go.set()


def kind(answer):
    return answer.status_code, answer.json()["error_type"]


async def post(app, path=PATH, method="POST"):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
        headers = {"content-type": "application/json"}
        return await client.request(method, path, content=CONTENT if method == "POST" else b"", headers=headers)


def ask(client, messages, headers=()):
    """Send ASGI messages as a request; an awaitable is waited for. Returns the status; None without an answer."""
    sent, messages = [], iter(messages)

    async def receive():
        message = next(messages, None)
        if message is None:
            await asyncio.Event().wait()
        return message if isinstance(message, dict) else await message

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": PATH,
        "raw_path": PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
        "client": None,
        "server": None,
    }
    client.run(client.app(scope, receive, send))
    return sent[0]["status"] if sent else None


def test_a_body_above_the_limit_is_not_read(models):
    pieces = ({"type": "http.request", "body": b"x" * 40, "more_body": True} for _ in range(100))
    with held(models, max_body=100) as (client, _):
        for length in (b"101", b"9" * 1000):
            assert ask(client, [], [(b"content-length", length)]) == 413
        assert ask(client, pieces) == 413
        assert len(list(pieces)) == 97


def test_a_compressed_body_is_refused(models):
    with held(models) as (client, _):
        assert kind(client.post(PATH, BODY, headers={"content-encoding": "gzip"})) == (415, "media_type")


def test_the_bodies_of_all_requests_are_bounded(models, monkeypatch):
    monkeypatch.setattr(door, "MAX_BUFFERED", len(CONTENT) + 10)
    with held(models) as (client, engine):

        async def two():
            first = asyncio.ensure_future(post(client.app))
            await engine.begun.wait()
            second = await post(client.app)
            engine.go.set()
            return await first, second

        first, second = client.run(two())
        assert (first.status_code, kind(second)) == (200, (429, "overloaded"))
        assert client.run(post(client.app)).status_code == 200


def test_a_client_that_goes_away_frees_its_place(models):
    with held(models, max_requests=1) as (client, engine):

        async def gone():
            await engine.begun.wait()
            return {"type": "http.disconnect"}

        body = {"type": "http.request", "body": CONTENT, "more_body": False}
        assert ask(client, [{**body, "more_body": True}, {"type": "http.disconnect"}]) is None
        assert not engine.begun.is_set()
        assert ask(client, [body, gone()]) is None
        assert engine.given_up == 1
        engine.go.set()
        assert client.post(PATH, BODY).status_code == 200


def test_an_answer_that_takes_too_long_is_given_up(models):
    with held(models, request_seconds=0.05) as (client, engine):
        assert kind(client.post(PATH, BODY)) == (504, "timeout")
        assert engine.given_up == 1


def test_a_request_too_many_is_told_when_to_come_back(models):
    with held(models, max_requests=2) as (client, engine):

        async def three():
            tasks = [asyncio.ensure_future(post(client.app)) for _ in range(2)]
            await engine.begun.wait()
            await asyncio.sleep(0)
            refused = await post(client.app)
            probes = [await post(client.app, path, "GET") for path in ("/health", "/ready", "/metrics")]
            assert [probe.status_code for probe in probes] == [200] * 3
            engine.go.set()
            return refused, await asyncio.gather(*tasks)

        refused, answers = client.run(three())
        assert kind(refused) == (429, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert [answer.status_code for answer in answers] == [200, 200]


def of_values(head, value, tail="]}"):
    """A body of as many values as are read, or nearly."""
    return (
        head
        + ",".join([value] * (MAX_VALUES // (1 + value.count("[") + value.count("{") + value.count(",")) - 9))
        + tail
    )


TERMS = ("a in (" * 16_000, "a " * 49_000, "a in (" + "1," * 16_000 + "1)", 'a in ("' + "\\" * 90_000)
DOCUMENTS, PASSAGES = '{"query":"a","documents":[', '{"question":"a","passages":['
METADATA = '{"text":"a","metadata":{"a":[[1]]}}'
WORST = {
    "terms": [("/api/search", json.dumps({"question": "a", "where": [term]})) for term in TERMS],
    "filters": [("/api/ask", of_values('{"question":"a","where":{"$or":[', '{"title":1}', "]}}"))],
    "weights": [("/api/rerank", of_values(PASSAGES + '"a"],"weights":{', '"k":-1', "}}"))],
    "inputs": [("/predict", of_values('{"inputs":[', value)) for value in ("1", '""', "{}", "[1]", '["a","b"]')],
    "cohere": [("/v2/rerank", of_values(DOCUMENTS, value)) for value in ("{}", '{"text":"a","b":[[1]]}')],
    "jina": [("/v1/rerank", of_values(DOCUMENTS, value)) for value in ("{}", '{"text":"a","b":[[1]]}')],
    "tei": [("/rerank", of_values('{"query":"a","texts":[', '"a"')), ("/rerank", "[" + "1," * 10**6 + "1]")],
    "passages": [("/api/rerank", of_values(PASSAGES, value)) for value in ('"a"', "[]", METADATA)],
    "questions": [("/api/classify/questions", of_values('{"texts":[', value)) for value in ("[1]", '"a"')],
    "texts": [("/api/classify/texts", of_values('{"texts":[', value)) for value in ("[1]", '"a"')],
    "judgements": [("/api/judgements", json.dumps({"question": "a " * 10**6, "passage": "a", "right": True}))],
}


@pytest.mark.parametrize("kind", WORST)
def test_health_is_answered_beside_the_worst_bodies(models, retriever, kind):
    """The bound is far above what is measured, and far below what one such body took before."""
    with client_of(Engine(models, retriever, Settings())) as client:

        async def longest(path, body):
            transport, slowest = httpx.ASGITransport(app=client.app), 0.0
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as asking:
                work = asking.post(path, content=body, headers={"content-type": "application/json"})
                task = asyncio.ensure_future(work)
                while not task.done():
                    began = time.monotonic()
                    assert (await asking.get("/health")).status_code == 200
                    slowest = max(slowest, time.monotonic() - began)
                    await asyncio.sleep(0)
                assert (await task).status_code < 500
            return slowest

        assert max(client.run(longest(path, body)) for path, body in WORST[kind]) < 5


@pytest.mark.parametrize("text", ["a, b, [c], {d}", 'a \\" , [', "\\\\"])
def test_only_values_outside_of_texts_count(text):
    check_body(json.dumps({"texts": [text * 20_000]}).encode())
    check_body(json.dumps([1] * MAX_VALUES).encode())
    for values in ([1] * (MAX_VALUES + 1), [text] * (MAX_VALUES + 1), [{"a": {}}] * (MAX_VALUES // 3 + 1)):
        with pytest.raises(ServiceError, match="too many values"):
            check_body(json.dumps(values).encode())


def test_a_stopped_service_is_not_ready(models):
    engine = Engine(models, None, Settings())
    with client_of(engine) as client:
        assert client.get("/ready").json() == {"status": "ready"}
        client.run(engine.stop())
        assert kind(client.get("/ready")) == (503, "stopping")
        assert kind(client.post(PATH, BODY)) == (503, "stopping")
        assert client.get("/health").status_code == 200
