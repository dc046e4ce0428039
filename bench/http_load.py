"""Clients of a service over HTTP/1.1: well-behaved ones under load, and those that no service wants.

The client shares its processors with the service, so it does little: one thread, ``selectors``, bytes made in advance.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import selectors
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

CLOSED = "closed"  # stands for the status where a connection was closed without an answer
SILENT = "no answer"  # stands for the status where none came in time
PATIENCE = 60.0  # seconds that a client waits for an answer
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


def request(path: str, body: bytes, *, headers: Iterable[str] = (), host: str = "localhost") -> bytes:
    """A POST request as it goes over the wire."""
    head = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


@dataclass
class Load:
    """What a run of requests came to."""

    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    client_seconds: float = 0.0


def drive(host: str, port: int, requests: Sequence[bytes], connections: int) -> Load:
    """Send requests over so many connections that are kept open, the next one of each when its answer is there."""
    load, waiting = Load(), iter(requests)
    began, processor = time.perf_counter(), time.process_time()
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            _send(selector, (host, port), None, next(waiting, None))
        while selector.get_map():
            ready = selector.select(PATIENCE)
            for key, _ in ready or [(key, 0) for key in list(selector.get_map().values())]:
                status = _heard(key) if ready else SILENT
                if status is None:
                    continue
                load.statuses[status] += 1
                load.latencies.append(time.perf_counter() - key.data[0])
                connection: Any = key.fileobj
                selector.unregister(connection)
                if status in (CLOSED, SILENT):
                    connection.close()
                    connection = None
                _send(selector, (host, port), connection, next(waiting, None) if ready else None)
    load.seconds, load.client_seconds = time.perf_counter() - began, time.process_time() - processor
    return load


def _send(
    selector: selectors.BaseSelector, address: tuple[str, int], connection: socket.socket | None, message: bytes | None
) -> None:
    """Send a request over a connection, or over a new one; without a request the connection is closed."""
    if message is None:
        if connection is not None:
            connection.close()
        return
    if connection is None:
        connection = socket.create_connection(address, PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sent = time.perf_counter()
    with contextlib.suppress(OSError):  # what comes of it is seen when the answer is read
        connection.sendall(message)
    selector.register(connection, selectors.EVENT_READ, (sent, bytearray()))


def _heard(key: selectors.SelectorKey) -> str | None:
    """Read what is there; gives the status of the answer if it is there as a whole."""
    connection: Any = key.fileobj
    try:
        chunk = connection.recv(1 << 16)
    except OSError:
        chunk = b""
    buffer: bytearray = key.data[1]
    buffer += chunk
    return _status(buffer) if chunk else CLOSED


def _status(buffer: bytes | bytearray) -> str | None:
    """Status of an answer that is there as a whole; None if it is not."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    found = _LENGTH.search(buffer, 0, end + 2)
    whole = end + 4 + (int(found[1]) if found else 0)
    return buffer[9:12].decode("ascii", "replace") if len(buffer) >= whole else None


# -- clients that no service wants -------------------------------------------------------------------------------------


async def _read(passage_encoder: asyncio.StreamReader, patience: float) -> str:
    """Status of the next answer."""
    buffer = bytearray()

    async def whole() -> str:
        while chunk := await passage_encoder.read(1 << 16):
            buffer.extend(chunk)
            if (status := _status(buffer)) is not None:
                return status
        return CLOSED

    try:
        return await asyncio.wait_for(whole(), patience)
    except asyncio.TimeoutError:
        return SILENT
    except OSError:
        return CLOSED


async def _ask(host: str, port: int, pieces: Iterable[bytes], *, pause: float = 0.0, patience: float = PATIENCE) -> str:
    """Send pieces with pauses between them, and read the status, which may come before the last one."""
    try:
        passage_encoder, writer = await asyncio.wait_for(asyncio.open_connection(host, port), patience)
    except (OSError, asyncio.TimeoutError):
        return CLOSED
    answer = asyncio.ensure_future(_read(passage_encoder, patience))
    try:
        for piece in pieces:
            writer.write(piece)
            with contextlib.suppress(OSError):
                await writer.drain()
            if pause:
                await asyncio.wait({answer}, timeout=pause)
            if answer.done():
                break
        return await answer
    finally:
        answer.cancel()
        writer.transport.abort()


