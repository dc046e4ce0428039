"""Fit a head: from views of labelled texts to a few arrays, chosen by cross-validation and calibrated on held-out scores.

Two kinds are tried. ``"logistic"`` is a logistic regression over the standardised views: small, and hard to beat with a
few hundred labels. ``"svm"`` is a least-squares support vector machine (Suykens and Vandewalle 1999), that is, kernel
ridge regression on the classes' indicator vectors: a Gaussian kernel on principal components plus, where the view
``pieces`` is given, a linear kernel on word-piece n-grams. With thousands of labels it is clearly better, and it
costs a tenth of a millisecond.

Everything that ships is what was cross-validated: coordinates are rounded to the 8 bits they are stored in before the
weights are solved for, so that rounding cannot part the network from the figures reported for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_choice, check_positive
from semclass.core.errors import InputError, import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.train.calibration import LINKS, calibrate, expected_calibration_error, log_loss, probabilities_of
from semclass.train.fitted import FittedHead, head_scores, merged
from semclass.train.folds import Fold, folds_of, scored_rows
from semclass.train.problem import Problem, problem_of, with_views
from semclass.train.solvers import KINDS, Candidate, candidates_of, solve
from semclass.train.space import space_of

COMPARED = 2000
"""Held-out texts that settings over several choices of views are compared on, at least; only the best one is then fitted
in the folds that remain. Differences of less than half a point are not worth the hours that all folds would take."""


@dataclass(frozen=True)
class Choice:
    """Views that a head may read, where cross-validation is to choose among several.

    Attributes
    ----------
    weights
        Root mean square length that each view gets where the penalty works, by name, all but ``pieces``: a view then counts
        for what it says, not for its number of columns, and has principal components of its own.
    kind
        ``"logistic"``, ``"svm"`` or ``"auto"``: what is tried over these views.
    """

    weights: Mapping[str, float]
    kind: str = "auto"


def fit_head(
    views: Mapping[str, FloatArray],
    labels: Sequence[str] | npt.NDArray[Any],
    *,
    kind: str = "auto",
    link: str = "softmax",
    names: Sequence[str] = (),
    parents: Mapping[str, str] | None = None,
    merge: bool = False,
    groups: Sequence[str] | None = None,
    sample_weight: npt.NDArray[Any] | None = None,
    choices: Sequence[Choice] | None = None,
    components: int = 384,
    folds: int | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = 5,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> FittedHead:
    """Fit a head, choose its kind and regularisation by stratified cross-validation, and calibrate it.

    Parameters
    ----------
    views
        float32 (n, dim) by name; all but ``pieces`` are concatenated in the order given. ``pieces`` holds word-piece
        ids, padded with -1, and is read by kernel heads only.
    labels
        n class names; for ``link="sigmoid"`` 0 or 1, of shape (n, classes).
    kind
        ``"logistic"``, ``"svm"`` or ``"auto"``, which tries both.
    link
        ``"softmax"``: one class of several. ``"sigmoid"``: for each class, yes or no. Several classes share the kind and
        the regularisation, and have weights, calibration and decision each of their own.
    names
        Names of the columns of a sigmoid head.
    parents
        Superclass of each class name. A kernel machine then also regresses on the superclass, which helps classes with
        few examples: neighbours of the same superclass are half right.
    merge
        Give the probabilities of the superclasses instead of the classes'. A superclass has the score of its best
        class, so its decision is always the superclass of the decision between classes.
    groups
        n names; texts of one group are kept in one fold. Put near-duplicates into one group, or the choice will be
        for memorising. None: every text is a group of its own.
    sample_weight
        n numbers, at least 0: as how many examples a text counts, in fitting, choice and calibration. 0 leaves it out.
    choices
        Views, with their weights and kinds, that cross-validation chooses among, in place of `kind`. All are compared on
        the first folds that score `COMPARED` texts together, the best is fitted in the others too. None: all views, whose
        columns are standardised alike and have their principal components together.
    components
        Principal components at most, of each view if it has its own.
    folds
        Folds of the cross-validation, at least 2; fewer are used where there are fewer examples of a side or class. Or
        pairs of rows to fit on and rows to score; rows that are never scored are only fitted on.
    seed
        Of the folds.
    progress
        Called with one line of text per finished step.

    Returns
    -------
    FittedHead
        Fitted on all n texts, with the setting of the best cross-validated accuracy (softmax) or log loss (sigmoid, and
        wherever there are choices).

    Raises
    ------
    InputError
        If views, labels, groups or weights do not have n rows, hold values that are not finite, or the labels hold fewer
        than two classes with at least two examples each.
    MissingExtraError
        If scikit-learn is not installed.

    Notes
    -----
    Calibration is fitted on out-of-fold scores: each text is scored by a head that was fitted without it; see
    :func:`semclass.train.calibration.calibrate`.
    """
    check_choice(kind, ("auto", *KINDS), "kind")
    check_choice(link, LINKS, "link")
    check_positive(components, "components")
    problem = problem_of(views, labels, link, names, parents, merge, sample_weight)
    say = progress or (lambda line: None)
    splits = folds_of(problem, groups, folds, seed)
    trials = _trials(problem, kind, choices)
    first = len(splits) if choices is None else _enough(splits)
    held_out = [np.zeros(problem.targets.shape) for _ in trials]
    _cross_validate(trials, held_out, splits, range(first), components, say)
    compared = scored_rows(splits[:first])
    rows = [
        {"candidate": str(trial.candidate), **_judge(problem, scores, compared).figures}
        for trial, scores in zip(trials, held_out, strict=True)
    ]
    for row in rows:
        say("  ".join(f"{key} {value:.4f}" if isinstance(value, float) else str(value) for key, value in row.items()))
    # over several views log loss decides: accuracy moves by chance where there are few texts, and says nothing of trust
    best = _best(rows, by_loss=link == "sigmoid" or choices is not None)
    chosen, scores = trials[best], held_out[best]
    _cross_validate([chosen], [scores], splits, range(first, len(splits)), components, say)
    scored = scored_rows(splits)
    judgement = _judge(problem, scores, scored)
    say(f"fitting {chosen.candidate} to all")
    everything = problem.used(np.arange(len(problem.labels)))
    space = space_of(chosen.problem, everything, components, chosen.candidate.kind == "svm")
    report = {
        "examples": len(problem.labels),
        "folds": len(splits),
        "seed": seed,
        "chosen": str(chosen.candidate),
        "candidates": rows,
        "compared": len(compared),
        "uncalibrated_log_loss": judgement.uncalibrated,
        **judgement.figures,
    }
    probabilities = np.full((len(problem.labels), len(problem.classes)), np.nan)
    probabilities[scored] = judgement.probabilities
    head = _calibrated(solve(chosen.problem, everything, chosen.candidate, space), *judgement.calibration)
    return replace(head, out_of_fold=probabilities, report=report)


@dataclass(frozen=True)
class _Trial:
    """A setting, and the problem with the views that it is tried on."""

    problem: Problem
    candidate: Candidate


def _trials(problem: Problem, kind: str, choices: Sequence[Choice] | None) -> list[_Trial]:
    """Every setting to try; those over the same views stand together."""
    if choices is None:
        return [_Trial(problem, candidate) for candidate in candidates_of(kind)]
    if not choices:
        raise InputError("choices is empty; give at least one, or None")
    return [
        _Trial(over, candidate)
        for choice in choices
        for over in [with_views(problem, choice.weights)]
        for candidate in candidates_of(choice.kind, tuple(choice.weights))
    ]


def _enough(splits: list[Fold]) -> int:
    """How many folds it takes to score `COMPARED` texts, or the number of all."""
    scored = np.cumsum([len(score_rows) for _, score_rows in splits])
    return min(int(np.searchsorted(scored, COMPARED)) + 1, len(splits))


def _cross_validate(
    trials: list[_Trial],
    held_out: list[DoubleArray],
    splits: list[Fold],
    folds: range,
    components: int,
    say: Callable[[str], object],
) -> None:
    """Write each setting's scores of some folds into its array of `held_out`, float64 of shape (n, scores)."""
    for number in folds:
        fit_rows, score_rows = splits[number]
        pairs = zip(trials, held_out, strict=True)
        for _, some in groupby(pairs, key=lambda pair: id(pair[0].problem)):
            together = list(some)
            problem = together[0][0].problem
            kernel = any(trial.candidate.kind == "svm" for trial, _ in together)
            space = space_of(problem, fit_rows, components, kernel)
            views = problem.views(score_rows)
            for trial, scores in together:
                scores[score_rows] = head_scores(solve(problem, fit_rows, trial.candidate, space), views)
        say(f"fold {number + 1} of {len(splits)}: {len(trials)} setting{'s' * (len(trials) > 1)}")


