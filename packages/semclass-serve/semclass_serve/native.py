"""The native API: the functions of the library, with all fields of their results."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter

import semclass
from semclass import HybridRetriever, Label, Passage, PassageIndex
from semclass.plugins import open_to_write, read_terms
from semclass_serve import schemas
from semclass_serve.engine import Engine
from semclass_serve.errors import Json, ServiceError
from semclass_serve.limits import check_count, check_filter, check_texts
from semclass_serve.observe import log
from semclass_serve.page import link

EXAMPLES, HEADINGS, PASSAGES = 3, 8, 512
"""Number of example questions, most headings to try for them, and most passages to read for headings."""

LIMITS = ("max_body", "max_texts", "max_characters", "max_hits", "request_seconds")
"""Settings that clients can read."""

_TITLE = re.compile(r"[^\W\d_a-z][^@/\\_=<>{}()|]*\w{3}")
"""A heading of words, not the name of a function, an address or a formula."""

_QUESTION_MARKS = ("?", "\u061f", "\uff1f")  # Latin, Arabic, Chinese


def router(engine: Engine) -> APIRouter:
    """Make the routes below ``/api`` that have a body."""
    routes, settings = APIRouter(prefix="/api", tags=["semclass"]), engine.settings

    @routes.post("/classify/questions", response_model=schemas.QuestionsAnswer)
    async def classify_questions(body: schemas.QuestionsRequest) -> Json:
        """Classify questions by the type of answer that they ask for."""
        check_texts(body.texts, settings)
        labels = await engine.classify_questions(body.texts, min_probability=body.min_probability)
        return Json({"results": labels, "in_scope": await engine.in_scope(body.texts) if body.in_scope else None})

    @routes.post("/classify/passages", response_model=schemas.PassagesAnswer)
    async def classify_passages(body: schemas.PassagesRequest) -> Json:
        """Classify passages by the types of answer that they provide."""
        check_texts(body.texts, settings)
        return Json({"results": await engine.classify_passages(body.texts)})

    @routes.post("/classify/texts", response_model=schemas.TextsAnswer)
    async def classify_texts(body: schemas.TextsRequest) -> Json:
        """Classify texts by heads of your own, which share one encoding of the texts."""
        check_texts(body.texts, settings)
        rows = await engine.classify_texts(body.texts, body.heads, min_probability=body.min_probability)
        heads = ({name: _text_label(labels) for name, labels in row.items()} for row in rows)
        results = [{"text": text, "heads": row} for text, row in zip(body.texts, heads, strict=True)]
        return Json({"results": results})

    @routes.post("/search", response_model=schemas.SearchAnswer)
    async def search(body: schemas.SearchRequest) -> Json:
        """Find the passages of the index that answer a question."""
        check_texts([body.question], settings)
        check_count(body.k, "k", settings)
        check_count(body.candidates, "candidates", settings)
        options = {**_options(body), "where": await _where(engine, body.where)}
        result = await engine.search(body.question, body.k, candidates=body.candidates, boost=body.boost, **options)
        return Json({**vars(result), "hits": [{**vars(hit), "url": link(hit, settings)} for hit in result]})

    @routes.post("/rerank", response_model=schemas.RerankAnswer)
    async def rerank(body: schemas.RerankRequest) -> Json:
        """Re-rank passages for a question."""
        passages = [schemas.PassageIn(text=item) if isinstance(item, str) else item for item in body.passages]
        check_texts([body.question], settings)
        check_texts([item.text for item in passages], settings)
        check_count(body.k, "k", settings)
        # places serve as ids: ids of clients need not be unique
        numbered = [Passage(str(place), item.text, item.metadata) for place, item in enumerate(passages)]
        result = await engine.rerank(body.question, numbered, k=body.k, **_options(body))
        ids = {str(place): item.id for place, item in enumerate(passages) if item.id is not None}
        hits = [{**vars(hit), "id": ids.get(hit.id, hit.id), "index": int(hit.id)} for hit in result]
        return Json({**vars(result), "hits": hits})

    @routes.post("/ask", response_model=schemas.AskAnswer)
    async def ask(body: schemas.AskRequest) -> Json:
        """Find the sentences of the index that answer a question."""
        check_texts([body.question], settings)
        check_count(body.k, "k", settings)
        answer = vars(await engine.ask(body.question, body.k, await _where(engine, body.where)))
        return Json({name: answer[name] for name in schemas.AskAnswer.model_fields})

    @routes.post("/facets", response_model=schemas.Facets)
    async def facets(body: schemas.FacetsRequest) -> Json:
        """List the metadata fields with few values, and count the passages that match a filter for each value."""
        index, where = engine.local_index, await _where(engine, body.where)
        return Json({"facets": await asyncio.to_thread(index.facets, where) if index is not None else []})

    @routes.post("/judgements", response_model=schemas.Status)
    async def judge(body: schemas.Judgement) -> Json:
        """Store whether a passage of the index answers a question, in the file of `semclass serve --judgements`."""
        check_texts([body.question], settings)
        await asyncio.to_thread(_store, engine, body)
        return Json({"status": "stored"})

    return routes


def descriptions(engine: Engine) -> APIRouter:
    """Make the routes below ``/api`` that describe the service."""
    routes = APIRouter(prefix="/api", tags=["semclass"])
    examples: dict[int, list[str]] = {}  # by the identity of the index

    @routes.get("/info", response_model=schemas.ServiceInfo)
    async def info() -> Json:
        """Describe models, classes, heads, weights, index and limits."""
        return Json(_info(engine))

    @routes.get("/examples", response_model=schemas.Examples)
    async def some_questions() -> Json:
        """Return up to three questions that the index answers, from its headings. Without an index, there are none."""
        if engine.local_index is None:
            return Json({"questions": []})
        key, retriever = id(engine.local_index), engine.searched
        if key not in examples:
            made = await asyncio.to_thread(example_questions, retriever, engine.local_index)
            examples.clear()
            examples[key] = made
        return Json({"questions": examples[key]})

    return routes


def example_questions(retriever: HybridRetriever, index: PassageIndex) -> list[str]:
    """Return headings that a search finds: questions first, then titles."""
    rows = np.arange(0, len(index), len(index) // PASSAGES + 1)
    headings = dict.fromkeys(_heading(passage.metadata) for passage in index.passages(rows))
    texts = [text for text in headings if len(text.split()) > 1]
    asking = [text for text in texts if text.endswith(_QUESTION_MARKS)]
    titles = [text for text in texts if _TITLE.fullmatch(text)]
    questions: list[str] = []
    for sort in (asking, titles):
        for text in sort[:: len(sort) // HEADINGS + 1]:
            result = retriever.search(text, 1)
            if result.certainty != "weak" and _heading(result[0].metadata) == text:
                questions.append(text)
    return questions[:EXAMPLES]


def _heading(metadata: Mapping[str, Any]) -> str:
    """Return the innermost heading of a passage, or the title of its document."""
    headings = metadata.get("headings") or metadata.get("heading") or metadata.get("title") or ""
    return str(headings[-1] if isinstance(headings, (list, tuple)) else headings)


def _store(engine: Engine, judgement: schemas.Judgement) -> None:
    """Append a judgement to a regular file in one write. Its passage must be in the index."""
    path, index = engine.settings.judgements, engine.local_index
    if path is None:
        message = "this service stores no judgements; start it with semclass serve INDEX --judgements FILE"
        raise ServiceError(404, "no_judgements", message)
    if index is not None and not index.mask({"_id": judgement.passage}).any():
        raise ServiceError(404, "no_passage", "the index has no passage with this id")
    try:
        with os.fdopen(open_to_write(path, append=True, mode=0o600), "ab", 0) as file:
            file.write(judgement.model_dump_json().encode() + b"\n")
    except OSError as error:
        log("a judgement cannot be stored", logging.WARNING, message=str(error))
        message = "the judgement cannot be stored; the log of the service has the reason"
        raise ServiceError(503, "unavailable", message) from None


async def _where(engine: Engine, where: dict[str, Any] | Sequence[str] | None) -> dict[str, Any] | None:
    """Parse a filter, or conditions as on the command line, outside the event loop."""
    check_filter(where)
    if where is None or isinstance(where, dict):
        return where
    return await asyncio.to_thread(read_terms, where, getattr(engine.searched.index, "fields", None))


def _options(body: schemas.Ranked) -> dict[str, Any]:
    return {name: value for name in ("method", "weights", "explain") if (value := getattr(body, name)) is not None}


def _text_label(labels: Label) -> dict[str, Any]:
    fields = {name: getattr(labels, name) for name in ("label", "probability", "labels")}
    return {**fields, "probabilities": {str(name): value for name, value in labels.probabilities.items()}}


def _info(engine: Engine) -> dict[str, Any]:
    models, retriever = engine.models, engine.retriever
    index = None if retriever is None else {"passages": len(retriever.index), "local": engine.local_index is not None}
    return {
        "version": semclass.__version__,
        "encoder": models.encoder.fingerprint,
        "classes": models.passages.classes,
        "fine_classes": models.questions.fine_classes,
        "heads": {name: list(map(str, model.classes)) for name, model in models.heads.items()},
        "weights": (retriever or models).weights,
        "answerable_from": None if retriever is None else retriever.answerable_from,
        "index": index,
        "judgements": index is not None and engine.settings.judgements is not None,
        "limits": {name: getattr(engine.settings, name) for name in LIMITS},
    }
