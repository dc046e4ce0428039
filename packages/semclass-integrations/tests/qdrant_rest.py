"""Qdrant's REST interface in front of the client's local mode, so that requests travel as JSON over a socket.

It is no Qdrant server: it shows that what semclass sends is what the published schema says, and that what comes back
through JSON is still the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from qdrant_client import QdrantClient, models


def answer(client: QdrantClient, method: str, path: str, body: Any) -> Any:
    """What a request asks for, from the local client."""
    if path == "/":
        return None
    _, _, name, *rest = path.split("/")
    what = method, "/".join(rest)
    if what == ("GET", "exists"):
        return {"exists": client.collection_exists(name)}
    if what == ("GET", ""):
        return client.get_collection(name)
    if what == ("DELETE", ""):
        return client.delete_collection(name)
    if what == ("PUT", ""):
        asked = models.CreateCollection.model_validate(body)
        return client.create_collection(name, vectors_config=asked.vectors, sparse_vectors_config=asked.sparse_vectors)
    if what == ("PATCH", ""):
        return client.update_collection(name, metadata=models.UpdateCollection.model_validate(body).metadata)
    return points(client, name, what, body)


def points(client: QdrantClient, name: str, what: tuple[str, str], body: Any) -> Any:
    """What a request about points asks for."""
    if what == ("PUT", "points"):
        return client.upsert(name, models.PointsBatch.model_validate(body).batch)
    if what == ("POST", "points"):
        wanted = models.PointRequest.model_validate(body)
        return client.retrieve(name, wanted.ids, with_payload=wanted.with_payload, with_vectors=wanted.with_vector)
    if what == ("POST", "points/delete"):
        return client.delete(name, models.PointIdsList.model_validate(body))
    if what == ("POST", "points/scroll"):
        scroll = models.ScrollRequest.model_validate(body)
        found, following = client.scroll(
            name,
            limit=scroll.limit,
            offset=scroll.offset,
            with_payload=scroll.with_payload,
            with_vectors=scroll.with_vector,
        )
        return {"points": found, "next_page_offset": following}
    if what == ("POST", "points/query"):
        (response,) = client.query_batch_points(name, [models.QueryRequest.model_validate(body)])
        return response
    if what == ("POST", "points/query/batch"):
        return client.query_batch_points(name, models.QueryRequestBatch.model_validate(body).searches)
    raise ValueError(what)


@contextmanager
def served() -> Iterator[str]:
    """Serve an empty local client on a free port of the loopback interface; gives the address."""
    client, lock = QdrantClient(":memory:"), Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = urlsplit(self.path).path
            with lock:
                result = answer(client, self.command, path, body)
            said = {"result": result, "status": "ok", "time": 0.0}
            if path == "/":
                said = {"title": "qdrant", "version": version("qdrant-client")}
            text = json.dumps(said, default=lambda value: value.model_dump(mode="json")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = reply  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
