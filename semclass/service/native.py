"""The native API: what the library can do, with everything that it tells."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request

from semclass.errors import SemclassError
from semclass.service import schemas
from semclass.service.bodies import Json, json_body, read, take_texts
from semclass.service.engine import Engine
from semclass.types import Passage, QuestionLabel


class NoIndexError(SemclassError):
    """The service was started without an index."""


def router(engine: Engine) -> APIRouter:
    """Routes below ``/api``."""
    routes = APIRouter()
    settings = engine.settings

    @routes.post(
        "/api/classify/questions",
        response_model=schemas.QuestionsAnswer,
        openapi_extra=json_body(schemas.QuestionsRequest),
    )
    async def classify_questions(request: Request) -> Json:
        """Tell which type of answer each question asks for."""
        body, began = await read(request, schemas.QuestionsRequest), time.perf_counter()
        take_texts(request, body.texts, settings)
        found = await engine.classify_questions(body.texts, min_probability=body.min_probability)
        return Json({"results": found, "milliseconds": _since(began)})

    @routes.post(
        "/api/classify/passages",
        response_model=schemas.PassagesAnswer,
        openapi_extra=json_body(schemas.PassagesRequest),
    )
    async def classify_passages(request: Request) -> Json:
        """Tell which types of answer each passage provides."""
        body, began = await read(request, schemas.PassagesRequest), time.perf_counter()
        take_texts(request, body.texts, settings)
        found = await engine.classify_passages(body.texts)
        return Json({"results": found, "milliseconds": _since(began)})

    @routes.post("/api/search", response_model=schemas.RankingAnswer, openapi_extra=json_body(schemas.SearchRequest))
    async def search(request: Request) -> Json:
        """Find the passages of the index that answer a question."""
        body, began = await read(request, schemas.SearchRequest), time.perf_counter()
        take_texts(request, [body.question], settings)
        if engine.retriever is None:
            raise NoIndexError(
                "this service has no index, so there is nothing to search; start it with semclass serve INDEX"
            )
        options = body.model_dump(exclude_none=False)
        hits = await engine.search(options.pop("question"), **options)
        asked = await _asked(engine, body.question)
        return Json({"question": asked, "hits": hits, "weights": {}, "milliseconds": _since(began)})

    @routes.post("/api/rerank", response_model=schemas.RankingAnswer, openapi_extra=json_body(schemas.RerankRequest))
    async def rerank(request: Request) -> Json:
        """Re-rank passages for a question."""
        body, began = await read(request, schemas.RerankRequest), time.perf_counter()
        given = [
            item if isinstance(item, schemas.PassageIn) else schemas.PassageIn(text=item) for item in body.passages
        ]
        take_texts(request, [body.question, *(item.text for item in given)], settings)
        passages = [Passage(str(place), item.text, item.metadata) for place, item in enumerate(given)]
        options = body.model_dump(exclude={"question", "passages"}, exclude_none=True)
        hits = await engine.rerank(body.question, passages, **options)
        asked = await _asked(engine, body.question)
        return Json({"question": asked, "hits": hits, "weights": {}, "milliseconds": _since(began)})

    @routes.get("/api/info")
    async def info() -> Json:
        """Tell what is served."""
        return Json(await _info(engine))

    return routes


async def _asked(engine: Engine, question: str) -> QuestionLabel | None:
    """What a question asks for; None without class heads."""
    if not engine.ranker.has_classes:
        return None
    return (await engine.classify_questions([question]))[0]


async def _info(engine: Engine) -> dict[str, Any]:
    return {}


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
