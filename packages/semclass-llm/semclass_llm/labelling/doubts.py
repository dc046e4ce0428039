"""Finds labels that are probably wrong, by confident learning with the library cleanlab.

See Northcutt, Jiang and Chuang 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semclass.core.errors import InputError, import_extra
from semclass.core.types import DoubleArray
from semclass.heads.texts import Label


@dataclass(frozen=True)
class Doubt:
    """A text whose labels are doubtful.

    Attributes
    ----------
    place
        Place of the text in the given texts.
    quality
        How well the labels of the text agree with the probabilities, from 0 to 1.
    labels
        Labels that the probabilities suggest instead.
    """

    place: int
    quality: float
    labels: tuple[Label, ...]


def doubts(
    labels: Sequence[tuple[Label, ...]],
    classes: Sequence[Label],
    probabilities: DoubleArray,
    *,
    multi_label: bool = False,
) -> list[Doubt]:
    """Sort texts by the doubt about their labels, most doubtful first.

    Parameters
    ----------
    labels
        The labels of n texts. A text has one label, or any number of labels with `multi_label`.
    classes
        The classes, in the order of the columns of the probabilities.
    probabilities
        Probabilities from a head that was not trained on the labels, float64 of shape (n, n_classes).
    multi_label
        Whether a text may have several labels.

    Raises
    ------
    InputError
        If a label is not one of the classes.
    MissingExtraError
        If cleanlab is not installed.
    """
    column = {name: place for place, name in enumerate(classes)}
    if unknown := {name for row in labels for name in row} - set(column):
        raise InputError(
            f"the head has no label {sorted(map(str, unknown))[0]!r}; its labels are {', '.join(map(str, classes))}"
        )
    places: list[Any] = [[column[name] for name in row] for row in labels]
    if multi_label:
        rank = import_extra("cleanlab.multilabel_classification", "label")
        quality = rank.get_label_quality_scores(places, probabilities)
        others = [tuple(name for name, p in zip(classes, row, strict=True) if p >= 0.5) for row in probabilities]
    else:
        rank = import_extra("cleanlab.rank", "label")
        given = np.array([row[0] for row in places], np.int64)
        quality = rank.get_label_quality_scores(given, probabilities, method="normalized_margin")
        others = [(classes[int(at)],) for at in probabilities.argmax(axis=1)]
    order = np.argsort(quality, kind="stable")
    return [Doubt(int(place), float(quality[place]), others[place]) for place in order]
