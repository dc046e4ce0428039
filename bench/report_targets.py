"""Aims that were set before anything was measured, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.report_tables import NONE, Results, at, is_quick, number, table
from bench.report_words import said


@dataclass(frozen=True)
class Target:
    """An aim.

    Attributes
    ----------
    what
        What was to be reached.
    section, keys
        Where the figure is; the first way that leads to one counts.
    least, most
        Bounds that it must keep.
    unit
        Behind the figures.
    """

    what: str
    section: str
    keys: tuple[tuple[str, ...], ...]
    least: float | None = None
    most: float | None = None
    unit: str = " x"

    def found(self, results: Results) -> tuple[str, Any]:
        """Way to the figure, and the figure; None if nothing measured it."""
        for way in self.keys:
            value = at(results, self.section, *way)
            if isinstance(value, int | float):
                return ".".join(way), value
        return "", None

    def row(self, results: Results) -> list[str]:
        """For the table: aim, bound, what came out, whether it is met, where it is from."""
        way, value = self.found(results)
        bound = f"≥ {self.least:,g}{self.unit}" if self.least is not None else f"≤ {self.most:,g}{self.unit}"
        if value is None:
            return [self.what, bound, NONE, "not measured", NONE]
        met = value >= self.least if self.least is not None else value <= (self.most or 0)
        return [
            self.what,
            bound,
            f"{number(value)}{self.unit}",
            "yes" if met else "**no**",
            f"`{self.section}.json`: `{way}`",
        ]


TARGETS = (
    Target(
        "text to question label: time of sentence-transformers + scikit-learn over that of semclass, one thread, in turns",
        "questions",
        (("ratios", "sentence_transformers_over_semclass", "p50_ratio"),),
        least=5,
    ),
    Target(
        "the same, accuracy of semclass less theirs",
        "questions",
        (("ratios", "sentence_transformers_over_semclass", "accuracy_gained"),),
        least=0,
        unit="",
    ),
    Target(
        "text to question label: time of the prompted model (recorded) over that of semclass",
        "questions",
        (("ratios", "flan_ul2_over_semclass", "p50_ratio"),),
        least=1000,
    ),
    Target(
        "BM25 over 100,000 passages: time of rank-bm25 over that of semclass, on the same scores",
        "scale",
        (("ratios", "rank_bm25_over_semclass"),),
        least=50,
    ),
    Target(
        "re-ranking ten candidates: time of the int8 cross-encoder over that of `learned`, in turns",
        "retrieval",
        (("ratios", "cross_encoder_over_learned"),),
        least=50,
    ),
    Target(
        "peak memory of a service process with 100,000 passages",
        "scale",
        (("service_peak_mb", "100000"),),
        most=500,
        unit=" MB",
    ),
)


def targets(found: Results) -> str:
    """Aims and what came of them."""
    if not found:
        return ""
    derived = with_gain(found)
    rows = [target.row(derived) for target in TARGETS]
    seconds = [results["seconds_of_section"] for results in found.values() if "seconds_of_section" in results]
    if seconds:
        quick = any(is_quick(results) for results in found.values())
        limit = 5 if quick else 60
        spent = sum(seconds) / 60
        rows.append(
            [
                f"{'quick' if quick else 'full'} benchmark on this machine; steps that an earlier run had kept not counted",
                f"≤ {limit} minutes",
                f"{number(spent)} minutes",
                "yes" if spent <= limit else "**no**",
                "all files: `seconds_of_section`",
            ]
        )
    return f"{said('targets')}\n\n" + table(("aim", "bound", "found", "met", "from"), rows)


def with_gain(found: Results) -> Results:
    """Results with the difference in accuracy that goes with the ratio of times."""
    pair = at(found, "questions", "ratios", "sentence_transformers_over_semclass")
    ours, theirs = at(pair, "semclass_accuracy"), at(pair, "accuracy")
    if ours is None or theirs is None:
        return found
    ratios = found["questions"]["ratios"]
    gained = {**pair, "accuracy_gained": round(ours - theirs, 4)}
    return {
        **found,
        "questions": {**found["questions"], "ratios": {**ratios, "sentence_transformers_over_semclass": gained}},
    }
