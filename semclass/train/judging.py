"""How good a classifier is on texts that it has not seen: figures, thresholds' effect, wrong cases and what was near."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray
from semclass.heads.texts import Label, decide
from semclass.train.precision import precision_thresholds

Flags = npt.NDArray[np.bool_]

PRECISIONS = (0.9, 0.95, 0.99)
"""Precisions whose coverage is shown."""

REJECTION_RATE = 0.04
"""Share of the texts with a label that may be rejected where the recall of texts out of domain is measured."""


@dataclass(frozen=True)
class Judged:
    """Texts with their labels, and what was said of them by a head that had not seen them.

    Attributes
    ----------
    texts, labels
        n texts and the labels of each; a label that the head does not know means out of domain.
    places
        Of the n texts, in the file that they come from.
    classes
        The head's labels, in column order.
    probabilities
        float64 of shape (n, n_classes).
    label_thresholds, multi_label
        As `TextClassifier.label_thresholds_` and `TextClassifier.multi_label`.
    support
        By how much what speaks for any class at all is above the least that is asked, (n,); None where nothing is asked.
    """

    texts: Sequence[str]
    labels: Sequence[tuple[Label, ...]]
    places: Sequence[int]
    classes: tuple[Label, ...]
    probabilities: DoubleArray
    label_thresholds: DoubleArray
    multi_label: bool
    support: DoubleArray | None = None

    @property
    def truth(self) -> Flags:
        """Which text has which class, (n, n_classes); no class for a text out of domain."""
        column = {label: place for place, label in enumerate(self.classes)}
        found = np.zeros(self.probabilities.shape, np.bool_)
        pairs = [(row, column[label]) for row, labels in enumerate(self.labels) for label in labels if label in column]
        found[tuple(np.array(pairs, np.int64).reshape(-1, 2).T)] = True
        return found

    @property
    def known(self) -> Flags:
        """Which texts have labels that the head knows, or none, (n,)."""
        return np.array([set(labels) <= set(self.classes) for labels in self.labels], np.bool_)

    @property
    def said(self) -> Flags:
        """What the head says at its thresholds, (n, n_classes)."""
        said = decide(self.probabilities, self.label_thresholds, multi_label=self.multi_label)
        return said if self.support is None else said & (self.support >= 0)[:, None]

    @property
    def said_plainly(self) -> Flags:
        """What it would say if it never abstained, (n, n_classes)."""
        return decide(
            self.probabilities, self.label_thresholds if self.multi_label else 0.0, multi_label=self.multi_label
        )

    @property
    def ood(self) -> Flags:
        """Which texts are out of domain, (n,): the head knows none of their labels."""
        known = set(self.classes)
        return np.array([bool(labels) and not known.intersection(labels) for labels in self.labels], np.bool_)


def figures(
    judged: Judged, target_precision: float | None, held_out: tuple[DoubleArray, Flags] | None = None
) -> dict[str, Any]:
    """Figures in JSON types.

    `held_out` are probabilities and truth that thresholds are chosen on. None: those that are judged, one half at a time,
    with thresholds from the other half.
    """
    truth = judged.truth
    plain = judged.said_plainly
    known = judged.known
    right, given, count = ((flags[known]).sum(axis=0) for flags in (plain & truth, plain, truth))
    rows: list[dict[str, Any]] = [
        {
            "label": label,
            "n": int(count[place]),
            "precision": float(right[place] / max(given[place], 1)),
            "recall": float(right[place] / max(count[place], 1)),
            "f1": float(2 * right[place] / max(given[place] + count[place], 1)),
            "threshold": float(judged.label_thresholds[place]),
        }
        for place, label in enumerate(judged.classes)
    ]
    seen = [float(row["f1"]) for row in rows if row["n"]]
    found: dict[str, Any] = {
        "texts": len(judged.texts),
        "accuracy": float((plain == truth).all(axis=1)[known].mean()) if known.any() else None,
        "macro_f1": float(np.mean(seen)) if seen else None,
        "labels": rows,
        "confused": [] if judged.multi_label else _confused(judged, plain),
        "coverage": [
            _coverage(judged, goal, held_out)
            for goal in sorted({*PRECISIONS, *([target_precision] if target_precision else [])})
        ],
    }
    ood = judged.ood
    if ood.any() and not judged.multi_label:
        found["ood"] = _ood(judged, ood)
    rounded: dict[str, Any] = json.loads(json.dumps(found), parse_float=lambda number: round(float(number), 4))
    return rounded


def _confused(judged: Judged, said: Flags) -> list[dict[str, Any]]:
    """Pairs of labels of which one was taken for the other, most often first."""
    best = [judged.classes[place] for place in said.argmax(axis=1).tolist()]
    pairs = Counter((labels[0], other) for labels, other in zip(judged.labels, best, strict=True) if labels[0] != other)
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], str(item[0])))
    return [{"label": one, "predicted": other, "n": count} for (one, other), count in ranked]


def _coverage(judged: Judged, target_precision: float, held_out: tuple[DoubleArray, Flags] | None) -> dict[str, Any]:
    """What thresholds for a precision cost and bring, on the texts whose labels the head knows."""
    multi_label, known = judged.multi_label, judged.known
    probabilities, truth = judged.probabilities[known], judged.truth[known]
    if held_out is not None:
        chosen = precision_thresholds(*held_out, target_precision, multi_label=multi_label)
        said = decide(probabilities, chosen, multi_label=multi_label)
    else:
        said, order = np.zeros(truth.shape, np.bool_), np.random.default_rng(0).permutation(len(probabilities))
        for one, other in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            chosen = precision_thresholds(probabilities[one], truth[one], target_precision, multi_label=multi_label)
            said[other] = decide(probabilities[other], chosen, multi_label=multi_label)
    given, right = said.sum(axis=0), (said & truth).sum(axis=0)
    return {
        "target_precision": target_precision,
        "answered": float(said.any(axis=1).mean()),
        "precision": float(right.sum() / given.sum()) if given.any() else None,
        "mean_precision": float((right[given > 0] / given[given > 0]).mean()) if given.any() else None,
        "recall": float(right.sum() / max(truth.sum(), 1)),
        "never_said": [judged.classes[place] for place in np.flatnonzero(given == 0).tolist()],
    }


def _ood(judged: Judged, ood: Flags) -> dict[str, Any]:
    """How many texts out of domain are rejected: by the head as it is, and at the same rejection rate for every head."""
    sureness = judged.probabilities.max(axis=1) if judged.support is None else judged.support
    rejected: Flags = np.logical_not(judged.said.any(axis=1))
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
    truth, plain = judged.truth, judged.said_plainly
    rows = np.flatnonzero(np.where(judged.known, (plain != truth).any(axis=1), judged.said.any(axis=1)))
    sure = judged.probabilities.max(axis=1)
    return sorted(rows.tolist(), key=lambda row: (-sure[row], row))
