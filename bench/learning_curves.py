"""How many labelled questions are enough? Writes ``results/learning_curves.json`` and ``results/learning_curves.png``.

    python bench/learning_curves.py --data DATA

Heads over the frozen encoder are fitted with :class:`semclass.TextClassifier` on samples of the training questions of every
source, and tried on natural questions (split dev). Needs the extra ``plot``; takes about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from semclass import OnnxEncoder, TextClassifier, artifacts

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
sys.path.insert(0, str(ROOT / "training"))

import figures  # noqa: E402
import labels  # noqa: E402
from question_data import Questions, read_questions  # noqa: E402

DRAWS = {50: 5, 150: 5, 500: 3, 1500: 2, 4500: 1}
"""Labelled questions, and samples of so many."""


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


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    train, dev = training_questions(arguments.data), labels.natural_questions(arguments.data / "questions", "dev")
    encoder = OnnxEncoder.load()
    found = {
        level: {
            str(size): round(
                float(np.mean([accuracy(level, size, seed, train, dev, encoder) for seed in range(draws)])), 4
            )
            for size, draws in DRAWS.items()
        }
        for level in ("coarse", "fine")
    }
    artifacts.write_atomic(RESULTS / "learning_curves.json", artifacts.dump_json(found))
    lines = {level: (list(map(int, row)), list(row.values())) for level, row in found.items()}
    picture = figures.curves(lines, x="labelled questions", y="accuracy, natural questions", logarithmic=True)
    artifacts.write_atomic(RESULTS / "learning_curves.png", picture)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
