"""Services that drip, flood, nest and send elsewhere, on sockets of this machine: every call ends, and says why."""

import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from semclass_llm.endpoint.client import LONGEST, Endpoint, replies, user

pytest.importorskip("openai")

DONE = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}


@contextmanager
def service(*rules):
    """The address of a service that handles each connection by the next rule, the last one for good."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            for number in range(100):
                try:
                    connection, _ = listening.accept()
                except OSError:  # the block is over
                    return
                threading.Thread(target=handle, args=(connection, rules[min(number, len(rules) - 1)])).start()

        def handle(connection, rule):
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


def dripping(data, pieces=100):
    """Send all of a reply, a piece every few hundredths of a second, so that no piece comes late."""

    def drip(connection, _):
        size = len(data) // pieces + 1
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
            time.sleep(0.03)

    return drip


def ask(url, **options):
    endpoint = Endpoint(url, "m", **{"retries": 0, "timeout": 20, **options})
    return next(replies(endpoint, [user("a secret prompt")], max_tokens=4, parameters={"max_tokens": 4}))


WHOLE = json.dumps(DONE).encode()


@pytest.mark.parametrize(
    "data",
    [head(len(WHOLE) + 900) + b" " * 900 + WHOLE, head(len(WHOLE), more="X-Slow: yes\r\n" * 90) + WHOLE],
    ids=["body", "headers"],
)
def test_a_reply_that_drips_fails_at_the_deadline_of_the_call(data):
    with service(dripping(data)) as url:
        assert (ask(url, timeout=0.5).text, ask(url, timeout=0.5).error) == (None, "APITimeoutError")
        assert ask(url).text == "yes"


def test_each_attempt_has_the_deadline():
    with service(dripping(head(len(WHOLE) + 900) + b" " * 900 + WHOLE), saying(DONE)) as url:
        assert ask(url, timeout=0.5, retries=1).text == "yes"


@pytest.mark.parametrize("status", ["200 OK", "500 Broken"])
def test_a_flood_is_read_no_further_than_the_longest_reply(status):
    sent = []

    def flood(connection, _):
        connection.sendall(head(LONGEST * 20, status))
        for _ in range(LONGEST * 20 >> 16):
            connection.sendall(b" " * (1 << 16))
            sent.append(1 << 16)

    with service(flood) as url:
        reply = ask(url)
    assert reply.error == ("a reply of more than 8 MB" if status == "200 OK" else "InternalServerError 500")
    assert sum(sent) < LONGEST * 4  # what buffers of the system hold is sent, too


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"choices": ' + b"[" * 200_000,
        b"\xff\xfe",
        b"1" * 5000,
        {"choices": [{"message": {"content": {"a": 1}}}], "usage": []},
    ],
    ids=["nested", "nested inside", "bytes", "a long number", "other types"],
)
def test_what_is_no_chat_completion_is_a_failed_call(body):
    with service(saying(body)) as url:
        assert (reply := ask(url)).error == "not a chat completion" or reply.text == ""


def test_tokens_that_are_no_numbers_are_not_counted():
    usage = {"prompt_tokens": "many", "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": [1]}}
    with service(saying(DONE | {"usage": usage})) as url:
        reply = ask(url)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == ("yes", None, None, 0)


@pytest.mark.parametrize("charset", ["zip", "hex", "no-such"])
def test_names_of_encodings_do_not_matter(charset):
    data = head(len(WHOLE), more="").replace(b"json", b"json; charset=" + charset.encode()) + WHOLE
    with service(lambda connection, _: connection.sendall(data)) as url:
        assert ask(url).text == "yes"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_no_redirect_is_followed(status):
    heard = []

    def elsewhere(connection, body):
        heard.append(body)
        saying(DONE)(connection, body)

    with service(elsewhere) as other, service(saying(b"", status=status, more=f"Location: {other}\r\n")) as url:
        reply = ask(url)
    assert reply.text is None
    assert "a redirect, which is not followed" in reply.error
    assert not heard


def test_compressed_replies_are_not_asked_for_and_not_unpacked():
    import gzip

    bomb = gzip.compress(b" " * (LONGEST * 4) + WHOLE)
    asked = []

    def say(connection, body):
        asked.append(body)
        connection.sendall(head(len(bomb), more="Content-Encoding: gzip\r\n") + bomb)

    with service(say) as url:
        assert ask(url).error == "not a chat completion"
    assert json.loads(asked[0])["messages"] == [{"role": "user", "content": "a secret prompt"}]
