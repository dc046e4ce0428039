"""Responses of the service: JSON, and one body for all errors."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Scope

from semclass import ArtifactError, InputError, InputTypeError, SemclassError

SHOWN_FAULTS, FAULT_CHARACTERS = 3, 60
"""Most faults of a body that an error lists, and most characters of a field name in them."""


_MESSAGES = {
    "model_attributes_type": "Input should be a JSON object, sent with the header Content-Type: application/json",
    "string_pattern_mismatch": "Input should have a character that is not white space",
}
"""Messages that replace pydantic's messages, by kind of fault."""


class ErrorBody(BaseModel):
    """The body of every error.

    `error` names the fault and the remedy. `message` and `detail` repeat it for clients that read these fields.
    `error_type` is the kind of error, and `request_id` the id of the request in the log.
    """

    error: str
    error_type: str
    message: str
    detail: str
    request_id: str


class Json(Response):
    """A response of dataclasses, pydantic models and plain values in JSON.

    A number that JSON cannot express, such as 1e400 in the metadata of a passage, becomes the text ``"Infinity"``.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write JSON."""
        return to_json(content, inf_nan_mode="strings")


class ServiceError(SemclassError):
    """An error for a client: HTTP status, kind, message and headers."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers

    def answer(self, scope: Scope) -> Json:
        """Write the error. Clients of TEI read `error` and `error_type`, of Cohere `message`, of Jina `detail`."""
        texts = dict.fromkeys(("error", "message", "detail"), str(self))
        body = {**texts, "error_type": self.kind, "request_id": scope.get("semclass.id", "")}
        return Json(body, self.status, self.headers)


def invalid(message: str) -> ServiceError:
    """Make the error for a value that is not allowed."""
    return ServiceError(422, "validation", message)


def too_large(message: str) -> ServiceError:
    """Make the error for too many bytes, texts or characters."""
    return ServiceError(413, "too_large", message)


def overloaded(message: str, seconds: float = 1.0) -> ServiceError:
    """Make the error for a busy service, with the time after which clients may try again."""
    return ServiceError(429, "overloaded", message, {"Retry-After": str(max(1, ceil(seconds)))})


def stopping(message: str = "the service is not ready, or is stopping") -> ServiceError:
    """Make the error for a service that accepts no more work."""
    return ServiceError(503, "stopping", message, {"Connection": "close"})


def without_heads(message: str) -> ServiceError:
    """Make the error for a request for heads that are missing."""
    return ServiceError(424, "backend", f"the served models have no {message}")


def service_error(error: Exception) -> ServiceError:
    """Translate any error for a client. Messages about files and of unexpected errors only go to the log."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, RequestValidationError):
        return _body_error(error)
    if isinstance(error, (InputError, InputTypeError)):
        return invalid(str(error))
    if isinstance(error, ArtifactError):
        return ServiceError(503, "unavailable", "the index cannot be read now; try again later")
    return ServiceError(500, "internal", "the service failed; its log has details under the id of this request")


def _body_error(error: RequestValidationError) -> ServiceError:
    faults = error.errors()
    if faults[0]["type"] == "json_invalid":
        return ServiceError(400, "malformed", "the body is not valid JSON")
    texts = [
        f"{'.'.join(map(_shortened, fault['loc']))}: {_MESSAGES.get(fault['type'], fault['msg'])}"
        for fault in faults[:SHOWN_FAULTS]
    ]
    more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
    return invalid("; ".join(texts) + more)


def _shortened(part: int | str) -> str:
    text = str(part)
    return text if len(text) <= FAULT_CHARACTERS else f"{text[:FAULT_CHARACTERS]}..."
