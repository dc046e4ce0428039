"""The command that trains a head on labelled texts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, shorten, show
from semclass.cli.output import echo
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.documents.labelled import LabelledTexts
    from semclass.train.report import Judged

SHOWN = 20
"""Labels that are listed on the terminal; of more, those with the lowest F1 alone."""

NEAREST = 3
"""Training examples that are given for a wrong case."""


@click.command()
@click.argument("file", type=options.InputPath())
@click.option("--head", type=any_path, required=True, help="Folder to write the head to.")
@click.option(
    "--test",
    type=options.InputPath(),
    help="File of labelled texts to test the head on. Default: cross-validation on FILE.",
)
@options.text_column
@click.option("--label-column", metavar="NAME", help="Name of the column with the label. Default: `label` or `labels`.")
@click.option("--multi-label", is_flag=True, help="A text may have several labels, separated by commas, or no label.")
@click.option(
    "--target-precision",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help=f"Precision that each label must reach, e.g. 0.95. Less certain texts get {semclass.ABSTAIN}.",
)
@click.option(
    "--ood-label", metavar="LABEL", help="Label that marks out-of-domain texts, i.e. texts that fit no other label."
)
@click.option(
    "--keep-examples", is_flag=True, help="Store the training texts in the head's folder, for `classify texts --why`."
)
@options.encoding
@options.json_output
@options.encoder
def train(
    file: Path,
    head: Path,
    test: Path | None,
    text_column: str | None,
    label_column: str | None,
    target_precision: float | None,
    ood_label: str | None,
    encoding: str | None,
    encoder: str | None,
    *,
    multi_label: bool,
    keep_examples: bool,
    as_json: bool,
) -> None:
    """Train a head (a text classifier) on the labelled texts in FILE.

    FILE is TSV, CSV or JSON lines with `text` and `label`. A table without column names has the text in the first column.
    The head is tested on texts that it was not trained on. The folder HEAD-report lists its wrong predictions. If a label
    in --test does not occur in FILE, its texts count as texts without a label.
    """
    from semclass.documents.labelled import read_labelled
    from semclass.train import report as reports
    from semclass.train.estimators import TextClassifier

    started = time.perf_counter()
    columns: dict[str, Any] = {
        "text": text_column,
        "label": label_column,
        "multi_label": multi_label,
        "encoding": encoding,
    }
    data = read_labelled(file, **columns)
    tried = None if test is None else read_labelled(test, **{**columns, "multi_label": data.multi_label})
    held = {one for labels in data.labels for one in labels}
    if ood_label is not None and ood_label not in held:
        raise InputError(f"{file} has no label {ood_label!r}; remove --ood-label, or add texts with this label")
    if tried is not None and held.isdisjoint(one for labels in tried.labels for one in labels):
        raise InputError(
            f"{test} and {file} have no label in common; do both files have their labels in the same column?"
        )
    report = head.with_name(f"{head.name}-report")
    for folder in (head, report):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is not a folder; name another path")
    if ood_label is not None and data.multi_label:
        raise InputError(
            "--ood-label needs one label per text; in a multi-label file, leave the label of out-of-domain texts empty"
        )
    model = TextClassifier(
        encoder,
        multi_label=data.multi_label,
        target_precision=target_precision,
        rejection_rate=0.0 if ood_label is None else reports.REJECTION_RATE,
        ood_label=ood_label,
        progress=True,
    )
    model.fit(data.texts, data.targets())
    trained = time.perf_counter()
    if not as_json:
        echo(f"trained in {trained - started:.0f} s", err=True)
    model.save(head, examples=keep_examples)
    judged = _judged(model, data, tried)
    held_out = None if tried is None else _judged(model, data, None)
    found = {
        "head": str(head),
        "file": str(file),
        "examples": len(data.texts),
        "measured_on": "cross-validation" if test is None else str(test),
        "chosen": model.report_["chosen"],
        "target_precision": target_precision,
        **reports.figures(
            judged, target_precision, None if held_out is None else (held_out.probabilities, held_out.truth)
        ),
        "cross_validation": {name: model.report_[name] for name in ("accuracy", "macro_f1", "log_loss")},
        **({} if ood_label is None or tried is not None else {"ood": _held_out_ood(model, data, ood_label)}),
        "seconds": {"training": round(trained - started, 1), "all": round(time.perf_counter() - started, 1)},
    }
    wrong = _wrong(model, judged, own=tried is None)
    _write(report, found, wrong)
    found |= {"wrong": len(wrong), "report": str(report)}
    how = "" if encoder is None else f"--encoder {encoder} "
    shown = [
        *_summary(found, data),
        f'next: semclass classify texts --head {head} {how}"{shorten(judged.texts[0], 60)}"',
    ]
    show(found, "\n".join(shown), as_json=as_json)


def _held_out_ood(model: Any, data: LabelledTexts, ood_label: str) -> dict[str, Any]:
    """How many texts out of domain are rejected, and how many of the others, by heads that had not seen them."""
    rejected = model.report_["rejected_ood"]
    return {
        "texts": data.labels.count((ood_label,)),
        "rejected": round(rejected, 4),
        "others_rejected": round(model.report_["rejected"], 4),
        "recall_at_4_percent": round(rejected, 4),
    }


def _judged(model: Any, data: LabelledTexts, tried: LabelledTexts | None) -> Judged:
    """What the head says of the test texts, or of each training text by a head that was fitted without it."""
    import numpy as np

    from semclass.train.report import Judged

    support = None
    if tried is None:
        probabilities = model.out_of_fold_
        rows = np.flatnonzero(np.isfinite(probabilities[:, 0])).tolist()
        probabilities, tried = probabilities[rows], data
    else:
        (probabilities, above), rows = _probabilities(model, tried.texts), range(len(tried.texts))
        support = above if model.rejection_rate else None
    texts, labels, lines = ([values[row] for row in rows] for values in (tried.texts, tried.labels, tried.lines))
    classes = tuple(model.classes_.tolist())
    return Judged(texts, labels, lines, classes, probabilities, model.label_thresholds_, model.multi_label, support)


def _probabilities(model: Any, texts: Sequence[str]) -> Any:
    """Probabilities of texts, and by how much they are not rejected, with progress."""
    import numpy as np

    from semclass.encoders.batching import CHUNK

    parts = []
    with progress("testing", len(texts), "texts") as step:
        for start in range(0, len(texts), CHUNK):
            parts.append(model.judge(texts[start : start + CHUNK]))
            step(len(parts[-1][1]))
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _wrong(model: Any, judged: Judged, *, own: bool) -> list[dict[str, Any]]:
    """Wrong cases, with the training examples that are nearest to them."""
    from semclass.train.data import encode, shared_encoder
    from semclass.train.report import wrong_rows

    rows = wrong_rows(judged)
    texts = [judged.texts[row] for row in rows]
    if not texts:
        return []
    view = model.examples_.view
    views, _ = encode(texts, [view], shared_encoder(model.encoder), lambda line: None)
    nearest = model.examples_.nearest(texts, views[view], NEAREST, others=own)
    said, found = judged.said_plainly, []
    for row, near in zip(rows, nearest, strict=True):
        found.append(
            {
                "line": judged.places[row],
                "text": judged.texts[row],
                "label": judged.labels[row],
                "predicted": [judged.classes[place] for place in said[row].nonzero()[0]],
                "probability": round(float(judged.probabilities[row].max()), 4),
                "nearest": [
                    {"text": one.text, "label": one.labels, "similarity": round(one.similarity, 3)} for one in near
                ],
            }
        )
    return found


def _write(folder: Path, figures: Mapping[str, Any], wrong: Sequence[Mapping[str, Any]]) -> None:
    """Write figures and wrong cases, these as JSON lines and as a table."""
    from semclass.core.artifacts import dump_json, dump_json_lines, write_atomic

    write_atomic(folder / "figures.json", dump_json(figures))
    write_atomic(folder / "wrong.jsonl", dump_json_lines(wrong))
    rows = [["line", "text", "label", "predicted", "probability", "similar text", "its label", "similarity"]]
    for case in wrong:
        near = case["nearest"][0] if case["nearest"] else {"text": "", "label": (), "similarity": ""}
        cells = [case["line"], case["text"], case["label"], case["predicted"], case["probability"]]
        rows.append([_cell(cell) for cell in [*cells, near["text"], near["label"], near["similarity"]]])
    write_atomic(folder / "wrong.tsv", "".join("\t".join(row) + "\n" for row in rows).encode())


def _cell(value: Any) -> str:
    """One cell of a table."""
    joined = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return " ".join(joined.split())


def _summary(found: Mapping[str, Any], data: LabelledTexts) -> Iterator[str]:
    """What people read."""
    labels = found["labels"]
    yield f"trained on {counted(found['examples'], 'text')} of {counted(len(labels), 'label')}: {found['head']}"
    on = "cross-validation (each text is judged by a head that was not trained on it)"
    if found["measured_on"] != "cross-validation":
        on = f"{counted(found['texts'], 'text')} of {found['measured_on']}"
    yield f"measured on {on}\n"
    shown = labels if len(labels) <= SHOWN else sorted(labels, key=lambda row: row["f1"])[: SHOWN // 2]
    width = max(12, *(len(shorten(row["label"], 40)) for row in shown))
    yield f"{'label':<{width}}      n  precision  recall     F1" + "  threshold" * (
        found["target_precision"] is not None
    )
    for row in shown:
        figures = f"{row['precision']:.3f}   {row['recall']:.3f}  {row['f1']:.3f}"
        threshold = "" if found["target_precision"] is None else f"      {row['threshold']:.3f}"
        yield f"{shorten(row['label'], 40):<{width}} {row['n']:>6}     {figures}{threshold}"
    if len(shown) < len(labels):
        yield f"... only the labels with the lowest F1; all {len(labels)} are in {found['report']}/figures.json"
    whole = "all labels of a text right" if data.multi_label else "right"
    if found["accuracy"] is not None:
        yield f"\n{whole}: {found['accuracy']:.1%}; macro F1 {found['macro_f1']:.3f}"
    for pair in found["confused"][:2]:
        yield f"most confused: {pair['label']} was called {pair['predicted']} in {counted(pair['n'], 'text')}"
    yield from _thresholds(found)
    if found["wrong"]:
        yield f"\n{counted(found['wrong'], 'wrong case')}, most confident first: {found['report']}/wrong.tsv"


def _thresholds(found: Mapping[str, Any]) -> Iterator[str]:
    """What a precision costs, and what is rejected."""
    target = found["target_precision"]
    for row in found["coverage"]:
        if row["precision"] is None or (target is not None and row["target_precision"] != target):
            continue
        how = "" if target is not None else f" (--target-precision {row['target_precision']:g})"
        yield (
            f"target precision {row['target_precision']:g}: {row['answered']:.1%} answered, "
            f"{row['precision']:.1%} right{how}"
        )
        if row["never_said"] and target is not None:
            yield f"labels that never reach the precision: {', '.join(map(str, row['never_said'][:10]))}"
    if ood := found.get("ood"):
        yield (
            f"out of domain: {ood['rejected']:.1%} of {counted(ood['texts'], 'text')} rejected, and "
            f"{ood['others_rejected']:.1%} of the others; {ood['recall_at_4_percent']:.1%} at a rejection rate of 4 %"
        )
