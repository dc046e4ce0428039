"""The route that stores what people say of hits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fastapi import APIRouter, Request

from semclass.core.errors import ArtifactError
from semclass.index.feedback import add_judgement
from semclass.service import schemas
from semclass.service.answers import ServiceError
from semclass.service.bodies import WITHOUT_INDEX, check_texts, post
from semclass.service.engine import Engine
from semclass.service.logs import log
from semclass.service.native import TAG


def router(engine: Engine) -> APIRouter:
    """Make the route."""
    routes = APIRouter()

    @post(routes, "/api/feedback", schemas.FeedbackRequest, schemas.FeedbackAnswer, tag=TAG, errors=WITHOUT_INDEX)
    async def feedback(request: Request, body: schemas.FeedbackRequest) -> Any:
        """Store whether a passage of the index answers a question, beside the index."""
        check_texts(request, [body.question], engine.settings)
        index = engine.searched.local_index
        try:
            return await asyncio.to_thread(add_judgement, index, body.question, body.passage, body.right)
        except ArtifactError as error:
            log("a judgement cannot be stored", logging.WARNING, message=str(error))
            message = "the judgement cannot be stored; the log of the service has the reason"
            raise ServiceError(503, "unavailable", message) from None

    return routes
