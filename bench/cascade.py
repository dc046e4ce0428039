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

from bench import labels, measures, prices, readme
from bench.peers.rows import frozen
from bench.steps import Bench
from datasets_io import read_jsonl, read_tsv
from semclass import EntailmentClassifier, OnnxEncoder, QuestionClassifier, TextClassifier
from semclass.core.errors import InputError
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
ROWS = {"unsure": "least sure first", "random": "random"}


@dataclass(frozen=True)
class Job:
    """Items, and what the head says of them."""

    what: str
    items: Sequence[Item]
    truth: Sequence[Any]  # of each item
    decided: Sequence[CascadeLabels]
    seconds: float  # of the head, an item
    cascade: Cascade
    said: Sequence[str] | None = None  # recorded answers of flan-ul2


def run(bench: Bench) -> dict[str, Any]:
    where: dict[str, Any] = {"data": bench.data, "limit": QUICK if bench.quick else None}
    paid = {job: row["usd_per_million"] for job in RECORDED for row in frozen(bench, job) if row.get("recorded")}
    jobs = {
        job: bench.step(f"cascade/{job}", "bench.cascade:measure", job=job, usd=paid.get(job), **where)
        for job in MAKERS
    }
    protocol = (
        "USD: the head on a CPU, and the calls at list price. Random sending: what is expected of it. "
        f"BANKING77: TextClassifier with {EXAMPLES} messages of each intent; the model "
        f"is assumed, not measured: right on {ASSUMED:.0%} of whatever is sent, at the price of {ASSUMED_PRICE}"
    )
    return {"task": {"what": "right by share sent", "model": "flan-ul2", "protocol": protocol}, "jobs": jobs}


# -- steps ----------------------------------------------------------------------------------------------------------------


def measure(job: str, data: str, limit: int | None, usd: float | None) -> dict[str, Any]:
    """Accuracy by the share that is sent, the least sure first or in any order; `usd`: a million calls of flan-ul2."""
    made = MAKERS[job](Path(data), NOBODY, limit)
    truth = np.array(made.truth)
    head = (np.array([one.labels[0] for one in made.decided]) == truth).astype(float)
    sent = np.full(len(head), ASSUMED) if made.said is None else (np.array(made.said) == truth).astype(float)
    if made.said is None:
        prompts = [next(iter(made.cascade.task.prompts(str(item)))) for item in made.items[:100]]
        counts = OnnxEncoder.load().encode(prompts, views=()).terms.lengths()
        usd = prices.tokens(ASSUMED_PRICE, float(np.mean(counts)), 4.0)
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
        "model": "flan-ul2, recorded" if made.said is not None else f"assumed, {ASSUMED:.0%} right",
        "shares": SHARES,
        "right": found,
        "usd_per_million": [round(own + share * (usd or 0.0), 4 if share == 0 else 2) for share in SHARES],
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
        [record["flan_ul2"] for record in records],
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
        [record["flan_ul2"] for record in records],
    )  # fmt: skip


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
    "entailment": _pairs, "questions": _questions, "banking77": _banking,
}  # fmt: skip
RECORDED = ("entailment", "questions")  # jobs whose answers by flan-ul2, and their price, are recorded


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
