"""What a search costs its neighbours: ``PYTHONPATH=. python tests/service/small_searches.py INDEX``.

Starts ``semclass serve`` on an index, and lets clients of a process of their own ask for what takes most, beside one small
search a second. Says how slow the slowest small search was, what was answered, and the memory before, in between and after.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import click

from bench import readme, service

CLIENTS, SECONDS = 32, 20.0
REST = 15.0
"""Seconds after the clients until memory is looked at: what was freed is given back when all is quiet."""

SMALL = {"question": "Who designed the lighthouse?", "k": 3}
LONGEST = 99_000  # characters, below the limit of a text
TOO_LONG = 120_000
NAME = 4_000_000  # characters of a field's name, below the limit of a body

FORMS = {
    "words": "where the river goes and who knows ",
    "sentences": "The light of the router is red. I have no idea why. ",
    "questions": "Who won the game? ",
    "letters": "a b ",
    "marks": "a,b;",  # one word of many pieces
    "Chinese": "我们在河边看见灯塔",
}
"""What long questions are made of: an encoder has between one and five characters to a piece."""


def long_questions() -> list[dict[str, Any]]:
    return [
        {"question": (form * length)[:length]}
        for form in FORMS.values()
        for length in (LONGEST, TOO_LONG, LONGEST // 10)
    ]


def explained() -> list[dict[str, Any]]:
    """All hits explained: of short questions, and of questions of the length of a page."""
    return [
        {"question": (form * 1200)[:length], "k": 1000, "explain": True}
        for form in FORMS.values()
        for length in (100, 1200)
    ]


def huge_filters() -> list[dict[str, Any]]:
    name = "n" * NAME
    many = {"$or": [{f"{place:04d}{name[:4000]}": 1} for place in range(400)]}
    filters: list[dict[str, Any]] = [{name: 1}, {"$or": [{name: {"$gte": "x"}}]}, {"page": {name: 1}}, many]
    return [{"question": SMALL["question"], "where": where} for where in filters]


SCENARIOS = {
    f"{CLIENTS} clients, the longest questions": (long_questions, CLIENTS),
    "4 clients, 1,000 hits explained": (explained, 4),
    "8 clients, names of 4 MB in filters": (huge_filters, 8),
}


@dataclass(frozen=True)
class Found:
    """What came of a scenario; memory in MB."""

    what: str
    slowest_ms: float
    median_ms: float
    small: Mapping[str, int]  # answers to the small searches by status
    answers: Mapping[str, int]
    before_mb: float
    peak_mb: float
    after_mb: float
    load: tuple[float, float]  # of the machine, before and after


def attack(port: int, kind: str, seconds: float) -> dict[str, int]:
    """Clients of a scenario for some seconds; gives how many answers of each status."""
    make, clients = SCENARIOS[kind]
    messages = [service.request("/api/search", json.dumps(body).encode()) for body in make()]
    end = time.monotonic() + seconds

    def until() -> Iterator[bytes]:
        for message in cycle(messages):
            if time.monotonic() >= end:
                return
            yield message

    return dict(service.drive(service.HOST, port, until(), clients).statuses)


def resident(process: int) -> float:
    """Resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def scene(kind: str, started: service.Served, client: ProcessPoolExecutor, seconds: float) -> Found:
    """Run a scenario beside small searches."""
    message = service.request("/api/search", json.dumps(SMALL).encode())
    before, load = resident(started.process.pid), os.getloadavg()[0]
    peak, over = [before], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            peak.append(resident(started.process.pid))

    watching = threading.Thread(target=watch)
    watching.start()
    running = client.submit(attack, started.port, kind, seconds)
    taken: list[float] = []
    small: Counter[str] = Counter()
    while not running.done():
        found = service.drive(service.HOST, started.port, [message], 1)
        small += found.statuses
        taken += found.latencies
        time.sleep(max(1 - found.seconds, 0))
    over.set()
    watching.join()
    time.sleep(REST)
    return Found(
        kind,
        round(max(taken) * 1e3),
        round(statistics.median(taken) * 1e3),
        dict(small),
        running.result(),
        round(before),
        round(max(peak)),
        round(resident(started.process.pid)),
        (load, os.getloadavg()[0]),
    )


def table(rows: list[Found]) -> str:
    head = (
        "beside small searches",
        "slowest",
        "median",
        "their answers",
        "answers",
        "MB before",
        "peak",
        "after",
        "load",
    )
    return readme.markdown(
        head,
        [
            (
                row.what,
                f"{row.slowest_ms:,.0f} ms",
                f"{row.median_ms:,.0f} ms",
                _counts(row.small),
                _counts(row.answers),
                *(f"{value:,.0f}" for value in (row.before_mb, row.peak_mb, row.after_mb)),
                " to ".join(f"{value:.1f}" for value in row.load),
            )
            for row in rows
        ],
    )


def _counts(answers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(answers.items()))


@click.command(help=__doc__)
@click.argument("index", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seconds", default=SECONDS, help="Of each scenario.")
@click.option("--times", default=2, help="How often all of it is measured, each time by a new service.")
@click.option("--json", "as_json", is_flag=True, help="Lines of JSON in place of a table.")
def main(index: Path, seconds: float, times: int, *, as_json: bool) -> None:
    """Measure and print."""
    context = multiprocessing.get_context("spawn")
    for _ in range(times):
        with service.served(str(index)) as started, ProcessPoolExecutor(1, context) as client:
            small = service.request("/api/search", json.dumps(SMALL).encode())
            service.drive(service.HOST, started.port, [small] * 20, 2)
            rows = [scene(kind, started, client, seconds) for kind in SCENARIOS]
        for line in [json.dumps(asdict(row)) for row in rows] if as_json else [table(rows)]:
            click.echo(line)


if __name__ == "__main__":
    main()
