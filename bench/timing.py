"""How benchmarks take times: one item after another, after a warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # steps that time other systems must not hold semclass in memory
    from semclass import HybridRetriever
    from semclass.index.records import Candidates, Query
from semclass.ranking.methods import Method
from semclass.ranking.order import needs, reorder

WARM_UP = 20  # items that are run before the clock starts


def each(items: Sequence[Any], job: Callable[[Any], object]) -> list[float]:
    return by_turns(items, {"": job})[""]


def encode(retriever: HybridRetriever, text: str, how: Method) -> Query:
    """Read a question as a search by a method does: what the method looks at, and no more."""
    return retriever.models.encode([text], **needs(retriever.models, how))[0]


def rerank(retriever: HybridRetriever, query: Query, found: Candidates, how: Method) -> Candidates:
    """Order candidates by their places in the index: what the method reads of them is fetched and decoded here."""
    if needs(retriever.models, how)["tokens"]:
        found = replace(found, evidence=retriever.index.evidence(found.rows, retriever.models.passage_encoder))
    return reorder(retriever.models, query, found, how)


def percentiles(seconds: Mapping[str, Sequence[float]], scale: float, digits: int) -> dict[str, float]:
    """Median and 95th percentile of each list, as ``NAME_p50`` and ``NAME_p95``, times `scale`."""
    return {
        f"{name}_p{percent}": round(float(np.percentile(values, percent)) * scale, digits)
        for name, values in seconds.items()
        for percent in (50, 95)
    }


def milliseconds(seconds: Sequence[float], prefix: str = "", digits: int = 4) -> dict[str, float]:
    """Median and 95th percentile, as ``p50_ms`` and ``p95_ms`` behind `prefix`."""
    return {f"{prefix}p{q}_ms": round(float(np.percentile(seconds, q)) * 1e3, digits) for q in (50, 95)}


def by_turns(
    items: Sequence[Any], jobs: Mapping[str, Callable[[Any], object]], *, block: int = 20
) -> dict[str, list[float]]:
    """Seconds of several jobs for each item, taken in turns so that a slow moment of the machine meets all of them."""
    for job in jobs.values():
        for item in items[:WARM_UP]:
            job(item)
    values: dict[str, list[float]] = {name: [] for name in jobs}
    for begin in range(0, len(items), block):
        for name, job in jobs.items():
            for item in items[begin : begin + block]:
                started = time.perf_counter()
                job(item)
                values[name].append(time.perf_counter() - started)
    return values
