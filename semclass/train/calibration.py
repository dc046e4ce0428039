"""From scores to probabilities and thresholds, and how far they can be trusted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, IntArray

FLAT = 0.003  # thresholds whose F1 is within this of the best count as equally good; the middle one is taken
_CLIP = 1e-12

PRIOR = 10.0
"""As how many texts the calibrated probabilities count beside those whose label is known. On halves of the training texts
of two intent sets, with a target of 0.95, 3 to 30 came nearest to it; trusting probabilities alone lost 1 to 3 points."""


def probabilities_of(scores: DoubleArray, link: str) -> DoubleArray:
    """Turn calibrated scores into probabilities."""
    if link == "sigmoid":
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)), np.float64)  # the same as 1 / (1 + exp(-x)), never overflows
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: DoubleArray = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def log_loss(probabilities: DoubleArray, truth: IntArray, link: str, weight: DoubleArray | None = None) -> float:
    """Mean negative logarithm of the probability of the truth."""
    if link == "sigmoid":
        right = np.where(truth == 1, probabilities, 1 - probabilities)
    else:
        right = probabilities[np.arange(len(probabilities)), truth][:, None]
    losses = -np.log(np.maximum(right, _CLIP)).mean(axis=1)
    return float(np.average(losses, weights=weight))


def calibrate(
    scores: DoubleArray, truth: IntArray, link: str, weight: DoubleArray | None = None
) -> tuple[DoubleArray, DoubleArray]:
    """Slope and intercept that make held-out scores probabilities.

    Softmax gets one temperature (Guo et al. 2017, "On Calibration of Modern Neural Networks"), each sigmoid a slope and an
    intercept (Platt 1999). Targets are smoothed as Platt does: a few right texts do not make an answer certain.
    """
    if link == "sigmoid":
        pairs = [_platt(column, right, weight) for column, right in zip(scores.T, truth.T, strict=True)]
        return np.array([slope for slope, _ in pairs]), np.array([intercept for _, intercept in pairs])
    optimise = import_extra("scipy.optimize", "train")
    # rule of succession: one of n + 2 would be wrong, of any other class
    slip = 1 / (len(truth) + 2 if weight is None else weight.sum() + 2)
    others = slip / max(scores.shape[1] - 1, 1)
    smoothed = np.full(scores.shape, others)
    smoothed[np.arange(len(truth)), truth] = 1 - slip

    def loss(log_slope: float) -> float:
        logs = np.log(np.maximum(probabilities_of(np.exp(log_slope) * scores, "softmax"), _CLIP))
        return float(np.average(-(smoothed * logs).sum(axis=1), weights=weight))

    found = optimise.minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-4})
    # digits behind the tolerance are noise, by which equal data in another order would differ
    return np.array([float(np.exp(round(float(found.x), 4)))]), np.zeros(1)


def _platt(scores: DoubleArray, truth: IntArray, weight: DoubleArray | None) -> tuple[float, float]:
    """Slope and intercept of one column."""
    optimise = import_extra("scipy.optimize", "train")
    positives = float(truth.sum() if weight is None else truth @ weight)
    negatives = float(len(truth) if weight is None else weight.sum()) - positives
    smoothed = np.where(truth == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    scale = max(float(scores.std()), _CLIP)

    def loss(parameters: DoubleArray) -> float:
        # the slope is an exponential, so that a higher score never means a lower probability
        logits = np.exp(np.clip(parameters[0], -10, 10)) / scale * scores + parameters[1]
        return float(np.average(np.logaddexp(0.0, logits) - smoothed * logits, weights=weight))

    start = np.array([0.0, np.log(max(positives, 0.5) / max(negatives, 0.5))])
    found = optimise.minimize(loss, start, method="BFGS")
    return float(np.exp(np.clip(found.x[0], -10, 10)) / scale), float(found.x[1])


def expected_calibration_error(
    probabilities: DoubleArray, right: npt.NDArray[np.bool_], bins: int = 10, weight: DoubleArray | None = None
) -> float:
    """Mean distance between confidence and accuracy (Guo et al. 2017, eq. 3)."""
    weight = np.ones(len(probabilities)) if weight is None else weight
    gaps = np.bincount(_bins(probabilities, bins), weights=(probabilities - right) * weight, minlength=bins)
    return float(np.abs(gaps).sum() / weight.sum())


def reliability(probabilities: DoubleArray, right: npt.NDArray[np.bool_], bins: int = 10) -> list[dict[str, float]]:
    """Confidence and accuracy in equal bins of [0, 1], what a reliability diagram shows."""
    places, rows = _bins(probabilities, bins), list[dict[str, float]]()
    for place in np.unique(places).tolist():
        inside = places == place
        row = {"from": place / bins, "to": (place + 1) / bins, "count": int(inside.sum())}
        rows.append({**row, "probability": float(probabilities[inside].mean()), "share": float(right[inside].mean())})
    return rows


def _bins(probabilities: DoubleArray, bins: int) -> IntArray:
    """Number of the bin that each probability falls into."""
    return np.minimum((probabilities * bins).astype(np.int64), bins - 1)


def best_threshold(
    probabilities: DoubleArray, truth: npt.NDArray[np.bool_], weight: DoubleArray | None = None
) -> float:
    """Threshold with the best F1; of those within `FLAT` of it the middle one, which another sample moves least."""
    order = np.argsort(-probabilities, kind="stable")
    falling = probabilities[order]
    said = np.ones(len(truth)) if weight is None else weight[order]
    right = said * truth[order]
    f1 = 2 * np.cumsum(right) / (np.cumsum(said) + right.sum())
    below = np.append(falling[1:], 0.0)
    possible = falling > below
    good = possible & (f1 >= f1[possible].max() - FLAT)
    return float(np.median((falling + below)[good] / 2))


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
