"""Topics of sentences in 36 languages, by heads that learnt from English sentences or from the names of the topics.

    python -m bench.topics --data DATA [--models multilingual]

``multilingual/topics`` has the same sentences in all languages. English training sentences teach; the
other sentences are measured.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click
import numpy as np

from bench import readme
from datasets_io import topic_rows
from semclass import TextClassifier, ZeroShotClassifier
from semclass.heads.texts import open_encoder

ENGLISH, TRAIN = "eng_Latn", "train"


def read(data: Path) -> tuple[tuple[list[str], list[str]], dict[str, tuple[list[str], list[str]]]]:
    """English sentences to learn from with their topics, and those to measure by language."""
    learnt: tuple[list[str], list[str]] = ([], [])
    measured: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for language, _, split, topic, sentence in topic_rows(data):
        texts, topics = measured[language] if split != TRAIN else learnt
        if split != TRAIN or language == ENGLISH:
            texts.append(sentence)
            topics.append(topic)
    return learnt, dict(measured)


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--models", default="multilingual", help="Encoder: a folder, or the name of a package of models.")
def main(data: Path, models: str) -> None:
    """Print the accuracy in English, on average over the other languages, and in the worst of them."""
    (texts, topics), measured = read(data)
    encoder = open_encoder(models)
    classifiers = {
        f"{len(texts)} English sentences": TextClassifier(encoder).fit(texts, topics),
        "the names of the topics": ZeroShotClassifier.from_descriptions(
            {name: name for name in sorted(set(topics))}, encoder=encoder
        ),
    }
    rows = []
    for name, classifier in classifiers.items():
        right = {
            language: float(np.mean(np.array(classifier.predict(some)) == np.array(wanted)))
            for language, (some, wanted) in sorted(measured.items())
        }
        english = right.pop(ENGLISH)
        worst = sorted(right, key=lambda language: (right[language], language))[:3]
        named = ", ".join(f"{language} {right[language]:.3f}" for language in worst)
        rows.append((name, f"{english:.3f}", f"{np.mean(list(right.values())):.3f}", named))
    click.echo(readme.markdown(("learnt from", "English", f"mean of {len(measured) - 1} others", "worst"), rows))


if __name__ == "__main__":
    main()
