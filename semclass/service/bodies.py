"""Bodies in and out: JSON that is read strictly, and written from plain values.

FastAPI would read a body with NaN in it, and would check every hit that is given back again. So routes read theirs with
:func:`read`, describe it with :func:`json_body`, and answer with :class:`Json`; FastAPI routes, and writes OpenAPI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pydantic
from fastapi import Request, Response
from pydantic import BeforeValidator
from pydantic_core import ErrorDetails, from_json, to_json
from starlette.types import Scope

from semclass.core.errors import SemclassError
from semclass.service.settings import Settings

CLOSE = {"Connection": "close"}
"""Header of an answer after which the connection is not used again."""

Model = TypeVar("Model", bound=pydantic.BaseModel)

_SHOWN = 3
"""Faults of a body that an error names."""

_SHOWN_OF_NAME = 40
"""Characters of a name of a client's that an error tells."""

_FEW = 100
"""Items of a list that are looked at whatever it is: not every list is one of texts, and those are counted later."""

MOST_VALUES = 100_000
"""Values of a body, at all depths: decoding holds up everybody, and takes many times the bytes that small values have."""


def _whole(value: object) -> object:
    """Give 2 for 2.0, which is a whole number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""For a whole number, which JSON may write with a point; it stands behind the bounds, or OpenAPI would not know them."""

WRITTEN = r"[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""Pattern of a text that says something: a character that is no white space, in Python's sense, as the library has it.

Each is named, as ``\\s`` is another set in each language that reads the schema.
"""

LIMITS = frozenset({"maxItems", "maxLength", "maximum"})
"""Keywords of JSON schema whose value may be the name of a limit in the settings; OpenAPI has the limit itself."""

TEXTS = {"maxItems": "max_texts"}
"""For ``json_schema_extra`` of a list of texts."""

TEXT = {"maxLength": "max_characters"}
"""The same for a text."""

HITS = {"maximum": "max_hits"}
"""The same for a number of hits."""


class MalformedError(SemclassError):
    """A body that is no JSON."""


class MediaTypeError(SemclassError):
    """A body that says it is something other than JSON."""


class InvalidError(SemclassError):
    """JSON that is not what the route reads."""


class TooLargeError(SemclassError):
    """More bytes, texts or characters than are read."""


class Json(Response):
    """An answer made of dataclasses, pydantic models and plain values; numbers that JSON lacks become texts.

    A client's 1e400 is such a number: it is given back as ``"Infinity"``, as null would say that there was none.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write JSON."""
        return to_json(content, inf_nan_mode="strings")


async def read(request: Request, model: type[Model], settings: Settings) -> Model:
    """Read the body of a request."""
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise MediaTypeError("the body must be JSON; send it with the header Content-Type: application/json")
    body = await request.body()
    if not body.strip():
        raise MalformedError("the body is empty; send a JSON object")
    if _has_many_values(body):
        raise TooLargeError(f"the body holds too many values; at most {MOST_VALUES} are read in one request")
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise MalformedError(f"the body is no valid JSON: {error}") from None
    # before items are looked at: each that is wrong would be told
    for name, items in value.items() if isinstance(value, dict) else ():
        if isinstance(items, list) and len(items) > max(settings.max_texts, _FEW):
            raise TooLargeError(
                f"{name[:_SHOWN_OF_NAME]}: {len(items)} are too many; at most {settings.max_texts} are read in one request"
            )
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        told = [f"{'.'.join(map(str, fault['loc'])) or 'body'}: {_message(fault)}" for fault in faults[:_SHOWN]]
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise InvalidError("; ".join(told) + more) from None


def _has_many_values(body: bytes) -> bool:
    """Whether a body holds more than :data:`MOST_VALUES`, by what stands between them; texts are left out."""

    def marks(part: bytes) -> int:
        return part.count(b",") + part.count(b"[") + part.count(b"{")

    if marks(body) <= MOST_VALUES:
        return False
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # names and texts are two for each value at most, with two quotes each
    return plain.count(b'"') > 4 * MOST_VALUES or marks(b"".join(plain.split(b'"')[::2])) > MOST_VALUES


_MESSAGES = {
    # there is only :data:`WRITTEN`
    "string_pattern_mismatch": "Input should have a character that is not white space",
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
}
"""What is said in place of regular expressions and of Python's names, by kind of fault."""


def _message(fault: ErrorDetails) -> str:
    """What is wrong, in words of JSON."""
    return _MESSAGES.get(fault["type"], fault["msg"])


def json_body(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Describe a body for OpenAPI: a route's ``openapi_extra``."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def take_texts(request: Request, texts: Sequence[str], settings: Settings) -> None:
    """Note how many texts a request has, for the log, and refuse too many or too long ones."""
    request.scope["semclass.heads.texts"] = len(texts)
    if len(texts) > settings.max_texts:
        raise TooLargeError(f"{len(texts)} texts are too many; at most {settings.max_texts} are read in one request")
    check_length(max(map(len, texts), default=0), settings)


def check_length(longest: int, settings: Settings) -> None:
    """Refuse a text of too many characters."""
    if longest > settings.max_characters:
        raise TooLargeError(
            f"a text of {longest} characters is too long; at most {settings.max_characters} are read of one text"
        )


def refusal(scope: Scope, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Json:
    """Make the answer of an error; all have the same body.

    Clients of text-embeddings-inference read ``error`` and ``error_type``, those of Cohere ``message``, those of Jina
    ``detail``.
    """
    request_id = scope.get("semclass.id", "")
    body = {"error": message, "error_type": kind, "message": message, "detail": message, "request_id": request_id}
    return Json(body, status, dict(headers or {}))


def take_count(number: int | None, settings: Settings, name: str) -> None:
    """Refuse a number of hits above the limit."""
    if number is not None and number > settings.max_hits:
        raise InvalidError(f"{name}: at most {settings.max_hits} are given; ask for fewer")
