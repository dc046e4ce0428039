"""Answers: JSON, and the one body that all errors have."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Scope

from semclass.core.errors import ArtifactError, InputError, InputTypeError, SemclassError

CLOSE = {"Connection": "close"}
"""Header of an answer after which the connection is not used again."""


class ErrorBody(BaseModel):
    """The body of every error: what is wrong and what to do, the kind of error, and the request's id in the log."""

    error: str
    error_type: str
    message: str
    detail: str
    request_id: str


class Json(Response):
    """Dataclasses, pydantic models and plain values as JSON.

    A number that JSON lacks, such as a client's 1e400, becomes the text ``"Infinity"``: null would say that there was none.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write JSON."""
        return to_json(content, inf_nan_mode="strings")


class ServiceError(SemclassError):
    """An error that a client gets: status, kind, message and headers."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers

    def answer(self, scope: Scope) -> Json:
        """Write the error; TEI's clients read ``error`` and ``error_type``, Cohere's ``message``, Jina's ``detail``."""
        said = dict.fromkeys(("error", "message", "detail"), str(self))
        body = {**said, "error_type": self.kind, "request_id": scope.get("semclass.id", "")}
        return Json(body, self.status, self.headers)


class OverloadedError(ServiceError):
    """The service is busy; `fits` says how much of the request could be done now."""

    def __init__(self, retry_after: float, fits: str = "") -> None:
        headers = {"Retry-After": str(max(1, ceil(retry_after)))}
        super().__init__(429, "overloaded", f"the service is busy; try again in {retry_after:.1f} s{fits}", headers)


def invalid(message: str) -> ServiceError:
    """Make the error of a value that is not allowed."""
    return ServiceError(422, "validation", message)


def malformed(message: str, headers: Mapping[str, str] | None = None) -> ServiceError:
    """Make the error of a request that cannot be read."""
    return ServiceError(400, "malformed", message, headers)


def too_large(message: str) -> ServiceError:
    """Make the error of too many bytes, texts or characters."""
    return ServiceError(413, "too_large", message)


def stopping(message: str, headers: Mapping[str, str] | None = None) -> ServiceError:
    """Make the error of a service that takes no more work."""
    return ServiceError(503, "stopping", message, headers)


def service_error(error: Exception) -> ServiceError:
    """What a client is told of an error; messages about files and of unexpected errors are for the log alone."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, (InputError, InputTypeError)):
        return invalid(str(error))
    if isinstance(error, ArtifactError):
        return ServiceError(503, "unavailable", "the index cannot be read now; try again later")
    return ServiceError(500, "internal", "the service failed; its log has details under the id of this request")
