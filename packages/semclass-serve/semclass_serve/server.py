"""The server that the service runs on: uvicorn, with a time for request heads, and a stop that is announced."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import signal
import socket
import sys
import time
import uuid
from dataclasses import replace
from math import ceil
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from semclass.core.errors import InputError
from semclass_serve.answers import CLOSE, malformed
from semclass_serve.logs import HEADERS, log
from semclass_serve.settings import Settings

HEAD_BYTES, HEAD_SECONDS = 32 * 1024, 10.0
"""Bytes that the line and the headers of a request may have, and the time that a client has to send them."""

IDLE_SECONDS = 15
"""Time that a connection without requests is kept open."""

_HEAD_END = re.compile(rb"\n\r?\n")
_BARE = re.compile(rb"(?<!\r)\n")
_FOLDED = re.compile(rb"\r\n[ \t]")
"""The end of a head as h11 sees it, and what a head must not hold."""

_LATER = 2
"""Seconds after the time of a stop at which requests are cut off that wait for nothing of the engine."""

BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""

ACCEPTED = 16
"""Connections that are accepted at a time, before it is seen whether they are too many."""

SPARE = 256
"""Open files besides the connections: those of the service itself, and of connections that are refused."""

REFUSED, REFUSED_SECONDS = SPARE // 2, 1.0
"""Connections too many that get an answer; further ones are cut off. And the time that they have to send a head."""

LINGER_SECONDS = 5.0
"""Time in which a client that was refused while it sends may read why; what it sends is dropped (RFC 9112, 9.6)."""


def run(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; requests that were taken are finished, within the time of a stop.

    Where a run of the models lasts longer than that, the process ends at once, with exit code 1.
    """
    settings = replace(settings, max_connections=_allowed_connections(settings.max_connections))
    config = uvicorn.Config(
        app,
        http=limited_protocol(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=ACCEPTED,  # asyncio accepts as many at a time as may wait
        timeout_keep_alive=IDLE_SECONDS,
        # the engine gives up its requests before; this is for others
        timeout_graceful_shutdown=ceil(settings.stop_seconds) + _LATER,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    # uvicorn raises the signal again when it has stopped; but a stop on request is a success
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    Server(config, app, settings).run([listener])
    log("stopped")
    if app.state.engine.at_work:
        # the interpreter would wait for abandoned runs
        logging.shutdown()
        os._exit(1)


def bind(host: str, port: int) -> socket.socket:
    """Take a port; connections are refused until the service is ready."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay (TCP_NODELAY) only where a socket names its protocol: else each answer takes 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would let others take the port, too
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen on {host}, port {port}: {error}; choose another --host or --port") from error
    return listener


class Server(uvicorn.Server):
    """Tells balancers before it stops, and finishes what it took."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: Settings) -> None:
        super().__init__(config)
        self._app = app
        self._settings = settings
        self._stop_at = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Make ready and listen."""
        await super().startup(sockets)
        # models and an index stay as long as the service: leave them out of the collection of cycles
        gc.collect()
        gc.freeze()
        for listener in sockets or ():
            listener.listen(BACKLOG)
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            log("serving", host=host, port=port, url=f"http://{name}:{port}/")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: the first one begins to stop, a second one does not wait for balancers."""
        if self._settings.drain_seconds and not self._app.state.draining:
            self._stop_at = time.monotonic() + self._settings.drain_seconds
        else:
            super().handle_exit(sig, frame)
        self._app.state.draining = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was taken; what is not done in time is refused."""
        timer = asyncio.get_running_loop().call_later(self._settings.stop_seconds, self._give_up)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        if parts := self._app.state.engine.give_up():
            log("stopped before all requests were finished", logging.WARNING, parts=parts)

    async def on_tick(self, counter: int) -> bool:
        """Look ten times a second whether to stop."""
        if time.monotonic() >= self._stop_at:
            self.should_exit = True
        return await super().on_tick(counter)


class LimitedProtocol(H11Protocol):
    """Closes connections whose clients do not send or read in time, bounds their number, and answers what is no HTTP.

    uvicorn waits without end for a request's line and headers, so that a client could hold a connection with a byte now and
    then; here their time runs from the first byte, or for a new connection from its beginning. asyncio waits as long for a
    client to read, even where the connection is to be closed; here it is cut off.

    While all connections that may be are open, each is closed after its next answer, so that nobody keeps a place by asking
    now and then. While more are, requests are marked, and :class:`semclass_serve.access.Gate` refuses them. uvicorn
    itself would refuse probes as well, in a text of its own, and log nothing.
    """

    limits: Settings

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _ended = False  # whether the client sends nothing more, but reads
    _refused = False  # whether it was told that it sends no HTTP

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP request with the body that all errors have, and close when the client has read it.

        A socket that is closed while bytes wait in it is reset, and the client would lose the answer.
        """
        request_id = uuid.uuid4().hex
        answer = malformed(msg, CLOSE).answer({"semclass.id": request_id})
        headers = [*answer.raw_headers, *HEADERS, (b"x-request-id", request_id.encode())]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.write_eof()
        self._refused = True
        if self.cycle is not None:  # whoever answers a request whose body is broken need not go on
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self._disarm_head()
        self._head = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def handle_events(self) -> None:
        """Go on with what was received; a head that is too long or ambiguous is refused before it is read.

        h11 compares only heads that came in pieces with its limit, and takes line ends and folded lines that a proxy may
        read in another way (RFC 9112, 2.2 and 5.2).
        """
        if self.conn.their_state is h11.IDLE:
            data = self.conn.trailing_data[0]
            end = _HEAD_END.search(data)
            fault = "" if end is None else _fault_of_head(data[: end.end()])
            if fault:
                self.send_400_response(fault)
                return
        super().handle_events()

    def eof_received(self) -> bool:  # type: ignore[override] # of the base class, but not of asyncio
        """Keep a connection whose client has sent all until its requests are answered."""
        self._ended = not self._refused and self._is_busy() and self.conn.their_state is not h11.SEND_BODY
        return self._ended

    def on_response_complete(self) -> None:
        """Go on with the next request; where none will come, close."""
        super().on_response_complete()
        if self._ended and not self._is_busy():
            self.transport.close()

    def connection_made(self, transport: Any) -> None:
        """Take a connection."""
        super().connection_made(transport)
        self.app = self._answer
        # writing is paused as long as anything is left to write
        transport.set_write_buffer_limits(0)
        too_many = len(self.connections) - self.limits.max_connections
        seconds = HEAD_SECONDS if too_many <= 0 else REFUSED_SECONDS
        self._head = self.loop.call_later(seconds, transport.close)
        if too_many > REFUSED:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._disarm_head()
        self._disarm_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what a client sends."""
        if self._refused:
            return
        if self._head is None and not self._is_busy():
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        super().data_received(data)
        if self._is_busy():
            self._disarm_head()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on when it has."""
        self._disarm_unread()
        super().resume_writing()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, by how many connections there are when it comes."""
        number, most = len(self.connections), self.limits.max_connections
        if number >= most:
            # as if the client had sent it: uvicorn closes the connection after the answer, and says so
            scope["headers"].append((b"connection", b"close"))
            scope["semclass.crowded"] = number > most
        await self.config.loaded_app(scope, receive, send)

    def _is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _disarm_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _disarm_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()


def _fault_of_head(head: bytes) -> str:
    """What is wrong with the line and the headers of a request; empty if nothing is."""
    if len(head) > HEAD_BYTES:
        return f"the request's line and headers have {len(head)} bytes; at most {HEAD_BYTES} are read"
    if _BARE.search(head):
        return "a line of the request's head ends without a carriage return; end each with CR LF"
    if _FOLDED.search(head):
        return "a header of the request is folded over several lines; write it in one"
    return ""


def limited_protocol(settings: Settings) -> type[H11Protocol]:
    """Make a protocol with these limits."""
    return type("Protocol", (LimitedProtocol,), {"limits": settings})


def _allowed_connections(number: int) -> int:
    """Raise the limit of open files, often 1,024, as far as needed and allowed; gives how many connections fit."""
    if sys.platform == "win32":
        return number
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = number + SPARE
    if soft == resource.RLIM_INFINITY or soft >= files:
        return number
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    allowed = max(1, files - SPARE)
    if allowed < number:
        event = "fewer connections may be open, as the system allows few open files; raise its limit (ulimit -Hn)"
        log(event, logging.WARNING, max_connections=allowed, open_files=files)
    return allowed
