"""The commands that classify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import shorten, show
from semclass.core.errors import InputError
from semclass.heads.questions import HEADS

_texts = click.argument("texts", nargs=-1, metavar="[TEXT]...")


_file = options.together(
    click.option(
        "--file",
        type=options.InputPath(),
        help="Text file with one text per line, or TSV, CSV or JSON lines with a column `text`. Use - for standard input.",
    ),
    options.text_column,
    options.encoding,
)
"""Options of :func:`_read_texts`."""


@click.group()
def classify() -> None:
    """Classify questions, passages, question-sentence pairs, or texts with your own labels."""


@classify.command("questions")
@_texts
@_file
@click.option("--fine", is_flag=True, help="Show the fine class (one of 50) instead of the coarse one.")
@click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    default=0.0,
    help=f"Return {semclass.ABSTAIN} if the best class has a lower probability than this.",
)
@click.option(
    "--head",
    type=click.Choice(HEADS),
    default=HEADS[0],
    help="Classifier to use: a tuned network (questions) or a support vector machine (questions-svm).",
)
@click.option(
    "--in-scope",
    is_flag=True,
    help="Also show the probability that each text is a question for documents, not chat or a command.",
)
@options.json_output
@options.models
@options.threads
def classify_questions(
    texts: Sequence[str],
    file: Path | None,
    *,
    text: str | None,
    encoding: str | None,
    fine: bool,
    min_probability: float,
    head: str,
    in_scope: bool,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Show the answer type that each question asks for."""
    questions = _read_texts(texts, file, text, encoding)
    classifier = semclass.QuestionClassifier.load(models, head=head, threads=threads or 1)
    likely: Sequence[float | None] = [None] * len(questions)
    if in_scope:
        scope = semclass.ScopeClassifier.load(models, encoder=classifier.encoder)
        likely = scope.predict_proba(questions)[:, 1].tolist()
    for found, chance in zip(classifier.classify(questions, min_probability=min_probability), likely, strict=True):
        label, probability = (found.fine, found.fine_probability) if fine else (found.label, found.probability)
        probabilities = found.fine_probabilities if fine else found.probabilities
        record = {"text": found.text, "label": label, "probability": probability, "probabilities": probabilities}
        record |= {"coarse": found.label, "fine": found.fine}
        record |= {} if found.asked is None else {"asked": found.asked}
        record |= {} if chance is None else {"in_scope": chance}
        scoped = "" if chance is None else f"  in scope {chance:.3f}"
        show(record, f"{label:<14} {probability:.3f}{scoped}  {found.text}", as_json=as_json)


@classify.command("passages")
@_texts
@click.option(
    "--file",
    type=options.InputPath(),
    help="JSON lines with `text` and `_id`, a table, or a text file. Use - for standard input.",
)
@options.columns
@options.json_output
@options.models
@options.threads
def classify_passages(
    texts: Sequence[str],
    file: Path | None,
    *,
    as_json: bool,
    models: Path | None,
    threads: int | None,
    **columns: str | None,
) -> None:
    """Show the answer types that each passage provides."""
    from semclass.documents.readers import read_passages

    _check_source(texts, file)
    if file is None:
        passages = [semclass.Passage(str(number), text) for number, text in enumerate(texts, 1)]
    else:
        passages = read_passages(file, **columns)
    classifier = semclass.PassageClassifier.load(models, threads=threads or 1)
    for passage, found in zip(passages, classifier.classify([item.text for item in passages]), strict=True):
        probabilities, labels = dict(found.probabilities), list(found.labels)
        record = {"_id": passage.id, "text": found.text, "probabilities": probabilities, "labels": labels}
        show(record, f"{passage.id}\t{' '.join(found.labels) or '-'}\t{shorten(found.text)}", as_json=as_json)


