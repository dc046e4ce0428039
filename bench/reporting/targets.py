"""Aims that were set before anything was measured, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        Where the figure is; ``"*"`` for all keys of an object, of which the figure that is worst counts.
    least, most
        Bounds that it must keep; neither for a figure that is only told.
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
        found = [_numbers(results.get(self.section), way) for way in (self.way, self.less) if way is not None]
        if not all(found):
            return None
        first, *others = (max(values) if self.least is None else min(values) for values in found)
        return float(f"{first - sum(others):.6g}")

    def row(self, results: Results) -> list[str]:
        """For the table: aim, bound, what came out, whether it is met, where it is from."""
        value = self.found(results)
        told = self.least is None and self.most is None
        bound = f"≥ {self.least:,g}{self.unit}" if self.least is not None else f"≤ {self.most or 0:,g}{self.unit}"
        bound = "told" if told else bound
        if value is None:
            return [self.what, bound, NONE, "not measured", NONE]
        met = value >= self.least if self.least is not None else value <= (self.most or 0)
        ways = " less ".join(f"`{'.'.join(way)}`" for way in (self.way, self.less) if way is not None)
        verdict = NONE if told else "yes" if met else "**no**"
        return [self.what, bound, f"{number(value)}{self.unit}", verdict, f"`{self.section}.json`: {ways}"]


def _numbers(value: Any, way: Way) -> list[float]:
    """All figures that a way leads to."""
    if not way:
        return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []
    if not isinstance(value, Mapping):
        return []
    first, *rest = way
    nexts = value.values() if first == "*" else [value.get(first)]
    return [number for item in nexts for number in _numbers(item, tuple(rest))]


TEN_LINES = ("ratios", "sentence_transformers_over_semclass")

PROMPTED = ("ratios", "assumed_second_over_semclass")

ALONE = Target(
    "text to question label: a second for a call of the prompted model, which the thesis assumes and nobody measured, over "
    "the time of semclass, measured alone",
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
        "BM25 over 100,000 passages: time of rank-bm25 over that of semclass, on the same scores",
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
    Target(
        "search of 1,000,000 made passages, one thread, median, not re-ranked",
        "scale",
        ("million", "plain_ms_p50"),
        most=15,
        unit=" ms",
    ),
    Target("the same, ten re-ranked by `learned`", "scale", ("million", "learned_ms_p50"), most=16, unit=" ms"),
    Target("the same, recall@10 against scoring every passage", "scale", ("million", "recall@10"), least=0.99, unit=""),
    Target(
        "peak memory of a process that searches 1,000,000 passages, without vectors of tokens",
        "scale",
        ("million", "lean_peak_mb"),
        most=1500,
        unit=" MB",
    ),
    *(
        target
        for form in ("standard", "lean")
        for target in (
            Target(
                f"rate of building a {form} index, all processors, over that of the encoder alone on all that has to be "
                "encoded",
                "living",
                ("share_of_encoding", form),
                least=0.9,
                unit="",
            ),
            Target(
                "the same, the encoder encoding each passage once and no sentence by itself",
                "living",
                ("share_of_pooled", form),
                unit="",
            ),
        )
    ),
    Target(
        "adding 1,000 passages to 100,000: time over that of encoding them", "living", ("add_over_encoding",), most=3
    ),
    Target(
        "killed writers, after which the index was all of the old or all of the new",
        "living",
        ("kills", "survived"),
        least=200,
        unit="",
    ),
    Target(
        "searches a second of 8 callers that share a retriever over those of one, two processors, BLAS on one thread: the "
        "least of all sizes, with and without re-ranking",
        "concurrency",
        ("eight_over_one", "*"),
        least=1.7,
    ),
    Target(
        "the same, sizes and methods with an answer that was not the same",
        "concurrency",
        ("different",),
        most=0,
        unit="",
    ),
    Target(
        "memory in use, small objects of Python aside, that the second half of 100,000 searches adds to a process",
        "memory",
        ("grown_mb", "given out"),
        most=1,
        unit=" MB",
    ),
    Target("the same, small objects of Python", "memory", ("grown_objects",), most=1_000, unit=""),
    Target("the same, all that the process holds as its own", "memory", ("grown_mb", "the process's own"), unit=" MB"),
    Target(
        "the service under load, 32 connections re-ranking ten short passages: requests without an answer of status 200",
        "service",
        ("errors",),
        most=0,
        unit="",
    ),
    Target("the same, 95th percentile of the latency over its median", "service", ("p95_over_p50",), most=5),
    Target(
        "the same, requests a second over those of the library from as many threads, in turns",
        "service",
        ("share_of_library",),
        least=0.8,
    ),
    Target(
        "1,000 connections at once, slow and cut ones, huge and malformed bodies: answers that are no 4xx, and times that "
        "the service was not well after it",
        "service",
        ("unexpected",),
        most=0,
        unit="",
    ),
    Target("the same, memory after it over memory before it", "service", ("grown",), most=1.1),
    Target(
        "scores of the embedded index, Qdrant's local mode and its Rust core: largest difference",
        "engines",
        ("*", "*", "largest_difference", "score"),
        most=1e-5,
        unit="",
    ),
    Target(
        "the same, the score that the engine itself computed",
        "engines",
        ("*", "*", "largest_difference", "engine_score"),
        most=1e-5,
        unit="",
    ),
    Target(
        "questions on which each engine was compared, of the set with the fewest",
        "engines",
        ("*", "*", "questions"),
        least=1000,
        unit="",
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


def _seconds(given: Sequence[Mapping[str, Any]]) -> list[float]:
    """How long each section took, or would have taken without what was kept; a step that several share counts once."""
    known: set[str] = set()
    found = []
    for results in given:
        steps = {step.get("step"): step.get("seconds") or 0 for step in results.get("steps") or []}
        own = sum(seconds for name, seconds in steps.items() if name not in known)
        known.update(steps)
        found.append(max(float(results["seconds_of_section"]), float(own)))
    return found


def _duration(found: Results, quick: bool) -> list[list[str]]:
    """How long the sections of one kind took, if there are any."""
    given = [results for results in found.values() if is_quick(results) == quick]
    seconds = _seconds([results for results in given if results.get("seconds_of_section") is not None])
    if not seconds:
        return []
    spent = sum(seconds) / 60
    kind = "quick" if quick else "full"
    what = f"{kind} benchmark, {len(seconds)} sections; steps that an earlier run had kept count as they took then"
    met = "yes" if spent <= MINUTES[quick] else "**no**"
    bound = f"≤ {MINUTES[quick]} minutes"
    return [[what, bound, f"{number(spent)} minutes", met, "all files: `seconds_of_section`, `steps`"]]
