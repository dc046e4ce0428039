"""Aims that were set before anything was measured, from ``targets.json``, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.reporting.tables import NONE, Results, is_quick, number, table
from bench.reporting.words import said

FILE = Path(__file__).with_suffix(".json")
MINUTES = {True: 5, False: 60}  # how long a quick benchmark may take, and a full one


@dataclass(frozen=True)
class Target:
    """An aim for one figure; without a bound the figure is only shown."""

    what: str
    section: str
    way: str  # keys that lead to the figure; "*" for all keys of an object, of which the worst figure counts
    least: float | None = None
    most: float | None = None
    less: str | None = None  # way to a figure that is subtracted
    unit: str = ""

    def found(self, results: Results) -> float | None:
        """The figure; None if nothing measured it."""
        found = [_numbers(results.get(self.section), way.split(".")) for way in (self.way, self.less) if way]
        if not all(found):
            return None
        first, *others = (min(values) if self.most is None else max(values) for values in found)
        return float(f"{first - sum(others):.6g}")

    def row(self, results: Results) -> list[str]:
        """For the table: aim, bound, what came out, whether it is met, where it is from."""
        value = self.found(results)
        bound = "shown" if self.most is None else f"≤ {self.most:,g}{self.unit}"
        bound = bound if self.least is None else f"≥ {self.least:,g}{self.unit}"
        if value is None:
            return [self.what, bound, NONE, "not measured", NONE]
        met = value >= (self.least or 0) if self.most is None else value <= self.most
        verdict = NONE if bound == "shown" else "yes" if met else "**no**"
        ways = " less ".join(f"`{way}`" for way in (self.way, self.less) if way)
        return [self.what, bound, f"{number(value)}{self.unit}", verdict, f"`{self.section}.json`: {ways}"]


def _numbers(value: Any, way: Sequence[str]) -> list[float]:
    """All figures that a way leads to."""
    if not way:
        return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []
    if not isinstance(value, Mapping):
        return []
    first, *rest = way
    nexts = value.values() if first == "*" else [value.get(first)]
    return [number for item in nexts for number in _numbers(item, rest)]


def targets(found: Results) -> str:
    """Aims and what came of them."""
    if not found:
        return ""
    rows = [Target(**fields).row(found) for fields in json.loads(FILE.read_text(encoding="utf-8"))]
    rows += [row for quick in MINUTES for row in _duration(found, quick)]
    return f"{said('targets')}\n\n" + table(("aim", "bound", "found", "met", "from"), rows)


def _duration(found: Results, quick: bool) -> list[list[str]]:
    """How long the sections of one kind took, if there are any; a step that several sections share counts once."""
    given = [results for results in found.values() if is_quick(results) == quick and "seconds_of_section" in results]
    known: set[str] = set()
    seconds = 0.0
    for results in given:
        steps = {step["step"]: step["seconds"] for step in results.get("steps", ())}
        own = sum(taken for name, taken in steps.items() if name not in known)
        seconds += max(results["seconds_of_section"], own)
        known.update(steps)
    if not given:
        return []
    kind, spent, most = "quick" if quick else "full", seconds / 60, MINUTES[quick]
    what = f"{kind} benchmark, {len(given)} sections; steps that an earlier run had kept count as they took then"
    met = "yes" if spent <= most else "**no**"
    return [[what, f"≤ {most} minutes", f"{number(spent)} minutes", met, "all files: `seconds_of_section`, `steps`"]]