@classify.command("pairs")
@click.argument("question", required=False)
@click.argument("sentences", nargs=-1, metavar="[SENTENCE]...")
@click.option(
    "--file", type=options.InputPath(), help="JSON lines with `question` and `sentence`. Use - for standard input."
)
@options.json_output
@options.models
@options.threads
def classify_pairs(
    question: str | None,
    sentences: Sequence[str],
    file: Path | None,
    *,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Show whether each SENTENCE answers QUESTION."""
    pairs = _pairs(question, sentences, file)
    classifier = semclass.EntailmentClassifier.load(models, threads=threads or 1)
    for found in classifier.classify(pairs):
        line = f"{found.label:<14} {found.probability:.3f}  {shorten(found.sentence)}"
        show(asdict(found), line, as_json=as_json)


@classify.command("texts")
@_texts
@click.option("--head", type=options.any_path, help="Folder of a head that `semclass train` wrote.")
@click.option(
    "--labels", type=options.any_path, help="JSON or YAML file with a description of each label; needs no trained head."
)
@_file
@click.option(
    "--encoder",
    help="Encoder that the head was trained with: a folder, the name of an installed package of models, or hub:NAME. "
    "Default: the shipped encoder.",
)
@click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    help=f"Return {semclass.ABSTAIN} below this probability. Default: the threshold stored in the head.",
)
@click.option(
    "--why", is_flag=True, help="Show the most similar training texts. Needs a head trained with --keep-examples."
)
@options.json_output
@options.threads
def classify_texts(
    texts: Sequence[str],
    head: Path | None,
    labels: Path | None,
    file: Path | None,
    *,
    text: str | None,
    encoding: str | None,
    encoder: str | None,
    min_probability: float | None,
    why: bool,
    as_json: bool,
    threads: int | None,
) -> None:
    """Classify texts with a trained head, or with labels that you describe in words."""
    if (head is None and labels is None) or (head is not None and labels is not None):
        raise InputError("give either --head FOLDER or --labels FILE")
    if why and head is None:
        raise InputError("--why shows training texts, but --labels uses none; use --head instead")
    given, threads = _read_texts(texts, file, text, encoding), threads or 1
    loaded: semclass.TextModel | semclass.ZeroShotClassifier
    nearest: list[Any] = [[] for _ in given]
    described = None if labels is None else semclass.read_descriptions(labels)
    if head is not None:
        loaded = semclass.TextModel.load(head, encoder=encoder, threads=threads)
        nearest = loaded.nearest(given) if why else nearest
    else:
        loaded = semclass.ZeroShotClassifier.from_descriptions(described or {}, encoder=encoder, threads=threads)
    for found, near in zip(loaded.classify(given, min_probability=min_probability), nearest, strict=True):
        record: dict[str, Any] = {"text": found.text, "labels": list(found.labels), "label": found.label}
        record |= {"probability": found.probability, "probabilities": dict(found.probabilities)}
        record |= {"nearest": [asdict(one) for one in near]} if why else {}
        said = " ".join(map(str, found.labels)) or semclass.ABSTAIN
        lines = [f"{said:<14} {found.probability:.3f}  {shorten(found.text)}"]
        lines += [
            f"  near {one.similarity:.2f}  {' '.join(map(str, one.labels))}: {shorten(one.text, 70)}" for one in near
        ]
        show(record, "\n".join(lines), as_json=as_json)


def _check_source(texts: Sequence[str], file: Path | None) -> None:
    if bool(texts) == (file is not None):
        raise InputError("give texts either as arguments or with --file F")


def _read_texts(texts: Sequence[str], file: Path | None, text: str | None, encoding: str | None) -> list[str]:
    """Texts from arguments or from a file."""
    from semclass.documents.labelled import read_texts

    _check_source(texts, file)
    if file is None and (text is not None or encoding is not None):
        raise InputError("--text and --encoding apply only to a file; add --file F, or remove them")
    found = list(texts) if file is None else read_texts(file, text=text, encoding=encoding)
    if not found:
        raise InputError(f"{file} contains no texts")
    return found


def _pairs(question: str | None, sentences: Sequence[str], file: Path | None) -> list[tuple[str, str]]:
    """Pairs from arguments or from a file."""
    if (question is None) == (file is None) or (file is None and not sentences):
        raise InputError("give either a question and sentences as arguments, or pairs with --file F")
    if file is None:
        return [(str(question), sentence) for sentence in sentences]
    pairs = [(question, sentence) for question, sentence in _rows(file, "question", "sentence")]
    if not pairs:
        raise InputError(f"{file} contains no pairs")
    return pairs


def _rows(file: Path, *fields: str) -> list[list[str]]:
    """Some fields, which hold texts, of the objects of a file."""
    from semclass.documents.json_lines import read_json_lines, text_of

    return [
        [text_of(record, f"{file}, line {number}", field) for field in fields]
        for number, record in read_json_lines(file)
    ]
