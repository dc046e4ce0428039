"""Does a sentence answer a question? Accuracy on QNLI validation against time, memory, disk and money; and MAP on WikiQA.

Nothing is trained or chosen on QNLI. Peers learnt from the questions of SQuAD's training articles, each with the
sentence that answers it and one nearby that does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import measures, readme
from bench.steps import Bench
from bench.systems import Answers, constant, frozen, measured
from datasets_io import read_jsonl, read_tsv
from semclass import EntailmentClassifier, Models, Reranker
from semclass.core.artifacts import default_models, read_json

Array = npt.NDArray[Any]
QUICK = 50  # pairs, and questions of WikiQA, of a quick run


def run(bench: Bench) -> dict[str, Any]:
    limit = QUICK if bench.quick else None
    records = read_jsonl(bench.data / "qnli" / "validation.jsonl.gz")[:limit]
    truth = np.array([record["label"] == "entailment" for record in records])
    threshold = float(read_json(default_models() / "entailment" / "manifest.json")["threshold"])
    what = "The shipped entailment classifier: a small network compares word vectors, some layers read both together."
    pairs = {"qnli": [[record["question"], record["sentence"]] for record in records]}
    ours = measured(bench, "entailment", what, pairs, partial(quality, truth=truth, threshold=threshold))
    floor = constant("always yes", "Every sentence answers.", measures.of_answers(truth, np.ones(len(truth), bool)))
    return {
        "task": {
            "what": "Does a sentence answer a question?",
            "items": len(records),
            "protocol": "QNLI validation; labels by thresholds found on training data. Peers learnt from 23,754 pairs of "
            "squad_sentences/train: each question with its answer and with one of the three sentences on either side, "
            "likelier one with the question's words. f1 is that of yes. Timed: one pair at a time, both texts from "
            "scratch; all but the cross-encoder could keep vectors of sentences. What the cross-encoder learnt from, see "
            "retrieval.",
            "sources": "GLUE QNLI validation, made of SQuAD's development articles, with flan-ul2's recorded answers",
        },
        "systems": [ours, *frozen(bench, "entailment"), floor],
        **bench.step("entailment/wikiqa", "bench.entailment:sentences", data=bench.data, limit=limit),
    }


def quality(answers: Answers, truth: Array, threshold: float) -> dict[str, Any]:
    """Figures of probabilities; yes from the threshold on."""
    scores = np.array(answers["qnli"]["label"])
    return {**measures.of_answers(truth, scores >= threshold, scores), "threshold": round(threshold, 4)}


def sentences(data: str, limit: int | None) -> dict[str, Any]:
    """Mean average precision of the sentences of an article for each question of WikiQA's dev part that has an answer."""
    by_question = groupby(read_tsv(Path(data) / "wikiqa" / "dev.tsv.gz"), lambda row: row["question"])
    groups = [(question, list(rows)) for question, rows in by_question]
    groups = [(question, rows) for question, rows in groups if any(row["label"] == "1" for row in rows)][:limit]
    models = Models.load(threads=1)
    classifier, reranker = EntailmentClassifier.load(), Reranker(models)
    found: dict[str, list[float]] = {"EntailmentClassifier": [], "Reranker": []}
    for question, rows in groups:
        texts, right = [row["sentence"] for row in rows], np.array([row["label"] == "1" for row in rows])
        given = classifier.predict_proba([(question, text) for text in texts])[:, 1]
        found["EntailmentClassifier"].append(average_precision(right[np.argsort(-given, kind="stable")]))
        order = [int(hit.id) for hit in reranker.rerank(question, texts, k=len(texts))]
        found["Reranker"].append(average_precision(right[order]))
    counts = measures.resamples(len(groups), 0)
    shown = {name: measures.figure("map", float(np.mean(row)), counts @ row / len(row)) for name, row in found.items()}
    return {"wikiqa": {"questions": len(groups), "systems": shown}}


def average_precision(right: Array) -> float:
    """Mean of the precision at each right place of a ranking, bool (n,)."""
    places = np.flatnonzero(right)
    return float(np.mean((1 + np.arange(len(places))) / (1 + places)))


def table(found: Mapping[str, Any]) -> str:
    if (wikiqa := found["entailment"].get("wikiqa")) is None:
        return ""
    rows = [(f"`{name}`", readme.with_interval(row, "map", ".3f")) for name, row in wikiqa["systems"].items()]
    return readme.markdown((f"WikiQA dev, {wikiqa['questions']} questions", "mean average precision"), rows)


TABLES = {"wikiqa": table}
