"""Write rankings.json: what every method gives for fixed questions. Run it when a change of these orders is meant.

python tests/ranking/make_rankings.py
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.documents.readers import read_passages
from semclass.ranking.methods import METHODS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WRITTEN = ROOT / "training" / "labels" / "written_passages.jsonl.gz"
PASSAGES, QUESTIONS, HITS = 200, 6, 5


def sets() -> dict[str, tuple[list[Passage], list[str]]]:
    """By name: passages and questions."""
    with gzip.open(WRITTEN, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line, _ in zip(file, range(PASSAGES), strict=False)]
    written = [Passage(record["_id"], record["text"]) for record in records]
    with (WRITTEN.parent / "written_passage_questions.tsv").open(encoding="utf-8", newline="") as file:
        asked = [row["question"] for row in csv.DictReader(file, delimiter="\t")][: 50 * QUESTIONS : 50]
    demo = [
        "Who designed the lighthouse?", "When was it finished?", "How much is a ticket to the museum?",
        "Why is the tower painted white?", "ferry timetable", "what does sbmt stand for",
    ]  # fmt: skip
    corpus = read_passages(ROOT / "semclass" / "demo_data" / "corpus.jsonl")
    return {"demo": (corpus, demo), "written": (written, asked)}


def rankings(models: Models) -> dict[str, dict[str, list[list[tuple[str, float]]]]]:
    """By set and method: for each question, the best passages with their scores."""
    found: dict[str, dict[str, list[list[tuple[str, float]]]]] = {}
    for name, (passages, questions) in sets().items():
        retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
        found[name] = {
            method: [
                [(hit.id, round(hit.score, 5)) for hit in hits]
                for hits in retriever.search_many(questions, HITS, method=method)
            ]
            for method in METHODS
        }
    return found


def main() -> None:
    (HERE / "rankings.json").write_text(json.dumps(rankings(Models.load(ROOT / "models"))) + "\n")


if __name__ == "__main__":
    main()
