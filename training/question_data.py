"""Labelled questions: reading them, and the tables of a report; what both ways of training share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

from datasets_io import read_tsv
from semclass.core.errors import InputError
from semclass.core.taxonomy import COARSE, coarse_of
from semclass.core.types import DoubleArray
from semclass.train.calibration import expected_calibration_error

# names of the public originals, https://cogcomp.seas.upenn.edu/Data/QA/QC/
ORIGINALS = {"train": "train_5500.label", "test": "TREC_10.label"}


@dataclass(frozen=True)
class Questions:
    """Labelled questions."""

    texts: tuple[str, ...]
    fine: tuple[str, ...]  # classes, such as "NUM:date"

    def labels(self, level: str) -> tuple[str, ...]:
        """Classes of the questions at one level."""
        return self.fine if level == "fine" else tuple(map(coarse_of, self.fine))


def read_questions(path: Path) -> Questions:
    """Read a table with the columns coarse, fine and question, or an original: ``COARSE:fine question`` in Latin-1."""
    if path.suffix == ".tsv":
        rows = read_tsv(path)
        missing = [name for name in ("coarse", "fine", "question") if rows and name not in rows[0]]
        if missing:
            raise InputError(f"{path} has no column {missing[0]!r}; it must have coarse, fine and question")
        fine = tuple(f"{row['coarse']}:{row['fine'].rpartition(':')[2]}" for row in rows)
        return Questions(tuple(row["question"] for row in rows), fine)
    lines = path.read_text(encoding="latin-1").splitlines()
    pairs = [line.partition(" ") for line in lines if line.strip()]
    strange = [label for label, _, question in pairs if ":" not in label or not question.strip()]
    if strange:
        raise InputError(f"{path} holds a line that is not 'COARSE:fine question': it begins with {strange[0]!r}")
    return Questions(tuple(question.strip() for _, _, question in pairs), tuple(label for label, _, _ in pairs))


def find_file(data: Path, part: str) -> Path:
    candidates = [data / f"{part}.tsv", data / ORIGINALS[part]]
    for path in candidates:
        if path.is_file():
            return path
    raise InputError(f"{data} holds neither {candidates[0].name} nor {candidates[1].name}")


def same_but_for_marks(question: str) -> str:
    """Name of the group of questions that differ from this one in punctuation, case or digits only."""
    return " ".join(re.sub(r"[^a-z ]", " ", question.lower()).split())


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


def membership(classes: Sequence[str]) -> DoubleArray:
    """Which fine class belongs to which coarse one, (classes, 6)."""
    return np.array([[coarse_of(name) == coarse for coarse in COARSE] for name in classes], float)


def class_table(classes: Sequence[str], truth: Sequence[str], said: Sequence[str]) -> str:
    """Markdown table: precision, recall and F1 of each class that the truth or the decisions hold."""
    present = [name for name in classes if name in {*truth, *said}]
    figures = precision_recall_fscore_support(truth, said, labels=present, zero_division=0.0)
    lines = ["| class | precision | recall | F1 | questions |", "|---|---|---|---|---|"]
    for name, precision, recall, f1, count in zip(present, *figures, strict=True):
        lines.append(f"| {name} | {precision:.3f} | {recall:.3f} | {f1:.3f} | {count} |")
    return "\n".join(lines)
