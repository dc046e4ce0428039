"""The command that trains a head on labelled texts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, echo, shorten, show, table
from semclass.core.checks import counted
from semclass.core.errors import InputError

MAX_LABELS = 20
"""Number of labels up to which all are listed on the terminal. Of more labels, those with the lowest F1 are listed."""


@click.command()
@click.argument("file", type=options.InputPath())
@click.option("--head", type=any_path, required=True, help="Folder to write the head to.")
@click.option(
    "--test",
    type=options.InputPath(),
    help="File of labelled texts to test the head on. Default: cross-validation on FILE.",
)
@options.column("text")
@options.column("label")
@click.option("--multi-label", is_flag=True, help="A text may have several labels, separated by commas, or no label.")
@click.option(
    "--target-precision",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help=f"Precision that each label must reach, e.g. 0.95. Less certain texts get {semclass.ABSTAIN}.",
)
@options.encoding
@options.json_output
@options.encoder
def train(
    file: Path,
    head: Path,
    test: Path | None,
    target_precision: float | None,
    encoder: str | None,
    *,
    multi_label: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Train a head (a text classifier) on the labelled texts in FILE.

    FILE is TSV, CSV or JSON lines with `text` and `label`, or with other usual names in any case. The first line of a
    table names its columns.
    The head is tested on texts that it was not trained on. The folder HEAD-report lists its wrong predictions. If a label
    in --test does not occur in FILE, its texts count as texts without a label.
    """
    from semclass.documents.labelled import read_labelled
    from semclass.train import report as reports
    from semclass.train.estimators import TextClassifier, shared_encoder

    started = time.perf_counter()
    columns: dict[str, Any] = {name.removesuffix("_column"): value for name, value in named.items()}
    data = read_labelled(file, **columns, multi_label=multi_label)
    tested = None if test is None else read_labelled(test, **columns, multi_label=data.multi_label)
    report = head.with_name(f"{head.name}-report")
    labels = {label for row in data.labels for label in row}
    if tested is not None and labels.isdisjoint(label for row in tested.labels for label in row):
        raise InputError(f"{test} and {file} have no label in common; are their labels in the same column?")
    for folder in (head, report):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is not a folder; name another path")
    model = TextClassifier(encoder, multi_label=data.multi_label, target_precision=target_precision, progress=True)
    model.fit(data.texts, data.targets())
    trained = time.perf_counter()
    if not as_json:
        echo(f"trained in {trained - started:.0f} s", err=True)
    model.save(head)
    judged = held_out = reports.held_out(model, data)
    if tested is not None:
        judged = reports.judged(model, tested, model.predict_proba(tested.texts))
    figures = reports.figures(judged, target_precision, None if tested is None else held_out)
    wrong = reports.wrong_cases(model.examples_, judged, shared_encoder(encoder), own=tested is None)
    record = {
        "head": str(head),
        "file": str(file),
        "examples": len(data.texts),
        "measured_on": "cross-validation" if test is None else str(test),
        "chosen": model.report_["chosen"],
        "target_precision": target_precision,
        **figures,
        "cross_validation": {name: model.report_[name] for name in ("accuracy", "macro_f1", "log_loss")},
        "seconds": {"training": round(trained - started, 1), "all": round(time.perf_counter() - started, 1)},
        "wrong": len(wrong),
        "report": str(report),
    }
    reports.write_report(report, record, wrong)
    how = "" if encoder is None else f"--encoder {encoder} "
    following = f'next: semclass classify texts --head {head} {how}"{shorten(judged.texts[0], 60)}"'
    show(record, "\n".join([*_summary(record, multi_label=data.multi_label), following]), as_json=as_json)


def _summary(record: Mapping[str, Any], *, multi_label: bool) -> Iterator[str]:
    labels = record["classes"]
    yield f"trained on {counted(record['examples'], 'text')} of {counted(len(labels), 'label')}: {record['head']}"
    on = "cross-validation (each text is judged by a head that was not trained on it)"
    if record["measured_on"] != "cross-validation":
        on = f"{counted(record['texts'], 'text')} of {record['measured_on']}"
    yield f"measured on {on}\n"
    shown = labels if len(labels) <= MAX_LABELS else sorted(labels, key=lambda row: row["f1"])[: MAX_LABELS // 2]
    columns = {"label": "", "n": "", **dict.fromkeys(("precision", "recall", "F1"), ".3f")}
    columns |= {} if record["target_precision"] is None else {"threshold": ".3f"}
    rows = (
        [shorten(row["label"], 40), row["examples"], *(row[name.lower()] for name in [*columns][2:])] for row in shown
    )
    yield from table(columns, rows)
    if len(shown) < len(labels):
        yield f"... only the labels with the lowest F1; all {len(labels)} are in {record['report']}/figures.json"
    whole = "all labels of a text right" if multi_label else "right"
    if record["accuracy"] is not None:
        yield f"\n{whole}: {record['accuracy']:.1%}; macro F1 {record['macro_f1']:.3f}"
    for pair in record["confused"][:2]:
        yield f"most confused: {pair['label']} was predicted as {pair['predicted']} in {counted(pair['n'], 'text')}"
    target = record["target_precision"]
    for row in record["precisions"]:
        if row["precision"] is None or (target is not None and row["target_precision"] != target):
            continue
        how = "" if target is not None else f" (--target-precision {row['target_precision']:g})"
        yield (
            f"target precision {row['target_precision']:g}: {row['answered']:.1%} answered, "
            f"{row['precision']:.1%} right{how}"
        )
        if row["never_said"] and target is not None:
            yield f"labels that never reach the precision: {', '.join(map(str, row['never_said'][:10]))}"
    if ood := record.get("ood"):
        yield f"out of domain: {ood['rejected']:.1%} of {counted(ood['texts'], 'text')} rejected"
    if record["wrong"]:
        yield f"\n{counted(record['wrong'], 'wrong case')}, most confident first: {record['report']}/wrong.tsv"
