"""The web application of the service."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

import semclass
from semclass import ArtifactError
from semclass_serve import compat, native, page, schemas
from semclass_serve.door import Door
from semclass_serve.engine import Engine
from semclass_serve.errors import ErrorBody, Json, ServiceError, service_error, stopping
from semclass_serve.observe import Metrics, fault_fields, log

_ERRORS = {
    400: "The body is not JSON, or the host name is not allowed.",
    401: "The key is missing or unknown.",
    404: "The service has no such index, head, passage or file.",
    413: "The body or a text is too long, or there are too many texts.",
    415: "The body is compressed.",
    422: "A value is not allowed.",
    424: "The served models lack the heads for this request.",
    429: "The service is busy. `Retry-After` says when to try again.",
    500: "The service failed.",
    503: "The service is not ready or is stopping, or the index cannot be read.",
    504: "The answer took too long.",
}

OF_BODIES, OF_DESCRIPTIONS, OF_PROBES = (*_ERRORS,), (400, 401, 404, 429, 500, 503, 504), (400, 401, 500, 503)
"""Errors of routes with a body, of other routes, and of routes for operators."""


def create_app(engine: Engine) -> FastAPI:
    """Make the web application of an engine, with the limits of the engine."""
    settings = engine.settings

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        try:
            await engine.warm_up()
        except Exception as error:
            log("the service cannot start", logging.ERROR, message=str(error), **fault_fields(error))
            raise
        # models and an index live as long as the service: leave them out of the collection of cycles
        gc.collect()
        gc.freeze()
        follower = asyncio.create_task(engine.follow_index(log))
        yield
        follower.cancel()
        await engine.stop()

    app = FastAPI(
        title="semclass",
        version=semclass.__version__,
        summary="Which type of answer does a question ask for, and which passage gives it?",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(HTTPException, _unknown_route)
    app.add_exception_handler(RequestValidationError, _refused_body)
    metrics = Metrics(engine)
    keyed: Any = {"dependencies": [Security(HTTPBearer(auto_error=False))]} if settings.keys else {}  # for OpenAPI
    for router in (native.router(engine), compat.router(engine)):
        app.include_router(router, responses=_responses(OF_BODIES), **keyed)
    app.include_router(native.descriptions(engine), responses=_responses(OF_DESCRIPTIONS), **keyed)
    app.include_router(page.document_router(engine))
    app.include_router(page.page_router(), responses=_responses(OF_DESCRIPTIONS))
    app.include_router(_operations(engine, metrics), responses=_responses(OF_PROBES))
    routes = {*app.openapi()["paths"], *page.PATHS, "/openapi.json"}
    app.add_middleware(Door, settings=settings, metrics=metrics, routes=routes, open_paths=page.PATHS)
    return app


def _responses(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorBody, "description": _ERRORS[status]} for status in statuses}


def _operations(engine: Engine, metrics: Metrics) -> APIRouter:
    """Make the routes for operators."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/health", response_model=schemas.Status)
    async def health() -> Json:
        """Report that the process is alive."""
        return Json({"status": "ok"})

    @routes.get("/ready", response_model=schemas.Status)
    async def ready() -> Json:
        """Report whether the service accepts requests."""
        if not engine.running:
            raise stopping()
        try:
            engine.check_index()
        except ArtifactError:
            message = (
                "a file of the index was overwritten or truncated, so searches fail; restore the file, or build the index "
                "again. The service then opens the index by itself"
            )
            raise ServiceError(503, "unavailable", message) from None
        return Json({"status": "ready"})

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}})
    async def numbers() -> Response:
        """Return counters in the text format of Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes


async def _refused_body(request: Request, error: Exception) -> Json:
    return service_error(error).answer(request.scope)


async def _unknown_route(request: Request, error: Exception) -> Json:
    """Answer a request without a matching route."""
    if not isinstance(error, HTTPException):
        raise error
    status, path, headers = error.status_code, request.scope["path"], dict(error.headers or {})
    methods = request.app.openapi()["paths"].get(path)
    if status == 405 and methods:  # of several routes with the same path, Starlette names only the methods of one
        headers["Allow"] = ", ".join(sorted(map(str.upper, methods)))
    phrase = HTTPStatus(status).phrase
    messages = {
        400: "the body is not valid JSON",
        404: "there is no such path; GET /openapi.json lists all paths",
        405: f"this path allows only {headers.get('Allow')}; see GET /openapi.json",
    }
    kind = "malformed" if status == 400 else phrase.lower().replace(" ", "_")
    return ServiceError(status, kind, messages.get(status, phrase), headers).answer(request.scope)
