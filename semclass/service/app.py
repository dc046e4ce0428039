"""The service, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from math import ceil

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

import semclass
from semclass.errors import InputError, InputTypeError, SemclassError
from semclass.service import bodies, compat, native, static
from semclass.service.bodies import Json
from semclass.service.engine import Engine, Overloaded, Stopping, TimedOut
from semclass.service.settings import Settings

_STATUS: dict[type[SemclassError], tuple[int, str]] = {
    bodies.MalformedError: (400, "malformed"),
    compat.EmptyError: (400, "empty"),
    native.NoIndexError: (404, "no_index"),
    bodies.TooLargeError: (413, "too_large"),
    bodies.MediaTypeError: (415, "media_type"),
    bodies.InvalidError: (422, "validation"),
    InputError: (422, "validation"),
    InputTypeError: (422, "validation"),
    compat.NoHeadsError: (424, "backend"),
    Overloaded: (429, "overloaded"),
    Stopping: (503, "stopping"),
    TimedOut: (504, "timeout"),
}
"""Status and kind of each error that is told to clients."""


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """Make the service.

    Parameters
    ----------
    engine
        Does the work; it is started and stopped with the service.
    settings
        Limits and keys.

    Returns
    -------
    FastAPI
        An ASGI application.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        yield
        await engine.stop()

    app = FastAPI(
        title="semclass",
        version=semclass.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(SemclassError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_request)
    for routes in (native.router(engine), compat.router(engine), static.router()):
        app.include_router(routes)

    @app.get("/health")
    async def health() -> Json:
        """Tell that the process lives."""
        return Json({"status": "ok"})

    return app


def answer_error(status: int, kind: str, message: str, request_id: str, headers: dict[str, str] | None = None) -> Json:
    """The one body of all errors."""
    body = {"error": message, "error_type": kind, "message": message, "request_id": request_id}
    return Json(body, status, headers)


async def _refuse(request: Request, error: Exception) -> Json:
    """Answer an error that semclass raises on purpose."""
    for kind in type(error).__mro__:
        if kind in _STATUS:
            status, name = _STATUS[kind]
            headers = {"Retry-After": str(ceil(error.retry_after))} if isinstance(error, Overloaded) else None
            return answer_error(status, name, str(error), request.scope.get("semclass.id", ""), headers)
    raise error


async def _refuse_request(request: Request, error: Exception) -> Json:
    """Answer what no route takes."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    phrase = HTTPStatus(status).phrase
    return answer_error(status, phrase.lower().replace(" ", "_"), phrase, request.scope.get("semclass.id", ""), headers)
