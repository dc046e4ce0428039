"""Aims that were set before anything was measured, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.reporting.tables import NONE, Results, at, escape, is_quick, name_of, number, table
from bench.reporting.words import said

Way = tuple[str, ...]
"""Keys that lead to a figure."""


@dataclass(frozen=True)
class Target:
    """An aim.

    Attributes
    ----------
    what
        What was to be reached.
    section, way
        Where the figure is.
    least, most
        Bounds that it must keep.
    less
        Way to a figure that is taken from it.
    unit
        Behind the figures.
    """

    what: str
    section: str
    way: Way
    least: float | None = None
    most: float | None = None
    less: Way | None = None
    unit: str = " x"

    def found(self, results: Results) -> Any:
        """The figure; None if nothing measured it."""
        values = [at(results, self.section, *way) for way in (self.way, self.less) if way is not None]
        if not all(isinstance(value, int | float) for value in values):
            return None
        return round(values[0] - sum(values[1:]), 4)

    def row(self, results: Results) -> list[str]:
        """For the table: aim, bound, what came out, whether it is met, where it is from."""
        value = self.found(results)
        bound = f"≥ {self.least:,g}{self.unit}" if self.least is not None else f"≤ {self.most:,g}{self.unit}"
        if value is None:
            return [self.what, bound, NONE, "not measured", NONE]
        met = value >= self.least if self.least is not None else value <= (self.most or 0)
        ways = " less ".join(f"`{'.'.join(way)}`" for way in (self.way, self.less) if way is not None)
        verdict = "yes" if met else "**no**"
        return [self.what, bound, f"{number(value)}{self.unit}", verdict, f"`{self.section}.json`: {ways}"]


TEN_LINES = ("ratios", "sentence_transformers_over_semclass")

PROMPTED = ("ratios", "flan_ul2_over_semclass")

ALONE = Target(
    "text to question label: time of the prompted model (the thesis's figure, hardware and batch unknown) over that of "
    "semclass, measured alone",
    "questions",
    (*PROMPTED, "p50_ratio"),
    least=1000,
)

AMONG = Target(
    "the same, semclass measured among the runs of peers, in turns",
    "questions",
    (*PROMPTED, "p50_ratio_among_peers"),
    least=1000,
)

RERANKED = Target(
    "re-ranking ten candidates of an index, whose passages were read before: time of the int8 cross-encoder over that of "
    "`learned`, in turns",
    "retrieval",
    ("ratios", "cross_encoder_over_learned"),
    least=50,
)

TARGETS = (
    Target(
        "text to question label: time of sentence-transformers (default back end: torch, 32 bits) + scikit-learn over that "
        "of semclass, one thread, in turns",
        "questions",
        (*TEN_LINES, "p50_ratio"),
        least=5,
    ),
    Target(
        "the same, accuracy of semclass less theirs",
        "questions",
        (*TEN_LINES, "semclass_accuracy"),
        less=(*TEN_LINES, "accuracy"),
        least=0,
        unit="",
    ),
    ALONE,
    AMONG,
    Target(
        "BM25 over 100,000 passages: time of rank-bm25 over that of semclass (computed by bm25s), on the same scores",
        "scale",
        ("ratios", "rank_bm25_over_semclass"),
        least=50,
    ),
    RERANKED,
    Target(
        "peak memory of a service process with 100,000 passages",
        "scale",
        ("service_peak_mb", "100000"),
        most=500,
        unit=" MB",
    ),
)

MINUTES = {True: 5, False: 60}
"""How long a quick benchmark may take, and a full one."""


def targets(found: Results) -> str:
    """Aims and what came of them."""
    if not found:
        return ""
    told = {AMONG: _money(found), RERANKED: _end_to_end(found)}
    rows = [row for target in TARGETS for row in [target.row(found), *told.get(target, [])]]
    rows += [row for quick in MINUTES for row in _duration(found, quick)]
    return f"{said('targets')}\n\n" + table(("aim", "bound", "found", "met", "from"), rows)


def _money(found: Results) -> list[list[str]]:
    """What a million calls cost, prompted as recorded and by semclass."""
    systems = at(found, "questions", "systems") or []
    priced = [row for row in systems if row.get("usd_per_million") is not None]
    theirs = next((row for row in priced if row.get("recorded")), None)
    ours = next((row for row in priced if row.get("kind") == "semclass"), None)
    if theirs is None or ours is None:
        return []
    sums = " and ".join(f"{number(row['usd_per_million'])} USD ({name_of(row)})" for row in (theirs, ours))
    where = "`questions.json`: `systems[NAME].usd_per_million`"
    return [["the same, money for a million calls of both", "told", sums, NONE, where]]


def _end_to_end(found: Results) -> list[list[str]]:
    """The same ratio of the whole way, by set: what a caller sees of it."""
    way = ("ratios", "end_to_end")
    given = at(found, "retrieval", *way)
    if not isinstance(given, Mapping) or not given:
        return []
    told = ", ".join(f"{number(ratio)} x ({escape(name)})" for name, ratio in given.items())
    what = "the same from end to end, from the question's text to ten passages"
    return [[what, "told", told, NONE, f"`retrieval.json`: `{'.'.join(way)}`"]]


def _seconds(results: Mapping[str, Any]) -> float:
    """How long a section took, or would have taken without what was kept."""
    steps = sum(step.get("seconds") or 0 for step in results.get("steps") or [])
    return max(float(results["seconds_of_section"]), float(steps))


def _duration(found: Results, quick: bool) -> list[list[str]]:
    """How long the sections of one kind took, if there are any."""
    given = [results for results in found.values() if is_quick(results) == quick]
    seconds = [_seconds(results) for results in given if results.get("seconds_of_section") is not None]
    if not seconds:
        return []
    spent = sum(seconds) / 60
    kind = "quick" if quick else "full"
    what = f"{kind} benchmark, {len(seconds)} sections; steps that an earlier run had kept count as they took then"
    met = "yes" if spent <= MINUTES[quick] else "**no**"
    bound = f"≤ {MINUTES[quick]} minutes"
    return [[what, bound, f"{number(spent)} minutes", met, "all files: `seconds_of_section`, `steps`"]]