async def _count(clients: Iterable[Awaitable[str]]) -> Counter[str]:
    return Counter(await asyncio.gather(*clients))


def crowd(host: str, port: int, messages: Sequence[bytes]) -> Counter[str]:
    """As many connections at once as there are messages; gives how many answers of each status."""
    return asyncio.run(_count(_ask(host, port, [message]) for message in messages))


def slow(host: str, port: int, message: bytes, *, clients: int, pause: float, patience: float) -> Counter[str]:
    """Clients that send a byte now and then: half of them from the first one on, half of them from the body on."""
    head, _, body = message.partition(b"\r\n\r\n")
    letters = [bytes([letter]) for letter in message]
    after = [head + b"\r\n\r\n", *(bytes([letter]) for letter in body)]
    kinds = [letters, after]
    return asyncio.run(
        _count(_ask(host, port, kinds[number % 2], pause=pause, patience=patience) for number in range(clients))
    )


def cut(host: str, port: int, message: bytes, *, clients: int, seed: int = 0) -> None:
    """Clients that go away in the middle of a request, or as soon as they have sent it, half of them without a farewell."""
    rng = random.Random(seed)
    for number in range(clients):
        with contextlib.suppress(OSError), socket.create_connection((host, port), PATIENCE) as connection:
            length = len(message) if number % 3 == 0 else rng.randrange(1, len(message))
            connection.sendall(message[:length])
            if number % 2:  # closed by a reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def huge(host: str, port: int, path: str, *, size: int, clients: int) -> Counter[str]:
    """Bodies of `size` bytes: told in advance, told and not sent, in chunks without a length."""
    block = b"a" * (1 << 16)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()

    def told() -> Iterator[bytes]:
        yield head + f"Content-Length: {size}\r\n\r\n".encode()
        for _ in range(0, size, len(block)):
            yield block

    def promised() -> Iterator[bytes]:
        yield head + f"Content-Length: {size}\r\n\r\n".encode()

    def chunked() -> Iterator[bytes]:
        yield head + b"Transfer-Encoding: chunked\r\n\r\n"
        for _ in range(0, size, len(block)):
            yield f"{len(block):x}\r\n".encode() + block + b"\r\n"
        yield b"0\r\n\r\n"

    kinds: list[Callable[[], Iterator[bytes]]] = [told, promised, chunked]
    return asyncio.run(_count(_ask(host, port, kinds[number % 3]()) for number in range(clients)))


def malformed(host: str, port: int, path: str) -> dict[str, str]:
    """Requests that are wrong, each in its way; gives the status of each."""
    bodies = {
        "empty": b"",
        "no JSON": b"{query: 'a'}",
        "cut JSON": b'{"query": "a", "documents": ["b"',
        "a list": b"[]",
        "other fields": b'{"question": 1}',
        "wrong types": b'{"query": 1, "documents": {"a": "b"}, "top_n": "x"}',
        "not UTF-8": b'{"query": "\xff\xfe", "documents": ["b"]}',
        "half a character": b'{"query": "\\ud800", "documents": ["b"]}',
        "NaN": b'{"query": "a", "documents": ["b"], "top_n": NaN}',
        "empty texts": b'{"query": " ", "documents": [""]}',
        "nested": b'{"query": ' + b"[" * 100_000,
        "a large number": b'{"query": "a", "documents": ["b"], "top_n": ' + b"9" * 5000 + b"}",
        "too many texts": json.dumps({"query": "a", "documents": ["b"] * 100_000}).encode(),
        "a long text": json.dumps({"query": "a", "documents": ["b " * 500_000]}).encode(),
    }
    messages = {name: request(path, body) for name, body in bodies.items()}
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
    messages |= {
        "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        "negative length": head + b"Content-Length: -5\r\n\r\n",
        "two lengths": head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "bad chunks": head + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        "a long header": head + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n",
        "many headers": head + b"X: 1\r\n" * 20_000 + b"\r\n",
        "another type": head + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
        "another method": f"BREW {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode(),
        "another path": b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "no host": f"POST {path} HTTP/1.1\r\nContent-Length: 0\r\n\r\n".encode(),
    }

    async def each() -> dict[str, str]:
        return {name: await _ask(host, port, [message]) for name, message in messages.items()}

    return asyncio.run(each())
