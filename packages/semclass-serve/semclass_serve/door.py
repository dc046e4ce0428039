"""Middleware for all requests: checks access, size and time, writes errors in one form, and logs and counts requests."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Collection
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semclass_serve.errors import ServiceError, overloaded, service_error, stopping, too_large
from semclass_serve.limits import PROBES, Settings, check_access, check_body
from semclass_serve.observe import Metrics, fault_fields, log

MAX_BUFFERED = 128 * 2**20
"""Most bytes of all bodies that are in memory at a time."""

UNKNOWN = "-"  #: logged for unknown paths and methods
CLIENT_GONE = 499  #: logged as status if the client did not wait for the answer

HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
"""Headers of all answers, except those that a route sets itself."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class _ClientGoneError(Exception):
    """The client closed the connection, so nobody waits for an answer."""


class Door:
    """Middleware that applies the limits of the settings to requests, and logs and counts every request.

    `routes` are the paths of the service. All other paths are logged and counted as one. `open_paths` need no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        routes: Collection[str],
        open_paths: Collection[str],
    ) -> None:
        self.app = app
        self.settings = settings
        self.metrics = metrics
        self.routes = frozenset(routes)
        self.open_paths = frozenset(open_paths)
        self._open = 0
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.perf_counter(), 0
        fault: dict[str, Any] = {}
        header = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        request_id = header.decode() if _ID.fullmatch(header) else uuid.uuid4().hex
        scope["semclass.id"] = request_id

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", []))
                usual = [pair for pair in HEADERS if pair[0] not in dict(headers)]
                message = {**message, "headers": [*headers, *usual, (b"x-request-id", request_id.encode())]}
            await send(message)

        async def refuse(error: ServiceError) -> None:
            if not status:
                await error.answer(scope)(scope, receive, send_named)

        self.metrics.open.inc()
        try:
            check_access(scope, self.settings, self.open_paths)
            await self._answer(scope, receive, send_named)
        except _ClientGoneError:
            status = CLIENT_GONE
        except asyncio.CancelledError:  # the server cancels requests that are open at the end of a stop
            await refuse(stopping("the service stopped before it finished this request; send it again"))
        except Exception as error:  # noqa: BLE001 - no error of one request may end the service
            refusal = service_error(error)
            if refusal is not error and refusal.status >= 500:
                fault = fault_fields(error)
            await refuse(refusal)
        finally:
            self.metrics.open.dec()
            self._log(scope, status, time.perf_counter() - began, fault)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within the limits."""
        if scope["path"] in PROBES:
            return await self.app(scope, receive, send)
        if self._open >= self.settings.max_requests:
            raise overloaded("too many simultaneous requests; try again later")
        self._open += 1
        body = bytearray()
        try:
            await asyncio.wait_for(self._work(scope, body, receive, send), self.settings.request_seconds)
        except asyncio.TimeoutError:
            seconds = self.settings.request_seconds
            raise ServiceError(504, "timeout", f"the answer took longer than {seconds:g} s") from None
        finally:
            self._open -= 1
            self._buffered -= len(body)

    async def _work(self, scope: Scope, body: bytearray, receive: Receive, send: Send) -> None:
        """Read the body, and let the application answer. Stop if the client disconnects."""
        await self._read(scope, body, receive)
        complete = replayed = False

        async def replay() -> Message:
            nonlocal replayed
            if replayed:  # responses that are sent in pieces ask whether the client is still there
                await asyncio.wait({gone})
                return {"type": "http.disconnect"}
            replayed = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        async def send_noted(message: Message) -> None:
            nonlocal complete
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        async def work() -> None:
            await self.app(scope, replay, send_noted)

        gone, working = asyncio.ensure_future(_disconnected(receive)), asyncio.ensure_future(work())
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not (working.done() or complete):
                raise _ClientGoneError
            await working
        finally:
            gone.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
            if not working.cancelled():
                working.exception()  # retrieved, or asyncio would log it

    async def _read(self, scope: Scope, body: bytearray, receive: Receive) -> None:
        """Read the body, up to the limit."""
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise ServiceError(415, "media_type", "a compressed body is not read; send it without Content-Encoding")
        length, most = headers.get(b"content-length", b""), self.settings.max_body
        if length.isdigit() and int(length[:20]) > most:
            raise too_large(f"a body of {int(length[:20])} bytes is too large; at most {most} are read")
        more = scope["method"] in ("POST", "PUT", "PATCH")
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGoneError
            chunk, more = message.get("body", b""), message.get("more_body", False)
            if len(body) + len(chunk) > most:
                raise too_large(f"the body is too large; at most {most} bytes are read")
            if self._buffered + len(chunk) > MAX_BUFFERED:
                raise overloaded("too many simultaneous large requests; try again later")
            self._buffered += len(chunk)
            body += chunk
        check_body(body)

    def _log(self, scope: Scope, status: int, seconds: float, fault: dict[str, Any]) -> None:
        path = scope["path"]
        route = path if path in self.routes else UNKNOWN
        self.metrics.count(route, status, seconds)
        log(
            "request",
            logging.ERROR if fault else logging.INFO,
            request_id=scope["semclass.id"],
            method=scope["method"] if scope["method"] in _METHODS else UNKNOWN,
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 2),
            **fault,
        )


async def _disconnected(receive: Receive) -> None:
    """Wait until the client disconnects, or the answer is complete."""
    while (await receive())["type"] != "http.disconnect":
        pass
