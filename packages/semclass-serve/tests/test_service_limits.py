"""Limits of the HTTP service: large, slow, many and cut-off requests."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import threading
import time
import tracemalloc
import warnings
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import httpx
import uvicorn
from asked import asked

from semclass_serve import limits, logs, server
from semclass_serve.answers import OverloadedError
from semclass_serve.app import create_app
from semclass_serve.engine import Engine
from semclass_serve.server import Server, bind, limited_protocol
from semclass_serve.settings import Settings
from semclass_serve.work_cost import Pace

ASK = "/api/classify/questions"
BODY = {"texts": ["Who built the bridge?"]}


class Held(Engine):
    """An engine whose work waits until it is let go, and that remembers what was given up."""

    def __init__(self, models, settings):
        super().__init__(models, None, settings)
        self.begun, self.go, self.given_up = asyncio.Event(), asyncio.Event(), 0
        self.error = None

    async def classify_questions(self, texts, **options):
        if self.error is not None:
            raise self.error
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return await super().classify_questions(texts, **options)


@contextmanager
def held(models, **given):
    """An application whose questions wait, ready to be asked."""
    engine = Held(models, Settings())
    engine.go.set()
    with asked(create_app(engine, Settings(**given))) as client:
        engine.go.clear()
        engine.begun.clear()
        yield client, engine
        engine.go.set()


def kind(answer):
    return answer.status_code, answer.json()["error_type"]


def ask(client, messages, *, path=ASK, headers=()):
    """Send ASGI messages as a request; a message that is an awaitable is waited for. Gives the status and the body."""
    sent = []
    given = iter(messages)

    async def receive():
        message = next(given, None)
        if message is None:
            await asyncio.Event().wait()
        if not isinstance(message, dict):
            message = await message
        return message

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
        "client": None,
        "server": None,
    }
    client.run(client.app(scope, receive, send))
    if not sent:
        return None, None
    return sent[0], json.loads(b"".join(message["body"] for message in sent[1:]))


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


# -- bodies -----------------------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_long_is_refused_unread(models):
    with held(models, max_body=100) as (client, _):
        start, body = ask(client, [], headers=[(b"content-length", b"101")])
        assert (start["status"], body["error_type"]) == (413, "too_large")
        start, _ = ask(client, [], headers=[(b"content-length", b"9" * 1000)])
        assert start["status"] == 413


def test_a_body_without_a_length_is_read_no_further_than_allowed(models):
    read = []

    def endless():
        while True:
            read.append(1)
            yield part(b"x" * 40)

    with held(models, max_body=100) as (client, _):
        start, body = ask(client, endless())
        assert (start["status"], body["error_type"]) == (413, "too_large")
        assert len(read) == 3


def test_a_body_that_trickles_is_given_up(models, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.05)
    with held(models) as (client, _):
        start, body = ask(client, [part(b"{")])
        assert (start["status"], body["error_type"]) == (408, "slow_body")
        assert (b"connection", b"close") in start["headers"]


GZIP = {"content-encoding": "gzip"}


def zipped(client, content, **headers):
    return client.post(ASK, content=content, headers={"content-type": "application/json", **GZIP, **headers})


def test_a_body_may_be_packed_by_gzip(models):
    packed = gzip.compress(json.dumps(BODY).encode())
    with held(models) as (client, engine):
        engine.go.set()
        assert zipped(client, packed).json()["results"] == client.post(ASK, BODY).json()["results"]
        sent = [part(bytes([byte])) for byte in packed] + [part(b"", more=False)]
        assert ask(client, sent, headers=[(b"content-encoding", b"x-gzip")])[0]["status"] == 200
        plain = client.post(ASK, BODY, headers={"content-encoding": "identity"})
        assert plain.status_code == 200


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(models):
    with held(models, max_body=100_000) as (client, _):
        bomb = gzip.compress(b"[" * 10**8)
        assert len(bomb) < 100_000
        tracemalloc.start()
        assert kind(zipped(client, bomb)) == (413, "too_large")
        assert tracemalloc.get_traced_memory()[1] < 10**7
        tracemalloc.stop()
        # what unpacks to nothing is no longer, either
        nothing = gzip.compress(b"", 0)[:10] + b"\x00\x00\x00\xff\xff" * 30_000
        assert kind(zipped(client, nothing)) == (413, "too_large")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", gzip.compress(b"{}")[:-1], gzip.compress(b"{}") + b"{}"],
    ids=["empty", "plain", "cut short", "followed by more"],
)
def test_what_is_no_gzip_is_malformed(models, content):
    with held(models) as (client, _):
        assert kind(zipped(client, content)) == (400, "malformed")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd", "no such"])
def test_bodies_that_are_packed_otherwise_are_told_how_to_be(models, encoding):
    with held(models) as (client, _):
        answer = zipped(client, b"{}", **{"content-encoding": encoding})
        assert kind(answer) == (415, "media_type")
        assert answer.headers["accept-encoding"] == "gzip"


def test_the_bodies_of_all_requests_together_are_bounded(models, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 10)
    text = json.dumps(BODY).encode()
    monkeypatch.setattr(limits, "MAX_BUFFERED", len(text) + 10)
    with held(models) as (client, engine):

        async def two():
            first = asyncio.ensure_future(_post(client.app, text))
            await engine.begun.wait()
            second = await _post(client.app, text)
            engine.go.set()
            return await first, second

        first, second = client.run(two())
        assert (first.status_code, kind(second)) == (200, (429, "overloaded"))
        # what was held is free again, also what a refused request held
        assert client.run(_post(client.app, text)).status_code == 200


def test_a_small_body_is_read_however_many_large_ones_are_held(models, monkeypatch):
    text = json.dumps(BODY).encode()
    monkeypatch.setattr(limits, "MAX_BUFFERED", len(text))
    with held(models) as (client, engine):

        async def two():
            both = [asyncio.ensure_future(_post(client.app, text)) for _ in range(2)]
            await engine.begun.wait()
            engine.go.set()
            return await asyncio.gather(*both)

        assert [answer.status_code for answer in client.run(two())] == [200, 200]


async def _post(app, content, path=ASK, method="POST"):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
        headers = {"content-type": "application/json"}
        return await client.request(method, path, content=content, headers=headers)


def test_memory_is_given_back_when_many_bytes_were_held_and_all_is_quiet(models, monkeypatch):
    monkeypatch.setattr(limits, "MANY", 1000)
    monkeypatch.setattr(limits, "QUIET", 0)
    given_back = []
    monkeypatch.setattr(limits, "give_back", lambda: given_back.append(1))
    with held(models) as (client, engine):
        engine.go.set()
        client.post(ASK, {"texts": ["a"]})
        client.run(asyncio.sleep(0))
        assert given_back == []
        client.post(ASK, {"texts": ["a " * 1000]})
        client.run(asyncio.sleep(0.05))
        assert given_back == [1]


def test_a_client_that_goes_away_while_it_sends_is_let_go(models):
    with held(models) as (client, engine):
        assert ask(client, [part(b"{"), {"type": "http.disconnect"}]) == (None, None)
        assert not engine.begun.is_set()


# -- work -------------------------------------------------------------------------------------------------------------


def test_a_client_that_goes_away_frees_its_place(models):
    with held(models, max_requests=1) as (client, engine):

        async def gone():
            await engine.begun.wait()
            return {"type": "http.disconnect"}

        assert ask(client, [part(json.dumps(BODY).encode(), more=False), gone()]) == (None, None)
        assert engine.given_up == 1
        engine.go.set()
        assert client.post(ASK, BODY).status_code == 200


def test_an_answer_that_takes_too_long_is_given_up(models):
    with held(models, request_seconds=0.05) as (client, engine):
        assert kind(client.post(ASK, BODY)) == (504, "timeout")
        assert engine.given_up == 1


def test_requests_beyond_the_limit_are_told_when_to_come_back(models):
    with held(models, max_requests=2) as (client, engine):

        async def three():
            text = json.dumps(BODY).encode()
            first = [asyncio.ensure_future(_post(client.app, text)) for _ in range(2)]
            await engine.begun.wait()
            await asyncio.sleep(0)
            refused = await _post(client.app, text)
            probes = [await _post(client.app, b"", path, "GET") for path in ("/health", "/ready", "/metrics")]
            assert [probe.status_code for probe in probes] == [200] * 3
            engine.go.set()
            return refused, await asyncio.gather(*first)

        refused, answers = client.run(three())
        assert kind(refused) == (429, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert [answer.status_code for answer in answers] == [200, 200]


def test_a_busy_engine_says_when_to_come_back(models):
    with held(models) as (client, engine):
        engine.error = OverloadedError(0.2)
        answer = client.post(ASK, BODY)
        assert kind(answer) == (429, "overloaded")
        assert answer.headers["retry-after"] == "1"


# -- heavy work -------------------------------------------------------------------------------------------------------

LONG = "Work on the bridge began in winter, said Ada number {}. It was opened in October. " * 50
HEAVY = {"query": "When was it opened?", "documents": [LONG.format(*[n] * 50)[:4100] for n in range(400)]}


def test_what_cannot_be_done_in_time_is_refused_at_once_with_what_can_and_small_requests_are_answered(models):
    settings = Settings(request_seconds=4)
    with asked(create_app(Engine(models, None, settings), settings)) as client:
        heavy = [("POST", "/v2/rerank", {"json": HEAVY})] * 2
        *refused, small = client.all([*heavy, ("POST", ASK, {"json": BODY})])
        assert small.status_code == 200
        for answer in refused:
            assert kind(answer) == (413, "too_large")
            found = re.search(r"about ([\d,]+) of its ([\d,]+) characters", answer.json()["error"])
            fitting, whole = (int(number.replace(",", "")) for number in found.groups())
            assert 0 < fitting < whole


def test_a_small_search_does_not_wait_for_all_long_questions_that_came_before(retriever):
    settings = Settings(request_seconds=600)
    engine = Engine(retriever.models, retriever, settings, workers=1)
    head = HEAD.replace(ASK.encode(), b"/api/search").replace(b"\r\nHost", b"\r\nConnection: close\r\nHost")

    def message(question):
        text = json.dumps({"question": question, "classify": False}).encode()
        return head + b"Content-Length: %d\r\n\r\n" % len(text) + text

    with listening(create_app(engine, settings), settings) as port, ExitStack() as open_ones:
        connect = lambda: open_ones.enter_context(socket.create_connection(("127.0.0.1", port), timeout=600))  # noqa: E731
        long = [connect() for _ in range(5)]
        for connection in long:
            connection.sendall(message("Who won the game? " * 5_000))
        eventually(lambda: engine.at_work, bool)
        small = connect()
        small.sendall(message("Who designed the lighthouse?"))
        assert answer_of(small).startswith(b"HTTP/1.1 200")
        assert sum(map(len, engine._waiting.values())) > 0  # most of the others still wait
        for connection in long:
            assert answer_of(connection).startswith(b"HTTP/1.1 200")


def test_the_question_of_a_search_that_is_refused_is_not_classified(retriever, monkeypatch):
    settings = Settings()
    engine = Engine(retriever.models, retriever, settings)
    with asked(create_app(engine, settings)) as client:
        monkeypatch.setattr(engine, "_next", lambda: None)  # all workers are busy
        engine.pace = Pace()
        for _ in range(2):
            engine.pace.learn("search", 1, 9.0, 9.0)
        refused = client.post("/api/search", {"question": "Who built it?", "k": 1000, "explain": True})
        assert refused.status_code == 413
        client.run(asyncio.sleep(0))
        assert engine.waiting == 0


def test_nothing_is_computed_for_a_client_that_has_gone(models, monkeypatch):
    settings, ran = Settings(request_seconds=100_000), []
    engine = Engine(models, None, settings)
    run = type(models.encoder)._run
    monkeypatch.setattr(
        type(models.encoder), "_run", lambda self, ids, *rest: ran.append(ids.size) or run(self, ids, *rest)
    )
    text = json.dumps(HEAVY).encode()
    head = HEAD.replace(ASK.encode(), b"/v2/rerank") + b"Content-Length: %d\r\n\r\n" % len(text)
    with listening(create_app(engine, settings), settings) as port:
        before = len(ran)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(head + text)
            eventually(lambda: len(ran), lambda count: count > before)
        eventually(lambda: engine.at_work, lambda at_work: not at_work)
    # a word piece has fewer than five characters, so that all of them would be many more
    assert sum(ran[before:]) < 4100 * 400 / 5 / 2


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        '{"%s": 1}' % ("n" * 10**6),
        '{"$or": [{"$not": {"%s": {"$gte": 3}}}]}' % ("n" * 10**6),
        '{"$%s": 1}' % ("n" * 10**6),
        '{"page": {"%s": 1}}' % ("n" * 10**6),
        '{"page": 1%s}' % ("0" * 5000),
        '{"page": {"$gte": -1%s}}' % ("0" * 5000),
        '{"page": {"$in": [1%s]}}' % ("0" * 5000),
        '{"secret": 1}',
    ],
    ids=["field", "nested", "operator", "of a field", "number", "bound", "one of", "unknown"],
)
def test_filters_of_any_size_are_answered_shortly_and_logged_without_their_text(searched_port, monkeypatch, where):
    lines = []
    monkeypatch.setattr(logs.LOGGER, "log", lambda level, event, extra: lines.append(json.dumps([event, extra])))
    monkeypatch.setattr(warnings, "showwarning", logs.show_warning)
    text = b'{"question": "Who built it?", "where": %s}' % where.encode()
    head = HEAD.replace(ASK.encode(), b"/api/search").replace(b"\r\nHost", b"\r\nConnection: close\r\nHost")
    with socket.create_connection(("127.0.0.1", searched_port), timeout=60) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(text) + text)
        answer = answer_of(connection)
    status = int(answer.split()[1])
    assert status == (200 if "secret" in where else 422) or (status == 400 and "0" * 5000 in where)
    assert status == 200 or len(answer) < 3000
    assert max(map(len, lines)) < 3000
    assert not any("nnnnnnnn" in line or "secret" in line for line in lines)


def test_metadata_nested_thousands_deep_is_refused(port_of_many):
    deep = b'{"question": "Who?", "passages": [{"text": "Ada.", "metadata": {"a": %s1%s}}]}'
    for levels in (150, 5000):
        text = deep % (b'{"a":' * levels, b"}" * levels)
        head = HEAD.replace(ASK.encode(), b"/api/rerank").replace(b"\r\nHost", b"\r\nConnection: close\r\nHost")
        with socket.create_connection(("127.0.0.1", port_of_many), timeout=60) as connection:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(text) + text)
            assert int(answer_of(connection).split()[1]) in (400, 422)


# -- connections ------------------------------------------------------------------------------------------------------


@contextmanager
def listening(app, settings):
    """Serve on a port of loopback in a thread; gives the port."""
    listener = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        app,
        http=limited_protocol(settings),
        lifespan="on",
        log_config=None,
        access_log=False,
        ws="none",
        timeout_keep_alive=600,
    )
    serving = Server(config, app, settings)
    thread = threading.Thread(target=serving.run, args=([listener],))
    thread.start()
    while not serving.started and thread.is_alive():
        thread.join(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        serving.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def answer_of(connection):
    """All that a connection gives until it is closed."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


