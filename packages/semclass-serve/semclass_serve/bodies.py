"""Bodies of requests: JSON that is read strictly, within limits.

FastAPI would read a body with NaN in it, and would check every hit of an answer again. So :func:`post` makes routes that
do neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import pydantic
from fastapi import APIRouter, Request
from pydantic import BeforeValidator
from pydantic_core import from_json

from semclass_serve.answers import ErrorBody, Json, ServiceError, invalid, malformed, too_large
from semclass_serve.settings import Settings

Model = TypeVar("Model", bound=pydantic.BaseModel)

Handler: TypeAlias = Callable[[Request, Model], Awaitable[Any]]

_SHOWN = 3
"""Faults of a body that an error names."""

_NAME = 60
"""Characters of a name in them."""

MOST_VALUES = 100_000
"""Values of a body, at all depths: decoding blocks all requests, and small values take many times their bytes."""

WHOLE = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
"""For a whole number, which JSON may write with a point; it stands behind the bounds, or OpenAPI would not know them."""

WRITTEN = r"[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""Pattern of a text that is not blank: a character that Python does not count as white space.

Each is named, as ``\\s`` is another set in each language that reads the schema.
"""

LIMITS = frozenset({"maxItems", "maxLength", "maximum"})
"""Keywords of JSON schema whose value may be the name of a limit in the settings; OpenAPI has the limit itself."""

TEXTS = {"maxItems": "max_texts"}
TEXT = {"maxLength": "max_characters"}
HITS = {"maximum": "max_hits"}
"""For ``json_schema_extra`` of a list of texts, of a text and of a number of hits."""

_MESSAGES = {
    "string_pattern_mismatch": "Input should have a character that is not white space",  # there is only WRITTEN
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
}
"""Messages in words of JSON, by pydantic's kind of fault."""


async def read(request: Request, model: type[Model]) -> Model:
    """Read the body of a request."""
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        message = "the body must be JSON; send it with the header Content-Type: application/json"
        raise ServiceError(415, "media_type", message)
    body = await request.body()
    if not body.strip():
        raise malformed("the body is empty; send a JSON object")
    if _has_many_values(body):
        raise too_large(f"the body holds too many values; at most {MOST_VALUES} are read in one request")
    try:
        return model.model_validate(from_json(body, allow_inf_nan=False))
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        shown = [
            f"{'.'.join(map(_named, fault['loc'])) or 'body'}: {_MESSAGES.get(fault['type'], fault['msg'])}"
            for fault in faults[:_SHOWN]
        ]
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise invalid("; ".join(shown) + more) from None
    except ValueError as error:
        raise malformed(f"the body is not valid JSON: {error}") from None


def _named(part: int | str) -> str:
    """A part of the place of a fault, which may be a name of megabytes that the client gave."""
    text = str(part)
    return text if len(text) <= _NAME else f"{text[:_NAME]}..."


def _has_many_values(body: bytes) -> bool:
    """Whether a body holds more than :data:`MOST_VALUES`, by the marks between them; marks within texts do not count."""

    def marks(part: bytes) -> int:
        return part.count(b",") + part.count(b"[") + part.count(b"{")

    if marks(body) <= MOST_VALUES:
        return False
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # a value is at most two texts, its name and itself, with two quotes each
    return plain.count(b'"') > 4 * MOST_VALUES or marks(b"".join(plain.split(b'"')[::2])) > MOST_VALUES


WITHOUT_HEADS: dict[int | str, dict[str, Any]] = {
    424: {"model": ErrorBody, "description": "The served models lack the heads that this request needs."}
}
WITHOUT_INDEX: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorBody, "description": "The service has no index, or has no head with a given name."}
}

WITHOUT_HEAD: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorBody, "description": "The service has no such head."}
}
"""Errors of some routes alone."""


def post(
    routes: APIRouter, path: str, model: type[Model], answer: Any, *, tag: str, errors: Any = WITHOUT_HEADS
) -> Callable[[Handler[Model]], Handler[Model]]:
    """Make a route of a handler, which gets a request and its body, and gives an answer."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    body = {"required": True, "content": {"application/json": {"schema": schema}}}

    def add(handler: Handler[Model]) -> Handler[Model]:
        async def route(request: Request) -> Json:
            return Json(await handler(request, await read(request, model)))

        routes.add_api_route(
            path,
            route,
            methods=["POST"],
            name=handler.__name__,
            description=handler.__doc__,
            tags=[tag],
            response_model=answer,
            responses=errors,
            openapi_extra={"requestBody": body},
        )
        return handler

    return add


def check_texts(request: Request, texts: Sequence[str], settings: Settings) -> None:
    """Note for the log how many texts a request has, and refuse too many or too long ones."""
    request.scope["semclass.texts"] = len(texts)
    if len(texts) > settings.max_texts:
        raise too_large(f"{len(texts)} texts are too many; at most {settings.max_texts} are read in one request")
    check_length(max(map(len, texts), default=0), settings)


def check_length(longest: int, settings: Settings) -> None:
    """Refuse a text of too many characters."""
    if longest > settings.max_characters:
        raise too_large(f"a text of {longest} characters is too long; at most {settings.max_characters} are allowed")


def check_count(number: int | None, settings: Settings, name: str) -> None:
    """Refuse a number of hits above the limit."""
    if number is not None and number > settings.max_hits:
        raise invalid(f"{name}: at most {settings.max_hits} hits are returned; ask for fewer")
