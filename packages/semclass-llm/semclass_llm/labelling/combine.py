"""Combines labels of two sources: many labels by a teacher that is often wrong, and few labels that a person checked.

The labels of the person stay. For all other texts, the teacher's label is weighed against a head that was trained on
the person's labels alone. The weight is the head's probability of a label, times how often the teacher gives its label
when that label is right. This frequency is counted on the checked texts, as Dawid and Skene 1979 weigh observers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray
from semclass.train.estimators import TextClassifier

Labels = tuple[str, ...]

PSEUDO = 2.0
"""Number of checked texts that a teacher's overall accuracy counts for, for each label."""

UNSEEN = 0.1
"""Share of the teacher's own label frequencies in the head's probabilities, so that labels without a checked text stay
possible.
"""


def combine(taught: Mapping[str, Labels], checked: Mapping[str, Labels], head: TextClassifier) -> dict[str, Labels]:
    """Give labels to all texts.

    Parameters
    ----------
    taught, checked
        Labels by text, of the teacher and of a person. Some texts must be in both mappings.
    head
        A classifier that is fitted to the checked labels.

    Raises
    ------
    InputError
        If no text is in both mappings.
    """
    both = [text for text in checked if text in taught]
    if not both:
        raise InputError(
            f"none of {counted(len(checked), 'checked text')} has a label of the language model; check texts of its file"
        )
    classes = sorted({name for source in (taught, checked) for labels in source.values() for name in labels})
    rest = [text for text in taught if text not in checked]
    truth, said = _matrix(both, checked, classes), _matrix(both, taught, classes)
    if not rest:
        return dict(checked)
    multi_label = bool(head.multi_label)
    given = _matrix(rest, taught, classes)
    prior = np.tile(given.mean(axis=0), (len(rest), 1))
    columns = [classes.index(str(name)) for name in head.classes_.tolist()]
    seen = prior.copy()
    seen[:, columns] = head.predict_proba(rest)
    probabilities = (1 - UNSEEN) * seen + UNSEEN * prior
    weigh = weigh_multi_label if multi_label else weigh_single_label
    found = weigh(probabilities, given, truth, said)
    chosen = found >= 0.5 if multi_label else np.arange(len(classes)) == found.argmax(axis=1)[:, None]
    labels = [tuple(classes[at] for at in np.flatnonzero(row)) for row in chosen]
    return {**checked, **dict(zip(rest, labels, strict=True))}


def weigh_single_label(
    probabilities: DoubleArray, given: DoubleArray, truth: DoubleArray, said: DoubleArray
) -> DoubleArray:
    """Return the probabilities of labels of which one is right, float64 (n, classes).

    `probabilities` and the teacher's labels, `given`, are of n texts. `truth` and the teacher's labels, `said`, are of
    the checked texts.
    """
    right = ((truth * said).sum() + 1) / (len(truth) + 2)
    frequency = (said.sum(axis=0) + 1) / (len(said) + said.shape[1])
    guess = right * np.eye(said.shape[1]) + (1 - right) * frequency  # (right label, what the teacher says)
    likely = (truth.T @ said + PSEUDO * guess) / (truth.sum(axis=0)[:, None] + PSEUDO)
    found = probabilities * (given @ likely.T)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def weigh_multi_label(
    probabilities: DoubleArray, given: DoubleArray, truth: DoubleArray, said: DoubleArray
) -> DoubleArray:
    """Return the probabilities of labels of which each is right or not.

    Takes the same arguments as :func:`weigh_single_label`.
    """
    right = ((truth == said).sum(axis=0) + 1) / (len(truth) + 2)
    yes = ((truth * said).sum(axis=0) + PSEUDO * right) / (truth.sum(axis=0) + PSEUDO)
    wrong_yes = (((1 - truth) * said).sum(axis=0) + PSEUDO * (1 - right)) / ((1 - truth).sum(axis=0) + PSEUDO)
    for_it = probabilities * np.where(given == 1, yes, 1 - yes)
    against = (1 - probabilities) * np.where(given == 1, wrong_yes, 1 - wrong_yes)
    return np.asarray(for_it / (for_it + against))


def _matrix(texts: Sequence[str], labels: Mapping[str, Labels], classes: Sequence[str]) -> DoubleArray:
    """0 and 1, float64 (n, classes)."""
    return np.array([[float(name in labels[text]) for name in classes] for text in texts])
