"""Limits, times and keys of a service."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from pathlib import Path

from semclass.core.errors import InputError

MIB = 2**20

_MAY_BE_ZERO = ("drain_seconds", "refresh_seconds")


@dataclass(frozen=True)
class Settings:
    """Limits, times and keys of a service."""

    #: SHA-256 digests of the accepted keys; empty: no key is needed.
    keys: tuple[bytes, ...] = ()
    #: Names, without a port, that requests may give in ``Host``; empty: any.
    hosts: tuple[str, ...] = ()
    #: Most bytes of a request's body.
    max_body: int = 4 * MIB
    #: Most texts of a request: questions, passages or pairs.
    max_texts: int = 1000
    #: Most characters of a text.
    max_characters: int = 100_000
    #: Most hits, and most candidates, of a search.
    max_hits: int = 1000
    #: Most requests that are answered or wait at a time; more get 429.
    max_requests: int = 512
    #: Most open connections.
    max_connections: int = 4096
    #: Most seconds to answer a request, and for a client to read the answer.
    request_seconds: float = 30.0
    #: Seconds after the stop signal in which requests are still accepted while ``/ready`` answers no.
    drain_seconds: float = 0.0
    #: Seconds to finish requests in a stop.
    stop_seconds: float = 30.0
    #: Seconds between two checks for a changed index; 0: changes are not served.
    refresh_seconds: float = 5.0
    #: Example questions of the page; empty: they are made of the headings of the index.
    examples: tuple[str, ...] = ()
    #: Where hits link to: the folder whose documents are in the index, which are then served read-only; or an address
    #: with metadata fields in braces, such as ``https://wiki.example.org/{document}#page={page}``. None: no links.
    documents: Path | str | None = None

    def __post_init__(self) -> None:
        """Refuse limits that would refuse every request."""
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and not (0 < value < inf or (value == 0 and name in _MAY_BE_ZERO)):
                least = "at least 0" if name in _MAY_BE_ZERO else "more than 0"
                raise InputError(f"{name} is {value}; it must be {least} and finite")
        if isinstance(self.documents, Path) and not self.documents.is_dir():
            raise InputError(f"documents is {self.documents}, which is no folder; name the folder that was indexed")
        if isinstance(self.documents, str) and not re.match(r"https?://[^/{}]+/.*\{.+\}", self.documents):
            raise InputError(
                f"documents is {self.documents!r}; give an address with a metadata field in braces after its host, e.g. "
                "https://wiki.example.org/{document}"
            )
