"""How benchmarks take times: one item after another, after a warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

WARM_UP = 20
"""Items that are run before the clock starts."""


def each(items: Sequence[Any], job: Callable[[Any], object]) -> list[float]:
    """Seconds of a job for each item."""
    for item in items[:WARM_UP]:
        job(item)
    values = []
    for item in items:
        started = time.perf_counter()
        job(item)
        values.append(time.perf_counter() - started)
    return values


def percentiles(seconds: Mapping[str, Sequence[float]], scale: float, digits: int) -> dict[str, float]:
    """Median and 95th percentile of each list, as ``NAME_p50`` and ``NAME_p95``, times `scale`."""
    return {
        f"{name}_p{percent}": round(float(np.percentile(values, percent)) * scale, digits)
        for name, values in seconds.items()
        for percent in (50, 95)
    }
