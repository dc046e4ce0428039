"""Asks a language model for labels of texts, and records its replies, its refusals and the cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from semclass_llm.endpoint.bill import FAILED, NONSENSE, REFUSED
from semclass_llm.endpoint.bill import Bill as Spent
from semclass_llm.endpoint.client import Endpoint, replies, user
from semclass_llm.endpoint.kept import Reply
from semclass_llm.labelling.tasks import Task

SAMPLE = 16
"""Number of texts to ask about first, to estimate the cost of all texts."""


@dataclass(frozen=True)
class Taught:
    """The labels that a teacher gave one text, or None and the reason."""

    text: str
    labels: list[str] | None
    why: str = ""
    said: str = ""


@dataclass
class Bill:
    """Calls, tokens and time so far."""

    task: Task
    prices: tuple[float, float] | None = None  # USD for a million tokens of prompts and of answers
    texts: int = 0
    spent: Spent = field(default_factory=Spent)
    started: float = field(default_factory=time.monotonic)

    def figures(self, texts: int, concurrency: int) -> dict[str, Any]:
        """Return the cost of a number of texts, from the calls so far."""
        share = texts / max(self.texts, 1)
        tokens = [round(share * self.spent.prompt_tokens), round(share * self.spent.answer_tokens)]
        found: dict[str, Any] = {
            "texts": texts,
            "calls": texts * self.task.calls,
            "prompt_tokens": tokens[0],
            "answer_tokens": tokens[1],
            "tokens_counted_by": self.spent.counted_by,
            "seconds": round(share * self.spent.seconds / concurrency, 1),
        }
        if self.prices is not None:
            found["usd"] = round(share * self.spent.usd(self.prices), 4)
        return found


def teach(texts: Sequence[str], task: Task, endpoint: Endpoint, bill: Bill) -> Iterator[Taught]:
    """Ask a model for the labels of texts, in their order.

    Raises the same errors as :func:`semclass_llm.endpoint.client.replies`.
    """
    prompts = (prompt for text in texts for prompt in task.prompts(text))
    given = replies(endpoint, map(user, prompts), max_tokens=task.max_tokens)
    for text in texts:
        answers = list(islice(given, task.calls))
        for prompt, reply in zip(task.prompts(text), answers, strict=True):
            bill.spent.add(prompt, reply)
        bill.texts += 1
        yield _judged(text, task, answers)


def _judged(text: str, task: Task, answers: Sequence[Reply]) -> Taught:
    if refused := next((one for one in answers if one.refused), None):
        return Taught(text, None, REFUSED, refused.error or refused.finish)
    if failed := next((one for one in answers if one.error), None):
        return Taught(text, None, FAILED, str(failed.error))
    said = [str(one.text) for one in answers]
    labels = task.read(said)
    return Taught(text, labels) if labels is not None else Taught(text, None, NONSENSE, " | ".join(said)[:200])


def labelled_record(
    item: Mapping[str, Any], labels: Sequence[Any], multi_label: bool, by: str = "model"
) -> dict[str, Any]:
    """Return a text, or a pair, with its labels as ``semclass train`` reads it, and who gave them."""
    return {**item, **({"labels": list(labels)} if multi_label else {"label": labels[0]}), "by": by}


def estimate(
    texts: Sequence[str], task: Task, endpoint: Endpoint, prices: tuple[float, float] | None
) -> dict[str, Any]:
    """Ask about some evenly spread texts, and estimate the cost of all texts. Replies stay in the cache."""
    bill = Bill(task, prices)
    step = max(len(texts) // SAMPLE, 1)
    for _ in teach(list(texts[::step][:SAMPLE]), task, endpoint, bill):
        pass
    return bill.figures(len(texts), endpoint.concurrency)


def report(found: Sequence[Taught], bill: Bill, endpoint: Endpoint) -> dict[str, Any]:
    """Return a report of the results, in JSON types."""
    labels = Counter(label for one in found for label in one.labels or ())
    problems = Counter(one.why for one in found if one.labels is None)
    return {
        "model": endpoint.model,
        "endpoint": endpoint.address,
        "way": bill.task.way,
        "labelled": sum(one.labels is not None for one in found),
        **{why: problems[why] for why in (FAILED, REFUSED, NONSENSE)},
        "labels": {name: labels[name] for name in bill.task.labels},
        "cost": bill.figures(len(found), endpoint.concurrency),
        "cost_of_a_million_texts": bill.figures(1_000_000, endpoint.concurrency),
        "from_cache": bill.spent.cached,
        "seconds": round(time.monotonic() - bill.started, 1),
    }
