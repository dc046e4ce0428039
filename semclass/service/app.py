"""The service, put together."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from itertools import islice
from math import ceil

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

import semclass
from semclass.core.errors import ArtifactError, ChangedFileError, InputError, InputTypeError, SemclassError
from semclass.core.types import Passage
from semclass.demo import CORPUS
from semclass.documents.readers import read_corpus
from semclass.ranking.methods import DEFAULT
from semclass.service import bodies, compat, native, schemas, static
from semclass.service.access import Gate
from semclass.service.bodies import Json, refusal
from semclass.service.engine import Engine, NoIndexError
from semclass.service.limits import Bounded, Entrance
from semclass.service.living import QUESTION, follow, may_change
from semclass.service.logs import Watched, fault_of, tell
from semclass.service.metrics import Metrics
from semclass.service.openapi import describe
from semclass.service.queue import Overloaded, Stopping, TooMuch
from semclass.service.settings import Settings

MEASURED = 6
"""Texts of two passages each that are read before clients are answered, to learn how long that takes."""

_STATUS: dict[type[SemclassError], tuple[int, str]] = {
    bodies.MalformedError: (400, "malformed"),
    compat.EmptyError: (400, "empty"),
    NoIndexError: (404, "no_index"),
    bodies.TooLargeError: (413, "too_large"),
    TooMuch: (413, "too_large"),
    bodies.MediaTypeError: (415, "media_type"),
    bodies.InvalidError: (422, "validation"),
    InputError: (422, "validation"),
    InputTypeError: (422, "validation"),
    compat.NoHeadsError: (424, "backend"),
    Overloaded: (429, "overloaded"),
    Stopping: (503, "stopping"),
}
"""Status and kind of each error that is told to clients."""


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """Make the service.

    ``app.state.draining`` may be set to make ``/ready`` say no before the service stops; ``app.state.engine`` works.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        try:
            await _warm_up(engine)
        except Exception as error:
            # nobody has asked yet: the message quotes no user
            tell("the service cannot start", logging.ERROR, message=str(error), **fault_of(error))
            raise
        follower = None
        if settings.refresh_seconds and may_change(engine.retriever):
            follower = asyncio.create_task(follow(engine, partial(asyncio.sleep, settings.refresh_seconds)))
        yield
        if follower is not None:
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
    app.add_exception_handler(SemclassError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_request)
    metrics = Metrics(engine)
    routers = (native.router(engine), compat.router(engine), static.router(), _operations(app, engine, metrics))
    for routes in routers:
        app.include_router(routes)
    app.state.methods = methods = defaultdict[str, set[str]](set)
    for routes in routers:
        for route in routes.routes:
            methods[getattr(route, "path", "")].update(getattr(route, "methods", None) or ())
    paths = {str(app.openapi_url), *methods}
    document = describe(app, settings, native.SEARCHES)
    app.openapi = lambda: document  # type: ignore[method-assign] # as FastAPI's documentation has it
    # the last that is added is the first that is asked
    app.add_middleware(Bounded, settings=settings)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(Entrance)
    app.add_middleware(Watched, metrics=metrics, routes=paths)
    return app


def _operations(app: FastAPI, engine: Engine, metrics: Metrics) -> APIRouter:
    """Routes for those who run the service."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/health", response_model=schemas.Status)
    async def health() -> Json:
        """Tell that the process lives."""
        return Json({"status": "ok"})

    @routes.get("/ready", response_model=schemas.Status)
    async def ready() -> Json:
        """Tell whether requests are welcome."""
        if app.state.draining or not engine.running:
            raise Stopping("the service is not ready, or stops")
        return Json({"status": "ready"})

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}})
    async def numbers() -> Response:
        """Give counters in the text format of Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes


async def _warm_up(engine: Engine) -> None:
    """Do each kind of work twice, as far as there are models for it: at first, and to learn how long it takes."""
    models = engine.models
    passages = [passage.text for passage in islice(read_corpus(CORPUS), 2 * MEASURED)]
    texts = [" ".join(pair) for pair in zip(passages[::2], passages[1::2], strict=True)]
    for some in ([QUESTION], texts):
        if models.has_classes:
            await engine.classify_questions(some)
            await engine.classify_passages(some)
        if engine.entailment is not None:
            await engine.entails([(QUESTION, text) for text in some])
        if models.pair_heads is not None:
            await engine.rerank(QUESTION, [Passage(str(place), text) for place, text in enumerate(some)])
        if engine.retriever is not None:
            await engine.search(QUESTION, method="convex" if models.pair_heads is None else DEFAULT)


async def _refuse(request: Request, error: Exception) -> Json:
    """Answer an error that semclass raises on purpose; its message is for the client, and not for the log."""
    for kind in type(error).__mro__:
        if kind in _STATUS:
            status, name = _STATUS[kind]
            headers = {"Retry-After": str(max(1, ceil(error.retry_after)))} if isinstance(error, Overloaded) else None
            return refusal(request.scope, status, name, str(error), headers)
    if isinstance(error, ArtifactError):
        # an index of which a file was overwritten, or that a server keeps and that does not answer; the message may name
        # addresses and files
        changed = {"file": str(error.path)} if isinstance(error, ChangedFileError) else {}
        tell(
            "unavailable", logging.ERROR, request_id=request.scope.get("semclass.id", ""), **changed, **fault_of(error)
        )
        return refusal(request.scope, 503, "unavailable", "the index cannot be read now; try again later")
    raise error


async def _refuse_request(request: Request, error: Exception) -> Json:
    """Answer what no route takes."""
    if not isinstance(error, HTTPException):
        raise error
    phrase, headers = HTTPStatus(error.status_code).phrase, dict(error.headers or {})
    if error.status_code == 405:
        # of several routes with the same path the framework tells only the first one's
        known = request.app.state.methods.get(request.scope["path"])
        headers |= {"Allow": ", ".join(sorted(known))} if known else {}
    kind = phrase.lower().replace(" ", "_")
    messages = {
        404: "there is no such path; GET /openapi.json lists those that there are",
        405: f"this path is asked by {headers.get('Allow', 'another method')}; see GET /openapi.json",
    }
    return refusal(request.scope, error.status_code, kind, messages.get(error.status_code, phrase), headers)
