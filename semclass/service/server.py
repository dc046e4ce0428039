"""The server that the service runs on: uvicorn, with a time for request heads, and a stop that is announced."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
import uuid
from functools import partial
from math import ceil
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from semclass.errors import InputError
from semclass.service.bodies import CLOSE, refusal
from semclass.service.logs import HEADERS, tell
from semclass.service.memory import settle
from semclass.service.settings import Settings

HEAD_BYTES = 32 * 1024
"""Bytes that the line and the headers of a request may have."""

_LATER = 2
"""Seconds after the time of a stop at which also requests are cut off that wait for nothing of the engine."""

BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""


def run(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; requests that were taken are finished, within the time of a stop.

    Where a run of the models lasts longer than that, the process ends at once, with exit code 1.

    Parameters
    ----------
    app
        The service.
    settings
        Times and limits.
    listener
        Where it listens, see :func:`bind`.
    """
    _allow_connections(settings.max_connections)
    config = uvicorn.Config(
        app,
        http=limited_protocol(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=max(1, round(settings.idle_seconds)),
        # requests are given up before, by the engine; this is for those that do not wait for it
        timeout_graceful_shutdown=ceil(settings.stop_seconds) + _LATER,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    # uvicorn raises the signal again when it has stopped; for a service that was asked to stop, that is a success
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    Server(config, app, settings).run([listener])
    tell("stopped")
    if app.state.engine.at_work:
        # the interpreter would wait for runs that nobody waits for any more
        logging.shutdown()
        os._exit(1)


def bind(host: str, port: int) -> socket.socket:
    """Take a port; connections are refused until the service is ready.

    Parameters
    ----------
    host
        Name or address of this machine.
    port
        0 for any free one.

    Raises
    ------
    InputError
        If it cannot be had.
    """
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
    """Tells balancers before it stops, and finishes what it took.

    Parameters
    ----------
    config
        Of uvicorn.
    app
        Whose ``state.draining`` is set at the first signal.
    settings
        Times.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: Settings) -> None:
        super().__init__(config)
        self._app = app
        self._drain = settings.drain_seconds
        self._stop = settings.stop_seconds
        self._stop_at = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Make ready and listen."""
        await super().startup(sockets)
        settle()
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            tell("serving", host=host, port=port, url=f"http://{name}:{port}/")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: the first one begins to stop, a second one does not wait for balancers."""
        if self._drain and not self._app.state.draining:
            self._stop_at = time.monotonic() + self._drain
        else:
            super().handle_exit(sig, frame)
        self._app.state.draining = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was taken; what is not done in time is told so."""
        timer = asyncio.get_running_loop().call_later(self._stop, self._give_up)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        if parts := self._app.state.engine.give_up():
            tell("cut off what was not done in the time of a stop", logging.WARNING, parts=parts)

    async def on_tick(self, counter: int) -> bool:
        """Look ten times a second whether to stop."""
        if time.monotonic() >= self._stop_at:
            self.should_exit = True
        return await super().on_tick(counter)


class OneBody(H11Protocol):
    """A protocol that answers what is no HTTP request, before the service sees it, with the body that all errors have."""

    def send_400_response(self, msg: str) -> None:
        """Answer, and close."""
        request_id = uuid.uuid4().hex
        answer = refusal({"semclass.id": request_id}, 400, "malformed", msg, CLOSE)
        headers = [*answer.raw_headers, *HEADERS, (b"x-request-id", request_id.encode())]
        self.transport.write(self.conn.send(h11.Response(status_code=400, headers=headers, reason=b"Bad Request")))
        self.transport.write(self.conn.send(h11.Data(data=bytes(answer.body))))
        self.transport.write(self.conn.send(h11.EndOfMessage()))
        self.transport.close()


def limited_protocol(settings: Settings) -> type[H11Protocol]:
    """Make a protocol that closes connections whose request line and headers do not arrive in time.

    uvicorn waits for them without an end, so that a client could hold a connection with a byte now and then. The time runs
    from the first byte, or for a new connection from its beginning.

    Requests on connections beyond those that may be open are marked, for :class:`semclass.service.limits.Bounded` to refuse
    them. uvicorn would refuse all requests, probes as well, with a text of its own and without a word in the log.

    Parameters
    ----------
    settings
        With `head_seconds` and `max_connections`.

    Returns
    -------
    type
        For ``uvicorn.Config(http=...)``.
    """
    seconds = settings.head_seconds

    class LimitedProtocol(OneBody):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.max_connections:
                self.app = partial(_crowded, self.app)
            self._timer = self.loop.call_later(seconds, transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._timer is None and not self._is_busy():
                self._timer = self.loop.call_later(seconds, self.transport.close)
            super().data_received(data)
            if self._is_busy():
                self._disarm()

        def _is_busy(self) -> bool:
            """Whether a request is being answered."""
            return self.cycle is not None and not self.cycle.response_complete

        def _disarm(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return LimitedProtocol


async def _crowded(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Have a request answered as one on a connection too many."""
    scope["semclass.crowded"] = True
    await app(scope, receive, send)


def _allow_connections(number: int) -> None:
    """Raise the limit of open files, which is often 1,024, to what the connections need, if the system allows it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
