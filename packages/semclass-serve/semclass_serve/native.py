"""The native API: what the library can do, with all that it returns."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping
from typing import Any

from fastapi import APIRouter, Request

import semclass
from semclass.core.checks import check_depth
from semclass.core.errors import InputError
from semclass.core.taxonomy import COARSE_NAMES
from semclass.core.types import Passage, QuestionLabel
from semclass.heads.texts import TextLabels
from semclass.index.filters import read_terms
from semclass.index.passage_index import PassageIndex
from semclass.ranking.methods import METHODS, Method, method_for
from semclass.ranking.result import SearchResult
from semclass_serve import schemas
from semclass_serve.answers import Json, invalid
from semclass_serve.bodies import WITHOUT_HEAD, WITHOUT_INDEX, check_count, check_texts, post
from semclass_serve.compat import check_classes, check_heads, check_pairs, check_scope
from semclass_serve.documents import link
from semclass_serve.engine import Engine
from semclass_serve.examples import Examples
from semclass_serve.filter_schema import check_filter

TAG = "semclass"


def router(engine: Engine) -> APIRouter:
    """Make the routes below ``/api``."""
    routes = APIRouter()
    settings = engine.settings

    @post(routes, "/api/classify/questions", schemas.QuestionsRequest, schemas.QuestionsAnswer, tag=TAG)
    async def classify_questions(request: Request, body: schemas.QuestionsRequest) -> Any:
        """Classify questions by the type of answer that they ask for."""
        began = time.perf_counter()
        check_texts(request, body.texts, settings)
        check_classes(engine)
        if body.in_scope:
            check_scope(engine)
        labels = await engine.classify_questions(body.texts, min_probability=body.min_probability)
        chances = await engine.in_scope(body.texts) if body.in_scope else [None] * len(labels)
        results = [{**vars(label), "in_scope": chance} for label, chance in zip(labels, chances, strict=True)]
        return {"results": results, "milliseconds": since(began)}

    @post(routes, "/api/classify/passages", schemas.PassagesRequest, schemas.PassagesAnswer, tag=TAG)
    async def classify_passages(request: Request, body: schemas.PassagesRequest) -> Any:
        """Classify passages by the types of answer that they provide."""
        began = time.perf_counter()
        check_texts(request, body.texts, settings)
        check_classes(engine)
        return {"results": await engine.classify_passages(body.texts), "milliseconds": since(began)}

    @post(routes, "/api/classify/texts", schemas.TextsRequest, schemas.TextsAnswer, tag=TAG, errors=WITHOUT_HEAD)
    async def classify_texts(request: Request, body: schemas.TextsRequest) -> Any:
        """Classify texts by heads of your own, which share one reading of the texts."""
        began = time.perf_counter()
        check_texts(request, body.texts, settings)
        names = check_heads(engine, body.heads)
        found = await engine.classify_texts(body.texts, names, min_probability=body.min_probability)
        results = [
            {"text": text, "heads": {name: _text_label(item) for name, item in row.items()}}
            for text, row in zip(body.texts, found, strict=True)
        ]
        return {"results": results, "milliseconds": since(began)}

    @post(routes, "/api/search", schemas.SearchRequest, schemas.SearchAnswer, tag=TAG, errors=WITHOUT_INDEX)
    async def search(request: Request, body: schemas.SearchRequest) -> Any:
        """Find the passages of the index that answer a question."""
        began = time.perf_counter()
        check_texts(request, [body.question], settings)
        check_count(body.k, settings, "k")
        check_count(body.candidates, settings, "candidates")
        check_count(body.sentences, settings, "sentences")
        check_filter(body.where or {})
        usual, method = engine.searched.weights, _check_method(engine, body)
        options = _options(body)
        if body.boost:
            check_heads(engine, list(body.boost))
        # a method's own number may be above the limit
        options["candidates"] = min(body.candidates or method.candidates, settings.max_hits)
        result, question = await _with_classes(engine, body, engine.search(body.question, **options))
        weights = _used(method, {**usual, **options["weights"]})
        hits = [{**vars(hit), "url": link(hit, settings)} for hit in result]
        answer = await engine.answer(body.question, result, body.sentences) if body.sentences else None
        parts = {"question": question, "hits": hits, "weights": weights, "milliseconds": since(began)}
        return {**vars(result), **parts, "sentences": answer and answer.sentences}

    @post(routes, "/api/filter", schemas.FilterRequest, schemas.FilterAnswer, tag=TAG, errors=WITHOUT_INDEX)
    async def read_filter(request: Request, body: schemas.FilterRequest) -> Any:
        """Read conditions as the command line takes them, such as page>=3, as a filter for a search."""
        return {"where": read_terms(body.terms, getattr(engine.searched.index, "fields", None))}

    @post(routes, "/api/rerank", schemas.RerankRequest, schemas.RerankAnswer, tag=TAG)
    async def rerank(request: Request, body: schemas.RerankRequest) -> Any:
        """Re-rank passages for a question."""
        began = time.perf_counter()
        given = _given(body)
        check_texts(request, [body.question], settings)
        check_texts(request, [item.text for item in given], settings)
        check_count(body.k, settings, "k")
        check_pairs(engine)
        method, options = _check_method(engine, body), _options(body)
        # places serve as ids: those of clients need not be unique
        passages = [Passage(str(place), item.text, item.metadata) for place, item in enumerate(given)]
        ranked, question = await _with_classes(engine, body, engine.rerank(body.question, passages, **options))
        ids = {str(place): item.id for place, item in enumerate(given) if item.id is not None}
        hits = [{**vars(hit), "id": ids.get(hit.id, hit.id), "index": int(hit.id), "url": None} for hit in ranked]
        weights = _used(method, {**engine.models.weights, **options["weights"]})
        parts = {"question": question, "hits": hits, "weights": weights, "milliseconds": since(began)}
        return {**vars(ranked), **parts}

    _add_descriptions(routes, engine)
    return routes


def _add_descriptions(routes: APIRouter, engine: Engine) -> None:
    """Add the routes that tell what is served, which need no body."""

    @routes.get("/api/info", response_model=schemas.Info, tags=[TAG])
    async def info() -> Json:
        """Describe what is served: models, classes, index, methods, weights and limits."""
        return Json(_info(engine))

    made = Examples(engine)

    @routes.get("/api/examples", response_model=schemas.Examples, tags=[TAG])
    async def examples() -> Json:
        """Give up to three questions that the index answers, from its headings; none without an index."""
        return Json({"questions": await made.get()})

    @routes.get("/api/facets", response_model=schemas.Facets, tags=[TAG])
    async def facets() -> Json:
        """Give the metadata fields with few values, and the number of passages of each value."""
        index = None if engine.retriever is None else engine.retriever.index
        found = await asyncio.to_thread(index.facets) if isinstance(index, PassageIndex) else []
        return Json({"facets": found})


def _given(body: schemas.RerankRequest) -> list[schemas.PassageIn]:
    """The passages of a request, whose metadata an answer can hold."""
    given = [schemas.PassageIn(text=item) if isinstance(item, str) else item for item in body.passages]
    for place, item in enumerate(given):
        check_depth(item.metadata, f"passages.{place}.metadata")
    return given


def _text_label(found: TextLabels) -> dict[str, Any]:
    probabilities = {str(name): value for name, value in found.probabilities.items()}
    return {
        "label": found.label,
        "probability": found.probability,
        "labels": found.labels,
        "probabilities": probabilities,
    }


def _check_method(engine: Engine, body: schemas.SearchRequest | schemas.RerankRequest) -> Method:
    """Refuse a method whose heads are not served; the library's message is for those who load the models."""
    try:
        return method_for(engine.models, body.method)
    except InputError:
        raise invalid(
            f"the served models have no heads for the method {json.dumps(body.method)}; use a method that GET /api/info "
            "lists, or start the service with other models: semclass serve --models MODELS"
        ) from None


