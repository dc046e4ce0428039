"""What a service is allowed to do, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from semclass.core.errors import InputError

MIB = 2**20


@dataclass(frozen=True)
class Settings:
    """Limits, times and keys of a service.

    Attributes
    ----------
    keys
        SHA-256 digests of the keys that requests may bear, see :func:`semclass.service.access.read_keys`; none: all may.
    hosts
        Names, without a port, that requests may give in ``Host``; none: any.
    max_body
        Bytes of a request's body.
    max_texts
        Texts of a request: questions, passages or pairs.
    max_characters
        Characters of one text.
    max_hits
        Largest number of hits and of candidates that a search may be asked for.
    max_requests
        Requests that are answered or wait at a time; more are told to come back later.
    max_buffered
        Bytes of bodies that are held at a time, over all requests.
    max_connections
        Connections that are open at a time. While they all are, each is closed after its next answer.
    head_seconds
        Time that a client has to send a request's line and headers.
    body_seconds
        Time that a client has to send a request's body.
    request_seconds
        Time that an answer may take, from the end of the body to the last byte of the answer; and that a client has to
        read it.
    idle_seconds
        Time that a connection without requests is kept open.
    drain_seconds
        Time after the signal to stop in which requests are still taken while ``/ready`` says no, for balancers to notice.
    stop_seconds
        Time that requests have to be finished, after that, before they are cut off.
    refresh_seconds
        Time between two looks at the folder of the index, whether it was changed; 0: it is served as it was at the start.
    batch_texts
        Texts that one run of the models takes at most; a request of more is large.
    batch_characters
        Characters that are read in one run at most, likewise; texts that are re-ranked are read twice.
    batch_seconds
        Time that a request waits for others to share a run with.
    queue
        Texts that may wait for a run.
    queue_characters
        Characters that these may have together.
    """

    keys: tuple[bytes, ...] = ()
    hosts: tuple[str, ...] = ()
    max_body: int = 4 * MIB
    max_texts: int = 1000
    max_characters: int = 100_000
    max_hits: int = 1000
    max_requests: int = 512
    max_buffered: int = 128 * MIB
    max_connections: int = 4096
    head_seconds: float = 10.0
    body_seconds: float = 15.0
    request_seconds: float = 30.0
    idle_seconds: float = 15.0
    drain_seconds: float = 0.0
    stop_seconds: float = 30.0
    refresh_seconds: float = 5.0
    batch_texts: int = 64
    batch_characters: int = 32_768
    batch_seconds: float = 0.002
    queue: int = 4096
    queue_characters: int = 16 * MIB

    def __post_init__(self) -> None:
        """Refuse limits that would let nothing through."""
        may_be_zero = ("drain_seconds", "refresh_seconds", "batch_seconds")
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and not (0 < value < inf or (value == 0 and name in may_be_zero)):
                least = "at least 0" if name in may_be_zero else "more than 0"
                raise InputError(f"{name} is {value}; it must be {least}, and finite")
