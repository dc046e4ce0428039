"""Fit a head: from views of labelled texts to a few arrays, chosen by cross-validation and calibrated on held-out scores.

Two kinds are tried. ``"logistic"`` is a logistic regression over the standardised views: small, and hard to beat with a
few hundred labels. ``"svm"`` is a support vector machine with the squared hinge loss for each class against the others, as
scikit-learn's LinearSVC: a Gaussian kernel on principal components plus, where the view ``pieces`` is given, a linear
kernel on word-piece n-grams. With thousands of labels it is clearly better.

Coordinates are rounded to the 8 bits they are stored in before the weights are solved for: what ships is what was
cross-validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_choice, counted
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.head import LINKS
from semclass.train.calibration import calibrate, expected_calibration_error, log_loss, probabilities_of
from semclass.train.data import Fold, Problem, folds_of, problem_of
from semclass.train.fitted import FittedHead, head_scores
from semclass.train.solvers import KINDS, Candidate, Limits, candidates_of, solve, space_of

COMPARED = 2000  # held-out texts at least that choices are compared on; the best one is then fitted in the other folds


@dataclass(frozen=True)
class Choice:
    """Views that a head may read, where cross-validation is to choose among several."""

    weights: Mapping[str, float]  # root mean square length of each view; it has principal components of its own
    kind: str = "auto"  # what is tried over these views, and over ``pieces``


def fit_head(
    views: Mapping[str, FloatArray],  # (n, dim) by name; pieces: word-piece ids, padded with -1, for kernel heads only
    labels: Sequence[str] | npt.NDArray[Any],  # n class names; for a sigmoid head 0 or 1, of shape (n, classes)
    *,
    kind: str = "auto",  # "logistic", "svm" or "auto", which tries both
    link: str = "softmax",  # one class of several; "sigmoid": each class, yes or no, with a calibration of its own
    names: Sequence[str] = (),  # of the columns of a sigmoid head
    groups: Sequence[str] | None = None,  # n names; texts of one group, such as near-duplicates, are kept in one fold
    sample_weight: npt.NDArray[Any] | None = None,  # n numbers, at least 0: as how many examples a text counts
    choices: Sequence[Choice] | None = None,  # what cross-validation chooses among; None: all views, of this kind
    limits: Limits | None = None,  # of support vector machines
    folds: int | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = 5,  # how many, or rows to fit on and to score
    seed: int = 0,  # of the folds
    progress: Callable[[str], object] | None = None,  # called with one line of text per finished step
) -> FittedHead:
    """Fit a head to n texts, choose its kind and regularisation by stratified cross-validation, and calibrate it.

    The setting with the best cross-validated accuracy (softmax) or log loss (sigmoid, and wherever there are choices) is
    fitted to all texts, and calibrated on the scores of heads that did not see the text. Raises an InputError for data that
    no head can be fitted to.
    """
    check_choice(kind, ("auto", *KINDS), "kind")
    check_choice(link, LINKS, "link")
    problem = problem_of(views, labels, link, names, sample_weight)
    say = progress or (lambda line: None)
    splits = folds_of(problem, groups, folds, seed)
    trials = _trials(problem, kind, choices)
    # over several views log loss decides: accuracy moves by chance where there are few texts, and says nothing of trust
    by_loss, first = link == "sigmoid" or choices is not None, len(splits)
    if choices is not None:
        first = min(int(np.searchsorted(np.cumsum([len(scored) for _, scored in splits]), COMPARED)) + 1, first)
    held_out = [np.zeros((len(problem.truth), len(problem.classes))) for _ in trials]
    _cross_validate(trials, held_out, splits, range(first), limits, say)
    compared = _scored(splits[:first])
    rows: list[dict[str, Any]] = []
    for (_, candidate), scores in zip(trials, held_out, strict=True):
        row = {"candidate": str(candidate), **judge(problem, scores, compared)[2]}
        say("  ".join(f"{key} {value:.4f}" if isinstance(value, float) else str(value) for key, value in row.items()))
        rows.append(row)
    # rounded, so that rounding errors alone do not decide; then the first
    ranks = [(0.0 if by_loss else -round(row["accuracy"], 9), round(row["log_loss"], 6)) for row in rows]
    best = ranks.index(min(ranks))
    (over, candidate), scores = trials[best], held_out[best]
    _cross_validate(trials[best : best + 1], [scores], splits, range(first, len(splits)), limits, say)
    scored = _scored(splits)
    judged, calibration, figures = judge(problem, scores, scored)
    uncalibrated = probabilities_of(scores[scored], link)
    say(f"fitting {candidate} to all")
    everything = problem.used(np.arange(len(problem.truth)))
    head = solve(over, everything, candidate, space_of(over, everything, candidate.kind == "svm", limits))
    probabilities = np.full((len(problem.truth), len(problem.classes)), np.nan)
    probabilities[scored] = judged
    report = {
        "examples": len(problem.truth),
        "folds": len(splits),
        "seed": seed,
        "chosen": str(candidate),
        "candidates": rows,
        "compared": len(compared),
        "uncalibrated_log_loss": log_loss(uncalibrated, problem.truth[scored], link, problem.weight_of(scored)),
        **figures,
    }
    return replace(_calibrated(head, *calibration), out_of_fold=probabilities, report=report)


_Trial = tuple[Problem, Candidate]  # a setting, and the problem with the views that it is tried on


def _trials(problem: Problem, kind: str, choices: Sequence[Choice] | None) -> list[_Trial]:
    """Every setting to try; those over the same views stand together."""
    if choices is None:
        return [(problem, candidate) for candidate in candidates_of(kind)]
    if not choices:
        raise InputError("choices is empty; give at least one, or None")
    return [
        (over, candidate)
        for choice in choices
        for over in [problem.over(choice.weights)]
        for candidate in candidates_of(choice.kind, tuple(choice.weights))
    ]


def _scored(folds: Sequence[Fold]) -> IntArray:
    """Rows that some fold scores, ascending."""
    return np.unique(np.concatenate([scored for _, scored in folds]))


def _cross_validate(
    trials: Sequence[_Trial],
    held_out: Sequence[DoubleArray],
    splits: Sequence[Fold],
    folds: range,
    limits: Limits | None,
    say: Callable[[str], object],
) -> None:
    """Write each setting's scores of some folds into its array of `held_out`, float64 of shape (n, scores)."""
    for number in folds:
        fitted, scored = splits[number]
        for _, some in groupby(zip(trials, held_out, strict=True), key=lambda pair: id(pair[0][0])):
            together = list(some)
            problem = together[0][0][0]
            kernel = any(candidate.kind == "svm" for (_, candidate), _ in together)
            space = space_of(problem, fitted, kernel, limits)
            views = {view: values[scored] for view, values in problem.views.items()}
            for (_, candidate), scores in together:
                scores[scored] = head_scores(solve(problem, fitted, candidate, space), views)
        say(f"fold {number + 1} of {len(splits)}: {counted(len(trials), 'setting')}")


def judge(
    problem: Problem, held_out: DoubleArray, rows: IntArray
) -> tuple[DoubleArray, tuple[DoubleArray, DoubleArray], dict[str, float]]:
    """Calibrate on some texts' held-out scores: their probabilities, slopes and intercepts, and figures."""
    scores, link = held_out[rows], problem.link
    truth, weight = problem.truth[rows], problem.weight_of(rows)
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


def _calibrated(head: FittedHead, slope: DoubleArray, intercept: DoubleArray) -> FittedHead:
    """Add the calibration to a head: as two numbers if it has one slope, and within its weights otherwise."""
    if len(slope) == 1:
        return replace(head, slope=float(slope[0]), intercept=float(intercept[0]))
    ngrams = head.ngrams
    if ngrams is not None:
        scale = (ngrams.weights.scale * slope).astype(np.float32)
        ngrams = replace(ngrams, weights=replace(ngrams.weights, scale=scale))
    return replace(head, weights=head.weights * slope, bias=head.bias * slope + intercept, ngrams=ngrams)
