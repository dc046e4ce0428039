"""Reports: cross-validated figures of a classifier, its figures on other texts, wrong cases, and its model card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from semclass import __version__
from semclass.core.artifacts import dump_json, dump_json_lines, write_atomic
from semclass.core.types import ClassName, DoubleArray
from semclass.heads.classifier import decide
from semclass.train.calibration import best_threshold, precision_thresholds, reliability
from semclass.train.data import Targets, encode, shared_encoder
from semclass.train.fitted import FittedHead

if TYPE_CHECKING:
    from semclass.documents.labelled import LabelledTexts

Flags = npt.NDArray[np.bool_]

PRECISIONS = (0.9, 0.95, 0.99)  # precisions whose coverage is shown

REJECTION_RATE = 0.04
"""Share of the texts with a label that may be rejected where the recall of texts out of domain is measured."""

NEIGHBOURS = 3  # training examples that are shown for a wrong case
CONFUSED = 20  # pairs of confused labels that a model card lists
COVERAGE = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # values of min_probability whose effect the report shows


def report_of(
    head: FittedHead, targets: Targets, texts: Sequence[str], target_precision: float | None = None
) -> tuple[DoubleArray, dict[str, Any]]:
    """Thresholds of the labels, float64 of shape (n_classes,), and cross-validated figures in JSON types.

    The thresholds are those of the target precision. Without one they are best for F1 where a text may have several labels,
    and 0 where it has one.
    """
    if head.out_of_fold is None:
        raise ValueError("a head without out-of-fold probabilities cannot be judged")
    rows = np.flatnonzero(np.isfinite(head.out_of_fold[:, 0]))
    probabilities, truth = head.out_of_fold[rows], targets.matrix()[rows]
    thresholds = np.zeros(len(targets.classes))
    if target_precision is not None:
        thresholds = precision_thresholds(probabilities, truth, target_precision, multi_label=targets.multi_label)
    elif targets.multi_label:
        columns = zip(probabilities.T, truth.T, strict=True)
        # a class whose only examples have weight 0 has nothing to choose by
        thresholds = np.array([best_threshold(column, true) if true.any() else 0.5 for column, true in columns])
    places: list[int] = rows.tolist()
    own, labels = [texts[row] for row in places], [targets.rows[row] for row in places]
    judged = Judged(own, labels, places, targets.classes, probabilities, thresholds, targets.multi_label)
    return thresholds, {**_rounded(head.report), **figures(judged, target_precision)}


def _class_figures(
    classes: Sequence[ClassName], predicted: Flags, true: Flags, thresholds: DoubleArray
) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class; 0 where there is nothing to divide by."""
    right, given, examples = (flags.sum(axis=0) for flags in (predicted & true, predicted, true))
    figures = {
        "label": classes,
        "examples": examples.tolist(),
        "precision": (right / np.maximum(given, 1)).tolist(),
        "recall": (right / np.maximum(examples, 1)).tolist(),
        "f1": (2 * right / np.maximum(given + examples, 1)).tolist(),
        "threshold": thresholds.tolist(),
    }
    return [dict(zip(figures, row, strict=True)) for row in zip(*figures.values(), strict=True)]


