"""Questions over documentation that packages ship: is the right section first, and does ``ask`` print what answers.

    python -m bench.trees --sources FOLDER [--models MODELS]

FOLDER has the archives of ``documents/sources.tsv``, as the package registry gives them. Each tree is read, cut and indexed
as ``semclass index build`` does it. The questions of ``documents/questions.tsv`` were written before the first search, and
nothing is tuned on them; nor were the sentences that answer, and the questions for definitions. A passage is right if it
stands below the heading, in the file. Of a definition, one that holds the defining sentence is right as well.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import click

from bench import readme
from datasets_io import read_tsv
from semclass import HybridRetriever, Models, Passage
from semclass.core import artifacts
from semclass.core.errors import InputError
from semclass.documents.readers import iter_passages

HELD = Path(__file__).parent / "documents"
METHODS = ("bm25", "dense", "convex", "default", "deep")
FIRST = (1, 3)  # a right passage is looked for among so many
PRINTED = (1, 3, 5)  # and a sentence that answers
KINDS = ("question", "definition")  # the other rows are headings

Found = list[list[bool]]
"""Whether each of the first hits, or sentences, of each question is right."""


def unpack(archive: Path, source: dict[str, str], folder: Path) -> None:
    """Write the documentation of an archive, and nothing else of it."""
    if not archive.is_file() or artifacts.sha256_of(archive) != source["sha256"]:
        raise InputError(
            f"{archive} is not the file with SHA-256 {source['sha256']}; download this source package from the registry"
        )
    with tarfile.open(archive) as packed:
        for member in packed:
            name = member.name.partition("/")[2].removeprefix(f"{source['folder']}/")
            inside = f"/{source['folder']}/" in member.name and ".." not in name
            kept = name.endswith(source["ending"]) and not name.startswith(source["without"])
            if inside and kept and member.isfile() and (held := packed.extractfile(member)):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(held.read())


def is_right(passage: Passage, question: dict[str, str]) -> bool:
    headings = [words(heading) for heading in passage.metadata.get("headings", ())]
    below = passage.metadata.get("document") == question["document"] and words(question["heading"]) in headings
    return below or (question["kind"] == "definition" and holds(passage.text, question))


def holds(text: str, question: dict[str, str]) -> bool:
    """Whether a text has one of the strings that mark the sentences that answer."""
    spaced = f" {' '.join(words(text))} "
    return any(f" {' '.join(words(answer))} " in spaced for answer in question["answers"].split(" | "))


def words(text: str) -> list[str]:
    """Words without markup, which readers keep or take off."""
    return re.findall(r"[a-z0-9]+", text.lower())


def measure(models: Models, folder: Path, questions: list[dict[str, str]]) -> dict[str, Found]:
    """By method, whether the first hits of each question are right; and whether the sentences of ``ask`` answer."""
    retriever = HybridRetriever.from_passages(iter_passages(folder), models=models)
    found = {
        method: [
            [is_right(hit, row) for hit in retriever.search(row["question"], max(FIRST), method=method)]
            for row in questions
        ]
        for method in METHODS
    }
    printed = (retriever.ask(row["question"], max(PRINTED)).sentences for row in questions)
    found["ask"] = [[holds(one.text, row) for one in some] for row, some in zip(questions, printed, strict=True)]
    click.echo(f"{folder.name}: {len(retriever.index)} passages", err=True)
    return found


def shares(trees: list[Found], first: Sequence[int]) -> list[str]:
    """How many questions have something right among the first, over all trees and by tree."""
    all_of = [[*chain(*trees)], *trees]
    return [f"{sum(any(row[:most]) for row in found) / len(found):.1%}" for found in all_of for most in first]


@click.command()
@click.option("--sources", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of the archives.")
@click.option("--models", help="Folder or name of models. Default: the shipped ones.")
def main(sources: Path, models: str | None) -> None:
    """Print by tree and over all how often the section that answers is first, and a sentence that answers printed."""
    loaded, rows = Models.load(models, threads=1), read_tsv(HELD / "questions.tsv")
    found: dict[str, dict[str, list[Found]]] = {kind: {} for kind in KINDS}
    names = []
    for source in read_tsv(HELD / "sources.tsv"):
        names.append(name := source["source"])
        asked = [row for row in rows if row["source"] == name and row["kind"] in KINDS]
        with tempfile.TemporaryDirectory() as folder:
            unpack(sources / f"{name}.tar.gz", source, Path(folder) / name)
            measured = measure(loaded, Path(folder) / name, asked)
        for kind in KINDS:
            for method, some in measured.items():
                of_kind = [found for row, found in zip(asked, some, strict=True) if row["kind"] == kind]
                found[kind].setdefault(method, []).append(of_kind)
    for kind, by_method in found.items():
        for methods, first in ((METHODS, FIRST), (("ask",), PRINTED)):
            heads = [f"{name}, {'first' if most == 1 else f'in {most}'}" for name in ("all", *names) for most in first]
            table = [(f"`{method}`", *shares(by_method[method], first)) for method in methods]
            click.echo(f"\n{readme.markdown((f'{kind}s', *heads), table)}")


if __name__ == "__main__":
    main()
