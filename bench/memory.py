"""Memory of one process over 100,000 searches: what each search left behind would add up.

Two callers share a retriever, as a service's threads do. They ask the questions of two sets, and made-up ones of up to a
hundred words, so that lengths change all the time; some searches have a filter, some are explained, some look at 100
candidates, and some are refused. Memory is looked at after every 2,000 searches, while none runs. Other work on the machine
changes the time that this takes, and not what it finds.

What searches keep is what the allocator of the C library has given out and not got back, and Python's small objects, of up
to 512 bytes, which have an allocator of their own and are counted. What is resident also holds what the allocators did get
back and keep for the next request, in a pool for each thread, until no mixture of sizes needs more; it is told beside that.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench import growth, scale
from bench.steps import Bench
from semclass import HybridRetriever
from semclass.core.errors import InputError

PASSAGES, FEW_PASSAGES = 10_000, 1_000
SEARCHES = 100_000
EVERY = 2_000
"""Searches between two looks at the memory; as many are made before the first look."""

SECONDS = 1_200
"""No further 2,000 are begun that would not end by then: a busy machine makes fewer, and the result says how many."""

CALLERS = 2
AT_AN_END = 5
"""Looks at the beginning, in the middle and at the end whose medians are compared; a quarter of all, if those are fewer."""

SETS = ("squad4", "pubmedqa")
WORDS = 12
"""Words of a made-up question on average: one has a hundred in a few thousand."""

SOME = [str(number) for number in range(0, PASSAGES, 3)]
"""Ids of passages that a filter lets through."""

KINDS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("re-ranked", 56, {}),
    ("not re-ranked", 20, {"rerank": None}),
    ("filtered", 10, {"where": {"_id": {"$in": SOME}}}),
    ("explained", 5, {"explain": True}),
    ("integrated, with class match", 5, {"rerank": "integrated", "match": "soft"}),
    ("100 candidates", 2, {"candidates": 100}),
    ("refused", 2, {"k": 0}),
)
"""What kinds of searches there are, how many of a hundred, and their options."""


def run(bench: Bench) -> dict[str, Any]:
    """Memory over searches of a corpus that :mod:`bench.scale` made."""
    few = bench.quick
    pool, _ = scale.sentences(bench)
    folder, _ = scale.made(bench, FEW_PASSAGES if few else PASSAGES, pool)
    count, every = (200, 20) if few else (SEARCHES, EVERY)
    found = bench.step("memory", "bench.memory:searches", index=folder, data=str(bench.data), count=count, every=every)
    if found["searches"] < SEARCHES:
        return {**found, "grown_mb": None, "grown_objects": None}
    grown = {row["of"]: row["second half"] for row in found["memory"]}
    objects = grown.pop(MEMORIES["objects"])
    return {**found, "grown_mb": grown, "grown_objects": round(1000 * objects)}


def searches(index: str, data: str, count: int, every: int) -> dict[str, Any]:
    """Search `count` times, after `every` searches that nothing is measured of.

    Parameters
    ----------
    index, data
        Folders.
    count, every
        Searches, and those between two looks at the memory.

    Returns
    -------
    dict
        ``passages``, ``callers``, ``searches`` (those after the first `every`), how many there were of all ``kinds``,
        ``refused`` (in all), ``looks`` (see :data:`MEMORIES`), and ``memory``: see :func:`line`, for each of them.
    """
    retriever = HybridRetriever.load(index, verify=False)
    asked, kinds = questions(data, count + every), _kinds(count + every)
    looks: list[dict[str, float]] = []
    refused, started = 0, time.monotonic()
    with ThreadPoolExecutor(CALLERS) as callers:
        for begin in range(0, count + every, every):
            if not _is_time(time.monotonic() - started, len(looks)):
                break
            here = slice(begin, begin + every)
            refused += sum(callers.map(lambda text, kind: _is_refused(retriever, text, kind), asked[here], kinds[here]))
            looks.append({**given_out(), "objects": small_objects(), **growth.resident()})
    made = np.bincount(kinds[every : every * len(looks)], minlength=len(KINDS))
    return {
        "passages": len(retriever.index),
        "callers": CALLERS,
        "searches": int(made.sum()),
        "kinds": [{"searches": int(made.sum()), **{name: int(n) for (name, *_), n in zip(KINDS, made, strict=True)}}],
        "refused": refused,
        "memory": [
            {"of": what, **line([look[key] for look in looks], every)}
            for key, what in MEMORIES.items()
            if key in looks[0]
        ],
        "looks": looks,
    }


MEMORIES = {
    "used": "given out",
    "objects": "small objects, thousands",
    "own": "the process's own",
    "files": "mapped files",
    "all": "all that is resident",
}
"""What :func:`given_out`, :func:`small_objects` and :func:`bench.growth.resident` give; MB but for objects."""


def _is_time(seconds: float, done: int) -> bool:
    """Whether one more round, which takes as long as those that are `done` on average, ends within :data:`SECONDS`."""
    return not done or seconds * (done + 1) / done <= SECONDS


def small_objects() -> float:
    """How many blocks of up to 512 bytes Python has given out and not got back, in thousands, without garbage."""
    gc.collect()
    return round(sys.getallocatedblocks() / 1000, 2)


def given_out() -> dict[str, float]:
    """What the allocator of the C library has given out, MB of 10^6 bytes; empty but for glibc.

    Python asks it for all that is above 512 bytes; smaller objects are not in it, see :func:`small_objects`.
    """
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", ()):
        return {}
    libc = ctypes.CDLL(None)
    libc.open_memstream.restype = ctypes.c_void_p
    for function in (libc.fclose, libc.free):
        function.argtypes = [ctypes.c_void_p]
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    sums = (text.value or b"").decode().rpartition("</heap>")[2]  # over all pools, behind the last of them
    libc.free(text)
    sizes = {kind: int(size) for kind, size in re.findall(r'type="(\w+)"(?: count="\d+")? size="(\d+)"', sums)}
    held = sizes["current"] + sizes["mmap"] - sizes["fast"] - sizes["rest"]
    return {"used": round(held / 1e6, 2)}


def line(looks: Sequence[float], every: int) -> dict[str, float]:
    """What looks `every` searches apart say, in their unit; the slope is by least squares, in 10,000 searches.

    ``second half`` is what they grew by from the middle to the end, ``grown`` from the beginning to the end. Both are told
    by medians of some looks, whose middles lie closer together than that, so what they differ by is scaled. Fewer than
    three looks tell nothing of the three.
    """
    spans, half, few = len(looks) - 1, len(looks) // 2, max(min(AT_AN_END, len(looks) // 4), 1)
    first, middle, last = (float(np.median(part)) for part in (looks[:few], looks[half : half + few], looks[-few:]))
    found = {"first": round(first, 2), "last": round(last, 2), "most": max(looks)}
    if spans < 2:
        return found
    slope = np.polyfit(np.arange(len(looks)) * every / 10_000, looks, 1)[0]
    return {
        **found,
        "grown": round((last - first) * spans / (spans + 1 - few), 2),
        "second half": round((last - middle) * (spans / 2) / (spans + 1 - few - half), 2),
        "slope": round(float(slope), 3),
    }


def questions(data: str, count: int) -> list[str]:
    """Texts to ask, the same for the same count: of the sets and made up, in turns, those of the sets again and again."""
    sets = [_of(Path(data) / "beir" / name / "queries.jsonl") for name in SETS]
    words = np.array(sorted({word for texts in sets for text in texts for word in text.split()}), dtype=object)
    random = np.random.default_rng(0)

    def made_up() -> str:
        return " ".join(random.choice(words, 1 + int(random.exponential(WORDS))))

    turns: list[Callable[[int], str]] = [*(lambda number, texts=texts: texts[number % len(texts)] for texts in sets)]
    turns.append(lambda _: made_up())
    return [turns[number % len(turns)](number // len(turns)) for number in range(count)]


def _of(queries: Path) -> list[str]:
    with queries.open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def _kinds(count: int) -> list[int]:
    """Place in :data:`KINDS` of each search: all kinds in each hundred, mixed."""
    hundred = np.repeat(np.arange(len(KINDS)), [share for _, share, _ in KINDS])
    mixed = np.random.default_rng(0).permutation(hundred)
    return [int(kind) for kind in np.resize(mixed, count)]


def _is_refused(retriever: HybridRetriever, text: str, kind: int) -> bool:
    try:
        retriever.search(text, **KINDS[kind][2])
    except InputError:
        return True
    return False