def _rounded(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures in JSON types, with four digits."""
    return dict(json.loads(json.dumps(figures), parse_float=lambda number: round(float(number), 4)))


@dataclass(frozen=True)
class Judged:
    """Texts with their labels, and the probabilities of a head that had not seen them."""

    texts: Sequence[str]  #: n texts
    labels: Sequence[tuple[ClassName, ...]]  #: those of each text; one that the head does not know means out of domain
    places: Sequence[int]  #: lines of the n texts in their file
    classes: tuple[ClassName, ...]  #: the head's labels, in column order
    probabilities: DoubleArray  #: float64 of shape (n, n_classes)
    label_thresholds: DoubleArray  #: as `TextClassifier.label_thresholds_`
    multi_label: bool  #: as `TextClassifier.multi_label`
    #: Support for any class above the threshold of rejection, (n,). None for a head that rejects nothing.
    support: DoubleArray | None = None

    @property
    def truth(self) -> Flags:
        """True classes, (n, n_classes); none for a text out of domain."""
        column = {label: place for place, label in enumerate(self.classes)}
        found = np.zeros(self.probabilities.shape, np.bool_)
        pairs = [(row, column[label]) for row, labels in enumerate(self.labels) for label in labels if label in column]
        found[tuple(np.array(pairs, np.int64).reshape(-1, 2).T)] = True
        return found

    @property
    def known(self) -> Flags:
        """Whether the head knows all labels of a text, (n,)."""
        return np.array([set(labels) <= set(self.classes) for labels in self.labels], np.bool_)

    @property
    def accepted(self) -> Flags:
        """Classes that reach the thresholds of the head, (n, n_classes)."""
        predicted = decide(self.probabilities, self.label_thresholds, multi_label=self.multi_label)
        return predicted if self.support is None else predicted & (self.support >= 0)[:, None]

    @property
    def best(self) -> Flags:
        """Classes that the head would choose if it never abstained, (n, n_classes)."""
        return decide(
            self.probabilities, self.label_thresholds if self.multi_label else 0.0, multi_label=self.multi_label
        )

    @property
    def ood(self) -> Flags:
        """Whether a text is out of domain, (n,): it has labels, and the head knows none of them."""
        return np.array([bool(labels) and set(self.classes).isdisjoint(labels) for labels in self.labels], np.bool_)


def judged(
    model: Any, data: LabelledTexts, rows: Sequence[int], probabilities: DoubleArray, support: DoubleArray | None = None
) -> Judged:
    """Join some texts with the probabilities and the support from a head that was fitted without them."""
    columns: list[Any] = [data.texts, data.labels, data.lines]
    texts, labels, lines = ([values[row] for row in rows] for values in columns)
    support = support if model.rejection_rate else None
    thresholds = model.label_thresholds_
    return Judged(texts, labels, lines, model.classes, probabilities, thresholds, model.multi_label, support)


def held_out(model: Any, data: LabelledTexts) -> Judged:
    """Join the training texts of a model with their out-of-fold probabilities, where they have any."""
    rows = np.flatnonzero(np.isfinite(model.out_of_fold_[:, 0])).tolist()
    return judged(model, data, rows, model.out_of_fold_[rows])


def figures(judged: Judged, target_precision: float | None, held_out: Judged | None = None) -> dict[str, Any]:
    """Figures in JSON types.

    Thresholds for a precision are chosen on the texts of `held_out`. If None, each half of the texts gets thresholds from
    the other half.
    """
    truth, plain, known, ood = judged.truth, judged.best, judged.known, judged.ood
    classes = _class_figures(judged.classes, plain[known], truth[known], judged.label_thresholds)
    seen = [float(row["f1"]) for row in classes if row["examples"]]
    right = (plain == truth).all(axis=1)[known]
    probabilities = judged.probabilities[known]
    found: dict[str, Any] = {
        "texts": len(judged.texts),
        "accuracy": float(right.mean()) if known.any() else None,
        "macro_f1": float(np.mean(seen)) if seen else None,
        "classes": classes,
        "precisions": [
            _at_precision(judged, goal, held_out)
            for goal in sorted({*PRECISIONS, *([target_precision] if target_precision else [])})
        ],
    }
    if judged.multi_label:
        return _rounded(
            {**found, "confused": [], "reliability": reliability(probabilities.ravel(), truth[known].ravel())}
        )
    confidence = probabilities.max(axis=1)
    found |= {"confused": _confused(judged, plain), "reliability": reliability(confidence, right)}
    found["coverage"] = [
        {
            "min_probability": least,
            "answered": float(sure.mean()) if known.any() else None,
            "accuracy": float(right[sure].mean()) if sure.any() else None,
        }
        for least in COVERAGE
        for sure in [confidence >= least]
    ]
    return _rounded({**found, "ood": _ood(judged, ood)} if ood.any() else found)


def _confused(judged: Judged, predicted: Flags) -> list[dict[str, Any]]:
    """Pairs of labels of which one was taken for the other, most often first."""
    best = [judged.classes[place] for place in predicted.argmax(axis=1).tolist()]
    pairs = Counter((labels[0], other) for labels, other in zip(judged.labels, best, strict=True) if labels[0] != other)
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], str(item[0])))
    return [{"label": one, "predicted": other, "n": count} for (one, other), count in ranked]


def _at_precision(judged: Judged, target_precision: float, held_out: Judged | None) -> dict[str, Any]:
    """Cost and gain of thresholds for a precision, on the texts whose labels the head knows."""
    multi_label, known = judged.multi_label, judged.known
    probabilities, truth = judged.probabilities[known], judged.truth[known]
    if held_out is not None:
        own = held_out.probabilities, held_out.truth
        chosen = precision_thresholds(*own, target_precision, multi_label=multi_label)
        predicted = decide(probabilities, chosen, multi_label=multi_label)
    else:
        predicted, order = np.zeros(truth.shape, np.bool_), np.random.default_rng(0).permutation(len(probabilities))
        for one, other in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            chosen = precision_thresholds(probabilities[one], truth[one], target_precision, multi_label=multi_label)
            predicted[other] = decide(probabilities[other], chosen, multi_label=multi_label)
    given, right = predicted.sum(axis=0), (predicted & truth).sum(axis=0)
    return {
        "target_precision": target_precision,
        "answered": float(predicted.any(axis=1).mean()),
        "precision": float(right.sum() / given.sum()) if given.any() else None,
        "mean_precision": float((right[given > 0] / given[given > 0]).mean()) if given.any() else None,
        "recall": float(right.sum() / max(truth.sum(), 1)),
        "never_said": [judged.classes[place] for place in np.flatnonzero(given == 0).tolist()],
    }


def _ood(judged: Judged, ood: Flags) -> dict[str, Any]:
    """How many texts out of domain are rejected: by the head as it is, and at the same rejection rate for every head."""
    sureness = judged.probabilities.max(axis=1) if judged.support is None else judged.support
    rejected: Flags = np.logical_not(judged.accepted.any(axis=1))
    others: Flags = ~ood
    limit = float(np.quantile(sureness[others], REJECTION_RATE)) if others.any() else 1.0
    return {
        "texts": int(ood.sum()),
        "rejected": float(rejected[ood].mean()),
        "others_rejected": float(rejected[others].mean()) if others.any() else None,
        "recall_at_4_percent": float((sureness[ood] < limit).mean()) if others.any() else None,
    }


def wrong_rows(judged: Judged) -> list[int]:
    """Places of the texts whose labels are wrong before any threshold, the surest first; out of domain, if not rejected."""
    truth, plain = judged.truth, judged.best
    rows = np.flatnonzero(np.where(judged.known, (plain != truth).any(axis=1), judged.accepted.any(axis=1)))
    sure = judged.probabilities.max(axis=1)
    return sorted(rows.tolist(), key=lambda row: (-sure[row], row))


def wrong_cases(model: Any, judged: Judged, *, own: bool) -> list[dict[str, Any]]:
    """Wrong cases, with the training examples nearest to them; with `own`, the texts are training texts."""
    rows = wrong_rows(judged)
    texts = [judged.texts[row] for row in rows]
    if not texts:
        return []
    view = model.examples_.view
    views, _ = encode(texts, [view], shared_encoder(model.encoder), lambda line: None)
    nearest = model.examples_.nearest(texts, views[view], NEIGHBOURS, others=own)
    return [
        {
            "line": judged.places[row],
            "text": judged.texts[row],
            "label": judged.labels[row],
            "predicted": [judged.classes[place] for place in predicted.nonzero()[0]],
            "probability": round(float(judged.probabilities[row].max()), 4),
            "nearest": [{"text": n.text, "label": n.labels, "similarity": round(n.similarity, 3)} for n in near],
        }
        for row, predicted, near in zip(rows, judged.best[rows], nearest, strict=True)
    ]


def write_report(folder: Path, figures: Mapping[str, Any], wrong: Sequence[Mapping[str, Any]]) -> None:
    """Write figures and wrong cases, these as JSON lines and as a table."""
    write_atomic(folder / "figures.json", dump_json(figures))
    write_atomic(folder / "wrong.jsonl", dump_json_lines(wrong))
    names = ["line", "text", "label", "predicted", "probability"]
    rows = [[*names, "similar text", "its label", "similarity"]]
    for case in wrong:
        near = (case["nearest"] or [{"text": "", "label": (), "similarity": ""}])[0]
        cells = [*(case[name] for name in names), *near.values()]
        joined = (",".join(map(str, cell)) if isinstance(cell, (list, tuple)) else str(cell) for cell in cells)
        rows.append([" ".join(cell.split()) for cell in joined])
    write_atomic(folder / "wrong.tsv", "".join("\t".join(row) + "\n" for row in rows).encode())


def measured(name: str, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cross-validated figures, as model hubs read them."""
    kinds = {
        "accuracy": ("accuracy", "Accuracy"),
        "macro_f1": ("f1", "Macro F1"),
        "calibration_error": ("expected_calibration_error", "Expected calibration error"),
    }
    metrics = [{"type": kind, "value": report[field], "name": title} for field, (kind, title) in kinds.items()]
    texts = {"type": "own", "name": f"{report['examples']} training texts, {report['folds']}-fold cross-validation"}
    result = {"task": {"type": "text-classification"}, "dataset": texts, "metrics": metrics}
    return [{"name": name, "results": [result]}]


def card_sections(
    report: Mapping[str, Any], inputs: Iterable[str], label_thresholds: DoubleArray, *, multi_label: bool
) -> list[tuple[str, str]]:
    """Sections of the card."""
    names = ["label", "precision", "recall", "f1", "examples", *(["threshold"] if label_thresholds.any() else [])]
    several, whole, chosen = "", "", "Setting and calibration"
    if multi_label:
        several, whole = ", of which a text may have several or none,", " (the whole set of labels is right)"
        chosen = "Setting, calibration and thresholds"
    good = (
        f"Cross-validated on {report['examples']} training texts, {report['folds']} folds, equal texts in one fold: "
        f"accuracy {report['accuracy']:.3f}{whole}, macro F1 {report['macro_f1']:.3f}, expected calibration error "
        f"{report['calibration_error']:.3f}. {chosen} were chosen on the same folds, so new texts "
        "from the same source may do slightly worse, and texts from other sources clearly worse. Measure the "
        "accuracy on your own texts.\n\n" + _table(names, ([row[name] for name in names] for row in report["classes"]))
    )
    if report["confused"]:
        good += "\n\nMost confused:\n\n" + _records(report["confused"][:CONFUSED])
    trust = "Share of right labels by predicted probability:\n\n" + _records(report["reliability"])
    if not multi_label:
        trust += "\n\nShare of answered texts and their accuracy, by `min_probability`:\n\n" + _records(
            report["coverage"]
        )
    tried = [
        {**row, "candidate": f"**{row['candidate']}**"} if row["candidate"] == report["chosen"] else row
        for row in report["candidates"]
    ]
    return [
        (
            "What it is",
            f"Calibrated probabilities of {len(report['classes'])} classes{several or ','} from the views "
            f"{', '.join(f'`{name}`' for name in inputs)} of a text. Load it with `semclass.TextModel.load`, and with the "
            "encoder it was trained with.",
        ),
        (
            "How it was made",
            f"`semclass.TextClassifier`, version {__version__}. The setting in bold was chosen by cross-validation, on "
            f"{report['compared']} texts.\n\n{_records(tried)}",
        ),
        ("How good it is", good),
        ("How far to trust it", trust),
    ]


def _records(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown table of records with the same fields."""
    return _table([name.replace("_", " ") for name in rows[0]], (row.values() for row in rows))


def _table(heads: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Markdown table; a vertical bar in a label must not end its cell."""
    cells = [list(heads), ["---"] * len(heads), *([_cell(item) for item in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _cell(item: Any) -> str:
    if item is None:
        return "-"
    return f"{item:.3f}" if isinstance(item, float) else " ".join(str(item).replace("|", "\\|").split())
