"""``semclass serve`` under load, by turns with the library on the same requests.

Service and client run in processes of their own on loopback and share the machine's processors.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench import readme
from bench.steps import ROOT, Bench, StepError
from datasets_io import read_jsonl
from semclass import Passage, Reranker
from semclass.core.cpu import available_threads
from semclass.documents.readers import read_passages
from semclass.documents.sentences import split_sentences

PATH = "/v2/rerank"
METHOD = {"method": "entail-stable"}  # what stands behind it
CONNECTIONS, REQUESTS, SENTENCES = 32, 10_000, 10
BLOCKS = 10  # turns of the service and the library
ALONE = 20  # of so many requests the library does one: its rate is the same over all
TOGETHER = 5
"""Requests that the library is given at a time where it is given several: about as many as share a run of the service."""

WORDS = (4, 10)  # words of a sentence: short passages
SEED = 0

HOST = "127.0.0.1"
READY_SECONDS = 120.0


def run(bench: Bench) -> dict[str, Any]:
    sizes = {"requests": 200, "blocks": 2} if bench.quick else {"requests": REQUESTS, "blocks": BLOCKS}
    load = bench.step("service/load", "bench.service:load", data=bench.data, connections=CONNECTIONS, **sizes)
    return {"load": load.pop("rows"), **load}


@dataclass(frozen=True)
class Served:
    """A running service."""

    process: subprocess.Popen[bytes]
    port: int


@contextlib.contextmanager
def served(*options: str) -> Iterator[Served]:
    """Start ``semclass serve`` on a free port of loopback, wait until it is ready, and stop it in the end."""
    command = [sys.executable, "-m", "semclass", "serve", "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        log: Any = process.stderr
        try:
            for line in log:  # JSON; the line that tells the port comes when it is ready
                if found := re.search(rb'"port": (\d+)', line):
                    break
            else:
                raise StepError(f"the service ended with status {process.wait()}")
            # the log is read on, so that the service never waits for a full pipe
            threading.Thread(target=deque, args=(log, 0), daemon=True).start()
            yield Served(process, int(found[1]))
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def asked(data: str, n: int) -> list[tuple[str, list[str]]]:
    """Questions of squad4, each with ten different sentences of its passages, drawn from all; the same for the same n."""
    folder, rng = Path(data) / "beir" / "squad4", random.Random(SEED)
    texts = (text for item in read_passages(folder / "corpus.jsonl") for text in split_sentences(item.text))
    sentences = list(dict.fromkeys(text for text in texts if WORDS[0] <= len(text.split()) <= WORDS[1]))
    some = [row["text"] for row in read_jsonl(folder / "queries.jsonl")]
    questions = itertools.cycle(some[:: max(len(some) // n, 1)][:n])
    return [(question, rng.sample(sentences, SENTENCES)) for question in islice(questions, n)]


def load(data: str, connections: int, requests: int, blocks: int) -> dict[str, Any]:
    """The service and the library by turns: rates, latencies and errors."""
    items = asked(data, requests)
    reranker, workers = Reranker.load(), available_threads()
    bodies = ({"model": "semclass", "query": question, "documents": texts} for question, texts in items)
    wire = [request(PATH, json.dumps(body).encode()) for body in bodies]

    def ours(item: tuple[str, list[str]]) -> float:
        began = time.perf_counter()
        reranker.rerank(item[0], passages(item[1]), **METHOD)
        return time.perf_counter() - began

    def together(some: Sequence[tuple[str, list[str]]]) -> list[float]:
        began = time.perf_counter()
        reranker.rerank_many([question for question, _ in some], [passages(texts) for _, texts in some], **METHOD)
        return [time.perf_counter() - began] * len(some)

    def all_together(some: Sequence[tuple[str, list[str]]]) -> list[float]:
        groups = [some[begin : begin + TOGETHER] for begin in range(0, len(some), TOGETHER)]
        return [seconds for found in pool.map(together, groups) for seconds in found]

    taken: dict[str, list[float]] = {"service": [], "library": [], "together": [], "one": []}
    rates: dict[str, list[float]] = {name: [] for name in taken}
    statuses: Counter[str] = Counter()
    context = multiprocessing.get_context("spawn")
    with served() as service, ProcessPoolExecutor(1, context) as client, ThreadPoolExecutor(workers) as pool:
        size = requests // blocks
        client.submit(drive, HOST, service.port, wire[:size], connections).result()  # warms up
        list(pool.map(ours, items[: size // 4]))
        for begin in range(0, requests, size):
            found = client.submit(drive, HOST, service.port, wire[begin : begin + size], connections).result()
            statuses += found.statuses
            taken["service"] += found.latencies
            rates["service"].append(len(found.latencies) / found.seconds)
            part = items[begin : begin + size]
            jobs: dict[str, Callable[[Any], Iterable[float]]] = {
                "library": lambda some: pool.map(ours, some),
                "together": all_together,
                "one": lambda some: map(ours, some),
            }
            some = part[::ALONE]
            for name, job in jobs.items():
                began = time.perf_counter()
                taken[name] += list(job(some))
                rates[name].append(len(some) / (time.perf_counter() - began))
    rows = [
        {
            "what": what,
            "requests": len(taken[name]),
            "per_second": round(float(np.median(rates[name])), 1),
            **{f"ms_p{p}": round(float(np.percentile(taken[name], p)) * 1e3, 2) for p in (50, 95, 99)},
        }
        for name, what in (
            ("service", f"service, {connections} connections"),
            ("library", f"library, {workers} threads"),
            ("together", f"library, {workers} threads, {TOGETHER} requests at a time"),
            ("one", "library, one after another"),
        )
    ]
    return {"rows": rows, "statuses": dict(statuses)}


def passages(texts: Sequence[str]) -> list[Passage]:
    return [Passage(str(place), text) for place, text in enumerate(texts)]


def table(found: Mapping[str, Any]) -> str:
    head = ("re-ranking ten sentences", "a second", "p50", "p95", "p99")
    rows = [
        (row["what"], f"{row['per_second']:,.0f}", *(f"{row[f'ms_p{p}']:.1f} ms" for p in (50, 95, 99)))
        for row in found["service"]["load"]
    ]
    return readme.markdown(head, rows)


TABLES = {"": table}


# -- a client that puts a service under load -----------------------------------------------------------------------------


CLOSED = "closed"  # stands for the status where a connection was closed without an answer
SILENT = "no answer"  # stands for the status where none came in time
PATIENCE = 60.0  # seconds that a client waits for an answer
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


def request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


@dataclass
class Load:
    """What a run of requests came to."""

    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0


def drive(host: str, port: int, requests: Iterable[bytes], connections: int) -> Load:
    """Send requests over so many connections that are kept open, the next one of each when its answer is there."""
    load, waiting = Load(), iter(requests)

    async def connection() -> None:
        writer = None
        for message in waiting:
            if writer is None:
                reader, writer = await asyncio.open_connection(host, port)
            sent = time.perf_counter()
            writer.write(message)
            status = await answer(reader)
            load.statuses[status] += 1
            load.latencies.append(time.perf_counter() - sent)
            if status in (CLOSED, SILENT):
                writer.close()
                writer = None
            if status == SILENT:
                return
        if writer is not None:
            writer.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(connection() for _ in range(connections)))

    began = time.perf_counter()
    asyncio.run(all_of_them())
    load.seconds = time.perf_counter() - began
    return load


async def answer(reader: asyncio.StreamReader, patience: float = PATIENCE) -> str:
    """Status of the next answer, when it is there as a whole."""
    buffer = bytearray()

    async def whole() -> str:
        while chunk := await reader.read(1 << 16):
            buffer.extend(chunk)
            if (status := status_of(buffer)) is not None:
                return status
        return CLOSED

    try:
        return await asyncio.wait_for(whole(), patience)
    except asyncio.TimeoutError:
        return SILENT
    except OSError:
        return CLOSED


def status_of(buffer: bytes | bytearray) -> str | None:
    """Status of an answer that is there as a whole; None if it is not."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    found = _LENGTH.search(buffer, 0, end + 2)
    whole = end + 4 + (int(found[1]) if found else 0)
    return buffer[9:12].decode("ascii", "replace") if len(buffer) >= whole else None
