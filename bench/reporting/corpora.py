"""Sections about corpora that grow, change and are served: tables in parts, each below what is to be said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.reporting.tables import anything, at
from bench.reporting.words import has

PARTS = {
    "scale": ("what", "parts", "memory", "sentences", "agreement", "bm25", "encoders"),
    "living": ("what", "kills"),
    "service": ("processor",),
    "engines": ("skipped", "agreement", "recall_by_depth"),
}  # fmt: skip
"""What is shown of each section, in this order, beside its table in the README if it has one."""


def in_parts(name: str, results: Mapping[str, Any]) -> str:
    """Tables of a section's parts."""
    given = _engines(results) if name == "engines" else results
    shown = [(_caption(name, part), _table(name, given[part])) for part in PARTS[name] if given.get(part)]
    return "\n\n".join(f"{title}\n\n{text}".strip() for title, text in shown if text)


def _caption(name: str, part: str) -> str:
    """What is said above a part; ``what`` is, but in one section, what is said above them all."""
    return has(name, "told" if part == "what" and name != "scale" else part) or ""


def _table(name: str, value: Any) -> str:
    """A table; one row of many figures as a column, where there is never a second one."""
    alone = isinstance(value, list) and len(value) == 1 and name not in ("scale", "engines")
    return anything(value[0] if alone else value)


ENGINES = {"local": "local mode", "rust_core": "Rust core"}


def _engines(results: Mapping[str, Any]) -> dict[str, Any]:
    """What ``bench/engines.py`` found by set, gathered by what was asked."""
    sets = {name: found for name, found in results.items() if isinstance(found, Mapping) and "questions" in found}
    return {
        "skipped": [
            {"set": name, "not measured": found["skipped"]}
            for name, found in results.items()
            if isinstance(found, Mapping) and "skipped" in found
        ],
        "agreement": [row for name, found in sets.items() for row in _agreement(name, found)],
        "recall_by_depth": [
            {"set": name, **{f"of {depth}": shares[depth] for depth in sorted(shares, key=int)}}
            for name, found in sets.items()
            if (shares := found.get("recall_by_depth"))
        ],
    }


def _agreement(name: str, found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for engine, title in ENGINES.items():
        if engine in found:
            plain = {key: value for key, value in found[engine].items() if not isinstance(value, Mapping)}
            differences = at(found, engine, "largest_difference") or {}
            yield {"set": name, "engine": title, "passages": found.get("passages"), **plain, **differences}
