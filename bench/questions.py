"""Question classes: accuracy against time, memory, disk and money.

Peers learnt from the questions that the shipped head learnt from. What is timed is the coarse class. Nothing is chosen on
TREC's test questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import labels
from bench import measures, readme
from bench.labels import first, taught
from bench.steps import Bench
from bench.systems import Answers, constant, frozen, measured
from question_data import Questions, read_questions

QUICK = 50  # items of each set that a quick run takes


def run(bench: Bench) -> dict[str, Any]:
    limit = QUICK if bench.quick else None
    tests = {"trec": first(read_questions(bench.data / "trec" / "test.tsv"), limit)}
    if (bench.data / "questions").is_dir():
        tests["natural"] = first(labels.natural_questions(bench.data, "dev"), limit)
    learnt, score = taught(bench.data), partial(quality, tests=tests)
    what = "The shipped question head: layers tuned for questions over the encoder's lower layers, int8; both levels."
    ours = measured(bench, "questions", what, {name: part.texts for name, part in tests.items()}, score)
    usual = {level: Counter(learnt.labels(level)).most_common(1)[0][0] for level in ("coarse", "fine")}
    floor = {
        name: {key: [usual[level]] * len(part.texts) for key, level in (("label", "coarse"), ("fine", "fine"))}
        for name, part in tests.items()
    }
    least = constant("most frequent class", "The class that most training questions have.", score(floor))
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
        "systems": [ours, *frozen(bench, "questions"), least],
    }


def quality(answers: Answers, tests: Mapping[str, Questions]) -> dict[str, Any]:
    """Figures of answers: of TREC test by their own names, of natural questions with the prefix ``natural_``."""
    found: dict[str, Any] = {}
    for name, part in tests.items():
        prefix = "" if name == "trec" else f"{name}_"
        fine = measures.of_classes(part.fine, answers[name]["fine"])
        row = measures.of_classes(part.labels("coarse"), answers[name]["label"])
        row |= {f"fine_{key}": value for key, value in fine.items() if key != "items"}
        found |= {f"{prefix}{key}": value for key, value in row.items()}
    return found


def table(found: Mapping[str, Any]) -> str:
    return readme.systems_table(found["questions"]["systems"], ("accuracy", "natural_accuracy", "fine_accuracy"))


TABLES = {"": table}
