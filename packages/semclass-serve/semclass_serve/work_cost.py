"""How long work takes: learned from what was done, and known before a request is taken.

A character's cost in processor time depends on the machine and the models, and is steady. How much longer the same work
takes by the clock depends on who else uses the processors; this is learned from all work, and fades.
"""

from __future__ import annotations

import time
from math import exp

REMEMBERED = 2.0
"""Seconds of processor time after which an earlier cost counts a third."""

FRESH = 10.0
"""Seconds by the clock after which an earlier slowness counts a third."""


class Pace:
    """What work costs: nothing until its second run, as the first one also makes what is made on first use."""

    def __init__(self) -> None:
        self._costs: dict[str, float | None] = {}
        self._slowness = 1.0
        self._when = float("-inf")

    def alone(self, kind: str, cost: int) -> float:
        """Seconds that work of so many characters takes on an idle machine."""
        return (self._costs.get(kind) or 0.0) * cost

    @property
    def slowness(self) -> float:
        """How many times as long work takes now."""
        return 1 + (self._slowness - 1) * self._kept()

    def learn(self, kind: str, cost: int, seconds: float, processor: float, *, whole: bool = True) -> None:
        """Take the time of a run into account; one that is not whole would have cost at least that."""
        if kind not in self._costs:
            self._costs[kind] = None
            return
        each, before = processor / cost, self._costs[kind]
        if before is None:
            self._costs[kind] = each
        elif whole or each > before:
            self._costs[kind] = each + (before - each) * exp(-processor / REMEMBERED)
        slowness = max(seconds / max(processor, 1e-6), 1.0)
        self._slowness = slowness + (self.slowness - slowness) * self._kept()
        self._when = time.monotonic()

    def _kept(self) -> float:
        return exp((self._when - time.monotonic()) / FRESH)
