"""Routes that answer a question by sentences, and store what people say of hits."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from fastapi import APIRouter, Request

from semclass.core.errors import ArtifactError, InputError
from semclass.index.feedback import add_judgement
from semclass.ranking.ask import READ_HITS
from semclass_serve import schemas
from semclass_serve.answers import ErrorBody, ServiceError
from semclass_serve.bodies import WITHOUT_INDEX, check_count, check_texts, post
from semclass_serve.engine import Engine
from semclass_serve.filter_schema import check_filter
from semclass_serve.logs import log
from semclass_serve.native import TAG, since

WITHOUT_PASSAGE: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorBody, "description": "The service has no index in a folder, or the index has no such passage."}
}


def router(engine: Engine) -> APIRouter:
    """Make the routes."""
    routes = APIRouter()

    @post(routes, "/api/ask", schemas.AskRequest, schemas.AskAnswer, tag=TAG, errors=WITHOUT_INDEX)
    async def ask(request: Request, body: schemas.AskRequest) -> Any:
        """Find the sentences of the index that answer a question."""
        began = time.perf_counter()
        check_texts(request, [body.question], engine.settings)
        check_count(body.k, engine.settings, "k")
        check_filter(body.where or {})
        result = await engine.search(body.question, k=READ_HITS, where=body.where)
        answer = vars(await engine.answer(body.question, result, body.k))
        found = {name: answer[name] for name in schemas.AskAnswer.model_fields if name in answer}
        return {**found, "milliseconds": since(began)}

    @post(routes, "/api/feedback", schemas.FeedbackRequest, schemas.FeedbackAnswer, tag=TAG, errors=WITHOUT_PASSAGE)
    async def feedback(request: Request, body: schemas.FeedbackRequest) -> Any:
        """Store whether a passage of the index answers a question, beside the index."""
        check_texts(request, [body.question], engine.settings)
        try:
            index = engine.searched.local_index
            return await asyncio.to_thread(add_judgement, index, body.question, body.passage, body.right)
        except InputError as error:  # an index elsewhere, or another passage
            raise ServiceError(404, "no_passage", str(error)) from None
        except ArtifactError as error:
            log("a judgement cannot be stored", logging.WARNING, message=str(error))
            message = "the judgement cannot be stored; the log of the service has the reason"
            raise ServiceError(503, "unavailable", message) from None

    return routes
