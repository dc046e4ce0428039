"""The page, as files."""

from __future__ import annotations

from fastapi import APIRouter


def router() -> APIRouter:
    """Routes of the page: ``/``, ``/page.css``, ``/page.js``."""
    return APIRouter()
