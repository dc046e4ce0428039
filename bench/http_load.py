"""A client that puts a service under load over HTTP/1.1.

It shares its processors with the service, so it does little: one thread, ``selectors``, bytes made in advance.
"""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

CLOSED = "closed"  # stands for the status where a connection was closed without an answer
SILENT = "no answer"  # stands for the status where none came in time
PATIENCE = 60.0  # seconds that a client waits for an answer
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


def request(path: str, body: bytes) -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


@dataclass
class Load:
    """What a run of requests came to."""

    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0


def drive(host: str, port: int, requests: Iterable[bytes], connections: int) -> Load:
    """Send requests over so many connections that are kept open, the next one of each when its answer is there."""
    load, waiting = Load(), iter(requests)
    began = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            _send(selector, (host, port), None, next(waiting, None))
        while selector.get_map():
            ready = selector.select(PATIENCE)
            for key, _ in ready or [(key, 0) for key in list(selector.get_map().values())]:
                status = _heard(key) if ready else SILENT
                if status is None:
                    continue
                load.statuses[status] += 1
                load.latencies.append(time.perf_counter() - key.data[0])
                connection: Any = key.fileobj
                selector.unregister(connection)
                if status in (CLOSED, SILENT):
                    connection.close()
                    connection = None
                _send(selector, (host, port), connection, next(waiting, None) if ready else None)
    load.seconds = time.perf_counter() - began
    return load


def _send(
    selector: selectors.BaseSelector, address: tuple[str, int], connection: socket.socket | None, message: bytes | None
) -> None:
    """Send a request over a connection, or over a new one; without a request the connection is closed."""
    if message is None:
        if connection is not None:
            connection.close()
        return
    if connection is None:
        connection = socket.create_connection(address, PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sent = time.perf_counter()
    with contextlib.suppress(OSError):  # what comes of it is seen when the answer is read
        connection.sendall(message)
    selector.register(connection, selectors.EVENT_READ, (sent, bytearray()))


def _heard(key: selectors.SelectorKey) -> str | None:
    """Read what is there; gives the status of the answer if it is there as a whole."""
    connection: Any = key.fileobj
    try:
        chunk = connection.recv(1 << 16)
    except OSError:
        chunk = b""
    buffer: bytearray = key.data[1]
    buffer += chunk
    return status_of(buffer) if chunk else CLOSED


def status_of(buffer: bytes | bytearray) -> str | None:
    """Status of an answer that is there as a whole; None if it is not."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    found = _LENGTH.search(buffer, 0, end + 2)
    whole = end + 4 + (int(found[1]) if found else 0)
    return buffer[9:12].decode("ascii", "replace") if len(buffer) >= whole else None
