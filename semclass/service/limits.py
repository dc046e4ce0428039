"""How much is read, and how long a request may take.

A body is read here as a whole, with a bound on its bytes and its time, before anything else looks at it. Then the work is
done beside a watch on the connection: it is given up when the client goes away, or when it takes too long.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semclass.service.bodies import CLOSE, Json, MalformedError, MediaTypeError, TooLargeError, refusal
from semclass.service.memory import give_back
from semclass.service.settings import MIB, Settings

ALWAYS = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are answered however much there is to do."""

SMALL = 64 * 1024
"""Bytes of a body that is read however many are held."""

MANY = 16 * MIB
"""Bytes of bodies after which memory is given back."""

QUIET = 1.0
"""Seconds after the last of them."""

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

_RETRY = {"Retry-After": "1"}


class _Full(Exception):  # noqa: N818 - a state, which never leaves this module
    """Too many bytes of bodies are held."""


class Entrance:
    """Middleware that refuses requests whose end is in doubt, and others while too many connections are open.

    A request that tells its length and is sent in chunks as well may be two requests to a proxy that believes the other
    header: it is refused, and the connection closed (RFC 9112, 6.1). The server marks requests where connections are too
    many. Both come before keys are looked at: who has none may do so as well.

    Parameters
    ----------
    app
        What is asked else.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        names = {name for name, _ in scope["headers"]} if scope["type"] == "http" else set()
        if b"transfer-encoding" in names and (b"content-length" in names or scope["http_version"] == "1.0"):
            message = (
                "the end of the request is in doubt; send Content-Length or, in HTTP/1.1, Transfer-Encoding, not both"
            )
            return await refusal(scope, 400, "malformed", message, CLOSE)(scope, receive, send)
        if not scope.get("semclass.crowded") or scope["path"] in ALWAYS:
            return await self.app(scope, receive, send)
        message = "too many connections at a time; try again later, and close connections that are not used"
        return await refusal(scope, 503, "overloaded", message, _RETRY)(scope, receive, send)


class Bounded:
    """Middleware that holds requests to the limits of the settings.

    Parameters
    ----------
    app
        What is protected.
    settings
        The limits.
    """

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
            if scope["method"] in _WITH_BODY:
                answer = await self._read(scope, receive, body)
                if answer is not None or scope.get("semclass.gone"):
                    return None if answer is None else await answer(scope, receive, send)
            if self._requests >= self.settings.max_requests:
                return await refusal(scope, 429, "overloaded", "too many requests at a time; try again later", _RETRY)(
                    scope, receive, send
                )
            self._requests += 1
            length, content = len(body), bytes(body)
            body.clear()
            try:
                await self._work(scope, content, receive, send)
            finally:
                self._requests -= 1
        finally:
            self._release(length or len(body))
            body.clear()  # frames of exceptions may hold it until the next collection of cycles

    def _release(self, length: int) -> None:
        """Let go of bytes; after many, memory is given back to the system when all is quiet."""
        self._held -= length
        if self._most_held > MANY and not self._held:
            asyncio.get_running_loop().call_later(QUIET, self._give_back)

    def _give_back(self) -> None:
        """Give memory back, beside the event loop, if it is still quiet; else whoever is last asks again."""
        if self._most_held > MANY and not (self._held or self._requests):
            self._most_held = 0
            asyncio.get_running_loop().run_in_executor(None, give_back)

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> Json | None:
        """Read the body; gives an answer where it is refused. A client that goes away is noted."""
        settings = self.settings
        try:
            await asyncio.wait_for(self._read_all(scope, receive, body), settings.body_seconds)
        except TooLargeError as error:
            return refusal(scope, 413, "too_large", str(error))
        except MediaTypeError as error:
            return refusal(scope, 415, "media_type", str(error), {"Accept-Encoding": "gzip"})
        except MalformedError as error:
            return refusal(scope, 400, "malformed", str(error))
        except _Full:
            return refusal(scope, 429, "overloaded", "too many large requests at a time; try again later", _RETRY)
        except asyncio.TimeoutError:
            message = f"the body did not arrive within {settings.body_seconds:g} s"
            return refusal(scope, 408, "slow_body", message, CLOSE)
        return None

    async def _read_all(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        most = self.settings.max_body
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if told.isdigit() and int(told[:20]) > most:
            raise TooLargeError(f"a body of {int(told[:20])} bytes is too large; at most {most} are read")
        decode = _decoder(scope, most)
        more, sent = True, 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                scope["semclass.gone"] = True
                return
            more = message.get("more_body", False)
            sent += len(message.get("body", b""))
            # one byte too many is enough to know of it: a body never grows further, whatever it was packed from
            chunk = decode(message.get("body", b""), most + 1 - len(body), more)
            if max(sent, len(body) + len(chunk)) > most:
                raise TooLargeError(f"the body is too large; at most {most} bytes are read")
            # small bodies always pass: those who send large ones slowly hold up only others of these
            if len(body) + len(chunk) > SMALL and self._held + len(chunk) > self.settings.max_buffered:
                raise _Full
            self._held += len(chunk)
            self._most_held = max(self._most_held, self._held)
            body += chunk

    async def _work(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the application answer, unless the client goes away or it takes too long."""
        gone = asyncio.ensure_future(_wait_for_end(receive))
        sent = _Sent(send)
        work = asyncio.ensure_future(_call(self.app, scope, _replay(body, gone), sent))
        try:
            await asyncio.wait({work, gone}, timeout=self.settings.request_seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done() or sent.complete:
                return await work
            if gone.done():
                scope["semclass.gone"] = True
                return None
            if not sent.started:
                work.cancel()
                await asyncio.wait({work})
                message = f"the answer took longer than {self.settings.request_seconds:g} s"
                await refusal(scope, 504, "timeout", message)(scope, receive, send)
            return None
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
            if not work.cancelled():
                work.exception()  # looked at, so that it is not told as forgotten


def _decoder(scope: Scope, most: int) -> Callable[[bytes, int, bool], bytes]:
    """What gives the bytes of a body, at most so many, from a piece of it as it was sent, by whether more will come."""
    told = b",".join(value for name, value in scope["headers"] if name == b"content-encoding").strip().lower()
    if told in (b"", b"identity"):
        return lambda piece, _, __: piece
    if told not in (b"gzip", b"x-gzip"):
        raise MediaTypeError("of encodings of a body gzip is read; send it with Content-Encoding: gzip, or without any")
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def decode(piece: bytes, room: int, more: bool) -> bytes:
        try:
            found = unpack.decompress(piece, room)
        except zlib.error as error:
            raise MalformedError(f"the body is no gzip: {error}") from None
        if unpack.unused_data or not (more or unpack.eof or len(found) == room):
            raise MalformedError("the body is no gzip: it is cut short, or goes on after its end")
        return found

    return decode


class _Sent:
    """Sends, and remembers how far the answer is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.complete = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)
        self.complete = message["type"] == "http.response.body" and not message.get("more_body", False)


async def _call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


async def _wait_for_end(receive: Receive) -> None:
    """Wait until the client goes away, or the answer is complete."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay(body: bytes, gone: asyncio.Future[None]) -> Receive:
    """Give a body that was read, and then the end of the connection."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.shield(gone)
        return {"type": "http.disconnect"}

    return receive