@dataclass(frozen=True)
class _Judgement:
    """What held-out scores say."""

    calibration: tuple[DoubleArray, DoubleArray]  # slopes and intercepts
    probabilities: DoubleArray  # (judged texts, classes), calibrated
    uncalibrated: float  # log loss
    figures: dict[str, float]


def _judge(problem: Problem, held_out: DoubleArray, rows: IntArray) -> _Judgement:
    """Calibrate on some texts' held-out scores, and measure there."""
    scores = merged(held_out[rows], problem.merge)
    truth = problem.truth[rows], problem.link, problem.weight_of(rows)
    slope, intercept = calibrate(scores, *truth)
    probabilities = probabilities_of(slope * scores + intercept, problem.link)
    uncalibrated = log_loss(probabilities_of(scores, problem.link), *truth)
    return _Judgement((slope, intercept), probabilities, uncalibrated, _figures(probabilities, *truth))


def _calibrated(head: FittedHead, slope: DoubleArray, intercept: DoubleArray) -> FittedHead:
    """Add the calibration to a head: as two numbers if it has one slope, and within its weights otherwise."""
    if len(slope) == 1:
        return replace(head, slope=float(slope[0]), intercept=float(intercept[0]))
    ngrams = head.ngrams
    if ngrams is not None:
        ngrams = replace(ngrams, scale=(ngrams.scale * slope).astype(np.float32))
    return replace(head, weights=head.weights * slope, bias=head.bias * slope + intercept, ngrams=ngrams)


