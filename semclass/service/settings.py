"""Limits, times and keys of a service."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from semclass.core.errors import InputError

MIB = 2**20

_MAY_BE_ZERO = ("drain_seconds", "refresh_seconds")


@dataclass(frozen=True)
class Settings:
    """Limits, times and keys of a service."""

    #: SHA-256 digests of the keys of which a request must bear one; none: no key is needed.
    keys: tuple[bytes, ...] = ()
    #: Names, without a port, that requests may give in ``Host``; none: any.
    hosts: tuple[str, ...] = ()
    #: Bytes of a request's body.
    max_body: int = 4 * MIB
    #: Texts of a request: questions, passages or pairs.
    max_texts: int = 1000
    #: Characters of a text.
    max_characters: int = 100_000
    #: Hits, and candidates, of a search.
    max_hits: int = 1000
    #: Requests that are answered or wait at a time; more get 429.
    max_requests: int = 512
    #: Connections that are open at a time.
    max_connections: int = 4096
    #: Time that an answer may take, and that a client has to read it.
    request_seconds: float = 30.0
    #: Time after the signal to stop in which requests are still taken while ``/ready`` says no.
    drain_seconds: float = 0.0
    #: Time that requests have to be finished in a stop.
    stop_seconds: float = 30.0
    #: Time between two looks for a changed index; 0: it is served as it was at the start.
    refresh_seconds: float = 5.0
    #: Questions that the page offers; none: they are made of the headings of the index.
    examples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse limits that would let nothing through."""
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and not (0 < value < inf or (value == 0 and name in _MAY_BE_ZERO)):
                least = "at least 0" if name in _MAY_BE_ZERO else "more than 0"
                raise InputError(f"{name} is {value}; it must be {least} and finite")
