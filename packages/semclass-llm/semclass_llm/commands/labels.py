"""The commands around labels: which to give next, which are wrong, those of a teacher and a person together."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from semclass.cli import options
from semclass.cli.options import any_path, positive, shorten, show
from semclass.cli.output import echo
from semclass.core import artifacts
from semclass.core.checks import counted
from semclass.core.errors import ArtifactError, InputError
from semclass_llm.commands.label import beside, write

if TYPE_CHECKING:
    from semclass.documents.labelled import LabelledTexts

_seed = click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
_checked = click.option(
    "--checked", type=options.InputPath(), required=True, help="File of texts with labels that a person checked."
)


@click.group()
def labels() -> None:
    """Choose texts to label, find wrong labels, and combine labels of a language model and a person."""


@labels.command("next")
@click.argument("texts", type=any_path)
@click.option("--number", type=positive, default=20, show_default=True, help="Number of texts to choose.")
@click.option(
    "--head",
    type=any_path,
    help="Folder of a head trained on the labels so far. Texts of which this head is uncertain come first.",
)
@click.option(
    "--checked",
    type=options.InputPath(),
    help="File of texts that already have labels. Texts that differ from them are preferred.",
)
@click.option(
    "--out", type=any_path, required=True, metavar="FILE", help="Output file for the chosen texts (JSON lines)."
)
@options.encoder
@_seed
@options.json_output
def next_texts(
    texts: Path,
    number: int,
    head: Path | None,
    checked: Path | None,
    out: Path,
    encoder: str | None,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Choose which of TEXTS a person should label or check next, the most useful first.

    The output file has one text per line, for you to correct in an editor. Each line contains the label from the input, or
    the head's prediction.
    """
    from semclass.documents.labelled import read_labelled
    from semclass.heads.texts import TextModel, open_encoder
    from semclass_llm.labelling.order import next_to_label

    records = _records(texts)
    used = open_encoder(encoder)
    model = None if head is None else TextModel.load(head, encoder=used)
    known = [] if checked is None else read_labelled(checked).texts
    given = [record["text"] for record in records]
    places = next_to_label(given, number, encoder=used, head=model, labelled=known, seed=seed)
    chosen = [records[place] for place in places]
    guessed = model.classify([record["text"] for record in chosen]) if model and chosen else []
    for record, found in zip(chosen, guessed, strict=False):
        if not {"label", "labels"} & set(record):
            multi_label = model is not None and model.multi_label
            record |= {"labels": list(found.labels)} if multi_label else {"label": found.label}
    write(out, chosen)
    for record in chosen:
        show(record, f"{_shown(record):<14} {shorten(record['text'])}", as_json=as_json)
    echo(f"{out}: {counted(len(chosen), 'text')} to label or to check", err=True)


@labels.command("errors")
@click.argument("file", type=options.InputPath())
@click.option(
    "--head",
    type=any_path,
    help="Folder of a head trained on other texts. Default: train a head on FILE by cross-validation.",
)
@click.option("--number", type=positive, default=50, show_default=True, help="Number of texts to show.")
@options.encoder
@_seed
@options.json_output
def label_errors(file: Path, head: Path | None, number: int, encoder: str | None, seed: int, *, as_json: bool) -> None:
    """Show the texts in FILE whose labels are most probably wrong.

    The label of each text is judged by a head that was not trained on this text.
    """
    from semclass.documents.labelled import read_labelled
    from semclass.heads.texts import TextModel
    from semclass_llm.labelling.compare import head_of
    from semclass_llm.labelling.doubts import doubts

    data = read_labelled(file)
    if head is None:
        fitted = head_of(dict(zip(data.texts, data.labels, strict=True)), data.multi_label, encoder, seed)
        rows = {text: row for row, text in enumerate(dict.fromkeys(data.texts))}
        classes, multi_label = fitted.classes_.tolist(), data.multi_label
        probabilities = fitted.out_of_fold_[[rows[text] for text in data.texts]]
    else:
        model = TextModel.load(head, encoder=encoder)
        classes, multi_label = list(map(str, model.classes)), model.multi_label
        probabilities = model.predict_proba(data.texts)
    for one in doubts(data.labels, classes, probabilities, multi_label=multi_label)[:number]:
        given, instead = data.labels[one.place], list(map(str, one.labels))
        record = {"text": data.texts[one.place], "line": data.lines[one.place], "quality": one.quality}
        record |= {"given": list(given), "instead": instead}
        line = f"line {record['line']}: {' '.join(given) or '-'}, not {' '.join(instead) or '-'}?"
        show(record, f"{line:<40} {shorten(data.texts[one.place])}", as_json=as_json)


