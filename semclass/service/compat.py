"""Re-ranking in the shapes that clients of other services speak."""

from __future__ import annotations

from fastapi import APIRouter

from semclass.service.engine import Engine


def router(engine: Engine) -> APIRouter:
    """Routes of the shapes of Cohere, Jina and text-embeddings-inference."""
    return APIRouter()
