"""The native API: what the library can do, with everything that it tells."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Sequence
from typing import Any

from fastapi import APIRouter, Request

import semclass
from semclass.core.errors import InputError
from semclass.core.taxonomy import COARSE_NAMES
from semclass.core.types import Hit, Passage, QuestionLabel
from semclass.index.passage_index import PassageIndex
from semclass.ranking.models import BM25_WEIGHT, MATCHES, RERANKERS, SIGNALS, weight_name
from semclass.scoring.fusion import ALPHA
from semclass.scoring.fusion import METHODS as FUSIONS
from semclass.service import schemas
from semclass.service.bodies import InvalidError, Json, json_body, read, take_count, take_texts
from semclass.service.compat import WITHOUT_HEADS, NoHeadsError, check_pairs
from semclass.service.engine import Engine
from semclass.service.filter_schema import check_filter

SEARCHES = frozenset({"/api/search"})
"""Paths that need an index."""


def router(engine: Engine) -> APIRouter:
    """Make the routes below ``/api``.

    Parameters
    ----------
    engine
        Does the work.

    Returns
    -------
    APIRouter
        The routes.
    """
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
        if "candidates" in body.model_fields_set:
            take_count(body.candidates, settings, "candidates")
        check_filter(body.where or {})
        usual = engine.searched.weights
        _check_method(engine, body)
        options = body.model_dump(exclude={"question", "classify"})
        options["candidates"] = min(body.candidates, settings.max_hits)  # the usual number may be above the limit
        hits, asked = await _with_classes(
            engine, body.question, engine.search(body.question, **options), wanted=body.classify
        )
        used = _weights_of_search(body, usual)
        return Json({"question": asked, "hits": hits, "weights": used, "milliseconds": _since(began)})

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
        _check_method(engine, body)
        # places are ids here: those that clients give need not be unique
        passages = [Passage(str(place), item.text, item.metadata) for place, item in enumerate(given)]
        options = body.model_dump(exclude={"question", "passages", "classify"}, exclude_none=True)
        hits, asked = await _with_classes(
            engine, body.question, engine.rerank(body.question, passages, **options), wanted=body.classify
        )
        used = _weights_of_reranking(body, engine.ranker.weights)
        return Json({"question": asked, "hits": _placed(hits, given), "weights": used, "milliseconds": _since(began)})

    @routes.get("/api/info", response_model=schemas.Info)
    async def info() -> Json:
        """Tell what is served: models, classes, index, methods, weights and limits."""
        return Json(_info(engine))

    return routes


def _check_classes(engine: Engine) -> None:
    if not engine.ranker.has_classes:
        raise NoHeadsError(
            "the served models have no class heads, so nothing can be classified; serve models with them"
        )


def _check_method(engine: Engine, body: schemas.SearchRequest | schemas.RerankRequest) -> None:
    """Refuse a method whose heads are not served; what the library says of that is for those who load the models."""
    fields = ("rerank", "by", "match") if isinstance(body, schemas.SearchRequest) else ("rerank", "by")
    try:
        engine.ranker.require(**{name: getattr(body, name) for name in fields})
    except InputError:
        given = ", ".join(f"{name} {json.dumps(getattr(body, name))}" for name in fields)
        raise InvalidError(
            f"{given}: the models that this service was started with have no heads for that; ask by one of the methods "
            "that GET /api/info lists, or start the service with models that have them: semclass serve --models MODELS"
        ) from None


async def _with_classes(
    engine: Engine, question: str, ranking: Awaitable[list[Hit]], *, wanted: bool
) -> tuple[list[Hit], QuestionLabel | None]:
    """Hits, and beside them what the question asks for; None without class heads, or where it is not wanted."""
    if not (wanted and engine.ranker.has_classes):
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


_FUSING = {"linear": [("bm25_weight", "bm25")], "convex": [("alpha", "alpha")]}
"""The weight of a fusion: field of a request, and its name in :attr:`semclass.HybridRetriever.weights`."""


def _weights_of_search(body: schemas.SearchRequest, usual: dict[str, float]) -> dict[str, float]:
    """The weights that a ranking was made with, by the names of the request's fields."""
    wanted = _FUSING.get(body.fusion, [])
    if body.match is not None:
        wanted = [*wanted, ("match_weight", f"match_{body.match}")]
    return {**_used(body, wanted, usual), **_weight_of_signal(body, usual)}


def _weights_of_reranking(body: schemas.RerankRequest, usual: dict[str, float]) -> dict[str, float]:
    found = _used(body, _FUSING.get(body.fusion, []), {"bm25": BM25_WEIGHT, "alpha": ALPHA})
    return {**found, **_weight_of_signal(body, usual)}


def _weight_of_signal(body: schemas.SearchRequest | schemas.RerankRequest, usual: dict[str, float]) -> dict[str, float]:
    signal = weight_name(body.by, hard=body.hard, fusion=body.fusion)
    wanted = [("rerank_weight", signal)] if body.rerank == "integrated" else []
    return _used(body, wanted, usual)


def _used(
    body: schemas.SearchRequest | schemas.RerankRequest, wanted: list[tuple[str, str]], usual: dict[str, float]
) -> dict[str, float]:
    """Weights by field: what the request gives, or else the usual one of that signal."""
    given = {field: getattr(body, field) for field, _ in wanted}
    return {field: usual[name] if given[field] is None else given[field] for field, name in wanted}


def _info(engine: Engine) -> dict[str, Any]:
    ranker, retriever = engine.ranker, engine.retriever
    embedded = retriever is not None and isinstance(retriever.index, PassageIndex)
    index = (
        None if retriever is None else {"passages": len(retriever.index), "kind": "folder" if embedded else "qdrant"}
    )
    pairs = ranker.pair_heads is not None
    own = {"bm25": BM25_WEIGHT, "alpha": ALPHA, **(ranker.weights if pairs else {})}
    signals = [name for name, there in zip(SIGNALS, (pairs, ranker.has_classes), strict=True) if there]
    return {
        "version": semclass.__version__,
        "encoder": ranker.encoder.fingerprint,
        "classes": [{"name": name, "description": COARSE_NAMES.get(name)} for name in ranker.passages.classes],
        "fine_classes": ranker.questions.fine_classes,
        "index": index,
        "methods": {
            "rerank": [name for name in RERANKERS if name is None or (signals if name != "learned" else pairs)],
            "by": signals,
            "match": MATCHES if ranker.has_classes else [None],
            "fusion": FUSIONS,
        },
        "weights": own if retriever is None else retriever.weights,
        "limits": {name: getattr(engine.settings, name) for name in schemas.Limits.model_fields},
    }


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
