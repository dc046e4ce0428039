"""What calls cost by ``prices.json``: USD for a million calls, at list price, of a machine that is always busy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench import reference
from semclass.core import artifacts
from semclass.core.errors import InputError

FILE = Path(__file__).parent / "prices.json"
_MILLION = 1e6

ASSUMED_SECONDS = reference.assumed_seconds()
"""What a call of the prompted model is taken to last: an assumption of the reference, which nobody measured."""

THESIS_CALLS: dict[str, tuple[str, int]] = {
    "question class": ("a question", 1),
    "passage classes": ("a passage", 6),
    "entailment of 10 candidates": ("a question", 10),
}
"""The reference's prompts: what is prompted for, for each what, and how many calls it takes."""


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


def gpu_call(seconds: float) -> float:
    """USD for a million calls on the GPU machine, one call at a time."""
    return float(seconds * find("machines", "gpu")["usd_per_hour"] / 3600 * _MILLION)


def tokens(model: str, prompt_tokens: float, answer_tokens: float, *, cached_tokens: float = 0.0) -> float:
    """USD for a million calls of a hosted language model."""
    price = find("tokens", model)
    fresh, answer = price["usd_per_million_prompt_tokens"], price["usd_per_million_answer_tokens"]
    cached = price.get("usd_per_million_cached_tokens", fresh)
    # a million calls times a price for a million tokens: the millions cancel
    return float((prompt_tokens - cached_tokens) * fresh + cached_tokens * cached + answer_tokens * answer)


def at_all_prices(calls: int, counted: Mapping[str, float]) -> dict[str, float]:
    """USD for a million items of so many calls, by hosted model; `counted`: tokens of prompt and answer."""
    return {model: round(calls * tokens(model, counted["prompt"], counted["answer"]), 2) for model in load()["tokens"]}


def rerank_call(service: str) -> float:
    """USD for a million questions whose candidates, 100 at most, a hosted re-ranker orders."""
    return float(find("rerank", service)["usd_per_thousand_searches"]) * _MILLION / 1000
