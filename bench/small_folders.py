"""Whether a search of few passages tells that nothing answers, and puts the right passage first.

    python -m bench.small_folders --data DATA [--split confirm]

Ten folders of 15 passages, written for this project, each with 28 questions that they answer and 20 that they do not; five
are for choosing and five for confirming. They are asked as they are, together (75 passages), and among passages of
``beir/handbook`` (1,000). Questions of other folders are those on another subject.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import looks
from datasets_io import read_jsonl
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.ranking.methods import DEFAULT

FILE = Path(__file__).parent / "questions" / "small_folders.jsonl"
LARGEST = 1000
BESIDE = ("convex", "bm25")


def passages_of(folder: dict[str, Any]) -> list[Passage]:
    return [
        Passage(f"{folder['name']}/{one['id']}", one["text"], {"title": one["title"]} if one["title"] else {})
        for one in folder["passages"]
    ]


def measure(
    models: Models, folders: list[dict[str, Any]], passages: list[Passage], others: list[str]
) -> dict[str, Any]:
    """What a search of some passages says to the questions of some folders, and to `others` on another subject."""
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    rows = [(folder["name"], row) for folder in folders for row in folder["questions"]]
    asked = {
        "answered": [row["question"] for _, row in rows],
        "unanswered": [text for folder in folders for text in folder["unanswerable"]],
        "foreign": others,
    }
    found: dict[str, Any] = {}
    for kind, questions in asked.items():
        hits = retriever.search_many(questions, 1)
        found[kind] = [some.answerable for some in hits]
        if kind == "answered":
            found["certainty"] = [some.certainty for some in hits]
    for method in (DEFAULT, *BESIDE):
        hits = retriever.search_many(asked["answered"], 1, method=method)
        right = [
            some[0].id in {f"{name}/{answer}" for answer in row["answers"]}
            for some, (name, row) in zip(hits, rows, strict=True)
        ]
        found[method] = right
    return found


def joined(parts: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True)
@click.option("--split", type=click.Choice(["dev", "confirm"]), default="dev")
def main(data: Path, split: str) -> None:
    """Print a table; a look at what confirms is written down."""
    models = Models.load()
    threshold = models.answerable.thresholds[0] if models.answerable else 0.5
    every = list(read_jsonl(FILE))
    folders = [folder for folder in every if folder["split"] == split]
    others = [row["question"] for folder in every if folder["split"] != split for row in folder["questions"]]
    together = [passage for folder in folders for passage in passages_of(folder)]
    corpus = read_jsonl(data / "beir" / "handbook" / "corpus.jsonl")
    filling = [Passage(row["_id"], row["text"], {"title": row["title"]} if row.get("title") else {}) for row in corpus]
    sizes = {
        15: joined([measure(models, [folder], passages_of(folder), others[:40]) for folder in folders]),
        len(together): measure(models, folders, together, others),
        LARGEST: measure(models, folders, [*together, *filling[: LARGEST - len(together)]], others),
    }
    print(
        "| passages | right first: default, convex, bm25 | answerable refused | unanswerable caught | other subject |"
    )
    print("|---|---|---|---|---|")
    rows = {
        size: [", ".join(f"{np.mean(found[method]):.0%}" for method in (DEFAULT, *BESIDE))]
        + [f"{(np.array(found[kind]) < threshold).mean():.1%}" for kind in ("answered", "unanswered", "foreign")]
        for size, found in sizes.items()
    }
    for size, row in rows.items():
        print(f"| {size} | {' | '.join(row)} |")
    if split == "confirm":
        looks.log("small_folders: right first (default, convex, bm25), refused, caught, other subject", rows)
    for size, found in sizes.items():
        words = np.array(found["certainty"])
        shares = {word: np.array(found[DEFAULT])[words == word] for word in ("strong", "likely", "weak")}
        print(size, {word: f"{right.mean():.0%} of {len(right)} right" for word, right in shares.items() if len(right)})


if __name__ == "__main__":
    main()
