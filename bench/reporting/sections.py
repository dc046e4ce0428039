"""Sections of the report: what each file of results shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from bench import readme
from bench.reporting.answers import main_figure, on_sample
from bench.reporting.corpora import PARTS, in_parts
from bench.reporting.tables import (
    FRAME,
    Results,
    anything,
    at,
    columns,
    descriptions,
    escape,
    further_quality,
    is_quick,
    measured,
    name_of,
    number,
    points,
    prompt_lengths,
    prompted_calls,
    prompted_prices,
    systems_table,
    table,
    with_interval,
)
from bench.reporting.words import TASKS, has, said
from semclass.core.artifacts import read_json

QUALITY_KEYS = {"accuracy": "accuracy", "macro F1": "macro_f1"}
RETRIEVAL_KEYS = {
    "MRR@10": "mrr@10",
    "conditional MRR": "cond_mrr",
    "nDCG@10": "ndcg@10",
    "recall@10": "recall@10",
}
"""Columns of quality, with their keys."""


def section(name: str, found: Results, pictures: Sequence[str]) -> str:
    """What a section found, as Markdown; its table may show figures of others."""
    results = found[name]
    if name in TASKS:
        parts = _task(name, results)
    elif name == "retrieval":
        parts = _retrieval(name, results)
    elif name in PARTS:
        parts = _corpora(name, found)
    else:
        parts = [said(name, "what"), _brief(name, found)]
    quick = "> Of a quick run: not to be quoted." if is_quick(results) else ""
    shown = [f"![{caption(picture)}]({picture})\n\n*{caption(picture)}*" for picture in pictures]
    source = f"*From [{name}.json]({name}.json).*"
    first, *rest = parts
    return "\n\n".join(part for part in (first, quick, *rest[:1], *shown, *rest[1:], source) if part)


def caption(picture: str) -> str:
    """What a picture shows; its name, if nothing is said of it."""
    name = Path(picture).stem
    return has(name, "picture") or escape(name.replace("_", " "))


def _limits(name: str) -> str:
    return f"**Limits.**\n\n{said(name, 'limits')}"


def _task(name: str, results: Mapping[str, Any]) -> list[str]:
    systems = results.get("systems", [])
    key, _ = main_figure(name, systems)
    more = further_quality(systems, QUALITY_KEYS.values())
    return [
        f"{said(name, 'what')}\n\n{_about(results.get('task', {}))}",
        systems_table(systems, key, columns(QUALITY_KEYS, with_interval)),
        said("reading"),
        _named("Further figures of quality:", more),
        _named("Calls of prompted models (tokens of a call, on average):", prompted_calls(systems)),
        _named("Tokens of a call where the answers are recorded:", prompt_lengths(systems)),
        _named(said("prompted prices"), prompted_prices(systems)),
        _named(said("ratios"), anything(results.get("ratios") or {})),
        f"The systems:\n\n{descriptions(systems)}",
        _limits(name),
        *_evidence(name),
    ]


EVIDENCE = Path(__file__).parent.parent / "evidence.json"


def _evidence(name: str) -> list[str]:
    """What choices brought when they were made, and how far seeds are from one another, where that was recorded."""
    found = read_json(EVIDENCE).get(name)
    if found is None:
        return []
    seeds = {level: [*given, f"mean {mean(given):.4g}", f"deviation {stdev(given):.2g}"]
             for level, given in found["seeds"].items() if level != "what"}  # fmt: skip
    rows = [[level, ", ".join(map(str, given))] for level, given in seeds.items()]
    return [
        _named(said(name, "brought"), anything(found["brought"])),
        _named(said(name, "seeds"), table((found["seeds"]["what"], "right"), rows)),
    ]


def _named(name: str, text: str) -> str:
    return f"{name}\n\n{text}" if text else ""


ABOUT = {"what": "Task", "items": "Items", "protocol": "Protocol", "sources": "Data"}
"""What sections say of their task, in this order, before anything else."""


def _about(task: Mapping[str, Any]) -> str:
    """What was asked of how many items, from where."""
    names = [*(key for key in ABOUT if key in task), *(key for key in sorted(task) if key not in ABOUT)]
    lines = [(ABOUT.get(key, key.replace("_", " ").capitalize()), task[key]) for key in names]
    return "\n".join(f"- {escape(label)}: {as_text(value)}" for label, value in lines if not isinstance(value, Mapping))


def as_text(value: Any) -> str:
    """A value of a description as a text."""
    if isinstance(value, list):
        return ", ".join(as_text(item) for item in value)
    return number(value) if isinstance(value, int | float) else escape(value)


def _corpora(name: str, found: Results) -> list[str]:
    """The README's table, if there is one, and the parts."""
    opening = said(name, "about" if name == "scale" else "what")
    return [
        opening,
        _readme_table(name, found) or "",
        in_parts(name, found[name]),
        _limits(name) if has(name, "limits") else "",
    ]


