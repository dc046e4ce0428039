"""A service in this process, started once, and asked without a network."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from semclass_serve.logs import LOGGER, JsonLines


class Asked:
    """Asks an application on an event loop of its own."""

    def __init__(self, app: FastAPI, loop: asyncio.AbstractEventLoop):
        self.app = app
        self.loop = loop

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.all([(method, path, options)])[0]

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.request("POST", path, **({} if body is None else {"json": body}), **options)

    def all(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """Send requests at the same time."""

        async def send() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await asyncio.gather(*(client.request(m, path, **options) for m, path, options in requests))

        return self.run(send())

    def run(self, job: Any) -> Any:
        return self.loop.run_until_complete(job)


@contextmanager
def asked(app: FastAPI) -> Iterator[Asked]:
    """Start an application, and stop it."""
    loop = asyncio.new_event_loop()
    try:
        context = app.router.lifespan_context(app)
        loop.run_until_complete(context.__aenter__())
        yield Asked(app, loop)
        loop.run_until_complete(context.__aexit__(None, None, None))
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


class Lines(logging.Handler):
    """Keeps what is logged, as it would be written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self.format(record))

    @property
    def last(self) -> dict[str, Any]:
        return json.loads(self.written[-1])


def logged() -> Iterator[Lines]:
    """What the service logs, for a fixture."""
    lines, level = Lines(), LOGGER.level
    lines.setFormatter(JsonLines())
    LOGGER.addHandler(lines)
    LOGGER.setLevel(logging.INFO)
    yield lines
    LOGGER.removeHandler(lines)
    LOGGER.setLevel(level)
