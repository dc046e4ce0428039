"""How many labelled questions are enough: heads fitted on samples, tried on natural questions (split dev)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import figures
import labels
from bench.steps import Bench
from question_data import Questions, read_questions
from semclass import OnnxEncoder, TextClassifier

DRAWS = {50: 5, 150: 3, 500: 2, 1500: 1, 4500: 1}  # labelled questions, and samples of so many


def training_questions(data: Path) -> Questions:
    """All training questions."""
    parts = [
        read_questions(data / "trec" / "train.tsv"),
        labels.natural_questions(data / "questions", "train"),
        labels.squad_questions(data / "squad_sentences"),
        labels.written_questions(),
    ]
    return Questions(tuple(t for part in parts for t in part.texts), tuple(f for part in parts for f in part.fine))


def accuracy(level: str, size: int, seed: int, train: Questions, dev: Questions, encoder: OnnxEncoder) -> float:
    """Accuracy on dev of a head that was fitted on a sample."""
    chosen = np.random.default_rng(seed).permutation(len(train.texts))[:size]
    names = train.labels(level)
    model = TextClassifier(encoder, cv=2).fit([train.texts[row] for row in chosen], [names[row] for row in chosen])
    return model.score(dev.texts, dev.labels(level))


def run(bench: Bench) -> dict[str, Any]:
    """A step for each number of labels, so that a run that was stopped goes on where it was."""
    draws = dict.fromkeys(list(DRAWS)[:2], 1) if bench.quick else DRAWS
    return {
        level: {
            str(size): bench.step(
                f"learning_curves/{level}/{size}",
                "bench.learning_curves:measure",
                data=bench.data,
                level=level,
                size=size,
                draws=times,
            )["accuracy"]
            for size, times in draws.items()
        }
        for level in ("coarse", "fine")
    }


def measure(data: str, level: str, size: int, draws: int) -> dict[str, float]:
    """Mean accuracy of heads that were fitted on samples of one size."""
    train, dev = training_questions(Path(data)), labels.natural_questions(Path(data) / "questions", "dev")
    encoder = OnnxEncoder.load()
    found = [accuracy(level, size, seed, train, dev, encoder) for seed in range(draws)]
    return {"accuracy": round(float(np.mean(found)), 4)}


def pictures(results: dict[str, Any]) -> dict[str, bytes]:
    """The curves."""
    lines = {
        level: ([int(size) for size in results[level]], list(results[level].values())) for level in ("coarse", "fine")
    }
    return {
        "learning_curves.png": figures.curves(
            lines, x="labelled questions", y="accuracy, natural questions", logarithmic=True
        )
    }