@pytest.fixture(scope="module")
def port(models):
    settings = Settings(max_body=1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BODY_SECONDS", 0.5)
        patch.setattr(server, "HEAD_SECONDS", 0.5)
        with listening(create_app(Engine(models, None, settings), settings), settings) as found:
            yield found


@pytest.fixture(scope="module")
def port_of_many(models):
    settings = Settings()
    with listening(create_app(Engine(models, None, settings), settings), settings) as found:
        yield found


@pytest.fixture(scope="module")
def searched_port(retriever):
    settings = Settings()
    engine = Engine(retriever.models, retriever, settings)
    with listening(create_app(engine, settings), settings) as found:
        yield found


HEAD = b"POST /api/classify/questions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("beginning", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: "])
def test_a_head_that_does_not_come_closes_the_connection(port, beginning):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(beginning)
        assert answer_of(connection) == b""


def test_a_head_that_trickles_after_an_answered_request_closes_the_connection(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /hea")
        assert b"HTTP/1.1" not in answer_of(connection)


def test_a_client_that_sends_too_much_gets_to_read_why(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(200):
                connection.sendall(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
        except OSError:
            pass  # closed while it was sending, after the answer
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
        b"GET /" + b"a" * 10_000_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["TLS", "no version", "two hosts", "negative length", "two lengths", "long"],
)
def test_what_is_no_http_ends_the_connection_and_not_the_service(port, request_bytes):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request_bytes)
        found = answer_of(connection)
    assert found.startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))
    told = json.loads(found.partition(b"\r\n\r\n")[2])
    assert told["error"] == told["detail"]
    assert told["request_id"].encode() in found.partition(b"\r\n\r\n")[0]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer_of(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", [b"/api/classify/questions", b"/health"])
@pytest.mark.parametrize(("version", "length"), [(b"1.1", b"Content-Length: 4\r\n"), (b"1.0", b"")])
def test_a_request_whose_end_is_in_doubt_is_refused_and_nothing_behind_it_is_answered(port, path, version, length):
    head = b"POST %s HTTP/%s\r\nHost: localhost\r\n%s" % (path, version, length)
    request = head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request + b"GET /api/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = answer_of(connection)
    assert found.startswith(b"HTTP/1.1 400")
    assert found.lower().count(b"x-request-id:") == 1


def test_requests_one_after_another_share_a_connection(port):
    text = json.dumps(BODY).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
    last = request.replace(b"Host:", b"Connection: close\r\nHost:")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request + request + last)
        assert answer_of(connection).count(b"HTTP/1.1 200") == 3