def _figures(probabilities: DoubleArray, truth: IntArray, link: str, weight: DoubleArray | None) -> dict[str, float]:
    """Figures of held-out probabilities; of several sigmoid columns the means."""
    figures = {}
    if link == "sigmoid":
        said, true = probabilities >= 0.5, truth == 1
        accuracy = float(np.average((said == true).mean(axis=1), weights=weight))
        f1_score, average = (
            import_extra("sklearn.metrics", "train").f1_score,
            "macro" if true.shape[1] > 1 else "binary",
        )
        figures["f1"] = float(f1_score(true, said, average=average, sample_weight=weight, zero_division=0.0))
        columns = zip(probabilities.T, true.T, strict=True)
        error = float(np.mean([expected_calibration_error(*column, weight=weight) for column in columns]))
    else:
        right = probabilities.argmax(axis=1) == truth
        accuracy = float(np.average(right, weights=weight))
        error = expected_calibration_error(probabilities.max(axis=1), right, weight=weight)
    loss = log_loss(probabilities, truth, link, weight)
    return {"accuracy": accuracy, **figures, "log_loss": loss, "calibration_error": error}


def _best(rows: list[dict[str, Any]], *, by_loss: bool) -> int:
    """Place of the best candidate: by log loss alone, or by accuracy, then log loss; then the first.

    Figures are rounded, so that what differs by rounding errors alone does not decide.
    """
    figures = [(0.0 if by_loss else -round(row["accuracy"], 9), round(row["log_loss"], 6)) for row in rows]
    return min(range(len(rows)), key=lambda place: (figures[place], place))
