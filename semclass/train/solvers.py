"""The two kinds of heads: logistic regressions and kernel machines, fitted to texts in their coordinates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from semclass.core.checks import check_choice
from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, IntArray
from semclass.heads.inputs import PIECES
from semclass.train.fitted import FittedHead, Ngrams
from semclass.train.problem import Problem
from semclass.train.space import Space

KINDS = ("logistic", "svm")
"""Kinds of heads; ``kind="auto"`` lets cross-validation choose."""

LOGISTIC_STRENGTHS = (3.0, 30.0, 300.0, 3000.0)
"""Inverse regularisation C that is tried; features have mean squared distance 1, so the range suits any views."""

KERNEL_WIDTHS = (0.5, 1.0)
"""Values of gamma in exp(-gamma d**2) that are tried; the mean squared distance of the training texts is 1."""

KERNEL_RIDGES = (0.03, 0.1, 0.3, 1.0)
"""Ridge penalties of the kernel machine that are tried."""

KERNEL_TEXTS = (300, 10_000)
"""With fewer or with more examples than these classifiers with ``kind="auto"`` try logistic regressions only. With few,
cross-validation cannot tell which is better: on 8 questions of each coarse TREC class, accuracy on others is 0.741 with
logistic regressions alone and 0.732 with both, on 32 it is 0.833 with either (12 draws). With many, a kernel machine takes
memory by the square and time by the cube of their number."""


@dataclass(frozen=True)
class Candidate:
    """One setting that cross-validation tries."""

    kind: str
    strength: float  # C of a logistic regression: larger is freer; ridge penalty of a kernel machine: larger is tighter
    gamma: float = 0.0  # width of the Gaussian kernel
    views: tuple[str, ...] = ()  # where there is a choice

    def __str__(self) -> str:
        """Name it, for tables."""
        name = "C" if self.kind == "logistic" else "ridge"
        width = f" gamma={self.gamma:g}" if self.kind == "svm" else ""
        over = f" over {' + '.join(self.views)}" if self.views else ""
        return f"{self.kind} {name}={self.strength:g}{width}{over}"


def candidates_of(kind: str, views: tuple[str, ...] = ()) -> list[Candidate]:
    """Settings to try, simplest first, so that a tie goes to the simplest."""
    logistic = [Candidate("logistic", strength, views=views) for strength in LOGISTIC_STRENGTHS]
    kernel = [Candidate("svm", ridge, gamma, views) for gamma in KERNEL_WIDTHS for ridge in reversed(KERNEL_RIDGES)]
    return {"logistic": logistic, "svm": kernel, "auto": logistic + kernel}[kind]


def affordable_kind(kind: str, examples: int) -> str:
    """Leave kernel machines out of the choice where they bring nothing or take too long."""
    check_choice(kind, ("auto", *KINDS), "kind")
    least, most = KERNEL_TEXTS
    return "logistic" if kind == "auto" and not least <= examples <= most else kind


def solve(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Fit one setting to the chosen texts, uncalibrated."""
    if candidate.kind == "logistic":
        return _logistic(problem, chosen, candidate, space)
    return _kernel(problem, chosen, candidate, space)


def _logistic(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Fit a logistic regression in the coordinates, and fold them into its weights."""
    coordinates, labels = space.projection(problem.dense[chosen]), problem.labels[chosen]
    weight = problem.weight_of(chosen)
    if problem.link == "softmax":
        coefficients, bias = _one_of_many(coordinates, labels, weight, candidate.strength, problem.targets.shape[1])
    else:
        columns = [_yes_or_no(coordinates, column, weight, candidate.strength) for column in labels.T]
        coefficients = np.stack([column for column, _ in columns], axis=1)
        bias = np.array([intercept for _, intercept in columns])
    return FittedHead(
        kind="logistic",
        link=problem.link,
        classes=problem.classes,
        inputs={view: dim for view, dim in problem.inputs.items() if view != PIECES},
        weights=space.projection.matrix.dense() @ coefficients,
        bias=bias - space.projection.offset @ coefficients,
        merge=problem.merge,
    )


def _regression(strength: float) -> Any:
    linear = import_extra("sklearn.linear_model", "train")
    return linear.LogisticRegression(C=strength, max_iter=5000, tol=1e-6)


def _one_of_many(
    coordinates: DoubleArray, labels: IntArray, weight: DoubleArray | None, strength: float, count: int
) -> tuple[DoubleArray, DoubleArray]:
    """Coefficients (components, classes) and intercepts (classes,) of a multinomial regression on class numbers."""
    with warnings.catch_warnings():
        # few texts of many classes: the numbers of classes look like measurements, which they are not
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model = _regression(strength).fit(coordinates, labels, weight)
    coefficients, bias = model.coef_.T, model.intercept_
    if coefficients.shape[1] == 1:  # one row of log odds means two classes; half of it for each, of either sign
        coefficients = np.concatenate([-coefficients, coefficients], axis=1) / 2
        bias = np.concatenate([-bias, bias]) / 2
    # a class that a fold does not hold at all scores below every other
    missing = np.setdiff1d(np.arange(count), model.classes_)
    places = missing - np.arange(len(missing))
    return np.insert(coefficients, places, 0.0, axis=1), np.insert(bias, places, bias.min() - 10.0)


def _yes_or_no(
    coordinates: DoubleArray, labels: IntArray, weight: DoubleArray | None, strength: float
) -> tuple[DoubleArray, float]:
    """Coefficients (components,) and intercept of one binary regression."""
    if labels.min() == labels.max():  # a rare class is missing from a fold: all there is to learn are its odds
        return np.zeros(coordinates.shape[1]), float(np.log((labels.sum() + 0.5) / ((1 - labels).sum() + 0.5)))
    model = _regression(strength).fit(coordinates, labels, weight)
    return model.coef_[0], float(model.intercept_[0])


def _kernel(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Solve the kernel machine; the n-gram kernel is linear, so its part becomes one weight per n-gram."""
    ridge = import_extra("sklearn.kernel_ridge", "train").KernelRidge
    kernel = np.exp(-candidate.gamma * space.squared)
    if space.ngrams is not None:
        kernel += space.ngrams.kernel
    targets, weight = problem.targets[chosen], problem.weight_of(chosen)
    bias = np.average(targets, axis=0, weights=weight)
    dual = ridge(alpha=candidate.strength, kernel="precomputed").fit(kernel, targets - bias, weight).dual_coef_
    ngrams = None
    if space.ngrams is not None:
        ngrams = Ngrams.of(space.ngrams.rows, space.ngrams.scale * (space.ngrams.features.T @ dual))
    return FittedHead(
        kind="svm",
        link=problem.link,
        classes=problem.classes,
        inputs=problem.inputs,
        weights=dual,
        bias=bias,
        projection=space.projection,
        landmarks=space.landmarks,
        gamma=candidate.gamma,
        ngrams=ngrams,
        merge=problem.merge,
    )
