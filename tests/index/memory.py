"""Builds an index of a document of one line, and tells the most memory that this took: a program of its own."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from world import FAKE

from semclass.documents.readers import iter_passages
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.writer import build_index

LINES = {
    "words": ("a.txt", "The red boat lies on the green lake. "),
    "no spaces": ("a.txt", "boat"),
    "markdown": ("a.md", "The *red* boat, "),
    "json": ("a.jsonl", "The red boat lies on the green lake. "),
}


def main(kind: str, megabytes: float, encoder: str) -> None:
    name, text = LINES[kind]
    begin, end = ('{"text": "', '"}') if kind == "json" else ("", "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with path.open("w") as file:
            file.write(begin)
            block = text * (1_000_000 // len(text))
            for _ in range(max(int(megabytes), 1)):
                file.write(block)
            file.write(end)
        read = FAKE if encoder == "fake" else PassageEncoder.load()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        index = build_index(Path(folder) / "index", iter_passages(path), passage_encoder=read, workers=2)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"passages": len(index), "before": before // 1024, "megabytes": most // 1024}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3])
