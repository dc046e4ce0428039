"""Serves the search page from a few files, and the documents of hits, read-only, from one folder."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from semclass import Hit, PassageIndex
from semclass_serve.engine import Engine
from semclass_serve.errors import ServiceError
from semclass_serve.limits import DOCUMENTS, Settings, sign

_FOLDER = Path(__file__).parent / "page"

_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Content type of each file of the page. No other file of the folder is served."""

PATHS = tuple("/" if name == "index.html" else f"/{name}" for name in _TYPES)
"""Paths of the page. The page contains no data, so it needs no key; it asks the user for one."""

MAX_NAME = 512
"""Most characters of the name of a document."""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_SHOWN = {
    ".pdf": ("application/pdf", f"{_POLICY}; object-src 'self'; frame-ancestors 'none'"),  # viewers fail in a sandbox
    **dict.fromkeys((".htm", ".html", ".xhtml"), ("text/html", f"{_POLICY}; frame-ancestors 'none'; sandbox")),
}
"""Content types and policies of documents that browsers show. Scripts never run, because anybody may have written them."""

_DOWNLOADED = frozenset({".docx", ".epub", ".odt", ".pptx", ".xlsx"})
"""Endings of documents that browsers save. All others are shown as plain text."""


def page_router() -> APIRouter:
    """Make the routes of the page."""
    routes, files = APIRouter(tags=["page"]), StaticFiles(directory=_FOLDER)
    for path, (name, kind) in zip(PATHS, _TYPES.items(), strict=True):
        _add_file(routes, path, files, name, kind)
    return routes


def _add_file(routes: APIRouter, path: str, files: StaticFiles, name: str, kind: str) -> None:
    async def page(request: Request) -> Response:
        """Show a web page to try the service."""
        answer = await files.get_response(name, request.scope)
        answer.headers.update({"Cache-Control": "no-cache", "Content-Type": kind})  # a newer version is seen at once
        return answer

    content: dict[int | str, dict[str, Any]] = {200: {"content": {kind.partition(";")[0]: {}}}}
    routes.add_api_route(path, page, response_class=Response, responses=content, include_in_schema=path == "/")
    routes.add_api_route(path, page, methods=["HEAD"], include_in_schema=False)


def link(hit: Hit, settings: Settings) -> str | None:
    """Return the address of a hit's document, relative to the service or from the template; None without documents."""
    place = settings.documents
    values = {"_id": hit.id, **hit.metadata}
    text = {name: "" if value is None else str(value) for name, value in values.items()}
    if isinstance(place, str):
        return re.sub(r"\{([^{}]+)\}", lambda match: quote(text.get(match[1], ""), errors="replace"), place)
    name = text.get("file") or text.get("document")  # a row of a table is a document of its own, in a file
    if place is None or not name or _is_hidden(name):
        return None
    signature = "?" + urlencode({"pass": sign(settings.keys, DOCUMENTS + name)}) if settings.keys else ""
    return f"{DOCUMENTS.lstrip('/')}{quote(name, errors='replace')}{signature}"


class _File(FileResponse):
    """A file, or an error of the service if the header `Range` asks for bytes outside the file."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, or a range of it."""

        async def checked(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                size = {name.decode(): value.decode() for name, value in message["headers"] if name == b"content-range"}
                text = "the header Range is not valid, or outside the document; ask for bytes=FIRST-LAST within it"
                raise ServiceError(message["status"], "range", text, size)
            await send(message)

        await super().__call__(scope, receive, checked)


def document_router(engine: Engine) -> APIRouter:
    """Make the route of the documents."""
    routes = APIRouter()

    @routes.api_route(DOCUMENTS + "{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def document(name: str) -> Response:
        """Return a document that the index names, from the folder of the settings."""
        path = await asyncio.to_thread(find_document, name, engine.settings.documents, engine.local_index)
        if path is None:
            message = "there is no such document; semclass serve INDEX --documents FOLDER serves documents of the index"
            raise ServiceError(404, "no_document", message)
        ending = path.suffix.lower()
        if ending in _DOWNLOADED:
            return _File(path, media_type="application/octet-stream", filename=path.name)
        kind, policy = _SHOWN.get(ending, ("text/plain", f"{_POLICY}; frame-ancestors 'none'; sandbox"))
        return _File(path, media_type=kind, headers={"Content-Security-Policy": policy})

    return routes


def _is_hidden(name: str) -> bool:
    """Whether a part of a path begins with a dot. No reader opens such files."""
    return any(part.startswith(".") for part in name.split("/"))


def find_document(name: str, folder: Path | str | None, index: PassageIndex | None) -> Path | None:
    """Return the path of a document that is in the folder and in the index; None if either lacks it."""
    if not isinstance(folder, Path) or index is None or not 0 < len(name) <= MAX_NAME or _is_hidden(name):
        return None
    # only readers write `file`, and whoever wrote JSON lines may have named any `document`
    named: dict[str, dict[str, Any]] = {
        "file": {"file": name},
        "document": {"document": name, "file": {"$exists": False}},
    }
    if not any(index.mask(where).any() for field, where in named.items() if field in index.fields):
        return None
    try:
        top = folder.resolve()
        path = (top / name).resolve()  # follows links
        inside = path.is_relative_to(top) and not _is_hidden(path.relative_to(top).as_posix())
        return path if inside and path.is_file() else None
    except (OSError, ValueError):  # such as a name with a null character
        return None
