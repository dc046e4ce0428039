"""A language model's address on this machine that fails, stalls, refuses and talks nonsense as it is told."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STALL, CUT, FILTERED = "(stalls)", "(cuts the line)", "(the service's filter)"
"""Replies of a rule for which the service says nothing, ends the connection, or filters the answer."""

Rule = Callable[[str, int], str | int]
"""From a prompt and how often it was asked before to what is said: a text, one of the above, or a status of HTTP."""


@dataclass
class Stub:
    """An address, and what was asked there."""

    url: str
    rule: Rule
    asked: Counter[str] = field(default_factory=Counter)
    requests: list[dict[str, object]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def stub_endpoint(rule: Rule) -> Iterator[Stub]:
    """Serve as long as the block runs."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.stub = stub = Stub(f"http://127.0.0.1:{server.server_address[1]}/v1", rule)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of callers that were killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        stub: Stub = self.server.stub  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = str(body["messages"][-1]["content"])
        stub.requests.append(body)
        before = stub.asked[prompt]
        stub.asked[prompt] += 1
        said = stub.rule(prompt, before)
        if said == STALL:
            stub.over.wait(30)
        if said in (STALL, CUT):
            self.close_connection = True
            return
        if isinstance(said, int):
            self._send(said, {"error": {"message": "as it was told"}})
            return
        finish = "content_filter" if said == FILTERED else "stop"
        message = {"role": "assistant", "content": None if said == FILTERED else said}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(said.split())}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        self._send(200, {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method that it replaces
        """Keep quiet."""

    def _send(self, status: int, answer: dict[str, object]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("retry-after-ms", "1")  # whoever asks again need not pause
        self.end_headers()
        self.wfile.write(data)
