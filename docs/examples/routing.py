"""Your own taxonomy, 1: is a message in scope, or chit-chat? A service can then decline, or say that it is not sure.

    python docs/examples/routing.py --out my-routing

Trains on ``docs/examples/routing.tsv``, 120 messages to an imaginary library, in columns label and text; put yours in
its place with --data. Prints cross-validated figures, shows what declining below a probability costs and brings, writes
the classifier, and classifies some messages that it was not trained on with what it wrote.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from semclass import TextClassifier, TextModel

NEW = [
    "Can I renew my card on a Sunday?",
    "How late may I bring a book back?",
    "hey you, all good?",
    "Do you know any riddles?",
    "the weather and the library",
]


def read_tsv(path: Path) -> list[dict[str, str]]:
    """All rows of a tab-separated file with a header; quotation marks mean nothing."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def train(arguments: argparse.Namespace) -> None:
    """Train, save, and classify new messages."""
    rows = read_tsv(arguments.data)
    model = TextClassifier(arguments.encoder, progress=True)
    model.fit([row["text"] for row in rows], [row["label"] for row in rows])
    report = model.report_
    print(f"{len(rows)} texts, {report['chosen']}: cross-validated accuracy {report['accuracy']:.3f}, "
          f"calibration error {report['calibration_error']:.3f}")  # fmt: skip
    for row in report["classes"]:
        print(f"  {row['label']:<12} precision {row['precision']:.3f}  recall {row['recall']:.3f}")
    for row in report["coverage"]:
        accuracy = "-" if row["accuracy"] is None else f"{row['accuracy']:.3f}"
        print(
            f"  declining below {row['min_probability']:.2f}: {row['answered']:4.0%} answered, {accuracy} of them right"
        )
    model.save(arguments.out)
    service = TextModel.load(arguments.out, encoder=arguments.encoder)
    for found in service.classify(NEW, min_probability=arguments.min_probability):
        print(f"  {found.label:<12} {found.probability:.3f}  {found.text}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "routing.tsv")
    parser.add_argument("--encoder", help="folder, hub:NAME or hub:FOLDER; the shipped one by default")
    parser.add_argument("--min-probability", type=float, default=0.8, help="decline below this")
    parser.add_argument("--out", type=Path, default=Path("my-routing"))
    train(parser.parse_args())


if __name__ == "__main__":
    main()
