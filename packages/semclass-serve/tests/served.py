"""A service that is really served, for clients that want an address."""

from __future__ import annotations

import threading

import uvicorn

from semclass_serve.app import create_app
from semclass_serve.engine import Engine
from semclass_serve.server import bind


class Served:
    """A service on a free port of the loopback device, in a thread."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.socket = bind("127.0.0.1", 0)
        self.socket.listen()  # before the server runs: a client that comes early waits for it
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        config = uvicorn.Config(create_app(engine, engine.settings), log_config=None, lifespan="on")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Served:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(30)

    def _run(self) -> None:
        with self.socket:  # of a service that cannot start, no client waits for an answer
            self.server.run(sockets=[self.socket])