@labels.command("combine")
@click.argument("file", type=options.InputPath())
@_checked
@click.option(
    "--out",
    type=any_path,
    required=True,
    metavar="OUT",
    help="Output file for the labels of all texts, for `semclass train`.",
)
@options.encoder
@_seed
def combine_labels(file: Path, checked: Path, out: Path, encoder: str | None, seed: int) -> None:
    """Correct the labels of a language model in FILE with the labels that a person checked."""
    from semclass_llm.labelling.combine import combine
    from semclass_llm.labelling.compare import head_of
    from semclass_llm.labelling.teacher import labelled_record

    (taught, multi_label), (truth, _) = _both(file, checked)
    found = combine(taught, truth, head_of(truth, multi_label, encoder, seed))
    records = []
    for text, row in found.items():
        by = "person" if text in truth else "model" if row == taught[text] else "both"
        records.append(labelled_record({"text": text}, row, multi_label, by))
    write(out, records)
    changed = sum(record["by"] == "both" for record in records)
    echo(f"{out}: {counted(len(records), 'text')}, {len(truth)} by a person, {changed} model labels corrected")


@labels.command("compare")
@click.argument("file", type=options.InputPath())
@_checked
@click.option(
    "--usd-per-hour", type=float, help="Price of this machine in USD per hour, to compute the cost of the head."
)
@click.option("--out", type=any_path, metavar="FILE", help="Also write the results to this file (JSON).")
@options.encoder
@_seed
@options.json_output
def compare_labels(
    file: Path,
    checked: Path,
    usd_per_hour: float | None,
    out: Path | None,
    encoder: str | None,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Measure the labels of a language model in FILE, and a head trained on them, against labels that a person checked."""
    from semclass_llm.labelling.compare import compare

    (taught, multi_label), (truth, _) = _both(file, checked)
    found = compare(taught, truth, multi_label=multi_label, encoder=encoder, seed=seed)
    million = found["head_seconds_per_text"] * 1e6
    money = {} if usd_per_hour is None else {"usd": round(million / 3600 * usd_per_hour, 2)}
    cost: dict[str, Any] = {"head": {"seconds": round(million, 1), **money}}
    with contextlib.suppress(ArtifactError):  # the teacher may have been somebody else
        cost["teacher"] = artifacts.read_json(beside(file, "report.json"))["cost_of_a_million_texts"]
    found["cost_of_a_million_texts"] = cost
    if out is not None:
        artifacts.write_atomic(out, artifacts.dump_json(found))
    lines = [f"{counted(found['texts'], 'checked text')}:  accuracy  macro F1   a million texts"]
    for name in ("teacher", "head", "head_by_hand"):
        spent = cost.get(name.removesuffix("_by_hand"), {})
        time = f"{spent['seconds'] / 3600:.1f} h" if spent else "-"
        price = f", {spent['usd']:.2f} USD" if "usd" in spent else ""
        lines.append(f"{name:<18} {found[name]['accuracy']:9.3f} {found[name]['macro_f1']:9.3f}   {time}{price}")
    show(found, "\n".join(lines), as_json=as_json)


def _records(path: Path) -> list[dict[str, Any]]:
    """Texts, with the labels that their lines give them."""
    from semclass.documents.json_lines import read_json_lines
    from semclass.documents.labelled import read_texts

    texts = read_texts(path)
    if path.suffix.lower() != ".jsonl":
        return [{"text": text} for text in texts]
    lines = read_json_lines(path)
    return [{name: line[name] for name in ("text", "label", "labels") if name in line} for _, line in lines]


def _shown(record: dict[str, Any]) -> str:
    return " ".join(map(str, record.get("labels", [record.get("label", "-")]))) or "-"


def _both(file: Path, checked: Path) -> Sequence[tuple[dict[str, tuple[str, ...]], bool]]:
    """Labels by text of the teacher and of the person, and whether a text may have several."""
    from semclass.documents.labelled import read_labelled

    found: list[LabelledTexts] = [read_labelled(path) for path in (file, checked)]
    if found[0].multi_label != found[1].multi_label:
        raise InputError(
            f"{file} and {checked} must have the same format: one label per text (`label`) or several (`labels`)"
        )
    return [(dict(zip(one.texts, one.labels, strict=True)), one.multi_label) for one in found]
