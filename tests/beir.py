"""A folder in the format of BEIR."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from semclass import Passage


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
