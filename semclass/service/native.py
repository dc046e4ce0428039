"""The native API: what the library can do, with all that it returns."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping
from typing import Any

from fastapi import APIRouter, Request

import semclass
from semclass.core.errors import InputError
from semclass.core.taxonomy import COARSE_NAMES
from semclass.core.types import Hit, Passage, QuestionLabel
from semclass.index.passage_index import PassageIndex
from semclass.ranking.methods import METHODS, Method, find_method
from semclass.service import schemas
from semclass.service.answers import Json, invalid
from semclass.service.bodies import check_count, check_texts, json_body, read
from semclass.service.compat import WITHOUT_HEADS, check_classes, check_pairs
from semclass.service.engine import Engine
from semclass.service.filter_schema import check_filter

SEARCHES = frozenset({"/api/search"})
"""Paths that need an index."""


def router(engine: Engine) -> APIRouter:
    """Make the routes below ``/api``."""
    routes = APIRouter(tags=["semclass"])
    settings = engine.settings

    @routes.post(
        "/api/classify/questions",
        response_model=schemas.QuestionsAnswer,
        responses=WITHOUT_HEADS,
        openapi_extra=json_body(schemas.QuestionsRequest),
    )
    async def classify_questions(request: Request) -> Json:
        """Tell which type of answer each question asks for."""
        body, began = await read(request, schemas.QuestionsRequest), time.perf_counter()
        check_texts(request, body.texts, settings)
        check_classes(engine)
        found = await engine.classify_questions(body.texts, min_probability=body.min_probability)
        return _timed(began, {"results": found})

    @routes.post(
        "/api/classify/passages",
        response_model=schemas.PassagesAnswer,
        responses=WITHOUT_HEADS,
        openapi_extra=json_body(schemas.PassagesRequest),
    )
    async def classify_passages(request: Request) -> Json:
        """Tell which types of answer each passage provides."""
        body, began = await read(request, schemas.PassagesRequest), time.perf_counter()
        check_texts(request, body.texts, settings)
        check_classes(engine)
        return _timed(began, {"results": await engine.classify_passages(body.texts)})

    @routes.post("/api/search", response_model=schemas.SearchAnswer, openapi_extra=json_body(schemas.SearchRequest))
    async def search(request: Request) -> Json:
        """Find the passages of the index that answer a question."""
        body, began = await read(request, schemas.SearchRequest), time.perf_counter()
        check_texts(request, [body.question], settings)
        check_count(body.k, settings, "k")
        check_count(body.candidates, settings, "candidates")
        check_filter(body.where or {})
        usual, method = engine.searched.weights, _check_method(engine, body)
        options = _options(body)
        # a method's own number may be above the limit
        options["candidates"] = min(body.candidates or method.candidates, settings.max_hits)
        hits, question = await _with_classes(engine, body, engine.search(body.question, **options))
        weights = _used(method, {**usual, **options["weights"]})
        return _timed(began, {"question": question, "hits": hits, "weights": weights})

    @routes.post(
        "/api/rerank",
        response_model=schemas.RerankAnswer,
        responses=WITHOUT_HEADS,
        openapi_extra=json_body(schemas.RerankRequest),
    )
    async def rerank(request: Request) -> Json:
        """Re-rank passages for a question."""
        body, began = await read(request, schemas.RerankRequest), time.perf_counter()
        given = [
            item if isinstance(item, schemas.PassageIn) else schemas.PassageIn(text=item) for item in body.passages
        ]
        check_texts(request, [body.question], settings)
        check_texts(request, [item.text for item in given], settings)
        check_count(body.k, settings, "k")
        check_pairs(engine)
        method, options = _check_method(engine, body), _options(body)
        # places serve as ids: those of clients need not be unique
        passages = [Passage(str(place), item.text, item.metadata) for place, item in enumerate(given)]
        hits, question = await _with_classes(engine, body, engine.rerank(body.question, passages, **options))
        placed = [
            {
                **vars(hit),
                "id": given[int(hit.id)].id if given[int(hit.id)].id is not None else hit.id,
                "index": int(hit.id),
            }
            for hit in hits
        ]
        weights = _used(method, {**engine.models.weights, **options["weights"]})
        return _timed(began, {"question": question, "hits": placed, "weights": weights})

    @routes.get("/api/info", response_model=schemas.Info)
    async def info() -> Json:
        """Tell what is served: models, classes, index, methods, weights and limits."""
        return Json(_info(engine))

    return routes


def _check_method(engine: Engine, body: schemas.SearchRequest | schemas.RerankRequest) -> Method:
    """Refuse a method whose heads are not served; the library's message is for those who load the models."""
    method = find_method(body.method, body.fusion)
    try:
        engine.models.require(method)
    except InputError:
        raise invalid(
            f"method {json.dumps(body.method)}: the models that this service was started with have no heads for it; use "
            "one of the methods that GET /api/info lists, or start the service with models that have them: semclass serve "
            "--models MODELS"
        ) from None
    return method


def _options(body: schemas.SearchRequest | schemas.RerankRequest) -> dict[str, Any]:
    """The options of a search or a re-ranking, as the library takes them."""
    options = body.model_dump(exclude={"question", "passages", "classify", "weights"})
    weights = {} if body.weights is None else body.weights.model_dump(by_alias=True, exclude_none=True)
    return {**options, "weights": weights}


async def _with_classes(
    engine: Engine, body: schemas.SearchRequest | schemas.RerankRequest, ranking: Awaitable[list[Hit]]
) -> tuple[list[Hit], QuestionLabel | None]:
    """Hits, and the question's class; None without class heads, or where it is not wanted."""
    if not (body.classify and engine.models.has_classes):
        return await ranking, None
    hits, labels = await asyncio.gather(ranking, engine.classify_questions([body.question]))
    return hits, labels[0]


def _used(method: Method, weights: Mapping[str, float]) -> dict[str, float]:
    """The weights that a method reads."""
    return {name: weights[name] for name in method.weights}


def _info(engine: Engine) -> dict[str, Any]:
    models, retriever = engine.models, engine.retriever
    embedded = retriever is not None and isinstance(retriever.index, PassageIndex)
    index = (
        None if retriever is None else {"passages": len(retriever.index), "kind": "folder" if embedded else "qdrant"}
    )
    return {
        "version": semclass.__version__,
        "encoder": models.encoder.fingerprint,
        "classes": [{"name": name, "description": COARSE_NAMES.get(name)} for name in models.passages.classes],
        "fine_classes": models.questions.fine_classes,
        "index": index,
        "methods": [name for name, method in METHODS.items() if models.has_heads_for(method)],
        "weights": models.weights if retriever is None else retriever.weights,
        "limits": {name: getattr(engine.settings, name) for name in schemas.Limits.model_fields},
    }


def _timed(began: float, answer: dict[str, Any]) -> Json:
    return Json({**answer, "milliseconds": (time.perf_counter() - began) * 1000})
