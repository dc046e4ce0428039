"""Fit a head: from views of labelled texts to a few arrays, chosen by cross-validation and calibrated on held-out scores.

Where a text has one label, a head is a logistic regression over a Gaussian kernel between texts, computed with at most
`LANDMARKS` of them (Williams and Seeger 2001). Where it may have several, each label has a linear logistic regression over
standardised views.

Names of classes may count as examples. Views, names and regularisation are those of the least cross-validated log loss.
Coordinates are rounded to the 8 bits that they are stored in before the weights are solved for: the head that is saved is
the head that was cross-validated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, IntArray
from semclass.train.data import Fold, Problem, Say, folds_of
from semclass.train.fitted import (
    SMALLEST,
    FittedHead,
    Projection,
    Quantised,
    calibrate,
    expected_calibration_error,
    log_loss,
    probabilities_of,
    squared_distances,
)

KINDS = {"sigmoid": "logistic", "softmax": "kernel"}
"""Name of the regression of each link."""

STRENGTHS = {"sigmoid": 100.0, "softmax": 30.0}
"""Inverse regularisation C that is tried first for each link; the mean squared distance of texts is 1."""

STEP = 10**0.5  # factor between the values of C that are tried until none is better
GAIN = 0.995  # share of the log loss that a further value of C must reach
SEARCH_TEXTS, SEARCH_FOLDS = 2000, 3  # on at most so many texts, of all classes, settings are compared, and folds
LANDMARKS = 3000  # texts at most that others are compared with
COMPONENTS = 384  # principal components at most of each view
COORDINATES, SEARCH_COORDINATES = 1500, 500  # of a kernel, the principal ones, that a head reads, and in the search
GAMMA = 1.0  # of the Gaussian kernel exp(-gamma d**2)
JITTER = 1e-5  # on the diagonal of the landmarks' kernel, as near-duplicates make it singular
MAX_STEPS, TOLERANCE = 100, 1e-5  # of a logistic regression
STEEPNESS = 0.00003  # about p (1 - p) of a class where a regression ends, by which its coordinates are scaled
FLAT = 0.01  # share of the median deviation of a view's columns below which one says nothing; some models have such
NO_VARIANCE = 1e-10  # share of the first principal axis's variance below which an axis is rounding error
PROPORTIONAL = ("pooled",)  # views whose columns keep their proportions; the columns of others are standardised

Solution: TypeAlias = tuple[DoubleArray, DoubleArray]  # weights of features (r, classes) and biases (classes,)


@dataclass(frozen=True)
class Choice:
    """A setting that cross-validation may choose."""

    weights: Mapping[str, float]  # share of each view in the squared distance of texts
    names: bool = False  # whether names of classes count as examples

    def __str__(self) -> str:
        whole = sum(self.weights.values())
        shares = (f"{weight / whole:.2g} {view}" if weight < whole else view for view, weight in self.weights.items())
        return f"{' + '.join(shares)}{' + names' * self.names}"


@dataclass(frozen=True)
class Space:
    """Examples of a problem in the coordinates in which the head is linear."""

    projection: Projection
    landmarks: Quantised | None  # (m, components)
    features: npt.NDArray[Any]  # (n + further, r): along principal axes
    lengths: DoubleArray  # (r,): squared lengths of the columns, as weighted
    back: DoubleArray  # (m or components, r): from weights of features to those of landmarks or components


def fit_problem(
    problem: Problem,
    choices: Sequence[Choice],
    groups: Sequence[str] | None,
    *,
    folds: int | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    seed: int,
    say: Say,
    landmarks: int = LANDMARKS,
) -> FittedHead:
    """Choose a setting and its regularisation by stratified cross-validation, fit it to all texts, and calibrate it.

    The probabilities are calibrated on scores of heads that did not see the text. Texts of one group, such as
    near-duplicates, are kept in one fold. `folds` is their number, or rows to fit on and rows to score. `say` is called
    with a line of text for each step. Raises an InputError for data that no head can be fitted to.
    """
    splits = folds_of(problem, groups, folds, seed)
    winner, tried, compared = _search(problem, choices, splits, landmarks, say)
    best, strength = winner.choice, winner.strength
    chosen = _named(problem, best, strength)
    say(f"fitting {chosen}")
    space = space_of(problem, best, landmarks)
    held_out, solutions = _held_out(problem, space, best, strength, splits)
    scored = np.flatnonzero(np.isfinite(held_out[: len(problem.truth)]).all(axis=1))
    judged, (slope, intercept), figures = judge(problem, held_out[: len(problem.truth)], scored)
    uncalibrated = probabilities_of(held_out[scored], problem.link)
    figures["uncalibrated_log_loss"] = log_loss(
        uncalibrated, problem.truth[scored], problem.link, problem.weight[scored]
    )
    rows = np.concatenate([problem.used, *([problem.names] if best.names else [])])
    start = tuple(np.mean(part, axis=0) for part in zip(*solutions, strict=True))
    solved = solve(problem, space, strength, rows, start)
    head = _head(problem, best, space, solved)
    if len(slope) == 1:
        head = replace(head, slope=float(slope[0]), intercept=float(intercept[0]))
    else:  # each class has its own
        head = replace(head, weights=head.weights * slope, bias=head.bias * slope + intercept)
    probabilities = np.full((len(problem.truth), len(problem.classes)), np.nan)
    probabilities[scored] = judged
    report = {"examples": len(problem.truth), "folds": len(splits), "seed": seed, "chosen": chosen, **figures}
    report |= {"candidates": tried, "compared": compared}
    return replace(head, out_of_fold=probabilities, report=report)


@dataclass(frozen=True)
class _Attempt:
    """A cross-validated setting."""

    loss: float
    choice: Choice
    space: Space
    strength: float
    solutions: list[Solution]  # of each fold


def _named(problem: Problem, choice: Choice, strength: float) -> str:
    return f"{KINDS[problem.link]} over {choice}, C={strength:.2g}"


# -- the search -------------------------------------------------------------------------------------------------------


def _search(
    problem: Problem, choices: Sequence[Choice], splits: Sequence[Fold], landmarks: int, say: Say
) -> tuple[_Attempt, list[dict[str, Any]], int]:
    """The attempt of the least log loss, the figures of all attempts, and on how many texts they were compared."""
    order = problem.used[np.argsort(problem.strata[problem.used], kind="stable")]  # every class has its share
    rows = np.sort(order[np.linspace(0, len(order) - 1, min(SEARCH_TEXTS, len(order))).astype(np.int64)])
    part, inside = problem, [(fitted, scored) for fitted, scored in splits if len(scored)][:SEARCH_FOLDS]
    if len(rows) < len(order):
        place = np.full(len(problem.truth), -1)
        place[rows] = np.arange(len(rows))
        part = problem.subset(rows)
        inside = [(place[fitted], place[scored]) for fitted, scored in inside]
        inside = [(fitted[fitted >= 0], scored[scored >= 0]) for fitted, scored in inside]
    tried: list[dict[str, Any]] = []

    def attempt(choice: Choice, space: Space, strength: float, starts: Sequence[Solution] = ()) -> _Attempt:
        held_out, solutions = _held_out(part, space, choice, strength, inside, starts)
        texts = held_out[: len(part.truth)]
        figures = judge(part, texts, np.flatnonzero(np.isfinite(texts).all(axis=1)))[2]
        tried.append({"candidate": _named(problem, choice, strength), **figures})
        say("  ".join(f"{key} {value:.4f}" for key, value in figures.items()) + f"  {tried[-1]['candidate']}")
        return _Attempt(round(figures["log_loss"], 6), choice, space, strength, solutions)

    by_names = not len(splits[0][0])  # nothing could be held out, so nothing is chosen
    best = min(
        (
            attempt(choice, space_of(part, choice, landmarks, SEARCH_COORDINATES), STRENGTHS[problem.link])
            for choice in choices[: 1 if by_names else None]
        ),
        key=lambda candidate: candidate.loss,
    )
    if best.choice.names and not by_names:
        without = attempt(replace(best.choice, names=False), best.space, best.strength, best.solutions)
        best = min(best, without, key=lambda candidate: candidate.loss)
    for step in (STEP, 1 / STEP) if not by_names else ():
        first = best.strength
        while (
            candidate := attempt(best.choice, best.space, best.strength * step, best.solutions)
        ).loss < best.loss * GAIN:
            best = candidate
        if best.strength != first:
            break
    return best, tried, len(np.unique(np.concatenate([scored for _, scored in inside])))


def _held_out(
    problem: Problem,
    space: Space,
    choice: Choice,
    strength: float,
    splits: Sequence[Fold],
    starts: Sequence[Solution] = (),  # solutions of the same folds at another strength
) -> tuple[DoubleArray, list[Solution]]:
    """Scores of texts by heads that did not see them, (n + further, classes); else nan."""
    held_out, solutions = np.full(problem.targets.shape, np.nan), []
    names = problem.names if choice.names or not len(splits[0][0]) else problem.names[:0]
    for number, (fitted, scored) in enumerate(splits):
        rows = np.concatenate([fitted, names])
        weights, bias = solve(problem, space, strength, rows, starts[number] if starts else None)
        solutions.append((weights, bias))
        held_out[scored] = space.features[scored] @ weights.astype(space.features.dtype) + bias
    return held_out, solutions


def judge(
    problem: Problem, held_out: DoubleArray, rows: IntArray
) -> tuple[DoubleArray, tuple[DoubleArray, DoubleArray], dict[str, float]]:
    """Calibrate on some texts' held-out scores: their probabilities, slopes and intercepts, and figures."""
    scores, link = held_out[rows], problem.link
    truth, weight = problem.truth[rows], problem.weight[rows]
    slope, intercept = calibrate(scores, truth, link, weight)
    probabilities = probabilities_of(slope * scores + intercept, link)
    if link == "sigmoid":
        accuracy = np.average(((probabilities >= 0.5) == (truth == 1)).mean(axis=1), weights=weight)
        columns = zip(probabilities.T, truth.T == 1, strict=True)
        error = np.mean([expected_calibration_error(*column, weight=weight) for column in columns])
    else:
        right = probabilities.argmax(axis=1) == truth
        accuracy = np.average(right, weights=weight)
        error = np.float64(expected_calibration_error(probabilities.max(axis=1), right, weight=weight))
    figures = {
        "accuracy": float(accuracy),
        "log_loss": log_loss(probabilities, truth, link, weight),
        "calibration_error": float(error),
    }
    return probabilities, (slope, intercept), figures


