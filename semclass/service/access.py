"""Who may ask: keys, and the names that the service answers to."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from semclass.core.errors import ArtifactError, InputError
from semclass.service.bodies import refusal
from semclass.service.settings import Settings
from semclass.service.static import PATHS

PROBES = frozenset({"/health", "/ready"})
"""Paths that orchestrators look at, by any name or address: they hold nothing."""

_LOOKS = frozenset({"GET", "HEAD"})

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What a service on the loopback device is called."""

_SHORTEST = 16
"""Characters of the shortest key that is accepted."""


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Read a file of keys."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path} cannot be read as a file of keys: {error}") from error
    if mode & stat.S_IROTH:
        warnings.warn(f"everybody on this machine can read the keys in {path}; run: chmod 600 {path}", stacklevel=2)
    numbered = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    keys = [(number, key) for number, key in numbered if key and not key.startswith("#")]
    for number, key in keys:
        if len(key) < _SHORTEST or not (key.isascii() and key.isprintable() and " " not in key):
            raise InputError(
                f"{path}, line {number}: a key has at least {_SHORTEST} printable ASCII characters and no spaces; make one "
                'with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
            )
    if not keys:
        raise InputError(f"{path} holds no keys; write one a line")
    return tuple(hashlib.sha256(key.encode()).digest() for _, key in keys)


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no key: one for the page, which asks for one, and what orchestrators look at."""
    return path in PROBES or (path in PATHS and method in _LOOKS)


class Gate:
    """Middleware that lets in requests with a name that the service has, and with a key where keys are set.

    A page of another site can make a browser look up that site's name at 127.0.0.1, and then ask this service as if it were
    its own; the header ``Host`` tells such requests (DNS rebinding).

    Parameters
    ----------
    app
        What is guarded.
    settings
        Keys and names.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.keys = settings.keys
        self.hosts = frozenset(name.lower() for name in settings.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if self.hosts and scope["path"] not in PROBES and _name(_header(scope, b"host")) not in self.hosts:
            answer = refusal(
                scope, 400, "host", "the service does not answer to this name; start it with --allow-host NAME"
            )
        elif (
            self.keys
            and not is_open(scope["method"], scope["path"])
            and not _is_key(_header(scope, b"authorization"), self.keys)
        ):
            headers = {"WWW-Authenticate": "Bearer"}
            message = "a key is needed; send one that the service knows as Authorization: Bearer KEY"
            answer = refusal(scope, 401, "unauthorized", message, headers)
        else:
            return await self.app(scope, receive, send)
        return await answer(scope, receive, send)


def _header(scope: Scope, name: bytes) -> bytes:
    """A header that comes once; empty if it does not."""
    found: list[bytes] = [value for key, value in scope["headers"] if key == name]
    return found[0] if len(found) == 1 else b""


def _name(host: bytes) -> str:
    """The name in ``Host``, without a port."""
    text = host.decode("latin-1").lower()
    name, _, port = text.rpartition(":")
    return name if name and (not port or (port.isascii() and port.isdecimal())) else text


def _is_key(header: bytes, keys: Sequence[bytes]) -> bool:
    """Whether a header holds a key; takes as long for any header, as all keys are always compared."""
    scheme, _, key = header.partition(b" ")
    digest = hashlib.sha256(key.strip()).digest()
    matches = [hmac.compare_digest(digest, known) for known in keys]
    return scheme.lower() == b"bearer" and any(matches)
