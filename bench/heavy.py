"""The heaviest bodies that the service reads, at once, beside one small search a second, on a busy machine.

``python -m bench.heavy --data DATA`` prints what each was answered and when; the section *service* keeps the same. The
machine is kept busy by a process that does nothing but count. A heavy body has texts of 4,100 characters, all different:
960, which is as many as a body holds, and fewer. In the last row, clients go away as soon as they have asked.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import click

from bench import growth, http_load, service
from semclass import Passage, PassageIndex
from semclass.documents.readers import read_corpus

CHARACTERS = 4_100
BODIES = (960, 400, 40, 10)
"""Texts of a body."""

AT_ONCE = 2
PASSAGES = 500
PAUSE = 1.0
"""Seconds between two searches."""

SOON = 1.0
"""Seconds in which what cannot be done is to be refused."""

CALM = 2.0
"""Seconds after the last answer in which the processor is to be idle again, and in which that is looked at."""

SEARCHES_AFTER = 2


def measure(data: str) -> dict[str, Any]:
    """One row for each kind of body."""
    texts, questions = _texts(data), growth.questions(data, 200)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder) / "index")
        PassageIndex.build(_passages(data)).save(index)
        for count, ask in [*((count, _ask) for count in BODIES), (BODIES[-1], _leave)]:
            # a process of its own for each: what one kind is answered does not depend on the kind before
            with service.served(index) as served, _busy():
                rows.append({"bodies": f"{AT_ONCE} x {count} texts", **_beside(served, texts, questions, count, ask)})
    return {"rows": rows, "characters": CHARACTERS}


def _beside(
    served: service.Served,
    texts: Iterator[str],
    questions: list[str],
    count: int,
    ask: Callable[[service.Served, bytes], tuple[str, float]],
) -> dict[str, Any]:
    """Two bodies at once, and a search a second until both are answered and a few seconds more."""
    bodies = [{"query": questions[0], "documents": list(islice(texts, count))} for _ in range(AT_ONCE)]
    heavy = [http_load.request(service.PATH, json.dumps(body).encode()) for body in bodies]
    small = itertools.cycle(_search(question) for question in questions)
    waited, left = [], SEARCHES_AFTER
    _ask(served, next(small))
    with ThreadPoolExecutor(AT_ONCE + 64) as pool:
        asked = [pool.submit(ask, served, message) for message in heavy]
        while left:
            waited.append(pool.submit(_ask, served, next(small)))
            time.sleep(PAUSE)
            left -= all(answer.done() for answer in asked)
        found = [answer.result() for answer in asked]
        searches = [answer.result() for answer in waited]
    time.sleep(CALM)
    before = served.seconds()
    time.sleep(CALM)
    return {
        "heavy": _counted(found),
        "heavy_s": round(max(seconds for _, seconds in found), 2),
        "refused_s": round(max((seconds for status, seconds in found if status[0] in "45"), default=0.0), 2),
        "searches": _counted(searches),
        "slowest_search_s": round(max(seconds for _, seconds in searches), 2),
        "processor_s_afterwards": round(served.seconds() - before, 2),
    }


def _ask(served: service.Served, message: bytes) -> tuple[str, float]:
    """Status and seconds of an answer."""
    load = http_load.drive(service.HOST, served.port, [message], 1)
    return next(iter(load.statuses)), load.latencies[0]


def _leave(served: service.Served, message: bytes) -> tuple[str, float]:
    """Ask, and go away when the work is likely to have begun."""
    with socket.create_connection((service.HOST, served.port)) as connection:
        connection.sendall(message)
        time.sleep(SOON)
    return http_load.CLOSED, SOON


def _counted(answers: list[tuple[str, float]]) -> str:
    counts = Counter(status for status, _ in answers)
    return ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))


def _search(question: str) -> bytes:
    return http_load.request("/api/search", json.dumps({"question": question}).encode())


def _texts(data: str) -> Iterator[str]:
    """Texts of so many characters, one after another out of all passages; after the last comes the first again."""
    whole = " ".join(item.text for item in read_corpus(Path(data) / "beir" / "squad4" / "corpus.jsonl"))
    return (whole[begin : begin + CHARACTERS] for begin in itertools.cycle(range(0, len(whole) - CHARACTERS, 1_013)))


def _passages(data: str) -> list[Passage]:
    return list(islice(read_corpus(Path(data) / "beir" / "squad4" / "corpus.jsonl"), PASSAGES))


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """A process that counts, as long as this lasts."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False), required=True)
def main(data: str) -> None:
    """Print the rows."""
    for row in measure(data)["rows"]:
        click.echo(", ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main(prog_name="python -m bench.heavy")