def _retrieval(name: str, results: Mapping[str, Any]) -> list[str]:
    tables, systems = [], []
    for place, data in (results.get("sets") or {}).items():
        systems = systems or data.get("systems", [])
        asked = f"{number(data.get('questions'))} questions, {number(data.get('passages'))} passages"
        heading = f"### {escape(data.get('what', place))}\n\n{asked}."
        tables.append(f"{heading}\n\n{_retrieval_table(data.get('systems', []))}")
    recorded = at(results, "recorded", "systems")
    if recorded:
        tables.append(
            "### Recorded: a prompted model for each candidate\n\n"
            f"On {escape(at(results, 'recorded', 'questions') or 'other questions')}.\n\n{_retrieval_table(recorded)}"
        )
    costs = anything(results.get("second_per_call") or [])
    return [
        f"{said(name, 'what')}\n\n{_about(results.get('task', {}))}",
        "\n\n".join(tables),
        said("reading"),
        _named("### What re-ranking a million questions costs", costs),
        _named(said("ratios"), anything(results.get("ratios") or {})),
        _named(said(name, "cross_encoder"), anything(results.get("cross_encoder") or {})),
        f"The systems:\n\n{descriptions(systems)}\n{descriptions(recorded or [])}",
        "\n".join(filter(None, [_limits(name), *_baseline(results.get("sets") or {})])),
    ]


BASELINE, OWN = "hybrid", "learned"  # what re-ranking is measured against, and the library's default


def _baseline(sets: Mapping[str, Any]) -> list[str]:
    """Of the limits: where the hybrid is not the best way to find passages without re-ranking."""
    lines = [
        f"  - {escape(data.get('what', place))}: {text}" for place, data in sets.items() if (text := _better(data))
    ]
    return lines and [said("retrieval", "baseline"), *lines]


def _better(data: Mapping[str, Any]) -> str:
    """What beats the hybrid of a set without re-ranking, and whether it beats the default, too."""
    rows = sorted(measured(on_sample(data), "mrr@10"), key=lambda row: -row["mrr@10"])
    reached = {row["name"]: row["mrr@10"] for row in rows}
    plain = [row for row in rows if row.get("rerank_p50_ms") is None]
    better = [row for row in plain if row["mrr@10"] > reached.get(BASELINE, 1.0)]
    if not better:
        return ""
    shown = ", ".join(f"{name_of(row)} {row['mrr@10']:.3f}" for row in better)
    text = f"{BASELINE} {reached[BASELINE]:.3f}; better: {shown}."
    ahead = [name_of(row) for row in better if row["mrr@10"] > reached.get(OWN, 1.0)]
    return text + (f" Better than `{OWN}` ({reached[OWN]:.3f}), too: {', '.join(ahead)}." if ahead else "")


def _retrieval_table(systems: Sequence[Mapping[str, Any]]) -> str:
    """Like that of a task, with the share of error removed and, where they differ, the questions that were asked."""
    quality = columns(RETRIEVAL_KEYS, points) | columns({"error removed": "error_removed"}, with_interval)
    if len({row.get("questions") for row in systems if "skipped" not in row}) > 1:
        quality["questions"] = lambda row: number(row.get("questions"))
    return systems_table([{**row, "threads": None} for row in systems], "mrr@10", quality)


def _readme_table(name: str, found: Results) -> str | None:
    """The README's table of a section; None if it has none."""
    try:
        return readme.table(name, found)
    except ImportError as error:
        return f"*The table needs a package that is not installed: {escape(error)}.*"


def _brief(name: str, found: Results) -> str:
    """The README's table of a section if it has one, otherwise its figures as they are."""
    made = _readme_table(name, found)
    return anything({key: value for key, value in found[name].items() if key not in FRAME}) if made is None else made
