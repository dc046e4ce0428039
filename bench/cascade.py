"""Share of the texts sent to a language model, what is then right, and what it costs.

The head decides all texts; those it is least sure of get the model's answer instead. The model is flan-ul2, whose answers
were recorded, or one of assumed accuracy. Nothing is chosen on these texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import train_passages as training
from bench import labels, measures, passages, prices, readme
from bench.steps import Bench
from datasets_io import read_jsonl, read_tsv
from semclass import EntailmentClassifier, OnnxEncoder, PassageClassifier, QuestionClassifier, TextClassifier
from semclass.core.errors import InputError
from semclass.core.types import COARSE
from semclass_llm import Cascade, CascadeLabels, Endpoint
from semclass_llm.cascade import Item

Array = npt.NDArray[Any]

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
SHOWN = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)  # of these, in the table
AT = 0.2  # share for which leads are given with their interval
QUICK = 60  # items of a quick run
NOBODY = Endpoint("http://localhost", "nobody")  # no model is asked
EXAMPLES = "10"  # of each intent of BANKING77
ASSUMED, ASSUMED_PRICE = 0.9, "gpt-5-nano"  # accuracy and price of a model that nobody asked
ROWS = {"unsure": "least sure first", "second": "by a second head", "random": "random"}


@dataclass(frozen=True)
class Job:
    """Items, and what the head says of them."""

    what: str
    items: Sequence[Item]
    truth: Sequence[Any]  # of each item
    decided: Sequence[CascadeLabels]
    seconds: float  # of the head, an item
    cascade: Cascade
    said: Sequence[Sequence[str] | None] | None = None  # recorded answers of flan-ul2; None where it gave none
    calls: int = 1
    right: Callable[[Any, Sequence[str]], float] = lambda true, said: float([true] == [*said])  # share of labels


def run(bench: Bench) -> dict[str, Any]:
    where = {"data": bench.data, "limit": QUICK if bench.quick else None}
    jobs = {
        job: bench.step(f"cascade/{job}", "bench.cascade:measure", job=job, **where)
        for job in MAKERS
        if job != "passages" or not bench.quick  # whose heads are fitted again, which takes minutes
    }
    protocol = (
        "USD: the head on a CPU, and the calls at list price. Random sending: what is expected of it. "
        f"BANKING77: TextClassifier with {EXAMPLES} messages of each intent; the model "
        f"is assumed, not measured: right on {ASSUMED:.0%} of whatever is sent, at the price of {ASSUMED_PRICE}"
    )
    return {"task": {"what": "right by share sent", "model": "flan-ul2", "protocol": protocol}, "jobs": jobs}


# -- steps ----------------------------------------------------------------------------------------------------------------


def measure(job: str, data: str, limit: int | None) -> dict[str, Any]:
    """What is right by share sent, the least sure first or whichever they are."""
    made = MAKERS[job](Path(data), NOBODY, limit)
    head = np.array(
        [made.right(true, list(map(str, one.labels))) for true, one in zip(made.truth, made.decided, strict=True)]
    )
    said = made.said
    if said is not None:
        counted = prices.prompt_tokens(job)
        usd = made.calls * prices.tokens("flan-ul2", counted["prompt"], counted["answer"])
    else:
        prompts = [next(iter(made.cascade.task.prompts(str(item)))) for item in made.items[:100]]
        counts = OnnxEncoder.load().encode(prompts, views=()).terms.lengths()
        usd = prices.tokens(ASSUMED_PRICE, float(np.mean(counts)), 4.0)
    sent = np.full(len(head), ASSUMED) if said is None else head.copy()
    for row, labels_ in enumerate(said or ()):
        if labels_ is not None:  # where there is no answer, the head's label stays
            sent[row] = made.right(made.truth[row], labels_)
    confidence = np.array([one.confidence for one in made.decided])
    found = {"unsure": [right(head, sent, confidence, share) for share in SHARES]}
    found["random"] = [round(float(head.mean() + share * (sent - head).mean()), 4) for share in SHARES]
    chosen = first(confidence, AT)
    per_item = (chosen - AT) * (sent - head)
    lead = measures.figure("lead", per_item.mean(), measures.resamples(len(head), 0) @ per_item / len(head))
    own = prices.machine_call(made.seconds)
    return {
        "what": made.what,
        "items": len(head),
        "model": "flan-ul2, recorded" if said is not None else f"assumed, {ASSUMED:.0%} right",
        "shares": SHARES,
        "right": found,
        "usd_per_million": [round(own + share * usd, 4 if share == 0 else 2) for share in SHARES],
        **lead,
    }


def first(values: Array, share: float) -> Array:
    """1 for the items with the smallest values, a share of all, 0 for others."""
    chosen = np.zeros(len(values))
    chosen[np.argsort(values, kind="stable")[: round(share * len(values))]] = 1
    return chosen


def right(head: Array, model: Array, values: Array, share: float) -> float:
    chosen = first(values, share)
    return round(float((chosen * model + (1 - chosen) * head).mean()), 4)


def _decided(cascade: Cascade, items: Sequence[Item]) -> tuple[list[CascadeLabels], float]:
    started = time.perf_counter()
    return cascade.decide(items), (time.perf_counter() - started) / len(items)


def _pairs(data: Path, endpoint: Endpoint, limit: int | None) -> Job:
    records = _answered(data, read_jsonl(data / "qnli" / "validation.jsonl.gz")[:limit])
    items = [(record["question"], record["sentence"]) for record in records]
    cascade = Cascade(EntailmentClassifier.load(), endpoint, share=0.0)
    decided, seconds = _decided(cascade, items)
    return Job(
        "QNLI: does a sentence answer a question?", items,
        [record["label"] for record in records], decided, seconds, cascade,
        [[record["flan_ul2"]] for record in records],
    )  # fmt: skip


def _answered(data: Path, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records, if they hold what flan-ul2 answered, which the published sets do not."""
    if "flan_ul2" not in records[0]:
        raise InputError(f"{data} is without the recorded answers of flan-ul2, which are not published")
    return records