# -- coordinates ------------------------------------------------------------------------------------------------------


def space_of(problem: Problem, choice: Choice, landmarks: int, coordinates_kept: int = COORDINATES) -> Space:
    """Compute the coordinates that the folds share, from texts without their labels."""
    linalg = import_extra("scipy.linalg", "train")
    projection = _project(problem, choice)
    coordinates = projection(np.concatenate([problem.views[view] for view in choice.weights], axis=1))
    points, back = None, np.eye(coordinates.shape[1])
    features: npt.NDArray[Any] = coordinates
    if problem.link == "softmax":
        order = problem.used[np.argsort(problem.strata[problem.used], kind="stable")]
        places = np.sort(order[np.linspace(0, len(order) - 1, min(landmarks, len(order))).astype(np.int64)])
        points = Quantised.of(coordinates[np.append(places, problem.names if choice.names else problem.names[:0])])
        kernel, between = (
            np.exp(-GAMMA * squared_distances(some, points.dense())) for some in (coordinates, points.dense())
        )
        between[np.diag_indices(len(between))] += JITTER
        root = linalg.cholesky(between, lower=True, overwrite_a=True)
        features = linalg.solve_triangular(root, kernel.T, lower=True, overwrite_b=True).T.astype(np.float32)
        back = linalg.solve_triangular(root, np.eye(len(root)), lower=True, trans=1)
    gram = features.T @ (features * problem.weight[:, None].astype(features.dtype))
    lengths, axes = (part[..., -coordinates_kept:] for part in linalg.eigh(gram, overwrite_a=True, driver="evd"))
    return Space(projection, points, features @ axes, np.maximum(lengths, 0.0).astype(np.float64), back @ axes)


