"""Labelled questions: reading them, and the figures of a report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datasets_io import read_tsv
from semclass.core.types import COARSE, DoubleArray, coarse_of
from semclass.train.fitted import expected_calibration_error


@dataclass(frozen=True)
class Questions:
    """Labelled questions."""

    texts: tuple[str, ...]
    fine: tuple[str, ...]  # classes, such as "NUM:date"

    def labels(self, level: str) -> tuple[str, ...]:
        """Classes of the questions at one level."""
        return self.fine if level == "fine" else tuple(map(coarse_of, self.fine))


def read_questions(path: Path) -> Questions:
    """Read a table with the columns coarse, fine and question."""
    rows = read_tsv(path)
    fine = tuple(f"{row['coarse']}:{row['fine'].rpartition(':')[2]}" for row in rows)
    return Questions(tuple(row["question"] for row in rows), fine)


def joined(parts: Sequence[Questions]) -> Questions:
    """Several sets of questions as one."""
    texts, fine = ([item for part in parts for item in getattr(part, name)] for name in ("texts", "fine"))
    return Questions(tuple(texts), tuple(fine))


def same_but_for_marks(question: str) -> str:
    """Name of the group of questions that differ from this one in punctuation, case or digits only."""
    return " ".join(re.sub(r"[^a-z ]", " ", question.lower()).split())


def membership(classes: Sequence[str]) -> DoubleArray:
    """Which fine class belongs to which coarse one, (classes, 6)."""
    return np.array([[coarse_of(name) == coarse for coarse in COARSE] for name in classes], float)


def evaluate(probabilities: DoubleArray, classes: Sequence[str], truth: Sequence[str]) -> dict[str, Any]:
    """Accuracy, log loss and calibration error of probabilities (n, classes)."""
    place = {name: index for index, name in enumerate(classes)}
    columns = np.array([place.get(label, -1) for label in truth])
    right = probabilities.argmax(axis=1) == columns
    given = np.where(columns >= 0, probabilities[np.arange(len(truth)), columns], 0.0)
    return {
        "accuracy": round(float(right.mean()), 4),
        "right": int(right.sum()),
        "questions": len(truth),
        "log_loss": round(float(-np.log(np.maximum(given, 1e-12)).mean()), 4),
        "calibration_error": round(expected_calibration_error(probabilities.max(axis=1), right), 4),
    }


def measure(given: DoubleArray, classes: Sequence[str], questions: Questions) -> dict[str, dict[str, Any]]:
    """Figures of both levels: coarse probabilities are sums of fine ones, the fine answer is within the coarse one."""
    belongs = membership(classes)
    coarse = given @ belongs
    within = np.where(belongs.T[coarse.argmax(axis=1)] > 0, given, 0.0)
    return {
        "coarse": evaluate(coarse, COARSE, questions.labels("coarse")),
        "fine": evaluate(within, classes, questions.fine),
    }


PARTS = {"test": "TREC test", "natural_dev": "natural questions, split dev", "held_out": "held-out training questions"}
"""Sets that a head is measured on, by their names in manifests, and what cards call them."""


def figure_rows(metrics: Mapping[str, Any]) -> str:
    """Rows of a card's table: accuracy and calibration error of both levels, of each set."""
    return "\n".join(
        f"| {what}, {metrics[part]['fine']['questions']} | "
        + " | ".join(
            "{accuracy:.3f}; {calibration_error:.3f}".format(**metrics[part][level]) for level in ("coarse", "fine")
        )
        + " |"
        for part, what in PARTS.items()
        if part in metrics
    )