def _questions(data: Path, endpoint: Endpoint, limit: int | None) -> Job:
    records = _answered(data, read_tsv(data / "trec" / "test.tsv")[:limit])
    items = [record["question"] for record in records]
    classifier = QuestionClassifier.load()
    cascade = Cascade(classifier, endpoint, share=0.0)
    decided, seconds = _decided(cascade, items)
    return Job(
        "TREC test: which type of answer does a question ask for?", items,
        [record["coarse"] for record in records], decided, seconds, cascade,
        [[record["flan_ul2"]] for record in records],
    )  # fmt: skip


def _passages(data: Path, endpoint: Endpoint, limit: int | None) -> Job:
    """Heads that were fitted without the passage, as in section ``passages``."""
    corpus = training.read_corpus(data)
    given, decisions, truth = (part[:limit] for part in passages.held_out(corpus))
    twice = np.flatnonzero(corpus.twice)[:limit]
    items = [corpus.texts[row] for row in twice]
    cascade = Cascade(PassageClassifier.load(), endpoint, share=0.0)
    _, seconds = _decided(cascade, items)
    sure = np.abs(given - 0.5).min(axis=1) * 2

    def names(row: Array) -> tuple[str, ...]:
        return tuple(name for name, value in zip(COARSE, row, strict=True) if value == 1)

    def right_share(true: Array, said: Sequence[str]) -> float:
        read = ~np.isnan(true)
        return float((np.isin(COARSE, said)[read] == (true[read] == 1)).mean())

    decided = [
        CascadeLabels(item, names(row), "head", names(row), value)
        for item, row, value in zip(items, decisions, sure.tolist(), strict=True)
    ]
    said = [None if np.isnan(row).any() else names(row) for row in corpus.weak[twice]]
    what = "Passages: which of six types of answer does one provide? Right: mean share of six decisions."
    return Job(what, items, truth, decided, seconds, cascade, said, len(COARSE), right_share)


def _banking(data: Path, endpoint: Endpoint, limit: int | None) -> Job:
    classes = 7 if limit == QUICK else None
    (texts, names), (items, truth) = (labels.read(data, "banking77", part, classes) for part in ("train", "test"))
    rows = labels.draw(names, EXAMPLES, 0)
    some, theirs = [texts[row] for row in rows], [names[row] for row in rows]
    step = max(len(items) // (limit or len(items)), 1)  # the file is in the order of the intents
    items, truth = items[::step], truth[::step]
    cascade = Cascade(TextClassifier().fit(some, theirs), endpoint, share=0.0)
    decided, seconds = _decided(cascade, items)
    return Job("BANKING77: which of 77 intents does a message have?", items, truth, decided, seconds, cascade)


MAKERS: dict[str, Callable[[Path, Endpoint, int | None], Job]] = {
    "entailment": _pairs, "questions": _questions, "passages": _passages, "banking77": _banking,
}  # fmt: skip


# -- tables ---------------------------------------------------------------------------------------------------------------


def table(found: Mapping[str, Any]) -> str:
    """Right and USD by share sent, for each job and order."""
    rows = []
    for job, each in found["cascade"]["jobs"].items():
        places = [list(each["shares"]).index(share) for share in SHOWN]
        for name, shown in ROWS.items():
            if name in each["right"]:
                cells = [f"{each['right'][name][place]:.1%}" for place in places]
                rows.append((f"{job}, {each['model']}" if name == "unsure" else "", shown, *cells))
        rows.append(("", "USD a million", *(readme.money(each["usd_per_million"][place]) for place in places)))
    return readme.markdown(("job, model", "sent", *(f"{share:.0%}" for share in SHOWN)), rows)


TABLES = {"": table}
