"""Fits a head to views of labelled texts. Its settings are cross-validated, and it is calibrated on held-out scores.

If each text has one label, a head is a logistic regression over a Gaussian kernel between texts, computed with at most
`LANDMARKS` of them (Williams and Seeger 2001). If texts may have several labels, each label has a linear logistic
regression over standardised views.

Names of classes may count as examples. Views, names and regularisation are chosen for the smallest cross-validated log
loss. Coordinates are rounded to the 8 bits in which they are stored, before the weights are fitted. So the saved head is
the head that was cross-validated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.optimize import minimize
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import check_random_state

from semclass.core.checks import check_positive, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import ClassName, DoubleArray, FloatArray, IntArray
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

NAME_WEIGHT = 1.5  # as how many examples the name of a class counts
KINDS = {"sigmoid": "logistic", "softmax": "kernel"}
"""Name of the regression of each link."""

STRENGTHS = {"sigmoid": 100.0, "softmax": 30.0}
"""Inverse regularisation C that is tried first for each link. The mean squared distance of texts is scaled to 1."""

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

Fold: TypeAlias = tuple[IntArray, IntArray]  # rows to fit on and rows to score
Solution: TypeAlias = tuple[DoubleArray, DoubleArray]  # weights of features (r, classes) and biases (classes,)


# -- labels and arrays ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Targets:
    """Checked labels of n texts."""

    rows: Sequence[tuple[ClassName, ...]]  # each text's
    classes: tuple[ClassName, ...]  # all of them, sorted
    multi_label: bool  # whether a text may have several

    @classmethod
    def of(cls, y: Any, *, multi_label: bool) -> Targets:
        """Check labels, one or several per text."""
        if y is None or isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
            raise InputTypeError(f"labels must be a sequence with one label per text, not {short(y)}")
        remedy = "; for several labels per text set multi_label=True"
        rows = [
            _several(item, f"labels[{place}]") if multi_label else (_label(item, f"labels[{place}]", remedy),)
            for place, item in enumerate(y)
        ]
        classes = {label for row in rows for label in row}
        if len({type(label) for label in classes}) > 1:
            raise InputTypeError("labels mix strings and integers; make all of them strings")
        return cls(rows, tuple(sorted(classes)), multi_label=multi_label)

    def matrix(self) -> npt.NDArray[np.bool_]:
        """Return whether each text has each class, bool of shape (n, n_classes)."""
        found: npt.NDArray[np.bool_] = (
            MultiLabelBinarizer(classes=self.classes).fit_transform(self.rows).astype(np.bool_)
        )
        return found


def _label(item: Any, name: str, remedy: str = "") -> ClassName:
    """Check one label; numpy's scalars become Python's."""
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, bool) or not isinstance(item, (str, int)):
        raise InputTypeError(f"{name} must be a string or an integer, not {type(item).__name__}: {short(item)}{remedy}")
    return item


def _several(item: Any, name: str) -> tuple[ClassName, ...]:
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
        raise InputTypeError(
            f"{name} must be a collection of labels with multi_label=True, not {short(item)}; write ({short(item)},)"
        )
    return tuple(sorted({_label(label, name) for label in item}, key=str))


@dataclass(frozen=True)
class Problem:
    """Training data of n texts, followed by m further examples, which are never scored."""

    views: Mapping[str, FloatArray]  # (n + m, dim) each
    truth: IntArray  # class indices (n,) for softmax, 0 or 1 (n, classes) for sigmoid
    targets: DoubleArray  # (n + m, classes), in [0, 1]
    strata: IntArray  # (n,): what folds are balanced by
    classes: tuple[str, ...]
    link: str

    @property
    def names(self) -> IntArray:
        """Rows of the further examples, which are names of classes."""
        return np.arange(len(self.truth), len(self.targets))

    @property
    def weight(self) -> DoubleArray:
        """Number of examples for which each row counts, (n + m,)."""
        return np.append(np.ones(len(self.truth)), np.full(len(self.names), NAME_WEIGHT))

    def subset(self, rows: IntArray) -> Problem:
        """Return the problem with some of its texts and all further examples."""
        every = np.append(rows, self.names)
        return replace(
            self,
            views={view: values[every] for view, values in self.views.items()},
            truth=self.truth[rows],
            targets=self.targets[every],
            strata=self.strata[rows],
        )

    def with_names(self, places: IntArray, views: Mapping[str, FloatArray]) -> Problem:
        """Add the names of some classes as examples.

        Their vectors are moved to the mean of the texts, because all names differ from messages in the same way.
        """
        n = len(self.truth)
        share = 1 / np.bincount(self.truth)[self.truth]  # equal for classes
        moved = {
            view: rows - rows.mean(axis=0) + np.average(self.views[view][:n], axis=0, weights=share)
            for view, rows in views.items()
        }
        return replace(
            self,
            views={view: np.concatenate([rows, moved[view].astype(np.float32)]) for view, rows in self.views.items()},
            targets=np.concatenate([self.targets, np.eye(len(self.classes))[places]]),
        )


def problem_of(views: Mapping[str, FloatArray], targets: Targets) -> Problem:
    """Turn training data into arrays. Refuse data to which no head can be fitted.

    With one label per text, there must be two classes. With several, at least one label needs two texts with it and two
    without.
    """
    if not targets.classes:
        raise InputError("no text has a label; give at least one label with two examples")
    matrix = targets.matrix()
    counts = matrix.sum(axis=0)
    if targets.multi_label:
        truth, without = matrix.astype(np.int64), len(matrix) - counts
        if np.minimum(counts, without).max() < 2:
            raise InputError(
                f"there are {counts.max()} texts with the label and {without[counts.argmax()]} without; give at "
                "least 2 of each"
            )
        # the rarest class of each text, from 1, or 0 for none
        strata = np.where(matrix.any(axis=1), np.where(matrix, counts, len(matrix) + 1).argmin(axis=1) + 1, 0)
    else:
        truth = strata = matrix.argmax(axis=1)
        if len(counts) < 2:
            raise InputError("there is only 1 class of labels; give at least two classes with at least 1 example each")
    arrays = {view: np.asarray(values, np.float32) for view, values in views.items()}
    classes, link = tuple(map(str, targets.classes)), "sigmoid" if targets.multi_label else "softmax"
    return Problem(arrays, truth, matrix.astype(np.float64), strata, classes, link)


def folds_of(problem: Problem, groups: Sequence[str], folds: int, seed: int) -> list[Fold]:
    """Return balanced folds that keep groups together, or fewer than `folds` if a class or the groups are too small.

    If fewer than two classes have two groups, a single fold scores all texts by a head trained on names of classes.
    """
    count = len(problem.truth)
    numbers = np.unique(np.asarray(groups, np.str_), return_inverse=True)[1]
    if problem.link == "softmax" and not can_hold_out(problem.truth, numbers):
        if not len(problem.names):
            raise InputError(
                "fewer than two classes have two different examples, and the names of the labels cannot serve as "
                "examples; give at least two different examples of two classes"
            )
        return [(np.zeros(0, np.int64), np.arange(count))]
    if check_positive(folds, "folds") < 2:
        raise InputError("folds is 1; cross-validation needs at least 2")
    sizes = np.sort(np.bincount(problem.strata))
    rarest = int(sizes[0] if problem.link == "sigmoid" and len(problem.classes) == 1 else sizes[-2])
    folds = min(folds, rarest, int(numbers.max()) + 1)
    if folds < 2:
        raise InputError("all texts are in one group; give at least two groups")
    # shuffled here, as scikit-learn 1.8 does: releases before it, the last for Python 3.10, lose the balance by shuffling
    order = check_random_state(seed).permutation(numbers.max() + 1)
    numbers, splitter = np.argsort(order)[numbers], StratifiedGroupKFold(folds)
    with warnings.catch_warnings():
        # classes rarer than the folds are missing from some; that is known and handled
        warnings.simplefilter("ignore", UserWarning)
        found = list(splitter.split(np.zeros(count), problem.strata, numbers))
    # a sigmoid head of several classes bears that a fold holds none of a rare one
    if any(len(np.unique(problem.strata[fitted])) < 2 for fitted, _ in found):
        raise InputError("a fold has only one class to train on; give more examples, more groups or fewer folds")
    return found


def can_hold_out(truth: IntArray, groups: IntArray) -> bool:
    """Return whether two classes have texts of at least two groups each."""
    pairs = np.unique(np.stack([truth, groups]), axis=1)[0]
    return bool(np.sort(np.bincount(pairs, minlength=2))[-2] > 1)


# -- the choice of a setting ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """A candidate setting for cross-validation."""

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
    groups: Sequence[str],
    *,
    folds: int,
    seed: int,
    say: Callable[[str], object],
    landmarks: int = LANDMARKS,
) -> FittedHead:
    """Choose a setting and its regularisation by stratified cross-validation, fit it to all texts, and calibrate it.

    Probabilities are calibrated on scores from heads that were not trained on the text. Texts of a group, such as
    near-duplicates, stay in one fold. `say` is called with a line of text for each step.
    Raises an InputError for data that no head can be fitted to.
    """
    splits = folds_of(problem, groups, folds, seed)
    winner, tried, compared = _search(problem, choices, splits, landmarks, say)
    best, strength = winner.choice, winner.strength
    chosen = _named(problem, best, strength)
    say(f"fitting {chosen}")
    space = space_of(problem, best, landmarks)
    held_out, solutions = _held_out(problem, space, best, strength, splits)
    texts = np.arange(len(problem.truth))
    probabilities, (slope, intercept), figures = judge(problem, held_out, texts)
    uncalibrated = probabilities_of(held_out[texts], problem.link)
    figures["uncalibrated_log_loss"] = log_loss(uncalibrated, problem.truth, problem.link)
    rows = np.concatenate([texts, *([problem.names] if best.names else [])])
    start = tuple(np.mean(part, axis=0) for part in zip(*solutions, strict=True))
    solved = solve(problem, space, strength, rows, start)
    head = _head(problem, best, space, solved)
    if len(slope) == 1:
        head = replace(head, slope=float(slope[0]), intercept=float(intercept[0]))
    else:  # each class has its own
        head = replace(head, weights=head.weights * slope, bias=head.bias * slope + intercept)
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
    problem: Problem, choices: Sequence[Choice], splits: Sequence[Fold], landmarks: int, say: Callable[[str], object]
) -> tuple[_Attempt, list[dict[str, Any]], int]:
    """The attempt of the least log loss, the figures of all attempts, and on how many texts they were compared."""
    rows = spread(problem, SEARCH_TEXTS)
    part, inside = problem, [(fitted, scored) for fitted, scored in splits if len(scored)][:SEARCH_FOLDS]
    if len(rows) < len(problem.truth):
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
    """Calibrate on the held-out scores of some texts. Returns their probabilities, slopes and intercepts, and figures."""
    scores, link = held_out[rows], problem.link
    truth = problem.truth[rows]
    slope, intercept = calibrate(scores, truth, link)
    probabilities = probabilities_of(slope * scores + intercept, link)
    if link == "sigmoid":
        accuracy = ((probabilities >= 0.5) == (truth == 1)).mean()
        columns = zip(probabilities.T, truth.T == 1, strict=True)
        error = np.mean([expected_calibration_error(*column) for column in columns])
    else:
        right = probabilities.argmax(axis=1) == truth
        accuracy = right.mean()
        error = np.float64(expected_calibration_error(probabilities.max(axis=1), right))
    figures = {
        "accuracy": float(accuracy),
        "log_loss": log_loss(probabilities, truth, link),
        "calibration_error": float(error),
    }
    return probabilities, (slope, intercept), figures


# -- coordinates ------------------------------------------------------------------------------------------------------


def space_of(problem: Problem, choice: Choice, landmarks: int, coordinates_kept: int = COORDINATES) -> Space:
    """Compute the coordinates that all folds share. The labels of texts are not used."""
    projection = _project(problem, choice)
    coordinates = projection(np.concatenate([problem.views[view] for view in choice.weights], axis=1))
    points, back = None, np.eye(coordinates.shape[1])
    features: npt.NDArray[Any] = coordinates
    if problem.link == "softmax":
        places = spread(problem, landmarks)
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


def spread(problem: Problem, most: int) -> IntArray:
    """Return the rows of at most `most` texts, with a share of every class."""
    order = np.argsort(problem.strata, kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, min(most, len(order))).astype(np.int64)])


def _project(problem: Problem, choice: Choice) -> Projection:
    """Standardise views, rotate large ones to their principal axes, and scale to a mean squared distance of 1."""
    count = len(problem.truth)
    matrices, centre, whole = [], [], sum(choice.weights.values())
    for view, share in choice.weights.items():
        rows = problem.views[view][:count].astype(np.float64)
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        # a column that hardly varies says nothing; do not blow up its rounding errors
        flat = deviation < max(FLAT * float(np.median(deviation)), 1e-6)
        deviation = np.where(flat, 1.0, deviation)
        if view in PROPORTIONAL:
            deviation = np.full(len(deviation), np.sqrt(np.square(deviation).mean()) or 1.0)
        standard = (problem.views[view] - mean) / deviation
        axes = np.eye(len(mean))
        if len(mean) > COMPONENTS:
            axes = _principal_axes(standard)
        # two independent texts are on average twice the variance apart
        variance = ((standard[:count] @ axes) ** 2).sum(axis=1).mean()
        matrices.append(axes / deviation[:, None] * np.sqrt(share / whole / max(2 * variance, SMALLEST)))
        centre.append(mean)
    block = linalg.block_diag(*matrices)
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
    """Fit a logistic regression to the examples at `rows`, for all classes together or for each one, from `start` on."""
    features, targets, weight = space.features[rows], problem.targets[rows], problem.weight[rows]
    link, lengths = problem.link, space.lengths
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
    solution = minimize(
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
