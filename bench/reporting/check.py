"""Whether a file of results has the shape that the report relies on: what is wrong is told, not guessed around."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.reporting.tables import CALLS, COSTS, at, facts_of

NUMBERS = frozenset(
    {"accuracy", "macro_f1", "mrr@10", "cond_mrr", "ndcg@10", "recall@10", "error_removed", *CALLS, *COSTS.values()}
)
"""Keys of a system that hold a number, or null where there is none."""


def complaint(results: Mapping[str, Any]) -> str | None:
    """The first thing that is wrong with results; None if nothing is."""
    facts = facts_of(results)
    objects = {key: facts.get(key) for key in ("machine", "versions")} | _objects(results.get("sets"))
    for key, value in objects.items():
        if not isinstance(value, Mapping | None):
            return f"{key} must be an object, not {value!r}"
    if not _is_number(results.get("seconds_of_section")):
        return f"seconds_of_section must be a number, not {results['seconds_of_section']!r}"
    steps = results.get("steps") or []
    if not isinstance(steps, list) or not all(
        isinstance(step, Mapping) and _is_number(step.get("seconds")) for step in steps
    ):
        return "steps must be a list of objects, with seconds that are numbers"
    return next(filter(None, (_of_row(row) for row in _systems(results))), None)


def _systems(results: Mapping[str, Any]) -> Iterator[Any]:
    """Every system that is compared in the file."""
    places = [results, *_objects(results.get("sets")).values(), results.get("recorded")]
    for place in places:
        rows = at(place, "systems")
        if rows is not None and not isinstance(rows, list):
            yield rows
        yield from rows if isinstance(rows, list) else ()


def _objects(sets: Any) -> dict[str, Any]:
    """Sets by name; of index_bytes they are lists, which no system is read from."""
    return (
        {name: data for name, data in sets.items() if not isinstance(data, list)} if isinstance(sets, Mapping) else {}
    )


def _of_row(row: Any) -> str | None:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        return f"systems must be objects with a name, not {str(row)[:40]!r}"
    for key, value in [*row.items(), *(row.get("sample") or {}).items()]:
        if key in NUMBERS and not _is_number(value):
            return f"{key} of {row['name']!r} must be a number, not {value!r}"
        if key.endswith("_ci") and not _is_interval(value):
            return f"{key} of {row['name']!r} must be two numbers, not {value!r}"
    return _of_prices(row)


def _of_prices(row: Mapping[str, Any]) -> str | None:
    """Whether prices by model are numbers."""
    prices = row.get("usd_per_million_at")
    if prices is None or (isinstance(prices, Mapping) and all(map(_is_number, prices.values()))):
        return None
    return f"usd_per_million_at of {row['name']!r} must be an object of numbers, not {prices!r}"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_interval(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and len(value) == 2 and all(end is not None and _is_number(end) for end in value)
    )
