"""Limits of a request: size of its body, time of its answer, number of requests, clients that go away."""

import asyncio
import json
from contextlib import contextmanager

import httpx
from serving import client_of

from semclass_serve import door
from semclass_serve.engine import Engine
from semclass_serve.limits import Settings

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


def test_a_stopped_service_is_not_ready(models):
    engine = Engine(models, None, Settings())
    with client_of(engine) as client:
        assert client.get("/ready").json() == {"status": "ready"}
        client.run(engine.stop())
        assert kind(client.get("/ready")) == (503, "stopping")
        assert kind(client.post(PATH, BODY)) == (503, "stopping")
        assert client.get("/health").status_code == 200
