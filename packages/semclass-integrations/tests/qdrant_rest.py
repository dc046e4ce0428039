"""Qdrant's REST interface in front of the client's local mode, so that requests travel as JSON over a socket.

It is no Qdrant server: it shows that requests have the published schema, and that numbers survive JSON.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from threading import Lock, Thread
from urllib.parse import urlsplit

from qdrant_client import QdrantClient, models


def answer(client, method, path, body):  # noqa: C901 - a table
    """Do a request with the local client."""
    _, _, name, *rest = path.split("/")
    match method, "/".join(rest):
        case "GET", "exists":
            return {"exists": client.collection_exists(name)}
        case "GET", "":
            return client.get_collection(name)
        case "DELETE", "":
            return client.delete_collection(name)
        case "PUT", "":
            made = models.CreateCollection.model_validate(body)
            return client.create_collection(name, made.vectors, sparse_vectors_config=made.sparse_vectors)
        case "PATCH", "":
            return client.update_collection(name, metadata=models.UpdateCollection.model_validate(body).metadata)
        case "PUT", "points":
            return client.upsert(name, models.PointsBatch.model_validate(body).batch)
        case "POST", "points":
            read = models.PointRequest.model_validate(body)
            return client.retrieve(name, read.ids, with_payload=read.with_payload, with_vectors=read.with_vector)
        case "POST", "points/delete":
            return client.delete(name, models.PointIdsList.model_validate(body))
        case "POST", "points/scroll":
            read = models.ScrollRequest.model_validate(body)
            shown = {"with_payload": read.with_payload, "with_vectors": read.with_vector}
            points, following = client.scroll(name, limit=read.limit, offset=read.offset, **shown)
            return {"points": points, "next_page_offset": following}
        case "POST", "points/query/batch":
            return client.query_batch_points(name, models.QueryRequestBatch.model_validate(body).searches)
    raise ValueError(method, path)


@contextmanager
def served():
    """Serve an empty local client on a free port of the loopback interface; gives the address."""
    client, lock = QdrantClient(":memory:"), Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = urlsplit(self.path).path
            said = {"title": "qdrant", "version": version("qdrant-client")}
            if path != "/":
                with lock:
                    said = {"result": answer(client, self.command, path, body), "status": "ok", "time": 0.0}
            text = json.dumps(said, default=lambda value: value.model_dump(mode="json")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = reply  # noqa: N815

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    (thread := Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
