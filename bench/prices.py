"""Figures of others: prices in ``prices.json``, and results of the reference thesis in ``reference.json``.

Prices are USD for a million calls, at list price, of a machine that is always busy. The thesis asked other questions than
ours, with a prompted judge.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.errors import InputError

FILE = Path(__file__).parent / "prices.json"
_MILLION = 1e6


@lru_cache(maxsize=1)
def load() -> dict[str, Any]:
    """Prices by kind and name, each with its unit, source and date."""
    return artifacts.read_json(FILE)


def find(kind: str, name: str) -> dict[str, Any]:
    known = load()[kind]
    if name not in known:
        raise InputError(f"no price of {name!r} under {kind!r} in {FILE}; there are: {', '.join(sorted(known))}")
    return dict(known[name])


def machine_call(seconds: float, threads: int = 1) -> float:
    machine = find("machines", "cpu")
    return float(seconds * machine["usd_per_hour"] / 3600 * _MILLION * threads / machine["vcpus"])


# -- what the reference thesis prints ------------------------------------------------------------------------------------


THESIS = Path(__file__).parent / "reference.json"
THESIS_BASELINE = "hybrid"  # what the thesis measures its methods against
THESIS_SETS = {"wikipedia": "Wikipedia", "pubmed": "PubMed"}  # its sets


@lru_cache(maxsize=1)
def thesis() -> dict[str, Any]:
    return artifacts.read_json(THESIS)


ASSUMED_SECONDS = float(thesis()["seconds_per_call"]["value"])
"""Assumed time of a call of the prompted model: the thesis assumes it, and nobody measured it."""


def thesis_methods(name: str) -> dict[str, dict[str, float]]:
    """``mrr`` and ``error_removed`` of a set's methods; the baseline's removes nothing."""
    rows = thesis()["sets"][name]["methods"]
    base = rows[THESIS_BASELINE]["mrr"]
    return {method: {"error_removed": (row["mrr"] - base) / (1 - base), **row} for method, row in rows.items()}


def thesis_shown(name: str, method: str) -> str:
    """A cell: MRR and the share of the error removed, as printed where the thesis prints it; "-" for what it has not."""
    row = thesis_methods(name).get(method)
    if row is None:
        return "-"
    printed = "error_removed" in thesis()["sets"][name]["methods"][method]
    share = f"{100 * row['error_removed']:{'+.3g' if printed else '+.0f'}}%"
    return f"{row['mrr']:.3f}" + ("" if method == THESIS_BASELINE else f" ({share})")
