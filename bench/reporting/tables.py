"""Numbers and tables of the report: every one is formatted from a file of results, none is typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from bench import pareto, readme

NONE = "–"  # stands where there is no figure

FRAME = frozenset(
    {"commands", "commit", "date", "machine", "made", "seconds_of_section", "steps", "threads", "versions"}
)
"""What every file of results has; it is told once, not in each section."""

Results = Mapping[str, Mapping[str, Any]]  # by section, what its file holds
_MARKS = re.compile(r"([\\`*_\[\]<>|~#])")


def escape(text: object) -> str:
    """A text as Markdown shows it as it is, also inside a table."""
    return _MARKS.sub(r"\\\1", " ".join(str(text).split()))


def number(value: Any) -> str:
    """A figure with about three digits that count; what is no number as it is."""
    if value is None or value != value:  # JSON of Python may hold nan
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return escape(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:,.1f}"
    return f"{value:.3g}"


def percent(value: Any) -> str:
    """A share in percent, with one digit behind the point."""
    return NONE if value is None else f"{100 * value:.1f}%"


def with_interval(row: Mapping[str, Any], key: str) -> str:
    """A share in percent with its interval, if it has one."""
    value, interval = row.get(key), row.get(f"{key}_ci")
    if value is None or not _whole(interval):
        return percent(value)
    return f"{percent(value)} ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"


def points(row: Mapping[str, Any], key: str) -> str:
    """A mean between 0 and 1 with its interval, in three digits as MRR is usually told."""
    value, interval = row.get(key), row.get(f"{key}_ci")
    if value is None:
        return NONE
    return f"{value:.3f}" + (f" ({interval[0]:.3f} to {interval[1]:.3f})" if _whole(interval) else "")


def _whole(interval: Sequence[float] | None) -> bool:
    """Whether there is an interval, of numbers: too few items have none."""
    return bool(interval) and all(end == end for end in interval or ())


def at(value: Any, *keys: str) -> Any:
    """What lies in nested objects; None where the way ends."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without the columns, except the first, in which no row has anything."""
    given = [list(row) for row in rows]
    kept = [place for place in range(len(head)) if place == 0 or any(row[place] != NONE for row in given)]
    return readme.markdown([head[place] for place in kept], [[row[place] for place in kept] for row in given])


def is_quick(results: Mapping[str, Any]) -> bool:
    """Whether results are of a quick run."""
    return any("--quick" in command for command in facts_of(results).get("commands", []))


def facts_of(results: Mapping[str, Any]) -> Mapping[str, Any]:
    """How results came about: commands, machine, versions, threads, date and commit."""
    return results.get("made", results) if isinstance(results.get("made"), Mapping) else results


# -- systems compared on a task ---------------------------------------------------------------------------------------


def measured(systems: Iterable[Mapping[str, Any]], key: str) -> list[Mapping[str, Any]]:
    """Those that were not skipped and have the figure."""
    return [row for row in systems if "skipped" not in row and row.get(key) is not None]


def name_of(row: Mapping[str, Any]) -> str:
    """Name of a system, with a mark if its answers or times were not measured in this run."""
    return escape(row.get("name", "?")) + (" (recorded)" if row.get("recorded") else "")


