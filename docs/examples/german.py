"""Your own taxonomy, 2: the six types of answer for questions in German, with a multilingual encoder.

    python docs/examples/german.py --encoder multilingual --out my-german
    python docs/examples/german.py --encoder hub:FOLDER --out my-german

The first needs the package semclass-multilingual. FOLDER holds any sentence-transformers model that reads German, such as
paraphrase-multilingual-MiniLM-L12-v2; nothing is fetched. Trains on ``docs/examples/german.tsv``, 120 questions written for
this example, in columns label and text. They show how it is done; for good answers give some hundreds.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from sklearn.model_selection import cross_val_score

from semclass import TextClassifier, TextModel

NEW = ["Wer baute die Wartburg?", "Wann fährt der letzte Bus?", "Wieso schnurren Katzen?", "Wo liegt Timbuktu?"]


def read_tsv(path: Path) -> list[dict[str, str]]:
    """All rows of a tab-separated file with a header; quotation marks mean nothing."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def train(arguments: argparse.Namespace) -> None:
    """Train, save, and classify new questions."""
    rows = read_tsv(arguments.data)
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    model = TextClassifier(arguments.encoder, progress=True)
    # choice and calibration happen within each training part, so these are figures of texts nothing was chosen on
    scores = cross_val_score(model, texts, labels, cv=5)
    print(f"{len(texts)} questions: nested cross-validated accuracy {scores.mean():.3f} ± {scores.std():.3f}")
    model.fit(texts, labels)
    for row in model.report_["classes"]:
        print(f"  {row['label']:<5} precision {row['precision']:.3f}  recall {row['recall']:.3f}")
    model.save(arguments.out)
    for found in TextModel.load(arguments.out, encoder=arguments.encoder).classify(NEW):
        print(f"  {found.label:<5} {found.probability:.3f}  {found.text}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True, help="multilingual, or hub:FOLDER of another model")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "german.tsv")
    parser.add_argument("--out", type=Path, default=Path("my-german"))
    train(parser.parse_args())


if __name__ == "__main__":
    main()