def _options(body: schemas.SearchRequest | schemas.RerankRequest) -> dict[str, Any]:
    """The options of a search or a re-ranking, as the library takes them."""
    options = body.model_dump(exclude={"question", "passages", "classify", "weights", "sentences"})
    weights = {} if body.weights is None else body.weights.model_dump(by_alias=True, exclude_none=True)
    return {**options, "weights": weights}


async def _with_classes(
    engine: Engine, body: schemas.SearchRequest | schemas.RerankRequest, ranking: Awaitable[SearchResult]
) -> tuple[SearchResult, QuestionLabel | None]:
    """The result, and the question's class; None without class heads, or where it is not wanted."""
    if not (body.classify and engine.models.has_classes):
        return await ranking, None
    both = asyncio.ensure_future(ranking), asyncio.ensure_future(engine.classify_questions([body.question]))
    try:
        result, labels = await asyncio.gather(*both)
    finally:
        for one in both:  # where the search is refused, nobody waits for the class
            one.cancel()
    return result, labels[0]


def _used(method: Method, weights: Mapping[str, float]) -> dict[str, float]:
    """The weights that a method reads."""
    return {name: weights[name] for name in method.weights}


def _info(engine: Engine) -> dict[str, Any]:
    models, retriever = engine.models, engine.retriever
    index = None if retriever is None else {"passages": len(retriever.index), "kind": retriever.index.kind}
    return {
        "version": semclass.__version__,
        "encoder": models.encoder.fingerprint,
        "heads": {name: list(map(str, model.classes)) for name, model in models.heads.items()},
        "classes": [{"name": name, "description": COARSE_NAMES.get(name)} for name in models.passages.classes],
        "fine_classes": models.questions.fine_classes,
        "index": index,
        "methods": [name for name, method in METHODS.items() if models.has(method.needs)],
        "weights": models.weights if retriever is None else retriever.weights,
        "answerable_from": (retriever or models).answerable_from,
        "limits": {name: getattr(engine.settings, name) for name in schemas.Limits.model_fields},
    }


def since(began: float) -> float:
    """Milliseconds since a time of the clock that counts up."""
    return (time.perf_counter() - began) * 1000