def got(connection, path, headers=b""):
    """Ask on a connection that stays open; gives head and body of the answer."""
    connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
    found = b""
    while b"\r\n\r\n" not in found:
        found += more_of(connection)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    while len(body) < length:
        body += more_of(connection)
    return head, body


def more_of(connection):
    piece = connection.recv(65536)
    if not piece:
        raise ConnectionError("closed before the end of the answer")
    return piece


def is_closed(connection):
    """Wait for the end of a connection that nothing comes from."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def eventually(ask, holds, seconds=60):
    """Ask until an answer is as it will be some time."""
    end = time.monotonic() + seconds
    while not holds(answer := ask()):
        assert time.monotonic() < end, answer
    return answer


@pytest.fixture
def patient(monkeypatch):
    """All connections have time to send, however slow this machine is."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 600)
    monkeypatch.setattr(server, "REFUSED_SECONDS", 600)


@contextmanager
def few_connections(models, **given):
    """Serve with few connections; gives what connects."""
    settings = Settings(**given)
    with listening(create_app(Engine(models, None, settings), settings), settings) as port:
        yield lambda: socket.create_connection(("127.0.0.1", port), timeout=60)


def test_requests_where_connections_are_too_many_are_refused_as_all_others_are_and_probes_are_answered(models, patient):
    with few_connections(models, max_connections=2) as connect, connect() as first:
        assert got(first, b"/api/info")[0].startswith(b"HTTP/1.1 200")
        with connect():
            for path in (b"/health", b"/ready"):
                with connect() as third:
                    head, _ = got(third, path)
                    assert head.startswith(b"HTTP/1.1 200")
                    assert b"connection: close" in head
                    assert is_closed(third)
            with connect() as third:
                head, body = got(third, b"/api/info", b"X-Request-ID: one-too-many\r\n")
                assert head.startswith(b"HTTP/1.1 503")
                assert b"retry-after: 1\r\n" in head
                assert b"connection: close" in head
                told = json.loads(body)
                assert (told["error_type"], told["request_id"]) == ("overloaded", "one-too-many")
                assert "too many connections" in told["error"]
                assert is_closed(third)
            assert b'semclass_requests_total{route="/api/info",status="503"} 1.0' in got(first, b"/metrics")[1]


