"""The model card of a text classifier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from semclass import __version__
from semclass.core.types import DoubleArray


def _table(heads: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Markdown table; a vertical bar in a label must not end its cell."""
    cells = [list(heads), ["---"] * len(heads), *([_cell(item) for item in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _cell(item: Any) -> str:
    if item is None:
        return "-"
    return f"{item:.3f}" if isinstance(item, float) else " ".join(str(item).replace("|", "\\|").split())


def measured(name: str, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What cross-validation measured, as model hubs read it."""
    metrics = [
        {"type": kind, "value": round(report[field], 4), "name": title}
        for kind, field, title in (
            ("accuracy", "accuracy", "Accuracy"),
            ("f1", "macro_f1", "Macro F1"),
            ("expected_calibration_error", "calibration_error", "Expected calibration error"),
        )
    ]
    texts = {"type": "own", "name": f"{report['examples']} training texts, {report['folds']}-fold cross-validation"}
    result = {"task": {"type": "text-classification"}, "dataset": texts, "metrics": metrics}
    return [{"name": name, "results": [result]}]


def card_sections(
    report: Mapping[str, Any], inputs: Iterable[str], thresholds: DoubleArray | None
) -> list[tuple[str, str]]:
    """Sections of the card, from a classifier's report, its views, and its thresholds if a text may have several labels."""
    columns = ["class", "precision", "recall", "F1", "examples"]
    rows = [list(row.values()) for row in report["classes"]]
    several, whole, chosen = "", "", "Setting and calibration"
    if thresholds is not None:
        several, whole = ", of which a text may have several or none,", " (the whole set of labels is right)"
        chosen = "Setting, calibration and thresholds"
        columns.append("threshold")
        rows = [[*row, threshold] for row, threshold in zip(rows, thresholds.tolist(), strict=True)]
    good = (
        f"Cross-validated on {report['examples']} training texts, {report['folds']} folds, equal texts in one fold: "
        f"accuracy {report['accuracy']:.3f}{whole}, macro F1 {report['macro_f1']:.3f}, expected calibration error "
        f"{report['calibration_error']:.3f}. {chosen} were chosen on the same folds, so new texts "
        "from the same source may do slightly worse, and texts from other sources clearly worse: measure on texts as they "
        "will come.\n\n" + _table(columns, rows)
    )
    trust = "How often is it right when it says so?\n\n" + _table(
        ["probability from", "to", "texts", "mean probability", "share right"],
        [row.values() for row in report["reliability"]],
    )
    if thresholds is None:
        names = [_cell(row["label"]) for row in report["classes"]]
        counts = [[name, *row] for name, row in zip(names, report["confusion"], strict=True)]
        good += "\n\nTrue class (row) and what was said (column):\n\n" + _table(["", *names], counts)
        trust += "\n\nWhat declining below a probability costs and brings:\n\n" + _table(
            ["min_probability", "share answered", "accuracy of these"], [row.values() for row in report["coverage"]]
        )
    tried = []
    for row in report["candidates"]:
        name = f"**{row['candidate']}**" if row["candidate"] == report["chosen"] else row["candidate"]
        tried.append([name, row["accuracy"], row["log_loss"], row["calibration_error"]])
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
