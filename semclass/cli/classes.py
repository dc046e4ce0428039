"""The command that counts the classes of an index and of questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, positive, show
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.documents.labelled import LabelledTexts
    from semclass.evaluation.class_shares import ClassShares


@click.command()
@click.argument("folder", type=any_path, metavar="INDEX")
@click.argument("file", type=options.InputPath(), metavar="QUESTIONS")
@click.option(
    "--labelled", is_flag=True, help="QUESTIONS has the columns text and label; label is the class of the question."
)
@click.option(
    "-k", "k", type=positive, default=10, show_default=True, help="Number of top hits to count in each ranking."
)
@click.option("--out", type=any_path, metavar="FILE", help="Also write a chart (PNG). Needs the extra `plot`.")
@options.json_output
@options.models
@options.encoder
@options.threads
def classes(
    folder: Path,
    file: Path,
    k: int,
    out: Path | None,
    *,
    labelled: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Compare the classes of QUESTIONS with the classes of the passages in INDEX and of the top hits.

    QUESTIONS is a text file with one question per line, or TSV, CSV or JSON lines with a column `text`.
    """
    from semclass.core import artifacts
    from semclass.core.cpu import available_threads
    from semclass.documents.labelled import read_labelled, read_texts
    from semclass.evaluation import figures
    from semclass.evaluation.class_shares import class_shares

    if out is not None:
        figures.load_pyplot()  # before anything is read
    texts, truth = _labelled(read_labelled(file), file) if labelled else (read_texts(file), None)
    retriever = semclass.HybridRetriever.load(
        folder, models=models, encoder=encoder, threads=threads or available_threads()
    )
    found = class_shares(retriever, texts, truth, k=k)
    if out is not None:
        artifacts.write_atomic(out, figures.class_picture(found))
    show(_record(found), "\n".join(_lines(found)), as_json=as_json)


def _labelled(read: LabelledTexts, file: Path) -> tuple[list[str], list[str]]:
    if read.multi_label:
        raise InputError(f"{file}: each question has exactly one class; write it in the column `label`")
    return read.texts, [label for (label,) in read.labels]


def _record(found: ClassShares) -> dict[str, object]:
    names = found.classes
    record: dict[str, object] = {
        "passages": found.passages,
        "questions": found.questions,
        "provided": dict(zip(names, found.provided.tolist(), strict=True)),
        "asked": dict(zip(names, found.asked.tolist(), strict=True)),
        "met": {method: values.tolist() for method, values in found.met.items()},
        "found": {
            name: dict(zip(names, row, strict=True)) for name, row in zip(names, found.found.tolist(), strict=True)
        },
    }
    if found.confusion is not None:
        rows = zip(names, found.confusion.tolist(), strict=True)
        record["confusion"] = {name: dict(zip(names, row, strict=True)) for name, row in rows}
    return record


def _lines(found: ClassShares) -> Iterator[str]:
    yield f"{'class':<8} {'asked':>7} {'provided':>9}   share of {found.questions} questions, {found.passages} passages"
    for name, asked, provided in zip(found.classes, found.asked, found.provided, strict=True):
        yield f"{name:<8} {asked:>7.3f} {provided:>9.3f}"
    for method, values in found.met.items():
        yield f"first hits that provide the class asked for, {method}: {values[0]:.3f}"
    if found.confusion is not None:
        yield f"questions whose class is right: {found.confusion.trace() / found.questions:.3f}"
