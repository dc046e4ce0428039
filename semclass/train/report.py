"""Reports on a classifier: cross-validated figures, figures on other texts, and wrong cases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import dump_json, dump_json_lines, write_atomic
from semclass.core.types import ClassName, DoubleArray, Encoder, FloatArray
from semclass.heads.head import decide
from semclass.scoring.vectors import unit
from semclass.train.fit import Targets
from semclass.train.fitted import FittedHead, best_threshold, precision_thresholds, reliability

if TYPE_CHECKING:
    from semclass.documents.labelled import LabelledTexts

Flags = npt.NDArray[np.bool_]

PRECISIONS = (0.9, 0.95, 0.99)  # precisions whose coverage is shown

NEIGHBOURS = 3  # training examples that are shown for a wrong case
COVERAGE = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # values of min_probability whose effect the report shows


def report_of(
    head: FittedHead, targets: Targets, texts: Sequence[str], target_precision: float | None = None
) -> tuple[DoubleArray, dict[str, Any]]:
    """Compute the thresholds of labels, float64 of shape (n_classes,), and cross-validated figures in JSON types.

    The thresholds are those of the target precision. Without a target, they are 0 if each text has one label, and best for
    F1 if texts may have several.
    """
    if head.out_of_fold is None:
        raise ValueError("a head without out-of-fold probabilities cannot be judged")
    probabilities, truth = head.out_of_fold, targets.matrix()
    thresholds = np.zeros(len(targets.classes))
    if target_precision is not None:
        thresholds = precision_thresholds(probabilities, truth, target_precision, multi_label=targets.multi_label)
    elif targets.multi_label:
        columns = zip(probabilities.T, truth.T, strict=True)
        thresholds = np.array([best_threshold(column, true) for column, true in columns])
    places = range(len(texts))
    judged = Judged(texts, targets.rows, places, targets.classes, probabilities, thresholds, targets.multi_label)
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
class Examples:
    """The n texts that a head was trained on."""

    texts: Sequence[str]
    labels: Sequence[tuple[ClassName, ...]]
    view: str  # of the encoder
    vectors: FloatArray  # (n, dim)

    def nearest(self, texts: Sequence[str], encoder: Encoder, *, others: bool) -> list[list[dict[str, Any]]]:
        """Find the `NEIGHBOURS` examples with the largest cosine, after subtracting the mean of all examples.

        If `others` is true, an example is not its own neighbour.
        """
        if not texts:
            return []
        rows, kept, found = encoder.encode(texts, views=[self.view]).rows(self.view), unit(self.vectors), []
        mean = kept.mean(axis=0)  # what all have in common says nothing
        kept, names = unit(kept - mean), np.array([" ".join(text.lower().split()) for text in self.texts], object)
        for text, row in zip(texts, unit(unit(rows) - mean), strict=True):
            similar = kept @ row
            if others:
                similar[names == " ".join(text.lower().split())] = -np.inf
            best = np.argsort(-similar, kind="stable")[:NEIGHBOURS]
            found.append(
                [
                    {"text": self.texts[n], "label": self.labels[n], "similarity": round(float(similar[n]), 3)}
                    for n in best[np.isfinite(similar[best])].tolist()
                ]
            )
        return found


@dataclass(frozen=True)
class Judged:
    """Texts with their labels, and their probabilities from a head that was not trained on them."""

    texts: Sequence[str]  #: n texts
    labels: Sequence[
        tuple[ClassName, ...]
    ]  #: labels of each text; a label that the head does not know means out of domain
    places: Sequence[int]  #: lines of the n texts in their file
    classes: tuple[ClassName, ...]  #: the head's labels, in column order
    probabilities: DoubleArray  #: float64 of shape (n, n_classes)
    label_thresholds: DoubleArray  #: as `TextClassifier.label_thresholds_`
    multi_label: bool  #: as `TextClassifier.multi_label`

    @property
    def truth(self) -> Flags:
        """Whether each text has each class, (n, n_classes). A text out of domain has none."""
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
        return decide(self.probabilities, self.label_thresholds, multi_label=self.multi_label)

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


def judged(model: Any, data: LabelledTexts, probabilities: DoubleArray) -> Judged:
    """Join texts with the probabilities from a head that was fitted without them."""
    return Judged(
        data.texts, data.labels, data.lines, model.classes, probabilities, model.label_thresholds_, model.multi_label
    )


def held_out(model: Any, data: LabelledTexts) -> Judged:
    """Join the training texts of a model with their out-of-fold probabilities."""
    return judged(model, data, model.out_of_fold_)


def figures(judged: Judged, target_precision: float | None, held_out: Judged | None = None) -> dict[str, Any]:
    """Compute figures in JSON types.

    Thresholds for a precision are chosen on the texts of `held_out`. If it is None, each half of the texts gets thresholds
    from the other half.
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
    """Measure how many texts out of domain, and how many others, the thresholds reject."""
    rejected: Flags = np.logical_not(judged.accepted.any(axis=1))
    others = float(rejected[~ood].mean()) if (~ood).any() else None
    return {"texts": int(ood.sum()), "rejected": float(rejected[ood].mean()), "others_rejected": others}


def wrong_rows(judged: Judged) -> list[int]:
    """Return rows of wrongly labelled texts (if never abstaining), and of accepted texts out of domain, surest first."""
    truth, plain = judged.truth, judged.best
    rows = np.flatnonzero(np.where(judged.known, (plain != truth).any(axis=1), judged.accepted.any(axis=1)))
    sure = judged.probabilities.max(axis=1)
    return sorted(rows.tolist(), key=lambda row: (-sure[row], row))


def wrong_cases(examples: Examples, judged: Judged, encoder: Encoder, *, own: bool) -> list[dict[str, Any]]:
    """Return wrong cases with their nearest training examples. If `own`, the judged texts are the training texts."""
    rows = wrong_rows(judged)
    near = examples.nearest([judged.texts[row] for row in rows], encoder, others=own)
    return [
        {
            "line": judged.places[row],
            "text": judged.texts[row],
            "label": judged.labels[row],
            "predicted": [judged.classes[place] for place in predicted.nonzero()[0]],
            "probability": round(float(judged.probabilities[row].max()), 4),
            "nearest": nearest,
        }
        for row, predicted, nearest in zip(rows, judged.best[rows], near, strict=True)
    ]


def write_report(folder: Path, figures: Mapping[str, Any], wrong: Sequence[Mapping[str, Any]]) -> None:
    """Write figures as JSON, and wrong cases as JSON lines and as a table."""
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
