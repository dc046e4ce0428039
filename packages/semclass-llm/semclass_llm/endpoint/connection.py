"""Calls over HTTP that end: each attempt has a deadline, a reply has a size, and redirects are not followed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

_OF_THE_WIRE = ("content-encoding", "content-length", "content-type", "transfer-encoding")


class BoundedClient(httpx.AsyncClient):
    """Sends a request and reads its reply within `seconds`; of one longer than `longest` bytes one byte more, no other."""

    def __init__(self, seconds: float, longest: int) -> None:
        super().__init__(timeout=seconds, limits=httpx.Limits(max_connections=None))
        self.seconds, self.longest = seconds, longest

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Give a reply that is read already; it is `httpx.ReadTimeout` if that took too long."""
        try:
            return await asyncio.wait_for(self._read(request, **options), self.seconds)
        except asyncio.TimeoutError as error:
            raise httpx.ReadTimeout(f"no whole reply within {self.seconds:g} s", request=request) from error

    async def _read(self, request: httpx.Request, **options: Any) -> httpx.Response:
        # nothing is unpacked: a few bytes of a compressed reply may be gigabytes
        request.headers["Accept-Encoding"] = "identity"
        reply = await super().send(request, **{**options, "stream": True, "follow_redirects": False})
        body = bytearray()
        try:
            async for part in reply.aiter_raw():
                body += part[: self.longest + 1 - len(body)]
                if len(body) > self.longest:
                    break
        finally:
            await reply.aclose()
        headers = {name: text for name, text in reply.headers.items() if name not in _OF_THE_WIRE}
        return httpx.Response(reply.status_code, headers=headers, content=bytes(body), request=request)


class Loop:
    """An event loop in a thread of its own, for callers that wait."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="semclass-endpoint", daemon=True)
        self._thread.start()

    def wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        """Run something there, and give its result or raise its error."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
