"""Tables in Markdown, and those between marks in the README and the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from semclass.core.artifacts import write_atomic
from semclass.core.errors import ArtifactError

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"

NONE = "-"  # stands where there is no figure


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *others = ("| " + " | ".join(row) + " |" for row in (head, *rows))
    return "\n".join([first, "|" + "---|" * len(head), *others])


def cell(row: Mapping[str, Any], name: str, form: str) -> str:
    value = row.get(name)
    return NONE if value is None else format(value, form)


def with_interval(row: Mapping[str, Any], name: str, form: str = ".1%") -> str:
    value, interval = row.get(name), row.get(f"{name}_ci")
    if value is None or interval is None:
        return cell(row, name, form)
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f"{value:{form}} ({low} to {high})"


def with_error(row: Mapping[str, Any]) -> str:
    """Format the result of :func:`bench.measures.gain` with its 95 % interval."""
    return f"{row['gain']:+.3f} ± {1.96 * row['error']:.3f}"


def number(value: Any) -> str:
    """A figure with about three significant digits; texts as they are."""
    if value is None or value != value:
        return NONE
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 100 else f"{value:.3g}"


def money(dollars: float) -> str:
    """USD with two significant digits, or whole dollars."""
    return f"{dollars:,.0f}" if dollars >= 10 else f"{dollars:.2g}"


def named(row: Mapping[str, Any]) -> str:
    """Name of a system, with the date of one that is kept as it was measured, and a mark of what others recorded."""
    date = f" ({row['measured']})" if "measured" in row else ""
    return f"{row['name']}{' (recorded)' if row.get('recorded') else date}"


COSTS = {
    "p50, ms": "p50_ms", "p95, ms": "p95_ms", "a second": "per_second", "memory, MB": "peak_mb", "disk, MB": "disk_mb",
    "USD a million": "usd_per_million", "threads": "threads", "to load, s": "load_s", "to train, s": "train_s",
}  # fmt: skip
"""Columns of what a system costs."""

PERCENT = ("accuracy", "macro_f1", "error_removed")  # ends of names shown in percent; others with three digits
WITHOUT_INTERVAL = ("ndcg@10", "recall@10", "cond_mrr")  # figures of quality beside those that have an interval


def systems_table(systems: Sequence[Mapping[str, Any]], quality: Sequence[str] = ()) -> str:
    """Figures of quality, all if none is named, with intervals, and cost of each system."""
    every = dict.fromkeys(key for row in systems for key in row if key.endswith("_ci") or key in WITHOUT_INTERVAL)
    quality = quality or list(dict.fromkeys(key.removesuffix("_ci") for key in every))
    costs = {head: key for head, key in COSTS.items() if any(row.get(key) is not None for row in systems)}
    cells = [
        [
            named(row),
            *(with_interval(row, key, ".1%" if key.endswith(PERCENT) else ".3f") for key in quality),
            *(_cost(row, key) for key in costs.values()),
        ]
        for row in systems
    ]
    return markdown(("system", *(key.replace("_", " ") for key in quality), *costs), cells)


def _cost(row: Mapping[str, Any], key: str) -> str:
    assumed = " (assumed)" if key == "p50_ms" and row.get("recorded") else ""
    return number(row.get(key)) + assumed


def block(name: str, text: str) -> str:
    """A table with its marks; `name` is that of a section, or ``"section: table"`` where a section has several."""
    section, _, part = name.partition(": ")
    return f"<!-- table: begin, written by bench/{section}.py{part and f': {part}'} -->\n{text}\n<!-- table: end -->"


def update(name: str, text: str) -> None:
    """Write a table between its marks, on every page that has them."""
    begin, end = block(name, "").split("\n\n")
    for path in (README, *sorted(DOCS.rglob("*.md")), *sorted(README.parent.glob("packages/*/docs/*.md"))):
        before, found, rest = path.read_text(encoding="utf-8").partition(begin)
        if not found:
            continue
        _, ended, after = rest.partition(end)
        if not ended:
            raise ArtifactError(f"{path} has no end mark of the table {name!r}; put {end} behind the table")
        write_atomic(path, f"{before}{block(name, text)}{after}".encode())