def test_who_came_first_does_not_keep_a_place_by_asking_for_probes(models, patient):
    with few_connections(models, max_connections=2) as connect, connect() as first:
        assert b"connection: close" not in got(first, b"/health")[0]
        with connect():
            eventually(lambda: got(first, b"/health")[0], lambda head: b"connection: close" in head)
            assert is_closed(first)
            with connect() as next_one:
                assert got(next_one, b"/api/info")[0].startswith(b"HTTP/1.1 200")


def test_connections_far_too_many_are_cut_off_and_the_others_have_little_time(models, patient, monkeypatch):
    monkeypatch.setattr(server, "REFUSED", 1)
    with few_connections(models, max_connections=1) as connect, connect(), connect() as second:
        with connect() as third:
            assert is_closed(third)
        assert got(second, b"/health")[0].startswith(b"HTTP/1.1 200")
    monkeypatch.setattr(server, "REFUSED_SECONDS", 0.01)
    with few_connections(models, max_connections=1) as connect, connect(), connect() as second:
        assert is_closed(second)


def test_a_client_that_does_not_read_is_cut_off(models, patient):
    questions = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000_000
    with few_connections(models, request_seconds=1) as connect, connect() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        # nothing more is taken from it as it reads nothing, and then the connection is reset
        with pytest.raises(ConnectionError):
            greedy.sendall(questions)