def _project(problem: Problem, choice: Choice) -> Projection:
    """Standardise views, rotate large ones to their principal axes, and scale to a mean squared distance of 1."""
    used = problem.used
    matrices, centre, whole = [], [], sum(choice.weights.values())
    for view, share in choice.weights.items():
        rows, weight = problem.views[view][used].astype(np.float64), problem.weight[used]
        mean = np.average(rows, axis=0, weights=weight)
        spread = np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weight))
        # a column that hardly varies says nothing; do not blow up its rounding errors
        flat = spread < max(FLAT * float(np.median(spread)), 1e-6)
        spread = np.where(flat, 1.0, spread)
        if view in PROPORTIONAL:
            spread = np.full(len(spread), np.sqrt(np.square(spread).mean()) or 1.0)
        standard = (problem.views[view] - mean) / spread
        axes = np.eye(len(mean))
        if len(mean) > COMPONENTS:
            axes = _principal_axes(np.concatenate([standard[used] * np.sqrt(weight)[:, None], standard[problem.names]]))
        # two independent texts are on average twice the variance apart
        variance = np.average(((standard[used] @ axes) ** 2).sum(axis=1), weights=weight)
        matrices.append(axes / spread[:, None] * np.sqrt(share / whole / max(2 * variance, SMALLEST)))
        centre.append(mean)
    block = import_extra("scipy.linalg", "train").block_diag(*matrices)
    matrix = Quantised.of(block)
    return Projection(matrix, (np.concatenate(centre) @ matrix.dense()).astype(np.float32))


