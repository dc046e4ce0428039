"""Share of the texts sent to a language model, what is then right, and what it costs.

The head decides all texts; those it is least sure of get the model's answer instead. The model is flan-ul2, whose answers
were recorded. Nothing is chosen on these texts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import prices, readme
from bench.steps import Bench
from bench.systems import frozen
from datasets_io import read_jsonl, read_tsv
from semclass import EntailmentClassifier, QuestionClassifier
from semclass.core.errors import InputError
from semclass_llm import Cascade, Endpoint

Array = npt.NDArray[Any]

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
SHOWN = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)  # of these, in the table
QUICK = 60  # items of a quick run
NOBODY = Endpoint("http://localhost", "nobody")  # no model is asked
ROWS = {"unsure": "least sure first", "random": "random"}
JOBS = {
    "entailment": "QNLI: does a sentence answer a question?",
    "questions": "TREC test: which type of answer does a question ask for?",
}


def run(bench: Bench) -> dict[str, Any]:
    limit = QUICK if bench.quick else None
    paid = {job: row["usd_per_million"] for job in JOBS for row in frozen(bench, job) if row.get("recorded")}
    jobs = {
        job: bench.step(
            f"cascade/{job}", "bench.cascade:measure", job=job, data=bench.data, limit=limit, usd=paid.get(job, 0.0)
        )
        for job in JOBS
    }
    protocol = "USD: the head on a CPU, and the calls at list price. Random sending: what is expected of it."
    return {"task": {"what": "right by share sent", "model": "flan-ul2", "protocol": protocol}, "jobs": jobs}


def measure(job: str, data: str, limit: int | None, usd: float) -> dict[str, Any]:
    """Accuracy by the share that is sent, the least sure first or in any order; `usd`: a million calls of flan-ul2."""
    if job == "entailment":
        records = read_jsonl(Path(data) / "qnli" / "validation.jsonl.gz")[:limit]
        classifier: Any = EntailmentClassifier.load()
        items: list[Any] = [(record["question"], record["sentence"]) for record in records]
    else:
        records = read_tsv(Path(data) / "trec" / "test.tsv")[:limit]
        classifier, items = QuestionClassifier.load(), [record["question"] for record in records]
    if "flan_ul2" not in records[0]:
        raise InputError(f"{data} is without the recorded answers of flan-ul2, which are not published")
    cascade, started = Cascade(classifier, NOBODY, share=0.0), time.perf_counter()
    decided = cascade.decide(items)
    own = prices.machine_call((time.perf_counter() - started) / len(items))
    truth = np.array([record["label" if job == "entailment" else "coarse"] for record in records])
    head = (np.array([one.labels[0] for one in decided]) == truth).astype(float)
    sent = (np.array([record["flan_ul2"] for record in records]) == truth).astype(float)
    confidence = np.array([one.confidence for one in decided])
    found = {"unsure": [right(head, sent, confidence, share) for share in SHARES]}
    found["random"] = [round(float(head.mean() + share * (sent - head).mean()), 4) for share in SHARES]
    return {
        "what": JOBS[job],
        "items": len(head),
        "model": "flan-ul2, recorded",
        "shares": SHARES,
        "right": found,
        "usd_per_million": [round(own + share * usd, 4 if share == 0 else 2) for share in SHARES],
    }


def first(values: Array, share: float) -> Array:
    """1 for the items with the smallest values, a share of all, 0 for others."""
    chosen = np.zeros(len(values))
    chosen[np.argsort(values, kind="stable")[: round(share * len(values))]] = 1
    return chosen


def right(head: Array, model: Array, values: Array, share: float) -> float:
    chosen = first(values, share)
    return round(float((chosen * model + (1 - chosen) * head).mean()), 4)


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
