"""Questions with the texts that may answer them: contrast items, and sentences of articles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bench.contrast import ANSWER, read_items, tens
from datasets_io import read_jsonl, read_tsv

CONTRAST = "contrast"
ASKED, AROUND = 600, 5  # questions of squad sentences, drawn by chance, and sentences before and behind the answer

Asked = tuple[str, list[str], list[bool]]  # a question, texts, and which of them answer


def contrast_strings(data: Path) -> list[Asked]:
    """The ten strings of each contrast item."""
    items = read_items(data)
    return [
        (item.question, [passage.text for passage in ten], [passage is item.passages[ANSWER] for passage in ten])
        for item, ten in zip(items, tens(items), strict=True)
    ]


def squad_strings(data: Path) -> list[Asked]:
    """Some questions with the sentences around the one that answers, in document order."""
    folder = data / "squad_sentences"
    texts = {row["_id"]: row["text"] for row in read_jsonl(folder / "dev.corpus.jsonl.gz")}
    asked, ids = read_jsonl(folder / "dev.queries.jsonl.gz"), list(texts)
    places = {name: place for place, name in enumerate(ids)}
    found = []
    for row in np.random.default_rng(1).permutation(len(asked))[:ASKED].tolist():
        answer = places[asked[row]["relevant"]]
        near = range(max(answer - AROUND, 0), min(answer + AROUND, len(ids)))
        found.append((asked[row]["text"], [texts[ids[place]] for place in near], [place == answer for place in near]))
    return found


def wikiqa_strings(data: Path) -> list[Asked]:
    """Questions with the sentences of an article, of which some answer and some do not."""
    rows: dict[str, list[tuple[str, bool]]] = {}
    for row in read_tsv(data / "wikiqa" / "dev.tsv.gz"):
        rows.setdefault(row["question"], []).append((row["sentence"], row["label"] == "1"))
    found = [(question, [text for text, _ in some], [right for _, right in some]) for question, some in rows.items()]
    return [item for item in found if len(set(item[2])) == 2]


STRINGS: Mapping[str, Callable[[Path], list[Asked]]] = {
    CONTRAST: contrast_strings,
    "squad sentences": squad_strings,
    "wikiqa": wikiqa_strings,
}
