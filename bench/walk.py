"""How much of the library one job walks through: files whose code runs, and record types that are made.

    python -m bench.walk search|sync|train

Files and models are opened before the walk begins, so that a search is one question and its hits.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import semclass
from semclass.cli.main import main
from semclass.demo import CORPUS
from semclass.documents.readers import read_passages

PACKAGE = str(Path(semclass.__file__).parent)
LABELS = "".join(f"a question about {word} number {n}\t{word}\n" for n in range(12) for word in ("prices", "places"))


def search(_: Path) -> Callable[[], object]:
    retriever = semclass.HybridRetriever.from_passages(read_passages(CORPUS))
    retriever.search("Where is the museum?", explain=True)  # opens what is opened on first use
    return lambda: retriever.search("Who designed the lighthouse?")


def sync(folder: Path) -> Callable[[], object]:
    (folder / "docs").mkdir()
    (folder / "docs" / "tower.md").write_text("# Tower\n\nThe tower was built in 1890.\n")
    return lambda: main(["index", "sync", str(folder / "index"), str(folder / "docs")])


def train(folder: Path) -> Callable[[], object]:
    (folder / "labels.tsv").write_text(f"text\tlabel\n{LABELS}")
    return lambda: main(["train", str(folder / "labels.tsv"), "--head", str(folder / "head")])


def walk(job: Callable[[], object]) -> tuple[set[str], set[str]]:
    """Files below the package whose functions a job calls, and names of the dataclasses that it makes."""
    files, records = set[str](), set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        is_function = frame.f_code.co_flags & CO_OPTIMIZED  # and no body of a module or a class, which an import runs
        if event == "call" and name.startswith(PACKAGE) and is_function:
            files.add(name.removeprefix(f"{PACKAGE}/"))
        made = frame.f_locals.get("self") if event == "call" and frame.f_code.co_name == "__init__" else None
        if dataclasses.is_dataclass(made) and type(made).__module__.startswith("semclass."):
            records.add(type(made).__name__)

    sys.setprofile(note)
    try:
        job()
    except SystemExit:
        pass  # the end of a command
    finally:
        sys.setprofile(None)
    return files, records


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = walk({"search": search, "sync": sync, "train": train}[sys.argv[1]](Path(place)))
    for what, names in zip(("files", "record types"), found, strict=True):
        print(f"{len(names)} {what}: {' '.join(sorted(names))}")
