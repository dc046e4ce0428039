"""The report of a fitted text classifier: thresholds and cross-validated figures, in JSON types."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray
from semclass.heads.texts import decide
from semclass.train.calibration import best_threshold, reliability
from semclass.train.fitted import FittedHead
from semclass.train.targets import Targets

COVERAGE = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Values of min_probability whose effect the report shows."""


def report_of(head: FittedHead, targets: Targets) -> tuple[DoubleArray | None, dict[str, Any]]:
    """Thresholds, for several labels a text, and cross-validated figures in JSON types."""
    if head.out_of_fold is None:
        raise ValueError("a head without out-of-fold probabilities cannot be judged")
    judged = np.isfinite(head.out_of_fold[:, 0])
    probabilities, truth = head.out_of_fold[judged], targets.matrix()[judged]
    thresholds = None
    if targets.multi:
        columns = zip(probabilities.T, truth.T, strict=True)
        # a class whose only examples have weight 0 has nothing to choose by
        thresholds = np.array([best_threshold(column, true) if true.any() else 0.5 for column, true in columns])
    said = decide(probabilities, thresholds, 0.0)
    right = (said == truth).all(axis=1)
    report: dict[str, Any] = {
        **{name: head.report[name] for name in ("examples", "folds", "seed", "chosen", "candidates", "compared")},
        "accuracy": float(right.mean()),
        **{name: head.report[name] for name in ("log_loss", "calibration_error")},
        "classes": [
            {"label": label, **_class_figures(said[:, place], truth[:, place])}
            for place, label in enumerate(targets.classes)
        ],
    }
    report["macro_f1"] = float(np.mean([row["f1"] for row in report["classes"]]))
    if thresholds is None:
        confidence = probabilities.max(axis=1)
        report["reliability"] = reliability(confidence, right)
        report["coverage"] = _coverage(confidence, right)
        report["confusion"] = (truth.T.astype(np.int64) @ said).tolist()
    else:
        report["reliability"] = reliability(probabilities.ravel(), truth.ravel())
    return thresholds, _rounded(report)


def _class_figures(said: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Precision, recall and F1 of one class; 0 where there is nothing to divide by."""
    metrics = import_extra("sklearn.metrics", "train")
    found = metrics.precision_recall_fscore_support(true, said, average="binary", zero_division=0.0)
    figures = {name: float(value) for name, value in zip(("precision", "recall", "f1"), found[:3], strict=True)}
    return {**figures, "examples": int(true.sum())}


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


def _rounded(value: Any) -> Any:
    """Round every number in nested JSON types to four places."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value
