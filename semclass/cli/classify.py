"""The commands that classify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

import semclass
from semclass.cli.options import InputPath, shorten
from semclass.cli.options import json_output as _json
from semclass.cli.options import print_json as _print_json
from semclass.cli.options import take_models as _models
from semclass.cli.options import take_threads as _threads
from semclass.core.errors import InputError

_min_probability = click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    default=0.0,
    help=f"Say {semclass.ABSTAIN} where the best class is less probable than this.",
)


def _texts(texts: Sequence[str], file: Path | None) -> list[str]:
    """Texts from arguments or from a file, but not from both or from neither."""
    from semclass.documents.readers import read_texts

    if bool(texts) == (file is not None):
        raise InputError("give texts as arguments or with --file F, one of the two")
    found = list(texts) if file is None else read_texts(file)
    if not found:
        raise InputError(f"{file} holds no texts")
    return found


@click.group()
def classify() -> None:
    """Classify questions, passages, pairs of both, or texts by classes of your own."""


@classify.command("questions")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=InputPath(), help="One text a line, or JSON lines with `text`; - for a pipe.")
@click.option("--fine", is_flag=True, help="Show the fine class, one of 50.")
@_min_probability
@_json
@_models
@_threads
def classify_questions(
    texts: Sequence[str],
    file: Path | None,
    *,
    fine: bool,
    min_probability: float,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Tell which type of answer each question asks for."""
    questions = _texts(texts, file)
    classifier = semclass.QuestionClassifier.load(models, threads=threads or 1)
    for found in classifier.predict(questions, min_probability=min_probability):
        label, probability = (found.fine, found.fine_probability) if fine else (found.label, found.probability)
        if as_json:
            probabilities = found.fine_probabilities if fine else found.probabilities
            record = {"text": found.text, "label": label, "probability": probability, "probabilities": probabilities}
            _print_json({**record, "coarse": found.label, "fine": found.fine})
        else:
            click.echo(f"{label:<14} {probability:.3f}  {found.text}")


@classify.command("passages")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=InputPath(), help="JSON lines with `text` and `_id`, or a text file; - for a pipe.")
@_json
@_models
@_threads
def classify_passages(
    texts: Sequence[str], file: Path | None, *, as_json: bool, models: Path | None, threads: int | None
) -> None:
    """Tell which types of answer each passage provides."""
    passages = _passages(texts, file)
    classifier = semclass.PassageClassifier.load(models, threads=threads or 1)
    for passage, found in zip(passages, classifier.predict([item.text for item in passages]), strict=True):
        if as_json:
            _print_json(
                {
                    "_id": passage.id,
                    "text": found.text,
                    "probabilities": dict(found.probabilities),
                    "labels": list(found.labels),
                }
            )
        else:
            click.echo(f"{passage.id}\t{' '.join(found.labels) or '-'}\t{shorten(found.text)}")


@classify.command("pairs")
@click.argument("question", required=False)
@click.argument("sentences", nargs=-1, metavar="[SENTENCE]...")
@click.option("--file", type=InputPath(), help="JSON lines with `question` and `sentence`; - for a pipe.")
@_json
@_models
@_threads
def classify_pairs(
    question: str | None,
    sentences: Sequence[str],
    file: Path | None,
    *,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Tell of each SENTENCE whether it answers QUESTION."""
    pairs = _pairs(question, sentences, file)
    classifier = semclass.EntailmentClassifier.load(models, threads=threads or 1)
    for found in classifier.predict(pairs):
        if as_json:
            _print_json(asdict(found))
        else:
            click.echo(f"{found.label:<14} {found.probability:.3f}  {shorten(found.sentence)}")


def _pairs(question: str | None, sentences: Sequence[str], file: Path | None) -> list[tuple[str, str]]:
    """Pairs from arguments or from a file."""
    from semclass.documents.readers import read_json_lines

    if (question is None) == (file is None) or (file is None and not sentences):
        raise InputError("give a question and sentences as arguments, or pairs with --file F")
    if file is None:
        return [(str(question), sentence) for sentence in sentences]
    pairs = []
    for number, record in read_json_lines(file):
        for name in ("question", "sentence"):
            if not isinstance(record.get(name), str):
                raise InputError(f"{file}, line {number} has no text {name!r}; each line needs question and sentence")
        pairs.append((record["question"], record["sentence"]))
    if not pairs:
        raise InputError(f"{file} holds no pairs")
    return pairs


@classify.command("texts")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--model", type=click.Path(path_type=Path), required=True, help="Folder of a saved TextClassifier.")
@click.option("--file", type=InputPath(), help="One text a line, or JSON lines with `text`; - for a pipe.")
@click.option("--encoder", help="Folder of the encoder it was trained with, or hub:NAME; the shipped one by default.")
@click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    help=f"Say {semclass.ABSTAIN} below this probability; what the model was saved with by default.",
)
@_json
@_threads
def classify_texts(
    texts: Sequence[str],
    model: Path,
    file: Path | None,
    *,
    encoder: str | None,
    min_probability: float | None,
    as_json: bool,
    threads: int | None,
) -> None:
    """Classify texts with a model of your own."""
    given = _texts(texts, file)
    loaded = semclass.TextModel.load(model, encoder=encoder, threads=threads or 1)
    for found in loaded.predict(given, min_probability=min_probability):
        if as_json:
            labels = {"labels": list(found.labels), "label": found.label, "probability": found.probability}
            _print_json({"text": found.text, **labels, "probabilities": dict(found.probabilities)})
        else:
            said = " ".join(map(str, found.labels)) or semclass.ABSTAIN
            click.echo(f"{said:<14} {found.probability:.3f}  {shorten(found.text)}")


def _passages(texts: Sequence[str], file: Path | None) -> list[semclass.Passage]:
    """Passages from arguments, numbered from 1, or from a file."""
    from semclass.documents.readers import read_passages

    if bool(texts) == (file is not None):
        raise InputError("give texts as arguments or with --file F, one of the two")
    if file is not None:
        return read_passages(file)
    return [semclass.Passage(str(number), text) for number, text in enumerate(texts, 1)]
