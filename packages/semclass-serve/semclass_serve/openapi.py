"""The description of the service: OpenAPI, with the limits that hold and every error that may be answered."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from semclass_serve.access import ALWAYS, is_open
from semclass_serve.answers import ErrorBody
from semclass_serve.bodies import LIMITS
from semclass_serve.filter_schema import FILTERS
from semclass_serve.settings import Settings

_ERRORS = {
    400: "The request is malformed, its length is unclear, or its host name is not allowed.",
    401: "The key is missing or unknown.",
    408: "The body arrived too slowly.",
    413: "The body or a text is too long, there are too many texts, or all of them would take too long.",
    415: "The body is not JSON, or is compressed, but not by gzip.",
    422: "The body holds something that is not allowed.",
    429: "The service is too busy; try again later.",
    500: "Something went wrong in the service.",
    503: "The service is not ready, is stopping or has too many connections, or the index cannot be read.",
    504: "The answer took too long.",
}

_OF_BODIES = (408, 413, 415, 422)

_SECONDS = {"type": "integer", "minimum": 1}

_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds.", "schema": _SECONDS}},
    503: {"Retry-After": {"description": "Seconds, if there are too many connections.", "schema": _SECONDS}},
}

_REQUEST_ID = {
    "X-Request-ID": {
        "description": "Id of the request in the log: from the header of the request, or a new id.",
        "schema": {"type": "string"},
    }
}

_REF = "#/components/schemas/"


def describe(app: FastAPI, settings: Settings) -> dict[str, Any]:
    """Make the document."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["ErrorBody"] = ErrorBody.model_json_schema(ref_template=_REF + "{model}")
    schemas.update(FILTERS)
    _resolve(document["paths"], schemas, settings)
    _resolve(schemas, schemas, settings)
    if settings.keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            keyed = bool(settings.keys) and not is_open(method.upper(), path)
            if keyed:
                operation["security"] = [{"key": []}]
            for status in _statuses(path, operation, keyed=keyed):
                operation["responses"].setdefault(
                    str(status),
                    {
                        "description": _ERRORS[status],
                        "content": {"application/json": {"schema": {"$ref": f"{_REF}ErrorBody"}}},
                        **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
                    },
                )
            for response in operation["responses"].values():
                response["headers"] = {**response.get("headers", {}), **_REQUEST_ID}
    return document


def _statuses(path: str, operation: dict[str, Any], *, keyed: bool) -> list[int]:
    """Errors that an operation may answer; keyed: it needs a key."""
    found = {400, 500}
    if keyed:
        found.add(401)
    if "requestBody" in operation:
        found.update(_OF_BODIES)
    if path == "/ready":
        found.add(503)
    if path not in ALWAYS:
        found.update((429, 503, 504))
    return sorted(found)


def _resolve(part: Any, schemas: dict[str, Any], settings: Settings) -> None:
    """Move definitions of request bodies to the document's, refer to those of filters, and put in the limits that hold."""
    if isinstance(part, dict):
        schemas.update(part.pop("$defs", {}))
        if part.get("$comment") in FILTERS:
            part["$ref"] = _REF + part.pop("$comment")
        for name in LIMITS & part.keys():
            if isinstance(part[name], str):
                part[name] = getattr(settings, part[name])
    if isinstance(part, (dict, list)):
        for value in list(part.values() if isinstance(part, dict) else part):
            _resolve(value, schemas, settings)
