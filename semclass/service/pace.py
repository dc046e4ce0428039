"""How long work takes: measured as it is done, and known before a request is taken.

Two figures are kept apart. What a character costs in a processor's time belongs to the machine and the models, and is
steady. How much longer the same work takes by the clock depends on who else wants the processors, other processes among
them; it is learned from all work, and what was learned wears off.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import exp

REMEMBERED = 2.0
"""Seconds of a processor's time after which what a character cost before counts a third."""

FRESH = 10.0
"""Seconds by the clock after which the slowness that there was counts a third."""


@dataclass(frozen=True)
class Taken:
    """What a run took.

    Attributes
    ----------
    seconds
        By the clock.
    processor
        Of a processor.
    whole
        Whether all of it was done; else it would have cost at least that.
    """

    seconds: float
    processor: float
    whole: bool


class Clock:
    """Measures a run from now on, in the thread that does it."""

    def __init__(self) -> None:
        self._seconds, self._processor = time.perf_counter(), time.thread_time()

    def taken(self, *, whole: bool) -> Taken:
        """What it took until now."""
        return Taken(time.perf_counter() - self._seconds, time.thread_time() - self._processor, whole)


class Pace:
    """What work costs.

    The first run of a kind makes what is made on first use, and teaches nothing; until the second one, work costs nothing.
    """

    def __init__(self) -> None:
        self._costs: dict[str, float] = {}
        self._seen: set[str] = set()
        self._slowness = 1.0
        self._when = float("-inf")

    def alone(self, kind: str, cost: int) -> float:
        """Seconds that work of a kind takes where nothing else is done."""
        return self._costs.get(kind, 0.0) * cost

    @property
    def slowness(self) -> float:
        """How many times as long it takes now."""
        return 1 + (self._slowness - 1) * self._kept()

    def learn(self, kind: str, cost: int, taken: Taken) -> None:
        """Take a run into account."""
        if kind not in self._seen:
            self._seen.add(kind)
            return
        each = taken.processor / cost
        before = self._costs.get(kind)
        if before is None:
            self._costs[kind] = each
        elif taken.whole or each > before:
            self._costs[kind] = each + (before - each) * exp(-taken.processor / REMEMBERED)
        slowness = max(taken.seconds / max(taken.processor, 1e-6), 1.0)
        self._slowness = slowness + (self.slowness - slowness) * self._kept()
        self._when = time.monotonic()

    def _kept(self) -> float:
        return exp((self._when - time.monotonic()) / FRESH)
