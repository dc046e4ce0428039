"""The application of the service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import islice

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.routing import Route

import semclass
from semclass.core.types import Passage
from semclass.demo import CORPUS
from semclass.documents.readers import read_passages
from semclass_serve import compat, documents, feedback, native, schemas, static
from semclass_serve.access import Gate
from semclass_serve.answers import Json, ServiceError, stopping
from semclass_serve.engine import Engine
from semclass_serve.limits import Bounded
from semclass_serve.logs import Watched, fault_of, log
from semclass_serve.metrics import Metrics
from semclass_serve.openapi import describe
from semclass_serve.reload import QUESTION, follow, is_damaged
from semclass_serve.settings import Settings

MEASURED = 6
"""Number of texts of two passages each that are processed before the start, to measure the time of a text."""


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """Make the application of the service.

    Set ``app.state.draining`` to make ``/ready`` answer no before the service stops.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        try:
            await _warm_up(engine)
        except Exception as error:
            # no client has sent anything yet, so the message quotes no user
            log("the service cannot start", logging.ERROR, message=str(error), **fault_of(error))
            raise
        follower = asyncio.create_task(follow(engine, settings.refresh_seconds))
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
    app.state.draining = False
    app.state.engine = engine
    app.add_exception_handler(HTTPException, _unknown)
    metrics = Metrics(engine)
    routers = (native, feedback, compat, documents)
    for router in (*(one.router(engine) for one in routers), static.router(), _operations(app, engine, metrics)):
        app.router.routes += router.routes
    document = describe(app, settings)
    app.openapi = lambda: document  # type: ignore[method-assign] # as FastAPI's documentation has it
    # the last that is added is the outermost
    app.add_middleware(Bounded, settings=settings)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(
        Watched, metrics=metrics, routes={route.path for route in app.routes if isinstance(route, Route)}
    )
    return app


def _operations(app: FastAPI, engine: Engine, metrics: Metrics) -> APIRouter:
    """Routes for those who run the service."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/health", response_model=schemas.Status)
    async def health() -> Json:
        """Say that the process is alive."""
        return Json({"status": "ok"})

    @routes.get("/ready", response_model=schemas.Status)
    async def ready() -> Json:
        """Say whether requests are taken."""
        if app.state.draining or not engine.running:
            raise stopping("the service is not ready, or is stopping")
        if is_damaged(engine):
            message = (
                "a file of the index was overwritten or truncated, so searches fail; restore the file, or build the index "
                "again. The service then opens the index by itself"
            )
            raise ServiceError(503, "unavailable", message)
        return Json({"status": "ready"})

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}})
    async def numbers() -> Response:
        """Give counters in the text format of Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes


async def _warm_up(engine: Engine) -> None:
    """Do each kind of work that there are models for twice: to load what it needs, and to learn how long it takes."""
    models = engine.models
    passages = [passage.text for passage in islice(read_passages(CORPUS), 2 * MEASURED)]
    texts = [" ".join(pair) for pair in zip(passages[::2], passages[1::2], strict=True)]
    for some in ([QUESTION], texts):
        if models.has_classes:
            await engine.classify_questions(some)
            await engine.classify_passages(some)
        if models.heads:
            await engine.classify_texts(some, list(models.heads))
        if engine.entailment is not None:
            await engine.entails([(QUESTION, text) for text in some])
        if models.pair_heads is not None:
            await engine.rerank(QUESTION, [Passage(str(place), text) for place, text in enumerate(some)])
        if engine.retriever is not None:
            await engine.answer(QUESTION, await engine.search(QUESTION), 1)


async def _unknown(request: Request, error: Exception) -> Json:
    """Answer a request that no route takes."""
    if not isinstance(error, HTTPException):
        raise error
    status, path, headers = error.status_code, request.scope["path"], dict(error.headers or {})
    if status == 405:
        # of several routes with the same path Starlette names only the first one's methods
        routes = [route for route in request.app.routes if isinstance(route, Route) and route.path == path]
        headers["Allow"] = ", ".join(sorted({method for route in routes for method in route.methods or ()}))
    phrase = HTTPStatus(status).phrase
    messages = {
        404: "there is no such path; GET /openapi.json lists all paths",
        405: f"this path allows only {headers.get('Allow')}; see GET /openapi.json",
    }
    return ServiceError(status, phrase.lower().replace(" ", "_"), messages.get(status, phrase), headers).answer(
        request.scope
    )
