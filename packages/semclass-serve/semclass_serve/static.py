"""The page: a few files, read once and served as they are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

_FOLDER = Path(__file__).parent / "page"

_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "text.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Content type of each file; nothing else of the folder is served."""

PATHS = tuple("/" if name == "index.html" else f"/{name}" for name in _TYPES)
"""Where they are served. They hold no data, so they need no key; the page asks for one."""


def router() -> APIRouter:
    """Make the routes of the page; files are read here, not for each request."""
    routes = APIRouter(tags=["page"])
    for path, (name, kind) in zip(PATHS, _TYPES.items(), strict=True):
        _serve(routes, path, (_FOLDER / name).read_bytes(), kind)
    return routes


def _serve(routes: APIRouter, path: str, body: bytes, kind: str) -> None:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"Cache-Control": "no-cache", "ETag": etag}  # a newer version is seen at once, an unchanged one costs 304

    async def page(request: Request) -> Response:
        """Show the page, to try the service in a browser."""
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=kind, headers=headers)

    given: dict[int | str, dict[str, Any]] = {200: {"content": {kind.partition(";")[0]: {}}}}
    routes.add_api_route(path, page, response_class=Response, responses=given, include_in_schema=path == "/")
    routes.add_api_route(path, page, methods=["HEAD"], include_in_schema=False)