def test_answers_are_sent_without_delay():
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # by which asyncio knows that it may set TCP_NODELAY


# -- heads and ends of requests ----------------------------------------------------------------------------------------

ASKED = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def test_a_client_that_has_sent_all_and_half_closes_gets_its_answers(port):
    text = json.dumps(BODY).encode()
    question = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
    for sent, answers in ((question, 1), (question + ASKED + b"\r\n", 2), (question + ASKED, 1)):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert answer_of(connection).count(b"HTTP/1.1 200") == answers


@pytest.mark.parametrize(
    "head",
    [
        ASKED + b"X-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        ASKED + b"X-Folded: a\r\n b\r\n\r\n",
        ASKED + b"X-Folded: a\r\n\tb\r\n\r\n",
        ASKED.replace(b"\r", b"") + b"\n",
        ASKED + b"X-Bare: a\nX-Other: b\r\n\r\n",
        ASKED + b"\n",
    ],
    ids=["long", "folded", "folded by a tab", "bare line feeds", "one of them", "the last"],
)
@pytest.mark.parametrize("before", [b"", ASKED + b"\r\n"], ids=["first", "second"])
def test_heads_that_a_proxy_may_read_otherwise_and_long_ones_are_malformed(port, head, before):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(before + head)
        answers = answer_of(connection)
    assert answers.count(b"HTTP/1.1 200") == bool(before)
    assert answers.count(b"HTTP/1.1 400") == 1
    assert b"connection: close" in answers.lower()


# -- the end ----------------------------------------------------------------------------------------------------------


def test_what_is_not_done_in_the_time_of_a_stop_is_refused(models, patient, monkeypatch):
    settings, blocked, go = Settings(stop_seconds=0.05), threading.Event(), threading.Event()
    engine, questions = Engine(models, None, settings), type(models.questions)
    text = json.dumps(BODY).encode()

    def classify(self, texts, **options):
        blocked.set()
        go.wait(60)
        return []

    with listening(create_app(engine, settings), settings) as port:
        monkeypatch.setattr(questions, "classify", classify)
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        assert blocked.wait(60)
    with connection:
        head, _, body = answer_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert json.loads(body)["error_type"] == "stopping"
    assert engine.at_work  # by which the process knows that it must not wait
    go.set()


def test_a_request_that_the_server_cuts_off_is_told_so(models):
    with held(models) as (client, engine):
        engine.error = asyncio.CancelledError()
        assert kind(client.post(ASK, BODY)) == (503, "stopping")
        assert 'status="503"' in client.get("/metrics").text
