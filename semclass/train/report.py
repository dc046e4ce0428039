"""The report of a fitted text classifier: thresholds, cross-validated figures in JSON types, and its model card."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass import __version__
from semclass.core.types import DoubleArray
from semclass.heads.texts import decide
from semclass.train.calibration import best_threshold, reliability
from semclass.train.fitted import FittedHead
from semclass.train.precision import precision_thresholds
from semclass.train.text_data import Targets

COVERAGE = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Values of min_probability whose effect the report shows."""


def report_of(
    head: FittedHead, targets: Targets, target_precision: float | None = None
) -> tuple[DoubleArray, dict[str, Any]]:
    """Thresholds of the labels, float64 of shape (n_classes,), and cross-validated figures in JSON types.

    The thresholds are those of the target precision. Without one they are best for F1 where a text may have several labels,
    and 0 where it has one.
    """
    if head.out_of_fold is None:
        raise ValueError("a head without out-of-fold probabilities cannot be judged")
    judged = np.isfinite(head.out_of_fold[:, 0])
    probabilities, truth = head.out_of_fold[judged], targets.matrix()[judged]
    if target_precision is not None:
        thresholds = precision_thresholds(probabilities, truth, target_precision, multi_label=targets.multi_label)
    elif targets.multi_label:
        columns = zip(probabilities.T, truth.T, strict=True)
        # a class whose only examples have weight 0 has nothing to choose by
        thresholds = np.array([best_threshold(column, true) if true.any() else 0.5 for column, true in columns])
    else:
        thresholds = np.zeros(len(targets.classes))
    # before any abstention
    said = decide(probabilities, thresholds if targets.multi_label else 0.0, multi_label=targets.multi_label)
    right = (said == truth).all(axis=1)
    report: dict[str, Any] = {
        **{name: head.report[name] for name in ("examples", "folds", "seed", "chosen", "candidates", "compared")},
        **{name: head.report[name] for name in ("log_loss", "calibration_error")},
        **{name: head.report[name] for name in ("rejected", "rejected_ood") if name in head.report},
        "accuracy": float(right.mean()),
        "classes": _class_figures(targets, said, truth),
    }
    report["macro_f1"] = float(np.mean([row["f1"] for row in report["classes"]]))
    if targets.multi_label:
        report["reliability"] = reliability(probabilities.ravel(), truth.ravel())
    else:
        confidence = probabilities.max(axis=1)
        report["reliability"] = reliability(confidence, right)
        report["coverage"] = _coverage(confidence, right)
        report["confusion"] = (truth.T.astype(np.int64) @ said).tolist()
    return thresholds, json.loads(json.dumps(report), parse_float=lambda number: round(float(number), 4))


def _class_figures(targets: Targets, said: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class; 0 where there is nothing to divide by."""
    right, given, examples = (flags.sum(axis=0) for flags in (said & true, said, true))
    figures = {
        "label": targets.classes,
        "precision": (right / np.maximum(given, 1)).tolist(),
        "recall": (right / np.maximum(examples, 1)).tolist(),
        "f1": (2 * right / np.maximum(given + examples, 1)).tolist(),
        "examples": examples.tolist(),
    }
    return [dict(zip(figures, row, strict=True)) for row in zip(*figures.values(), strict=True)]


def _coverage(confidence: DoubleArray, right: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """For some values of min_probability: the share of texts that get an answer, and the share of those that are right."""
    return [
        {
            "min_probability": least,
            "answered": float(sure.mean()),
            "accuracy": float(right[sure].mean()) if sure.any() else None,
        }
        for least in COVERAGE
        for sure in [confidence >= least]
    ]


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
    columns = ["class", "precision", "recall", "F1", "examples"]
    rows = [list(row.values()) for row in report["classes"]]
    several, whole, chosen = "", "", "Setting and calibration"
    if multi_label:
        several, whole = ", of which a text may have several or none,", " (the whole set of labels is right)"
        chosen = "Setting, calibration and thresholds"
    if label_thresholds.any():
        columns.append("threshold")
        rows = [[*row, threshold] for row, threshold in zip(rows, label_thresholds.tolist(), strict=True)]
    good = (
        f"Cross-validated on {report['examples']} training texts, {report['folds']} folds, equal texts in one fold: "
        f"accuracy {report['accuracy']:.3f}{whole}, macro F1 {report['macro_f1']:.3f}, expected calibration error "
        f"{report['calibration_error']:.3f}. {chosen} were chosen on the same folds, so new texts "
        "from the same source may do slightly worse, and texts from other sources clearly worse. Measure the "
        "accuracy on your own texts.\n\n" + _table(columns, rows)
    )
    trust = "Share of right labels by predicted probability:\n\n" + _table(
        ["probability from", "to", "texts", "mean probability", "share right"],
        [row.values() for row in report["reliability"]],
    )
    if not multi_label:
        names = [_cell(row["label"]) for row in report["classes"]]
        counts = [[name, *row] for name, row in zip(names, report["confusion"], strict=True)]
        good += "\n\nTrue class (row) and predicted class (column):\n\n" + _table(["", *names], counts)
        trust += "\n\nShare of answered texts and their accuracy, by `min_probability`:\n\n" + _table(
            ["min_probability", "share answered", "accuracy of these"], [row.values() for row in report["coverage"]]
        )
    tried = [
        [f"**{name}**" if name == report["chosen"] else name, *figures]
        for name, *figures in (row.values() for row in report["candidates"])
    ]
    return [
        (
            "What it is",
            f"Calibrated probabilities of {len(rows)} classes{several or ','} from the views "
            f"{', '.join(f'`{name}`' for name in inputs)} of a text. Load it with `semclass.TextModel.load`, and with the "
            "encoder it was trained with.",
        ),
        (
            "How it was made",
            f"`semclass.TextClassifier`, version {__version__}. The setting in bold was chosen by cross-validation, on "
            f"{report['compared']} texts.\n\n"
            + _table(["setting", "accuracy", "log loss", "calibration error"], tried),
        ),
        ("How good it is", good),
        ("How far to trust it", trust),
    ]


def _table(heads: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Markdown table; a vertical bar in a label must not end its cell."""
    cells = [list(heads), ["---"] * len(heads), *([_cell(item) for item in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _cell(item: Any) -> str:
    if item is None:
        return "-"
    return f"{item:.3f}" if isinstance(item, float) else " ".join(str(item).replace("|", "\\|").split())
