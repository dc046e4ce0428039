"""Question classes: accuracy against time, memory, disk and money.

Peers learn from the questions that the shipped head learnt from. What is timed is the coarse class. Nothing is chosen on
TREC's test questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import labels
from bench import measures, readme
from bench.labels import first, taught
from bench.peers.rows import Entry, constant, frozen, keep, rows, scikit_peers, trained_seconds
from bench.steps import Bench
from question_data import Questions, read_questions

QUICK, FEW = 50, 300  # items of each set, and training items, that a quick run takes


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
    loader = "bench.peers.systems:semclass_questions"
    what = "The shipped question head: layers tuned for questions over the encoder's lower layers, int8; both levels."
    ours = Entry("semclass", "semclass", what, loader, train_s=trained_seconds("questions"))
    systems = rows(bench, "questions", [ours, *scikit_peers(bench, "questions", folder, train)], items, score)
    systems += frozen(bench, "questions")
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
        row = measures.of_classes(part.labels("coarse"), answers[name]["label"])
        if "fine" in answers[name]:
            fine = measures.of_classes(part.fine, answers[name]["fine"])
            row |= {f"fine_{key}": value for key, value in fine.items() if key != "items"}
        found |= {f"{prefix}{key}": value for key, value in row.items()}
    return found


def table(found: Mapping[str, Any]) -> str:
    head = ("text to question class, one thread", "TREC test", "natural", "ms, p50", "a second, by 64", "memory, MB",
            "disk, MB", "to train, s", "USD a million")  # fmt: skip
    return readme.markdown(head, map(_table_row, found["questions"]["systems"]))


def _table_row(row: Mapping[str, Any]) -> list[str]:
    return [
        readme.named(row),
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
