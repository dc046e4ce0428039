"""One JSON line a request, without anything that users wrote, and without keys."""

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

from semclass.core.errors import TruncationWarning
from semclass.service.bodies import CLOSE, refusal
from semclass.service.metrics import Metrics

LOGGER = logging.getLogger("semclass.service")

UNKNOWN = "-"
"""Stands for a path that the service does not have, and for a method that is none."""

CLIENT_GONE = 499
"""Stands in the log for the status of an answer that nobody waited for."""

HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
"""Headers of all answers."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""Request ids that are taken from clients."""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON: time, level, logger, what happened and its fields.

    Of an exception there are its kind and where it was raised, but not its message, which may quote what a user wrote.
    """

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
    """Kind of an exception, and the places that it went through, innermost last."""
    frames = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    cause = error.__cause__ or error.__context__
    return {
        "exception": type(error).__name__,
        "trace": frames,
        **({} if cause is None else {"cause": type(cause).__name__}),
    }


def configure() -> None:
    """Write what the service, its server and anything else tell to standard error, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)
    # it warns of each request that is none: who sends such would fill the log
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Log the kind of a warning; those about texts, which come by the request, may quote them and are left out."""
    if issubclass(category, TruncationWarning):
        return
    tell(str(message), logging.WARNING, kind=category.__name__)


def tell(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with fields."""
    LOGGER.log(level, event, extra={"fields": fields})


class Watched:
    """The outermost middleware: names each request, answers what failed unexpectedly, and tells log and metrics.

    Parameters
    ----------
    app
        What is watched.
    metrics
        Where requests are counted.
    routes
        Paths that the service has; others are not told apart.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Collection[str]) -> None:
        self.app = app
        self.metrics = metrics
        self.routes = frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and tell of it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began = time.perf_counter()
        scope["semclass.id"] = request_id = _request_id(scope)
        status = 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = message.get("headers", [])
                names = {name for name, _ in own}
                added = [item for item in HEADERS if item[0] not in names]
                headers = [*own, *added, (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        fault: dict[str, Any] = {}
        self.metrics.open.inc()
        try:
            await self.app(scope, receive, named)
        except asyncio.CancelledError:
            # the server cuts off what is not done when the time of a stop is over
            if not status:
                await refusal(scope, 503, "stopping", "the service stopped before this was done; ask again", CLOSE)(
                    scope, receive, named
                )
        except Exception as error:  # noqa: BLE001 - nothing that goes wrong in one request may end the service
            fault = fault_of(error)
            if not status:
                message = "something went wrong in the service; its log has more under the id of the request"
                await refusal(scope, 500, "internal", message)(scope, receive, named)
        finally:
            self.metrics.open.dec()
            self._tell(scope, CLIENT_GONE if scope.get("semclass.gone") else status, began, fault)
        return None

    def _tell(self, scope: Scope, status: int, began: float, fault: dict[str, Any]) -> None:
        seconds = time.perf_counter() - began
        texts = scope.get("semclass.heads.texts", 0)
        route = scope["path"] if scope["path"] in self.routes else UNKNOWN
        self.metrics.request(route, status, seconds, texts)
        tell(
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
