"""Services for tests: an application without a network, on a port in a thread, and ``semclass serve`` as a process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import httpx
import uvicorn

from semclass import Passage, Reranker
from semclass_serve.app import create_app
from semclass_serve.commands import bind
from semclass_serve.engine import Engine
from semclass_serve.limits import Settings
from semclass_serve.observe import LOGGER, JsonLines

KEY = "a-key-that-is-long-enough"
KEYS = (hashlib.sha256(KEY.encode()).digest(),)
WITH_KEY = {"authorization": f"Bearer {KEY}"}

QUESTION = "When was the bridge opened?"
TEXTS = [
    "The bridge was built of granite by the engineer Ada Merriweather.",
    "Work on it began in 1871; after three winters of storms the bridge was opened in October 1874.",
    "Trams cross the bridge.",
]


def entailed(models):
    """Scores that the library gives for the question and each text."""
    hits = Reranker(models).rerank(QUESTION, [Passage(str(n), t) for n, t in enumerate(TEXTS)], method="entail-stable")
    return {int(hit.id): hit.components["relevance"] for hit in hits}


class Client:
    """Sends requests to an application on an event loop of its own."""

    def __init__(self, app, loop):
        self.app, self.loop = app, loop

    def request(self, method, path, **options):
        async def send():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **options)

        return self.run(send())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, json=body, **options)

    def run(self, job):
        return self.loop.run_until_complete(job)


@contextmanager
def client_of(engine):
    """A client of a started application over an engine."""
    loop, app = asyncio.new_event_loop(), create_app(engine)
    try:
        context = app.router.lifespan_context(app)
        loop.run_until_complete(context.__aenter__())
        yield Client(app, loop)
        loop.run_until_complete(context.__aexit__(None, None, None))
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def service(models, retriever=None, **limits):
    """A client of a service with some limits."""
    return client_of(Engine(models, retriever, Settings(**limits)))


class Served:
    """A service on a free port of the loopback device, in a thread."""

    def __init__(self, engine):
        self.engine = engine
        self.socket = bind("127.0.0.1", 0)
        self.socket.listen()  # a client that comes before the server runs waits for it
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(create_app(engine), log_config=None, lifespan="on"))
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(30)

    def _run(self):
        with self.socket:  # a client of a service that cannot start does not wait
            self.server.run(sockets=[self.socket])


class Process:
    """``semclass serve`` as a process that is ready, and the lines of its log."""

    def __init__(self, process, lines):
        self.process, self.lines = process, lines
        (line,) = [line for line in lines if line["event"] == "serving"]
        self.port, self.url = line["port"], f"http://{line['host']}:{line['port']}"

    def stop(self, number=signal.SIGTERM):
        """Stop the process, and return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(120)


@contextmanager
def serving(*arguments):
    """Start ``semclass serve`` on a free port."""
    command = [sys.executable, "-m", "semclass", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    lines, ready = [], threading.Event()

    def read():
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "serving":
                ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        ready.wait()
        assert process.poll() is None, lines
        yield Process(process, lines)
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


class Lines(logging.Handler):
    """Keeps the lines of the log."""

    def __init__(self):
        super().__init__()
        self.written = []
        self.setFormatter(JsonLines())

    def emit(self, record):
        self.written.append(self.format(record))

    @property
    def last(self):
        return json.loads(self.written[-1])


def log_lines():
    """A fixture: the lines that the service logs."""
    lines, level = Lines(), LOGGER.level
    LOGGER.addHandler(lines)
    LOGGER.setLevel(logging.INFO)
    yield lines
    LOGGER.removeHandler(lines)
    LOGGER.setLevel(level)
