"""What calls cost by ``prices.json``: USD for a million calls, at list price, of a machine that is always busy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench import reference
from semclass.core import artifacts
from semclass.core.errors import InputError

FILE = Path(__file__).parent / "prices.json"  # the prices that come with the benchmark
_MILLION = 1e6
_NUMBERS: dict[str, tuple[str, ...]] = {
    "machines": ("vcpus", "usd_per_hour"),
    "tokens": ("usd_per_million_prompt_tokens", "usd_per_million_answer_tokens"),
    "rerank": ("usd_per_thousand_searches",),
}
_OPTIONAL = ("usd_per_million_cached_tokens",)
_TEXTS = ("name", "unit", "source", "date", "checked")

ASSUMED_SECONDS = reference.assumed_seconds()
"""What a call of the prompted model is taken to last: an assumption of the reference, which nobody measured."""

THESIS_CALLS: dict[str, tuple[str, int]] = {
    "question class": ("a question", 1),
    "passage classes": ("a passage", 6),
    "entailment of 10 candidates": ("a question", 10),
}
"""The reference's prompts: what is prompted for, for each what, and how many calls it takes."""


@lru_cache(maxsize=8)
def load(path: Path = FILE) -> dict[str, Any]:
    """Read and check a file of prices."""
    prices = artifacts.read_json(path)
    for kind in _NUMBERS:
        if not isinstance(prices.get(kind), Mapping):
            raise InputError(f"{path}: {kind!r} is missing; it holds prices by name")
        for name, price in prices[kind].items():
            _check(price, kind, f"{path}: {kind}/{name}")
    return prices


def _check(price: Mapping[str, Any], kind: str, where: str) -> None:
    lacking = [field for field in (*_TEXTS, *_NUMBERS[kind]) if field not in price]
    if lacking:
        raise InputError(f"{where}: {', '.join(lacking)} missing; every price says what, where from and when")
    for field in (*_NUMBERS[kind], *(name for name in _OPTIONAL if name in price)):
        value = price[field]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InputError(f"{where}: {field} is {value!r}; it must be a number of 0 or more")


def find(kind: str, name: str, path: Path = FILE) -> dict[str, Any]:
    """A price with its source, such as ``find("tokens", "flan-ul2")``."""
    known = load(path)[kind]
    if name not in known:
        raise InputError(f"no price of {name!r} under {kind!r} in {path}; there are: {', '.join(sorted(known))}")
    return dict(known[name])


def _per_million(seconds: float, machine: Mapping[str, Any]) -> float:
    if not 0 <= seconds < math.inf:
        raise InputError(f"a call takes {seconds!r} seconds; it must be a number of 0 or more")
    return seconds * machine["usd_per_hour"] / 3600 * _MILLION


def machine_call(seconds: float, threads: int = 1, *, path: Path = FILE) -> float:
    """USD for a million calls on the CPU machine."""
    machine = find("machines", "cpu", path)
    if not 1 <= threads <= machine["vcpus"]:
        raise InputError(f"{threads} threads; {machine['name']} has {machine['vcpus']} vCPUs")
    return _per_million(seconds, machine) * threads / machine["vcpus"]


def gpu_call(seconds: float, *, path: Path = FILE) -> float:
    """USD for a million calls on the GPU machine, which a call has for itself for `seconds`."""
    return _per_million(seconds, find("machines", "gpu", path))


def tokens(
    model: str, prompt_tokens: float, answer_tokens: float, *, cached_tokens: float = 0.0, path: Path = FILE
) -> float:
    """USD for a million calls of a hosted language model."""
    counts = {"prompt_tokens": prompt_tokens, "answer_tokens": answer_tokens, "cached_tokens": cached_tokens}
    for name, value in counts.items():
        if not 0 <= value < math.inf:
            raise InputError(f"{name} is {value!r}; it must be a number of 0 or more")
    if cached_tokens > prompt_tokens:
        raise InputError(f"{cached_tokens} cached of {prompt_tokens} prompt tokens; they are a part of them")
    price = find("tokens", model, path)
    fresh, answer = price["usd_per_million_prompt_tokens"], price["usd_per_million_answer_tokens"]
    cached = price.get("usd_per_million_cached_tokens", fresh)
    # a million calls times a price for a million tokens: the millions cancel
    return float((prompt_tokens - cached_tokens) * fresh + cached_tokens * cached + answer_tokens * answer)


def rerank_call(service: str, *, path: Path = FILE) -> float:
    """USD for a million questions whose candidates, 100 at most, a hosted re-ranker orders."""
    return float(find("rerank", service, path)["usd_per_thousand_searches"]) * _MILLION / 1000


def prompting(
    counted: Mapping[str, Mapping[str, float]], *, seconds: float = ASSUMED_SECONDS, path: Path = FILE
) -> list[dict[str, Any]]:
    """What an assumed second for each call costs: the reference's three uses of a prompted model, in time and money."""
    return [
        {
            "what": use,
            "for_each": item,
            "calls": calls,
            "seconds": calls * seconds,
            "usd_per_million_gpu": gpu_call(calls * seconds, path=path),
            "usd_per_million_at": {
                model: round(calls * tokens(model, counted[use]["prompt"], counted[use]["answer"], path=path), 2)
                for model in load(path)["tokens"]
            },
        }
        for use, (item, calls) in THESIS_CALLS.items()
    ]