def _principal_axes(rows: DoubleArray) -> DoubleArray:
    """`COMPONENTS` directions of rows (n, dim): the principal axes, and others if the rows have fewer.

    New texts leave the directions of few texts. Their distances are kept, on average, by random directions, scaled up.
    """
    dim = rows.shape[1]
    wide = len(rows) < dim
    values, axes = np.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    axes, values = axes[:, ::-1][:, :COMPONENTS], values[::-1][:COMPONENTS]
    there = values > NO_VARIANCE * max(float(values[0]), SMALLEST)
    axes = rows.T @ axes[:, there] / np.sqrt(values[there]) if wide else axes[:, there]
    missing = COMPONENTS - axes.shape[1]
    if not missing:
        return np.asarray(axes)
    others = np.random.default_rng(0).normal(size=(dim, missing))
    others = np.linalg.qr(others - axes @ (axes.T @ others))[0] * np.sqrt((dim - axes.shape[1]) / missing)
    return np.concatenate([axes, others], axis=1)


# -- solvers ----------------------------------------------------------------------------------------------------------


def solve(problem: Problem, space: Space, strength: float, rows: IntArray, start: Solution | None = None) -> Solution:
    """Fit a logistic regression to some examples, of one class of several or of each class, from `start` on."""
    features, targets, weight = space.features[rows], problem.targets[rows], problem.weight[rows]
    link, lengths = problem.link, space.lengths
    optimise = import_extra("scipy.optimize", "train")
    # in these coordinates the loss is about as steep in every direction, so that few steps are enough
    scale = 1 / np.sqrt(1 + strength * STEEPNESS * lengths)
    kind = features.dtype
    turned, wanted = features * scale.astype(kind), targets.astype(kind)
    size, columns = turned.shape[1], targets.shape[1]
    mass = (weight / weight.sum()).astype(kind)[:, None]
    penalty = scale[:, None] ** 2 / (strength * weight.sum())

    def loss(flat: DoubleArray) -> tuple[float, DoubleArray]:
        own, bias = flat[: size * columns].reshape(size, columns), flat[size * columns :]
        scores = turned @ own.astype(kind) + bias.astype(kind)
        if link == "softmax":
            scores -= scores.max(axis=1, keepdims=True)
            powers = np.exp(scores)
            total = powers.sum(axis=1, keepdims=True)
            value = float((mass * (np.log(total) - (wanted * scores).sum(axis=1, keepdims=True))).sum())
            slope = mass * (powers / total - wanted)
        else:
            value = float((mass * (np.logaddexp(0, scores) - wanted * scores)).sum())
            slope = mass * (0.5 + 0.5 * np.tanh(scores / 2) - wanted)
        shrunk = penalty * own
        gradient = np.concatenate([(turned.T @ slope + shrunk).ravel(), slope.sum(axis=0)])
        return value + 0.5 * float((shrunk * own).sum()), gradient.astype(np.float64)

    if start is None:
        share = np.average(targets, axis=0, weights=weight)
        bias = np.log(share + 1e-4) - (0 if link == "softmax" else np.log(1 - share + 1e-4))
        start = np.zeros((size, columns)), bias
    solution = optimise.minimize(
        loss,
        np.concatenate([(start[0] / scale[:, None]).ravel(), start[1]]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_STEPS, "ftol": TOLERANCE, "maxcor": 5},
    ).x
    return scale[:, None] * solution[: size * columns].reshape(size, columns), solution[size * columns :]


def _head(problem: Problem, choice: Choice, space: Space, solved: Solution) -> FittedHead:
    """Turn weights of features into those of landmarks, or of views."""
    weights, bias = space.back @ solved[0], solved[1]
    inputs = {view: problem.views[view].shape[1] for view in choice.weights}
    plain = FittedHead(problem.link, problem.classes, inputs, weights, bias)
    if space.landmarks is not None:
        return replace(plain, projection=space.projection, landmarks=space.landmarks, gamma=GAMMA)
    projection = space.projection
    return replace(plain, weights=projection.matrix.dense() @ weights, bias=bias - projection.offset @ weights)