def on_one_thread(systems: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that ran on one thread, or that somebody else ran; what took more is no rival in time."""
    return [row for row in systems if row.get("threads") in (None, 1)]


def front(systems: Iterable[Mapping[str, Any]], key: str) -> list[str]:
    """Names of those on one thread than which none is both as fast and better, by rising time."""
    timed = [row for row in on_one_thread(measured(systems, key)) if row.get("p50_ms") is not None]
    points = [pareto.Point(str(row["name"]), str(row.get("kind")), row["p50_ms"], row[key]) for row in timed]
    return [point.name for point in pareto.front(points)]


COSTS = {
    "p50, ms": "p50_ms",
    "p95, ms": "p95_ms",
    "per second": "per_second",
    "memory, MB": "peak_mb",
    "disk, MB": "disk_mb",
    "USD per million": "usd_per_million",
    "threads": "threads",
    "to load, s": "load_s",
    "to train, s": "train_s",
}
"""Columns of what a system costs, with their keys."""


def cost(row: Mapping[str, Any], key: str) -> str:
    """A figure of what a system costs; money of a graphics card by the hour where tokens have no price."""
    if key == "p50_ms" and row.get("recorded") and row.get(key) is not None:
        return f"{number(row[key])} (assumed)"
    if key == "per_second" and row.get("recorded"):
        return NONE
    if key == "train_s" and row.get(key, 0) is None and row.get("kind") == "semclass":
        return readme.NOT_RECORDED
    if key == "usd_per_million" and row.get(key) is None and row.get("usd_per_million_gpu") is not None:
        return f"{number(row['usd_per_million_gpu'])} (GPU)"
    return number(row.get(key))


Column = Callable[[Mapping[str, Any]], str]  # formats a figure of a row


def columns(keys: Mapping[str, str], form: Callable[[Mapping[str, Any], str], str]) -> dict[str, Column]:
    """Columns of figures that are formatted alike; keys by heading."""
    return {heading: partial(_cell, key=key, form=form) for heading, key in keys.items()}


def _cell(row: Mapping[str, Any], key: str, form: Callable[[Mapping[str, Any], str], str]) -> str:
    return form(row, key)


def systems_table(systems: Sequence[Mapping[str, Any]], key: str, quality: Mapping[str, Column]) -> str:
    """Quality and cost of each system; those on the front are bold, those that were skipped come last."""
    best = front(systems, key)
    rows = []
    for row in sorted(systems, key=lambda row: "skipped" in row):
        if "skipped" in row:
            rows.append([f"{name_of(row)}: not measured", *[NONE] * (len(quality) + len(COSTS))])
            continue
        label = f"**{name_of(row)}**" if row.get("name") in best else name_of(row)
        figures = [column(row) for column in quality.values()]
        rows.append([label, *figures, *(cost(row, name) for name in COSTS.values())])
    return table(("system", *quality, *COSTS), rows)


def descriptions(systems: Iterable[Mapping[str, Any]]) -> str:
    """What each system is, and why it was skipped if it was."""
    lines = []
    for row in systems:
        why = f" *Not measured here: {escape(row['skipped'])}.*" if "skipped" in row else ""
        lines.append(f"- **{name_of(row)}**: {escape(row.get('what', ''))}{why}")
    return "\n".join(lines)


CALLS = (
    "shots", "calls", "calls_per_item", "failed", "unparsed", "prompt_tokens", "answer_tokens", "cached_tokens",
    "concurrency", "timed_items",
)  # fmt: skip
"""What is told of prompted models beside quality and cost."""


def prompted_calls(systems: Sequence[Mapping[str, Any]]) -> str:
    """Calls, answers that could not be used, and tokens of prompted models; empty if none were called."""
    shown = [row for row in systems if row.get("kind") == "prompted" and row.get("calls") is not None]
    rows = [[name_of(row), *(number(row.get(key)) for key in CALLS)] for row in shown]
    return table(("system", *(key.replace("_", " ") for key in CALLS)), rows) if rows else ""


def prompted_prices(systems: Iterable[Mapping[str, Any]]) -> str:
    """What the prompts of recorded models cost at the prices of others, dearest first; empty if none are priced so."""
    shown = [row for row in systems if isinstance(row.get("usd_per_million_at"), Mapping) and row["usd_per_million_at"]]
    prices = {model: usd for row in shown for model, usd in row["usd_per_million_at"].items()}
    models = sorted(prices, key=lambda model: -(prices[model] or 0))
    return table(
        ("at the price of", *(f"{name_of(row)}, USD per million" for row in shown)),
        [[escape(model), *(number(row["usd_per_million_at"].get(model)) for row in shown)] for model in models],
    ) if shown else ""  # fmt: skip


def prompt_lengths(systems: Iterable[Mapping[str, Any]]) -> str:
    """Tokens of a call of recorded models, and how they were counted; empty if none were."""
    lines = []
    for row in systems:
        count = row.get("tokens_per_call")
        if not isinstance(count, Mapping) or "prompt" not in count:
            continue
        text = f"- {name_of(row)}: {number(count['prompt'])} tokens of prompt"
        text += f", of which {number(count['shared'])} are the same in every call" if "shared" in count else ""
        text += f", and {number(count['answer'])} of answer" if "answer" in count else ""
        text += f"; {number(row['calls_per_item'])} calls an item" if (row.get("calls_per_item") or 1) > 1 else ""
        text += f". Counted with {escape(count['counted_with'])}" if "counted_with" in count else ""
        lines.append(f"{text}.")
    return "\n".join(lines)


def further_quality(systems: Sequence[Mapping[str, Any]], known: Iterable[str]) -> str:
    """A table of the figures with an interval that the main table does not show; empty if there are none."""
    names = dict.fromkeys(
        key.removesuffix("_ci")
        for row in systems
        for key in row
        if key.endswith("_ci") and key.removesuffix("_ci") not in known
    )
    shown = [row for row in systems if any(row.get(name) is not None for name in names)]
    if not shown:
        return ""
    return table(
        ("system", *(escape(name.replace("_", " ").replace("f1", "F1").replace("auc", "AUC")) for name in names)),
        [[name_of(row), *(with_interval(row, name) for name in names)] for row in shown],
    )


# -- whatever else results hold ---------------------------------------------------------------------------------------

LONGEST = 5  # numbers of a list that is shown in a cell; longer ones are for pictures


def anything(value: Any, title: str = "") -> str:
    """Figures of any shape as tables: lists of rows, objects of rows, objects of figures; deeper ones by their path."""
    if isinstance(value, list):
        rows = [("", row) for row in value if isinstance(row, Mapping)]
        return _titled(title, _rows(rows)) if rows else ""
    if not isinstance(value, Mapping):
        return ""
    plain = {key: item for key, item in value.items() if _in_a_cell(item)}
    rows = _alike([(key, item) for key, item in value.items() if _is_row(item)])
    blocks = [_figures(plain)] if plain else []
    blocks += [_rows(rows)] if rows else []
    shown = {*plain, *(key for key, _ in rows)}
    inner = [anything(item, f"{title}, {key}" if title else key) for key, item in value.items() if key not in shown]
    own = _titled(title, "\n\n".join(blocks)) if blocks else ""
    return "\n\n".join(block for block in (own, *inner) if block)


def _titled(title: str, text: str) -> str:
    return f"*{_plain(title)}*\n\n{text}" if title and text else text


def _plain(name: str) -> str:
    return escape(name.replace("_", " "))


def _in_a_cell(value: Any) -> bool:
    if isinstance(value, list):
        return 0 < len(value) <= LONGEST and not any(isinstance(item, Mapping | list) for item in value)
    return not isinstance(value, Mapping)


def _cell_of(value: Any) -> str:
    """A figure, or a short list: two numbers are the ends of an interval."""
    if not isinstance(value, list):
        return number(value)
    numbers = len(value) == 2 and all(isinstance(item, int | float) for item in value)
    return (" to " if numbers else ", ").join(map(number, value))


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and not any(isinstance(item, Mapping) for item in value.values())


def _alike(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    """The rows, if there are several and they have half of their keys in common."""
    keys = [set(row) for _, row in rows]
    common = len(rows) > 1 and 2 * len(set.intersection(*keys)) >= len(set.union(*keys))
    return list(rows) if common else []


def _figures(plain: Mapping[str, Any]) -> str:
    return table(("figure", "value"), [[_plain(key), _cell_of(item)] for key, item in plain.items()])


def _rows(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """A table with a line for each row; what names the rows comes first, columns that are numbers are in their order."""
    names = list(dict.fromkeys(key for _, row in rows for key, item in row.items() if _in_a_cell(item)))
    if all(name.isdigit() for name in names):
        names.sort(key=int)
    else:
        names.sort(key=lambda name: not all(isinstance(row.get(name), str) for _, row in rows))
    named = any(name for name, _ in rows)
    if all(name.isdigit() for name, _ in rows):
        rows = sorted(rows, key=lambda row: int(row[0]))
    head = [*([""] if named else []), *map(_plain, names)]
    lines = [[*([_plain(name)] if named else []), *(_cell_of(row.get(key)) for key in names)] for name, row in rows]
    return table(head, lines) if names else ""
