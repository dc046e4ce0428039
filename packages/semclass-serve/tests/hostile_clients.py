"""Clients that no service wants: crowds, slow ones, those that go away, endless bodies, malformed requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from bench import service


async def _ask(
    host: str, port: int, pieces: Iterable[bytes], *, pause: float = 0.0, patience: float = service.PATIENCE
) -> str:
    """Send pieces with pauses between them, and read the status, which may come before the last one."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), patience)
    except (OSError, asyncio.TimeoutError):
        return service.CLOSED
    answer = asyncio.ensure_future(service.answer(reader, patience))
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
        with contextlib.suppress(OSError), socket.create_connection((host, port), service.PATIENCE) as connection:
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
    messages = {name: service.request(path, body) for name, body in bodies.items()}
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
