"""Opens the documents of hits: links for the answers of a search, and the files of one folder, which are only read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse

from semclass.core.types import Hit
from semclass.index.columns import MAX_TEXT_LENGTH
from semclass.index.passage_index import PassageIndex
from semclass.index.records import SearchIndex
from semclass_serve.access import DOCUMENTS, sign
from semclass_serve.answers import ServiceError
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

_FIELDS = ("file", "document")
"""Metadata that name the file of a passage. A row of a table is a document of its own, in a file."""

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_SHOWN = {
    ".pdf": ("application/pdf", f"{_POLICY}; object-src 'self'; frame-ancestors 'none'"),  # viewers fail in a sandbox
    **dict.fromkeys((".htm", ".html", ".xhtml"), ("text/html", f"{_POLICY}; frame-ancestors 'none'; sandbox")),
}
"""Content types and policies of documents that browsers show. Scripts never run: a document may come from anybody."""

_DOWNLOADED = frozenset({".docx", ".epub", ".odt", ".pptx", ".xlsx"})
"""Endings of documents that are no text, which browsers save. All others are shown as plain text."""


def link(hit: Hit, settings: Settings) -> str | None:
    """Return the address of a hit's document: relative to the service, or by the template. None if there is none."""
    place = settings.documents
    known = {"_id": hit.id, **hit.metadata}
    if isinstance(place, str):
        return _PLACEHOLDER.sub(lambda found: quote(_text(known, found[1]), errors="replace"), place)
    name = _text(known, "file") or _text(known, "document")
    if place is None or not name:
        return None
    signed = "?" + urlencode({"pass": sign(settings.keys, DOCUMENTS + name)}) if settings.keys else ""
    return f"{DOCUMENTS.lstrip('/')}{quote(name, errors='replace')}{signed}"


def _text(known: Mapping[str, Any], name: str) -> str:
    value = known.get(name)
    return "" if value is None else str(value)


def router(engine: Engine) -> APIRouter:
    """Make the route of the documents."""
    routes = APIRouter()

    @routes.api_route(DOCUMENTS + "{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def document(name: str) -> Response:
        """Give a document that the index names, from the folder of the settings."""
        index = None if engine.retriever is None else engine.retriever.index
        path = await asyncio.to_thread(find, name, engine.settings.documents, index)
        if path is None:
            message = "there is no such document; semclass serve INDEX --documents FOLDER serves those of the index"
            raise ServiceError(404, "no_document", message)
        ending = path.suffix.lower()
        if ending in _DOWNLOADED:
            return FileResponse(path, media_type="application/octet-stream", filename=path.name)
        kind, policy = _SHOWN.get(ending, ("text/plain", f"{_POLICY}; frame-ancestors 'none'; sandbox"))
        return FileResponse(path, media_type=kind, headers={"Content-Security-Policy": policy})

    return routes


def find(name: str, folder: Path | str | None, index: SearchIndex | None) -> Path | None:
    """Find a document within a folder that has a passage in the index. None if either is not so."""
    if not isinstance(folder, Path) or not isinstance(index, PassageIndex) or not 0 < len(name) <= MAX_TEXT_LENGTH:
        return None
    if not any(index.mask({field: name}).any() for field in _FIELDS if field in index.fields):
        return None
    try:
        top = folder.resolve()
        path = (top / name).resolve()  # where links lead
        return path if path.is_relative_to(top) and path.is_file() else None
    except (OSError, ValueError):  # such as a name with a null character
        return None
