"""What the reference thesis prints, from ``reference.json``: of other questions than ours, with a prompted judge."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from semclass.core import artifacts

FILE = Path(__file__).parent / "reference.json"
BASELINE = "hybrid"  # what the thesis measures its methods against
SETS = {"wikipedia": "Wikipedia", "pubmed": "PubMed"}  # its sets


@lru_cache(maxsize=1)
def load() -> dict[str, Any]:
    return artifacts.read_json(FILE)


def assumed_seconds() -> float:
    """What a call of the prompted model is taken to last; the thesis assumes it, and did not measure it."""
    return float(load()["seconds_per_call"]["value"])


def methods(name: str) -> dict[str, dict[str, float]]:
    """``mrr`` and ``error_removed`` of a set's methods; the baseline's removes nothing."""
    rows = load()["sets"][name]["methods"]
    base = rows[BASELINE]["mrr"]
    return {method: {"error_removed": (row["mrr"] - base) / (1 - base), **row} for method, row in rows.items()}


def shown(name: str, method: str) -> str:
    """A cell: MRR and the share of the error removed, as printed where the thesis prints it; "-" for what it has not."""
    row = methods(name).get(method)
    if row is None:
        return "-"
    printed = "error_removed" in load()["sets"][name]["methods"][method]
    share = f"{100 * row['error_removed']:{'+.3g' if printed else '+.0f'}}%"
    return f"{row['mrr']:.3f}" + ("" if method == BASELINE else f" ({share})")
