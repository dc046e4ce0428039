"""On paper: what a billion passages would take, in machines, hours, bytes and money, at the rates that were measured.

Nothing of that size was run. The figures are those of ``scale.json`` and ``living.json``, multiplied; the money is that of
``prices.json``. What is taken for granted is said with the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench import prices
from bench.steps import Bench
from semclass.core import artifacts
from semclass.core.errors import InputError

PASSAGES = 1_000_000_000

DAY = 24
"""Hours in which all passages shall be read."""

MONTH = 730
"""Hours of a month."""

SPARE = 0.25
"""Share of a machine's memory that is left to the system and to the next version of its part of the index."""

PIECES = 135
"""Word pieces of a passage in what was measured, about."""


def run(bench: Bench) -> dict[str, Any]:
    """Multiply; nothing is measured here."""
    scale = _kept(bench, "scale")
    reader = prices.find("machines", "cpu")
    server = prices.find("machines", "memory")
    largest = max(scale["sizes"], key=lambda row: row["passages"])
    rate = max(row["build_per_second"] for row in _kept(bench, "living")["builds"] if row["form"] == "standard")
    kinds = largest["bytes_per_passage"]
    memory = resident_bytes(scale["sizes"])
    return {
        "what": {
            "passages": PASSAGES,
            "machine": reader["name"],
            "serving_machine": server["name"],
            "reading": "every passage is read once, on machines that do nothing else, each as fast as the one that was "
            "measured; no time for starting them, none for passages that are read twice",
            "serving": "each machine holds a part of the passages, every search asks all of them at once and joins their "
            "best; statistics of BM25 are handed to all. The slowest answers last, so that the p95 of a part is nearer "
            "to what a user waits for than its p50; the network is not counted",
            "not run": "no cluster was run; see the README for what of one was",
        },
        "reading": [reading(rate, reader)],
        "bytes": [bytes_of(kinds)],
        "serving": [serving(largest, memory, server)],
        "prompting": [prompting()],
    }


def _kept(bench: Bench, section: str) -> dict[str, Any]:
    path = bench.results / f"{section}.json"
    if not path.exists():
        raise InputError(
            f"{path} is not there, and its rates are what is multiplied here; run `python -m bench {section}`"
        )
    return artifacts.read_json(path)


def resident_bytes(sizes: list[Mapping[str, Any]]) -> float:
    """Memory that one passage more takes in a process that searches, from the two largest sizes."""
    small, large = sorted(sizes, key=lambda row: row["passages"])[-2:]
    return (large["service_peak_mb"] - small["service_peak_mb"]) * 1e6 / (large["passages"] - small["passages"])


def reading(rate: float, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Machines and money for reading all passages within a day, and at leisure."""
    hours = PASSAGES / rate / 3600
    return {
        "passages_per_second_and_machine": rate,
        "pieces_per_passage": PIECES,
        "machine_hours": round(hours),
        "machines_for_a_day": math.ceil(hours / DAY),
        "usd": round(hours * machine["usd_per_hour"]),
    }


def bytes_of(kinds: Mapping[str, float]) -> dict[str, Any]:
    """Disk, with all that re-ranking needs and without."""
    lean = sum(value for kind, value in kinds.items() if kind not in ("tokens", "sentences", "terms"))
    return {
        "standard_tb": round(sum(kinds.values()) * PASSAGES / 1e12, 2),
        "lean_tb": round(lean * PASSAGES / 1e12, 2),
        **{f"{kind}_tb": round(value * PASSAGES / 1e12, 3) for kind, value in kinds.items()},
    }


def serving(row: Mapping[str, Any], memory: float, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Machines that hold all passages, what they cost, and what a search takes."""
    room = machine["memory_gb"] * 1e9 * (1 - SPARE)
    part = int(room / memory)
    machines = math.ceil(PASSAGES / part)
    # what grows with the passages does so in proportion; what does not is counted as if it did, for a part above what was
    # measured, and is not counted at all for one below
    growth = max(part / row["passages"], 1)
    milliseconds = {name: row[f"{name}_ms_p50"] * growth for name in ("plain", "learned")}
    per_second = machine["vcpus"] * 1e3 / milliseconds["learned"]
    monthly = machines * machine["usd_per_hour"] * MONTH
    return {
        "resident_bytes_per_passage": round(memory),
        "memory_gb": machine["memory_gb"],
        "passages_per_machine": part,
        "machines": machines,
        "usd_per_month": round(monthly),
        **{f"{name}_ms_p50_of_a_part": round(value, 1) for name, value in milliseconds.items()},
        "learned_ms_p95_of_a_part": round(row["learned_ms_p95"] * growth, 1),
        "searches_per_second": round(per_second, 1),
        "usd_per_million_searches_when_busy": round(monthly / (per_second * 3600 * MONTH) * 1e6),
    }


def prompting() -> dict[str, Any]:
    """The same classes of passages by the reference's prompts, at the second a call that the reference assumes."""
    _, calls = prices.THESIS_CALLS["passage classes"]
    seconds = PASSAGES * calls * prices.ASSUMED_SECONDS
    gpu = prices.find("machines", "gpu")
    return {
        "calls_per_passage": calls,
        "assumed_seconds_per_call": prices.ASSUMED_SECONDS,
        "gpu_years": round(seconds / 3600 / 24 / 365),
        "usd": round(seconds / 3600 * gpu["usd_per_hour"]),
    }
