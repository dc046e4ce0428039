"""The native API: what the library can do, with everything that it tells."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request

import semclass
from semclass.core.errors import InputError
from semclass.core.taxonomy import COARSE_NAMES
from semclass.core.types import Hit, Passage, QuestionLabel
from semclass.index.passage_index import PassageIndex
from semclass.ranking.methods import METHODS, Method, find_method
from semclass.service import schemas
from semclass.service.bodies import InvalidError, Json, json_body, read, take_count, take_texts
from semclass.service.compat import WITHOUT_HEADS, NoHeadsError, check_pairs
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
        body, began = await read(request, schemas.QuestionsRequest, settings), time.perf_counter()
        take_texts(request, body.texts, settings)
        _check_classes(engine)
        found = await engine.classify_questions(body.texts, min_probability=body.min_probability)
        return Json({"results": found, "milliseconds": _since(began)})

    @routes.post(
        "/api/classify/passages",
        response_model=schemas.PassagesAnswer,
        responses=WITHOUT_HEADS,
        openapi_extra=json_body(schemas.PassagesRequest),
    )
    async def classify_passages(request: Request) -> Json:
        """Tell which types of answer each passage provides."""
        body, began = await read(request, schemas.PassagesRequest, settings), time.perf_counter()
        take_texts(request, body.texts, settings)
        _check_classes(engine)
        found = await engine.classify_passages(body.texts)
        return Json({"results": found, "milliseconds": _since(began)})

    @routes.post("/api/search", response_model=schemas.SearchAnswer, openapi_extra=json_body(schemas.SearchRequest))
    async def search(request: Request) -> Json:
        """Find the passages of the index that answer a question."""
        body, began = await read(request, schemas.SearchRequest, settings), time.perf_counter()
        take_texts(request, [body.question], settings)
        take_count(body.k, settings, "k")
        take_count(body.candidates, settings, "candidates")
        check_filter(body.where or {})
        usual, method = engine.searched.weights, _check_method(engine, body)
        options = body.model_dump(exclude={"question", "classify", "weights"})
        options["weights"] = given = _given(body)
        # a method's own number may be above the limit
        options["candidates"] = min(body.candidates or method.candidates, settings.max_hits)
        hits, asked = await _with_classes(
            engine, body.question, engine.search(body.question, **options), wanted=body.classify
        )
        return Json(
            {
                "question": asked,
                "hits": hits,
                "weights": _used(method, {**usual, **given}),
                "milliseconds": _since(began),
            }
        )

    @routes.post(
        "/api/rerank",
        response_model=schemas.RerankAnswer,
        responses=WITHOUT_HEADS,
        openapi_extra=json_body(schemas.RerankRequest),
    )
    async def rerank(request: Request) -> Json:
        """Re-rank passages for a question."""
        body, began = await read(request, schemas.RerankRequest, settings), time.perf_counter()
        given = [
            item if isinstance(item, schemas.PassageIn) else schemas.PassageIn(text=item) for item in body.passages
        ]
        take_texts(request, [body.question], settings)
        take_texts(request, [item.text for item in given], settings)
        take_count(body.k, settings, "k")
        check_pairs(engine)
        method = _check_method(engine, body)
        # places are ids here: those that clients give need not be unique
        passages = [Passage(str(place), item.text, item.metadata) for place, item in enumerate(given)]
        options = {
            "k": body.k,
            "method": body.method,
            "fusion": body.fusion,
            "weights": _given(body),
            "explain": body.explain,
        }
        hits, asked = await _with_classes(
            engine, body.question, engine.rerank(body.question, passages, **options), wanted=body.classify
        )
        used = _used(method, {**engine.models.weights, **_given(body)})
        return Json({"question": asked, "hits": _placed(hits, given), "weights": used, "milliseconds": _since(began)})

    @routes.get("/api/info", response_model=schemas.Info)
    async def info() -> Json:
        """Tell what is served: models, classes, index, methods, weights and limits."""
        return Json(_info(engine))

    return routes


def _check_classes(engine: Engine) -> None:
    if not engine.models.has_classes:
        raise NoHeadsError(
            "the served models have no class heads, so nothing can be classified; serve models with them"
        )


def _check_method(engine: Engine, body: schemas.SearchRequest | schemas.RerankRequest) -> Method:
    """Refuse a method whose heads are not served; what the library says of that is for those who load the models."""
    method = find_method(body.method, body.fusion)
    try:
        engine.models.require(method)
    except InputError:
        raise InvalidError(
            f"method {json.dumps(body.method)}: the models that this service was started with have no heads for it; ask by "
            "one of the methods that GET /api/info lists, or start the service with models that have them: semclass serve "
            "--models MODELS"
        ) from None
    return method


async def _with_classes(
    engine: Engine, question: str, ranking: Awaitable[list[Hit]], *, wanted: bool
) -> tuple[list[Hit], QuestionLabel | None]:
    """Hits, and beside them what the question asks for; None without class heads, or where it is not wanted."""
    if not (wanted and engine.models.has_classes):
        return await ranking, None
    hits, asked = await asyncio.gather(ranking, engine.classify_questions([question]))
    return hits, asked[0]


def _placed(hits: Sequence[Hit], given: Sequence[schemas.PassageIn]) -> list[dict[str, Any]]:
    """Hits with the ids that were given, and their places in the request."""
    found = []
    for hit in hits:
        place = int(hit.id)
        name = given[place].id
        found.append({**vars(hit), "id": hit.id if name is None else name, "index": place})
    return found


def _given(body: schemas.SearchRequest | schemas.RerankRequest) -> dict[str, float]:
    """Weights of a request by name."""
    return {} if body.weights is None else body.weights.model_dump(by_alias=True, exclude_none=True)


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


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
