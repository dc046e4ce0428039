"""Callers that share one retriever: what two processors make of several threads.

Every number of callers asks the same questions, by turns, and the answers have to be the same to the last bit.

What the processors themselves give is measured beside it, by two processes that share nothing: where two virtual
processors are one core, two of anything are far from twice as fast.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np

from bench import growth, scale
from bench.steps import Bench
from semclass import HybridRetriever
from semclass.core.types import Hit

CALLERS = (1, 2, 8)
ROUNDS = 5
"""Rounds in which every number of callers has its turn; the median of their ratios counts."""

SIZES = (1_000, 10_000, 1_000_000)
"""Passages: the first for quick runs."""

ASKED = 100


def run(bench: Bench) -> dict[str, Any]:
    """Throughput on corpora that :mod:`bench.scale` made, with and without re-ranking."""
    data, rows, few = str(bench.data), [], bench.quick
    pool, _ = scale.sentences(bench)
    sizes = SIZES[:1] if few else SIZES[1:]
    middle, _ = scale.made(bench, sizes[0], pool)
    for size in sizes:
        folder, _ = scale.made(bench, size, pool)
        for blas in (1, os.cpu_count() or 1) if size == sizes[0] else (1,):
            found = bench.step(
                f"concurrency/{size}-{blas}",
                "bench.concurrency:callers",
                threads=blas,
                index=folder,
                data=data,
                limit=20 if few else ASKED,
            )
            rows += [{"passages": size, "blas_threads": blas, **row} for row in found["rows"]]
    apart = bench.step(
        "concurrency/processes", "bench.concurrency:processes", index=middle, data=data, limit=20 if few else ASKED
    )
    eight = [row for row in rows if (row["callers"], row["blas_threads"]) == (max(CALLERS), 1)]
    return {
        "processors": os.cpu_count(),
        "callers": rows,
        "eight_over_one": {f"{row['passages']}, {row['rerank']}": row["ratio"] for row in eight},
        "different": sum(not row["same_answers"] for row in rows),
        "processes": apart["rows"],
        "of_processes": {
            rerank: round(row["ratio"] / found["ratio"], 3)
            for row in eight
            if row["passages"] == sizes[0]
            for found in apart["rows"]
            if (rerank := row["rerank"]) == found["rerank"]
        },
    }


def callers(index: str, data: str, limit: int) -> dict[str, Any]:
    """Searches a second with each number of callers, by turns, and whether all gave the same answers."""
    retriever, asked = HybridRetriever.load(index, verify=False), growth.questions(data, limit)
    rows = []
    for rerank in (None, "learned"):

        def search(text: str, rerank: str | None = rerank) -> list[Hit]:
            return retriever.search(text, rerank=rerank)

        expected = [search(text) for text in asked]
        rates: dict[int, list[float]] = {count: [] for count in CALLERS}
        same = dict.fromkeys(CALLERS, True)
        for _ in range(ROUNDS):
            for count in CALLERS:
                with ThreadPoolExecutor(count) as pool:
                    started = time.perf_counter()
                    answers = list(pool.map(search, asked))
                    rates[count].append(len(asked) / (time.perf_counter() - started))
                same[count] &= answers == expected
        rows += [
            {
                "rerank": rerank or "none",
                "callers": count,
                "per_second": round(float(np.median(rates[count])), 1),
                "ratio": round(float(np.median(np.divide(rates[count], rates[1]))), 3),
                "same_answers": same[count],
            }
            for count in CALLERS
        ]
    return {"rows": rows}


def processes(index: str, data: str, limit: int) -> dict[str, Any]:
    """Searches a second of two processes over those of one, by turns: what the processors give to what shares nothing."""
    asked = growth.questions(data, limit)
    context, rows = multiprocessing.get_context("spawn"), []
    with (
        ProcessPoolExecutor(1, context, initializer=_open, initargs=(index,)) as one,
        ProcessPoolExecutor(2, context, initializer=_open, initargs=(index,)) as two,
    ):
        for rerank in (None, "learned"):
            rates: dict[int, list[float]] = {1: [], 2: []}
            for number in range(ROUNDS + 1):  # the first one warms up
                for count, pool in ((1, one), (2, two)):
                    half = [asked[place::2] for place in range(2)]
                    started = time.perf_counter()
                    list(pool.map(_search, half, [rerank] * 2))
                    if number:
                        rates[count].append(len(asked) / (time.perf_counter() - started))
            ratio = float(np.median(np.divide(rates[2], rates[1])))
            per_second = {f"per_second_{count}": round(float(np.median(rates[count])), 1) for count in rates}
            rows.append({"rerank": rerank or "none", **per_second, "ratio": round(ratio, 3)})
    return {"rows": rows}


_opened: list[HybridRetriever] = []


def _open(index: str) -> None:
    """What a process of :func:`processes` searches."""
    _opened.append(HybridRetriever.load(index, verify=False))


def _search(asked: Sequence[str], rerank: str | None) -> int:
    """Search in such a process."""
    return sum(len(_opened[0].search(text, rerank=rerank)) for text in asked)
