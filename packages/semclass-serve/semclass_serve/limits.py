"""How much of a request is read, and how long it may take.

A body is read here as a whole, with a bound on its bytes and its time. Then the request is worked on until it is done, its
client goes away, or it has taken too long.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import zlib
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semclass_serve.access import ALWAYS, RETRY
from semclass_serve.answers import CLOSE, ServiceError, malformed, too_large
from semclass_serve.settings import MIB, Settings

BODY_SECONDS = 15.0
"""Time that a client has to send a body."""

MAX_BUFFERED = 128 * MIB
"""Bytes of bodies that are held at a time, over all requests."""

SMALL = 64 * 1024
"""Bytes of a body that is read however many are held."""

MANY = 16 * MIB
"""Bytes of bodies held at a time after which memory is given back."""

QUIET = 1.0
"""Seconds until that, after the last of them."""


class ClientGoneError(Exception):
    """The client closed the connection: nobody waits for an answer."""


class Bounded:
    """Middleware that holds requests to the limits of the settings."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self._requests = 0
        self._held = 0
        self._most_held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within the limits, or refuse it."""
        if scope["type"] != "http" or scope["path"] in ALWAYS:
            return await self.app(scope, receive, send)
        # one block that grows, and not many: what is freed goes back to the system
        body, length = bytearray(), 0
        try:
            if scope["method"] in ("POST", "PUT", "PATCH"):
                await self._read(scope, receive, body)
            if self._requests >= self.settings.max_requests:
                raise ServiceError(429, "overloaded", "too many simultaneous requests; try again later", RETRY)
            self._requests += 1
            length, content = len(body), bytes(body)
            body.clear()
            try:
                await self._work(scope, content, receive, send)
            finally:
                self._requests -= 1
        finally:
            self._held -= length or len(body)
            body.clear()  # frames of exceptions may hold it until the next collection of cycles
            if self._most_held > MANY and not self._held:
                self._most_held = 0
                loop = asyncio.get_running_loop()
                loop.call_later(QUIET, loop.run_in_executor, None, give_back)

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        """Read the body in its time."""
        try:
            await asyncio.wait_for(self._read_all(scope, receive, body), BODY_SECONDS)
        except asyncio.TimeoutError:
            raise ServiceError(408, "slow_body", f"the body did not arrive within {BODY_SECONDS:g} s", CLOSE) from None

    async def _read_all(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        most = self.settings.max_body
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if length.isdigit() and int(length[:20]) > most:
            raise too_large(f"a body of {int(length[:20])} bytes is too large; at most {most} are read")
        decode = _decoder(scope)
        more, sent = True, 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            more = message.get("more_body", False)
            sent += len(message.get("body", b""))
            # one byte too many is enough: a body never grows further, however it was compressed
            chunk = decode(message.get("body", b""), most + 1 - len(body), more)
            if max(sent, len(body) + len(chunk)) > most:
                raise too_large(f"the body is too large; at most {most} bytes are read")
            # small bodies always pass: clients that send large ones slowly block only each other
            if len(body) + len(chunk) > SMALL and self._held + len(chunk) > MAX_BUFFERED:
                raise ServiceError(429, "overloaded", "too many simultaneous large requests; try again later", RETRY)
            self._held += len(chunk)
            self._most_held = max(self._most_held, self._held)
            body += chunk

    async def _work(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the application answer, unless the client goes away or it takes too long."""
        complete = replayed = False

        async def sending(message: Message) -> None:
            nonlocal complete
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        async def replay() -> Message:
            nonlocal replayed
            if replayed:  # answers that are sent in parts ask whether the client is still there
                await asyncio.wait({gone})
                return {"type": "http.disconnect"}
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def answer() -> None:
            await self.app(scope, replay, sending)

        gone, work = asyncio.ensure_future(_disconnected(receive)), asyncio.ensure_future(answer())
        try:
            await asyncio.wait({work, gone}, timeout=self.settings.request_seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done() or complete:
                await work
            elif gone.done():
                raise ClientGoneError
            else:
                raise ServiceError(504, "timeout", f"the answer took longer than {self.settings.request_seconds:g} s")
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
            if not work.cancelled():
                work.exception()  # retrieved, or asyncio would log it


def _decoder(scope: Scope) -> Callable[[bytes, int, bool], bytes]:
    """Make a function that decodes a piece of a body, to at most so many bytes, by whether more will come."""
    encodings = b",".join(value for name, value in scope["headers"] if name == b"content-encoding").strip().lower()
    if encodings in (b"", b"identity"):
        return lambda piece, _, __: piece
    if encodings not in (b"gzip", b"x-gzip"):
        message = "a body may only be compressed by gzip; send it with Content-Encoding: gzip, or without any"
        raise ServiceError(415, "media_type", message, {"Accept-Encoding": "gzip"})
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def decode(piece: bytes, room: int, more: bool) -> bytes:
        try:
            chunk = unpack.decompress(piece, room)
        except zlib.error as error:
            raise malformed(f"the body is not valid gzip: {error}") from None
        if unpack.unused_data or not (more or unpack.eof or len(chunk) == room):
            raise malformed("the body is not valid gzip: it is truncated, or has bytes after its end")
        return chunk

    return decode


async def _disconnected(receive: Receive) -> None:
    """Wait until the client goes away, or the answer is complete."""
    while (await receive())["type"] != "http.disconnect":
        pass


def give_back() -> None:
    """Collect cycles, and return free memory to the system, where the C library can (glibc).

    It keeps what was freed below a block that is in use: 100 bodies of 4 MB at a time left 140 MB without this.
    """
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
