"""Limits of a service, accepted keys and host names, and checks of the size of a request."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import stat
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from pydantic_core import to_json
from starlette.types import Scope

from semclass import InputError
from semclass_serve.errors import ServiceError, invalid, too_large

PROBES = frozenset({"/health", "/ready", "/metrics"})
"""Paths that the service answers even if it is busy."""

DOCUMENTS = "/documents/"
"""Path prefix of documents."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Host names of a service on the loopback device."""

MIN_KEY_CHARACTERS = 16

MAX_FILTER_CHARACTERS = 100_000
"""Most characters of a filter in JSON. Each condition of a filter reads a column of the whole index."""

MAX_VALUES = 50_000
"""Most JSON values in a body: texts, numbers, lists and objects. Parsing a million values stops the service for seconds."""

_STRING = re.compile(rb'"[^"]*"?')

_HOST = re.compile(r"(.+?)(?::[0-9]*)?")
"""Pattern of the header ``Host``: a name, and perhaps a port."""


@dataclass(frozen=True)
class Settings:
    """Limits, timeouts and keys of a service."""

    #: SHA-256 digests of the accepted keys. Empty: no key is needed.
    keys: tuple[bytes, ...] = ()
    #: Host names, without a port, that requests may use. Empty: any name.
    hosts: tuple[str, ...] = ()
    #: Most bytes of a request's body.
    max_body: int = 4 * 2**20
    #: Most texts of a request: questions, passages or pairs.
    max_texts: int = 1000
    #: Most characters of a text.
    max_characters: int = 100_000
    #: Most hits, and most candidates, of a search.
    max_hits: int = 1000
    #: Most requests that are open at a time. Further requests get status 429.
    max_requests: int = 512
    #: Most seconds to read and answer a request.
    request_seconds: float = 30.0
    #: Seconds to finish open requests when the service stops.
    stop_seconds: float = 30.0
    #: Seconds between two checks for a changed index. 0: no checks.
    refresh_seconds: float = 5.0
    #: Target of the links of hits: the folder that was indexed, whose documents are then served read-only, or an
    #: address with metadata fields in braces, such as ``https://wiki.example.org/{document}#page={page}``.
    documents: Path | str | None = None
    #: File that judgements of hits are appended to. None: the service stores no judgements.
    judgements: Path | None = None

    def __post_init__(self) -> None:
        """Refuse limits that would refuse every request."""
        for name, value in vars(self).items():
            minimum = "at least" if name == "refresh_seconds" else "more than"
            if isinstance(value, (int, float)) and not (0 < value < inf or (value == 0 and minimum == "at least")):
                raise InputError(f"{name} is {value}; it must be {minimum} 0 and finite")
        if isinstance(self.documents, Path) and not self.documents.is_dir():
            raise InputError(f"documents is {self.documents}, which is not a folder; name the folder that was indexed")
        if isinstance(self.documents, str) and not re.match(r"https?://[^/{}]+/[^{}]*\{[^{}]+\}", self.documents):
            raise InputError(
                f"documents is {self.documents!r}; give an address with a metadata field in braces behind the host, e.g. "
                "https://wiki.example.org/{document}"
            )


# -- access ------------------------------------------------------------------------------------------------------------


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Read a file with one key per line, and return the SHA-256 digests of the keys."""
    try:
        lines, mode = path.read_text("utf-8").splitlines(), path.stat().st_mode
    except (OSError, UnicodeError) as error:
        raise InputError(f"the key file {path} cannot be read: {error}") from error
    if mode & stat.S_IROTH:
        warnings.warn(f"everybody on this machine can read the keys in {path}; run: chmod 600 {path}", stacklevel=2)
    keys = []
    for number, line in enumerate(lines, 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < MIN_KEY_CHARACTERS or not re.fullmatch(r"[!-~]+", key):
            raise InputError(
                f"{path}, line {number}: a key has at least {MIN_KEY_CHARACTERS} printable ASCII characters and no spaces; "
                'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
            )
        keys.append(hashlib.sha256(key.encode()).digest())
    if not keys:
        raise InputError(f"{path} contains no keys; write one key per line")
    return tuple(keys)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def sign(keys: Sequence[bytes], path: str) -> str:
    """Return the signature that opens a path without a key. It is valid until the first key changes."""
    return hmac.new(keys[0], path.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def check_access(scope: Scope, settings: Settings, open_paths: frozenset[str]) -> None:
    """Refuse a request with an unknown host name or without a key.

    A malicious site can make a browser resolve the name of the site to 127.0.0.1, and so call this service (DNS
    rebinding). The header ``Host`` reveals such requests.
    """
    path, reads = scope["path"], scope["method"] in ("GET", "HEAD")
    if path in ("/health", "/ready"):
        return
    host = _HOST.fullmatch(_header(scope, b"host").decode("latin-1").lower())
    if settings.hosts and (host is None or host[1] not in {name.lower() for name in settings.hosts}):
        raise ServiceError(400, "host", "this host name is not allowed; start the service with --allow-host NAME")
    if not settings.keys or (reads and path in open_paths):
        return
    if reads and path.startswith(DOCUMENTS):
        signature = parse_qs(scope["query_string"].decode("latin-1")).get("pass", [""])[0]
        if hmac.compare_digest(signature.encode(), sign(settings.keys, path).encode()):
            return
    scheme, _, key = _header(scope, b"authorization").partition(b" ")
    digest = hashlib.sha256(key.strip()).digest()
    matches = [hmac.compare_digest(digest, known) for known in settings.keys]  # all: equal time for any key
    if scheme.lower() != b"bearer" or not any(matches):
        message = "a valid API key is needed; send it as Authorization: Bearer KEY"
        raise ServiceError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})


def _header(scope: Scope, name: bytes) -> bytes:
    """Return a header that occurs exactly once; otherwise an empty value."""
    values: list[bytes] = [value for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else b""


# -- sizes -------------------------------------------------------------------------------------------------------------


def check_body(body: bytes | bytearray) -> None:
    """Refuse a body with too many values before it is parsed. This takes a few milliseconds per megabyte."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # a value of an object has two strings at most, its name and itself
    if plain.count(b'"') > 4 * MAX_VALUES or sum(map(_STRING.sub(b"", plain).count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise too_large(
            f"the body has too many values; at most {MAX_VALUES} texts, numbers, lists and objects are read"
        )


def check_texts(texts: Sequence[str], settings: Settings) -> None:
    """Refuse too many or too long texts."""
    if len(texts) > settings.max_texts:
        raise too_large(f"{len(texts)} texts are too many; at most {settings.max_texts} are read in one request")
    longest = max(map(len, texts), default=0)
    if longest > settings.max_characters:
        raise too_large(f"a text of {longest} characters is too long; at most {settings.max_characters} are allowed")


def check_count(number: int | None, name: str, settings: Settings) -> None:
    """Refuse a number of hits above the limit."""
    if number is not None and number > settings.max_hits:
        raise invalid(f"{name} is {number}; at most {settings.max_hits} hits are returned; ask for fewer")


def check_filter(where: Mapping[str, Any] | Sequence[str] | None) -> None:
    """Refuse a filter that would delay a search for long. The library checks everything else in a filter."""
    length = len(to_json(where))
    if length > MAX_FILTER_CHARACTERS:
        raise invalid(f"where has {length} characters of JSON; at most {MAX_FILTER_CHARACTERS} are allowed")
