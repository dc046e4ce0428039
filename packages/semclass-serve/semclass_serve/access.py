"""Which requests are let in: those that bear a key, and call the service by one of its names."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from semclass.core.errors import InputError
from semclass.documents.decoding import read_lines
from semclass_serve.answers import CLOSE, ServiceError, malformed
from semclass_serve.settings import Settings
from semclass_serve.static import PATHS

PROBES = frozenset({"/health", "/ready"})
"""Paths for orchestrators, which need neither key nor name."""

ALWAYS = PROBES | {"/metrics"}
"""Paths that are answered however much there is to do."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Names of a service on the loopback device."""

DOCUMENTS = "/documents/"
"""Path below which documents are served."""

RETRY = {"Retry-After": "1"}

_SHORTEST = 16
"""Characters of a key, at least."""

_HOST = re.compile(r"(.+?)(?::[0-9]*)?")
"""``Host``: a name, and a port."""


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Read a file of keys, one a line; gives their SHA-256 digests."""
    lines = list(read_lines(path))
    if path.stat().st_mode & stat.S_IROTH:
        warnings.warn(f"everybody on this machine can read the keys in {path}; run: chmod 600 {path}", stacklevel=2)
    keys = []
    for number, line in lines:
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < _SHORTEST or not (key.isascii() and key.isprintable() and " " not in key):
            raise InputError(
                f"{path}, line {number}: a key has at least {_SHORTEST} printable ASCII characters and no spaces; make one "
                'with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
            )
        keys.append(hashlib.sha256(key.encode()).digest())
    if not keys:
        raise InputError(f"{path} contains no keys; write one key per line")
    return tuple(keys)


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no key: one of a probe, or for the page, which asks the user for a key."""
    return path in PROBES or (path in PATHS and method in ("GET", "HEAD"))


def sign(keys: Sequence[bytes], path: str) -> str:
    """Return what opens one path without a key, as links of a browser bear none. It ends with the first key."""
    return hmac.new(keys[0], path.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


class Gate:
    """Middleware that lets in requests with a clear end, while connections are not too many, with a known name and key.

    A request with both ``Content-Length`` and ``Transfer-Encoding`` may be two requests to a proxy that believes the other
    header (RFC 9112, 6.1). A page of another site can make a browser resolve that site's name to 127.0.0.1 and then call
    this service as its own; ``Host`` exposes such requests (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.keys = settings.keys
        self.hosts = frozenset(name.lower() for name in settings.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            self._check(scope)
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        path, names = scope["path"], {name for name, _ in scope["headers"]}
        if b"transfer-encoding" in names and (b"content-length" in names or scope["http_version"] == "1.0"):
            message = (
                "the end of the request is unclear; send Content-Length or, in HTTP/1.1, Transfer-Encoding, not both"
            )
            raise malformed(message, CLOSE)
        if scope.get("semclass.crowded") and path not in ALWAYS:  # marked by the server
            message = "too many connections at a time; try again later, and close connections that are not used"
            raise ServiceError(503, "overloaded", message, RETRY)
        host = _HOST.fullmatch(_header(scope, b"host").decode("latin-1").lower())
        if self.hosts and path not in PROBES and (host is None or host[1] not in self.hosts):
            message = "this host name is not allowed; start the service with --allow-host NAME"
            raise ServiceError(400, "host", message)
        if self.keys and not (is_open(scope["method"], path) or self._has_key(scope) or self._is_signed(scope)):
            message = "a valid API key is needed; send it as Authorization: Bearer KEY"
            raise ServiceError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})

    def _has_key(self, scope: Scope) -> bool:
        """Whether a request bears a key; takes as long for any header, as all keys are always compared."""
        scheme, _, key = _header(scope, b"authorization").partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        matches = [hmac.compare_digest(digest, known) for known in self.keys]
        return scheme.lower() == b"bearer" and any(matches)

    def _is_signed(self, scope: Scope) -> bool:
        """Whether a request for a document bears the signature of its link, see :mod:`semclass_serve.documents`."""
        if scope["method"] not in ("GET", "HEAD") or not scope["path"].startswith(DOCUMENTS):
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("pass", [""])[0]
        return hmac.compare_digest(given.encode(), sign(self.keys, scope["path"]).encode())


def _header(scope: Scope, name: bytes) -> bytes:
    """A header that comes once; else nothing."""
    values: list[bytes] = [value for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else b""
