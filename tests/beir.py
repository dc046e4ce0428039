"""A folder in the format of BEIR."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from semclass import Passage

QUESTIONS = {
    "Who designed the lighthouse?": "lighthouse-3",
    "When was the lighthouse finished?": "lighthouse-2",
    "Where is the museum?": "museum-2",
    "What does SBMT stand for?": "museum-1",
    "How many inhabitants does Sandrey Bay have?": "town-1",
    "Why do ferries stay in port?": "ferry-4",
    "Which bird digs a burrow?": "birds-2",
}
"""Questions about the passages of the demo, and the passage that answers each."""


def write_beir(folder: Path, passages: Iterable[Passage], questions: Mapping[str, tuple[str, str]]) -> Path:
    """Write passages and questions; each question is a text and the id of the passage that answers it."""
    (folder / "qrels").mkdir(parents=True)
    records = {
        "corpus": [{"_id": passage.id, "text": passage.text} for passage in passages],
        "queries": [{"_id": name, "text": text} for name, (text, _) in questions.items()],
    }
    for name, rows in records.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = "".join(f"{name}\t{answer}\t1\n" for name, (_, answer) in questions.items())
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder
