"""Question classes: accuracy against time, memory, disk and money.

Peers learn from the questions that the shipped head learnt from. What is timed is the coarse class. Nothing is chosen on
TREC's test questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import labels
from bench import measures, readme
from bench.labels import first, taught
from bench.peers.rows import (
    CLASSIFIERS,
    Entry,
    constant,
    fine_tuned,
    keep,
    recorded,
    rows,
    scikit_peers,
    trained_seconds,
)
from bench.steps import Bench
from datasets_io import read_tsv
from question_data import Questions, read_questions
from semclass.core.artifacts import read_json

QUICK, FEW = 50, 300  # items of each set, and training items, that a quick run takes

TABLE = (
    "semclass", "semclass, svm", "ten lines: logistic", "ten lines: svc", "tf-idf, linear svm", "model2vec: logistic",
    "fine-tuned MiniLM, torch", "fine-tuned MiniLM, int8", "flan-ul2, prompted", "any prompted model",
    "most frequent class",
)  # fmt: skip
"""Rows of the README's table; a prompted model that was measured takes the place of any."""

RECORDED = "semclass, svm"
"""A support vector machine over the frozen encoder, which shipped as a second head; its row stays as it was measured."""


def run(bench: Bench) -> dict[str, Any]:
    folder = bench.work / "peers" / ("questions-quick" if bench.quick else "questions")
    limit, few = (QUICK, FEW) if bench.quick else (None, None)
    tests = {"trec": first(read_questions(bench.data / "trec" / "test.tsv"), limit)}
    if (bench.data / "questions").is_dir():
        tests["natural"] = first(labels.natural_questions(bench.data, "dev"), limit)
    items = keep(folder / "items.json", {name: part.texts for name, part in tests.items()})
    learnt = taught(bench.data)
    labels_of = {"fine": learnt.fine[:few], "label": learnt.labels("coarse")[:few]}
    train = keep(folder / "train.json", {"items": learnt.texts[:few], "labels": labels_of})
    score = partial(quality, tests=tests)
    peers, _ = scikit_peers(
        bench, "questions", "classes", folder, train, CLASSIFIERS, "{vectors}, {head} of scikit-learn."
    )
    loader = "bench.peers.systems:semclass_questions"
    what = "The shipped question head: layers tuned for questions over the encoder's lower layers, int8; both levels."
    ours = Entry("semclass", "semclass", what, loader, train_s=trained_seconds("questions"))
    entries = [ours, *peers, _tuned(bench, folder, train)]
    systems = rows(bench, "questions", entries, items, score)
    systems += [
        row
        for row in read_json(Path(__file__).parent / "results" / "questions.json")["systems"]
        if row["name"] == RECORDED
    ]
    asked = read_tsv(bench.data / "trec" / "test.tsv")[:limit]
    if "flan_ul2" in asked[0]:  # the published set is without these answers
        said = [row["flan_ul2"] for row in asked]
        systems.append(recorded(bench, "questions", measures.of_classes(tests["trec"].labels("coarse"), said)))
    usual = {level: Counter(learnt.labels(level)).most_common(1)[0][0] for level in ("coarse", "fine")}
    floor = {
        name: {key: [usual[level]] * len(part.texts) for key, level in (("label", "coarse"), ("fine", "fine"))}
        for name, part in tests.items()
    }
    systems.append(constant("most frequent class", "The class that most training questions have.", score("", floor)))
    return {
        "task": {
            "what": "Which of six types of answer does a question ask for (fine: of 50)?",
            "items": len(tests["trec"].texts),
            "natural_items": len(tests["natural"].texts) if "natural" in tests else 0,
            "training_items": len(learnt.texts),
            "protocol": "Accuracy on TREC test, figures named natural_ on natural questions, split dev. All learn from the "
            "training questions of the shipped head; peers' settings by cross-validation on "
            "training questions. semclass was developed with the natural questions, split dev, in view; TREC test was only "
            "reported on. Timed: one question at a time, coarse class.",
            "sources": "TREC question classification (Li and Roth 2002), test; natural questions of public sets with "
            "labels of this project",
        },
        "systems": systems,
    }


def quality(
    _: str, answers: Mapping[str, Mapping[str, Sequence[str]]], tests: Mapping[str, Questions]
) -> dict[str, Any]:
    """Figures of answers: of TREC test by their own names, of natural questions with the prefix ``natural_``."""
    found: dict[str, Any] = {}
    for name, part in tests.items():
        prefix = "" if name == "trec" else f"{name}_"
        figures = measures.of_classes(part.labels("coarse"), answers[name]["label"])
        if "fine" in answers[name]:
            fine = measures.of_classes(part.fine, answers[name]["fine"])
            figures |= {f"fine_{key}": value for key, value in fine.items() if key != "items"}
        found |= {f"{prefix}{key}": value for key, value in figures.items()}
    return found


def _tuned(bench: Bench, folder: Path, train: Path) -> Entry:
    """The original encoder, all of it trained for the task, as onnxruntime runs it."""
    out = folder / "tuned"
    made = fine_tuned(bench, "questions/train/tuned", "bench.peers.minilm:train_one", train, out, threads=2)
    what = (
        "The original encoder with a linear layer, all of it trained for the task by the usual recipe, three epochs; "
        "exported to ONNX, quantised dynamically by onnxruntime."
    )
    loader, options = "bench.peers.minilm:onnx_texts", {"folder": str(out)}
    return Entry("fine-tuned MiniLM, int8", "peer", what, loader, options, training=made, train_s=made.get("train_s"))


def table(found: Mapping[str, Any]) -> str:
    systems = found["questions"]["systems"]
    by_name = {row["name"]: row for row in systems}
    asked = [row for row in systems if row.get("kind") == "prompted" and not row.get("recorded")]
    head = ("text to question class, one thread", "TREC test", "natural", "ms, p50", "a second, by 64", "memory, MB",
            "disk, MB", "to train, s", "USD a million")  # fmt: skip
    shown = [row for name in TABLE for row in (asked if name == "any prompted model" else [by_name.get(name)]) if row]
    return readme.markdown(head, [_table_row(row) for row in shown])


def _table_row(row: Mapping[str, Any]) -> list[str]:
    if "skipped" in row:
        return [row["name"], f"not measured: {row['skipped']}", *["-"] * 7]
    return [
        row["name"],
        readme.with_interval(row, "accuracy"),
        readme.cell(row, "natural_accuracy", ".1%"),
        f"{row['p50_ms']:,.0f} (assumed)" if row.get("recorded") else readme.cell(row, "p50_ms", ".2f"),
        "-" if row.get("recorded") else readme.cell(row, "per_second", ",.0f"),
        readme.cell(row, "peak_mb", ",.0f"),
        readme.cell(row, "disk_mb", ",.1f"),
        readme.trained(row),
        "-" if row.get("usd_per_million") is None else readme.money(row["usd_per_million"]),
    ]


TABLES = {"": table}
PICTURES = {"questions_cost.png": readme.of_task("questions", "accuracy")}
