"""The command that classifies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import shorten, show
from semclass.core.errors import InputError

Line = tuple[dict[str, Any], str]
"""A record for JSON output, and the line for text output."""


@click.command()
@click.argument("kind", type=click.Choice(["questions", "passages", "pairs", "texts"]), metavar="KIND")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option(
    "--file",
    type=options.InputPath(),
    help="Text file with one text per line, or TSV, CSV or JSON lines with a column `text`; for pairs, JSON lines with "
    "`question` and `sentence`. Use - for standard input.",
)
@options.column("text")
@options.encoding
@click.option(
    "--head",
    type=options.any_path,
    help="texts: folder of a head that `semclass train` wrote; or in_scope, a shipped head: can documents answer?",
)
@click.option(
    "--labels",
    type=options.any_path,
    help="texts: JSON or YAML file with a description of each label; needs no trained head.",
)
@click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    help=f"questions, texts: return {semclass.ABSTAIN} below this probability. Default: the threshold stored in the head.",
)
@options.json_output
@options.models
@options.encoder
@options.threads
def classify(
    kind: str, texts: Sequence[str], file: Path | None, *, threads: int | None, as_json: bool, **chosen: Any
) -> None:
    """Classify texts; KIND is questions, passages, pairs or texts.

    questions: show the answer type that each question asks for.

    passages: show the answer types that each passage provides.

    pairs: show whether each further TEXT answers the first TEXT, a question.

    texts: use labels of your own, with a trained head (--head) or with descriptions of the labels (--labels).
    """
    lines, own = KINDS[kind]
    for name, value in chosen.items():
        if value not in (None, False) and name not in own:
            others = " or ".join(other for other, (_, names) in KINDS.items() if name in names)
            raise InputError(f"--{name.replace('_', '-')} does not apply to {kind}, but to {others}; remove it")
    if bool(texts) == (file is not None):
        raise InputError("give texts either as arguments or with --file F")
    if file is None and (chosen["text_column"] is not None or chosen["encoding"] is not None):
        raise InputError("--text-column and --encoding apply only to a file; add --file F, or remove them")
    columns = {name: chosen.pop(name) for name in COLUMNS}
    items = _read_pairs(texts, file) if kind == "pairs" else _read_texts(texts, file, **columns)
    for record, text in lines(items, threads=threads or 1, **{name: chosen[name] for name in own & chosen.keys()}):
        show(record, text, as_json=as_json)


def _read_texts(texts: Sequence[str], file: Path | None, text_column: str | None, encoding: str | None) -> list[str]:
    from semclass.documents.labelled import read_texts

    read = list(texts) if file is None else read_texts(file, text=text_column, encoding=encoding)
    if not read:
        raise InputError(f"{file} contains no texts")
    return read


def _read_pairs(texts: Sequence[str], file: Path | None) -> list[tuple[str, str]]:
    from semclass.documents.records import read_json_lines, text_of

    if file is None:
        pairs = [(texts[0], sentence) for sentence in texts[1:]]
    else:
        pairs = [
            (text_of(record, where, "question"), text_of(record, where, "sentence"))
            for number, record in read_json_lines(file)
            if (where := f"{file}, line {number}")
        ]
    if not pairs:
        raise InputError(f"{file} contains no pairs" if file else "give a question, and then at least one sentence")
    return pairs


def _questions(texts: list[str], *, models: Path | None, threads: int, min_probability: float | None) -> Iterator[Line]:
    classifier = semclass.QuestionClassifier.load(models, threads=threads)
    for label in classifier.classify(texts, min_probability=min_probability or 0):
        record = {name: value for name, value in asdict(label).items() if value is not None}
        yield record, f"{label.label:<14} {label.probability:.3f}  {label.text}"


def _passages(texts: list[str], *, models: Path | None, threads: int) -> Iterator[Line]:
    for label in semclass.PassageClassifier.load(models, threads=threads).classify(texts):
        yield asdict(label), f"{_names(label.labels) or '-':<14} {shorten(label.text)}"


def _pairs(pairs: list[tuple[str, str]], *, models: Path | None, threads: int) -> Iterator[Line]:
    for label in semclass.EntailmentClassifier.load(models, threads=threads).classify(pairs):
        yield asdict(label), f"{label.label:<14} {label.probability:.3f}  {shorten(label.sentence)}"


def _texts(
    texts: list[str],
    *,
    encoder: str | None,
    threads: int,
    head: Path | None,
    labels: Path | None,
    min_probability: float | None,
) -> Iterator[Line]:
    if (head is None) == (labels is None):
        raise InputError("give either --head FOLDER or --labels FILE")
    classifier: semclass.TextModel | semclass.ZeroShotClassifier
    if head is not None:
        classifier = semclass.TextModel.load(head, encoder=encoder, threads=threads)
    else:
        descriptions = semclass.read_descriptions(labels or Path())
        classifier = semclass.ZeroShotClassifier.from_descriptions(descriptions, encoder=encoder, threads=threads)
    for label in classifier.classify(texts, min_probability=min_probability):
        record = {**asdict(label), "label": label.label, "probability": label.probability}
        yield record, f"{_names(label.labels) or semclass.ABSTAIN:<14} {label.probability:.3f}  {shorten(label.text)}"


COLUMNS = frozenset({"text_column", "encoding"})
"""Options for reading a file of texts."""

KINDS: Mapping[str, tuple[Callable[..., Iterator[Line]], frozenset[str]]] = {
    "questions": (_questions, COLUMNS | {"models", "min_probability"}),
    "passages": (_passages, COLUMNS | {"models"}),
    "pairs": (_pairs, frozenset({"models"})),
    "texts": (_texts, COLUMNS | {"encoder", "min_probability", "head", "labels"}),
}
"""Function of each KIND that classifies the texts, and options that not every KIND has."""


def _names(labels: Sequence[Any]) -> str:
    return " ".join(map(str, labels))
