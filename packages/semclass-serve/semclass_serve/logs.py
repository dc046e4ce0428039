"""The log: one JSON line a request, without a user's text and without keys."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
import traceback
import uuid
from collections.abc import Collection
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semclass.core.errors import ChangedFileError, TruncationWarning
from semclass.encoders.batching import is_watched
from semclass_serve.answers import CLOSE, ServiceError, service_error, stopping
from semclass_serve.limits import ClientGoneError
from semclass_serve.metrics import Metrics

LOGGER = logging.getLogger("semclass_serve")

UNKNOWN = "-"
"""Logged for unknown paths and methods."""

CLIENT_GONE = 499
"""Logged as status where the client did not wait for the answer."""

HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
"""Headers of all answers, except those that a route sets itself."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""Request ids that are accepted from clients."""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON; of an exception without its message, which may quote a user's text."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        when = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        # asyncio shows whole exceptions, with what they quote, below its first line
        event = record.getMessage().partition("\n")[0]
        line = {"time": when, "level": record.levelname.lower(), "event": event}
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line |= fault_of(record.exc_info[1])
        return json.dumps(line)


def fault_of(error: BaseException) -> dict[str, Any]:
    """Kind of an exception, the places that it passed, innermost last, and the file that was changed, if it was that."""
    frames = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    fault: dict[str, Any] = {"exception": type(error).__name__, "trace": frames}
    if cause := error.__cause__ or error.__context__:
        fault["cause"] = type(cause).__name__
    if isinstance(error, ChangedFileError):
        fault["file"] = str(error.path)
    return fault


def configure() -> None:
    """Write all logs to standard error, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)
    # it warns of each malformed request: clients could fill the log
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Log a warning; those about texts of requests may quote them, and are left out."""
    if not issubclass(category, TruncationWarning):
        # a worker's warning is about a request, such as a field of its filter that no passage has
        event = "a request caused a warning" if is_watched() else str(message)
        log(event, logging.WARNING, kind=category.__name__)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with fields."""
    LOGGER.log(level, event, extra={"fields": fields})


class Watched:
    """The outermost middleware: it gives each request an id, answers every error, logs and counts.

    `routes` are the paths that the service has; others are logged and counted as one.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Collection[str]) -> None:
        self.app = app
        self.metrics = metrics
        self.routes = frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and log it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began = time.perf_counter()
        scope["semclass.id"] = request_id = _request_id(scope)
        status, fault = 0, {}

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = list(message.get("headers", []))
                usual = [header for header in HEADERS if header[0] not in dict(given)]
                headers = [*given, *usual, (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        async def refuse(refusal: ServiceError) -> None:
            if not status:
                await refusal.answer(scope)(scope, receive, named)

        self.metrics.open.inc()
        try:
            await self.app(scope, receive, named)
        except ClientGoneError:
            status = CLIENT_GONE
        except asyncio.CancelledError:  # the server cuts off what is not done in the time of a stop
            await refuse(stopping("the service stopped before this was done; ask again", CLOSE))
        except Exception as error:  # noqa: BLE001 - nothing that goes wrong in one request may end the service
            refusal = service_error(error)
            if refusal is not error and refusal.status >= 500:
                fault = fault_of(error)
            await refuse(refusal)
        finally:
            self.metrics.open.dec()
            self._log(scope, status, time.perf_counter() - began, fault)

    def _log(self, scope: Scope, status: int, seconds: float, fault: dict[str, Any]) -> None:
        texts = scope.get("semclass.texts", 0)
        route = scope["path"] if scope["path"] in self.routes else UNKNOWN
        self.metrics.request(route, status, seconds, texts)
        log(
            "request",
            logging.ERROR if fault else logging.INFO,
            request_id=scope["semclass.id"],
            method=scope["method"] if scope["method"] in _METHODS else UNKNOWN,
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 2),
            texts=texts,
            **fault,
        )


def _request_id(scope: Scope) -> str:
    """The id that a client gives, if it is short and plain; else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _ID.fullmatch(given) else uuid.uuid4().hex
