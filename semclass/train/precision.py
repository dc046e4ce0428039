"""Thresholds by which the labels of a classifier reach a target precision."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray

PRIOR = 10.0
"""As how many texts the calibrated probabilities count beside those whose label is known. On halves of the training texts
of two intent sets, with a target of 0.95, 3 to 30 came nearest to it; trusting probabilities alone lost 1 to 3 points."""


def precision_thresholds(
    probabilities: DoubleArray,  # (n, n_classes), of texts that were not fitted on
    truth: npt.NDArray[np.bool_],  # (n, n_classes)
    target_precision: float,
    *,
    multi_label: bool,  # whether a text may have several classes; otherwise only its most probable one is looked at
) -> DoubleArray:
    """Give each class the lowest probability from which it reaches the target precision, float64 of shape (n_classes,).

    The precision above a probability is that of the texts above it, blended with their mean probability as if that stood
    for `PRIOR` more texts: a class with few texts is judged by its probabilities, one with many by what was right. Where no
    probability is enough, the threshold lies above all that were seen.
    """
    best = probabilities.argmax(axis=1)
    found = np.zeros(probabilities.shape[1])
    for place, column in enumerate(probabilities.T):
        rows = np.arange(len(column)) if multi_label else np.flatnonzero(best == place)
        found[place] = _threshold(column[rows], truth[rows, place], target_precision)
    return found


def _threshold(probabilities: DoubleArray, right: npt.NDArray[np.bool_], target_precision: float) -> float:
    """Threshold of one class, from the texts that might get it."""
    order = np.argsort(-probabilities, kind="stable")
    falling, count = probabilities[order], np.arange(1, len(order) + 1)
    if not len(order):
        return target_precision  # calibrated: a text with this probability is right as often
    precision = (np.cumsum(right[order]) + PRIOR * np.cumsum(falling) / count) / (count + PRIOR)
    below = np.append(falling[1:], 0.0)
    good = np.flatnonzero((precision >= target_precision) & (falling > below))
    if not len(good):
        return float(min(max(target_precision, np.nextafter(falling[0], 2.0)), 1.0))
    last = int(good[-1])
    return 0.0 if last == len(order) - 1 else float((falling[last] + below[last]) / 2)
