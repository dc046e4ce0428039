"""Training data: checked, brought into arrays, and split into folds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_positive, counted
from semclass.core.errors import InputError, import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.inputs import PIECES

Fold: TypeAlias = tuple[IntArray, IntArray]
"""Rows to fit on and rows to score."""


@dataclass(frozen=True)
class Problem:
    """Training data of n texts.

    `truth` holds class indices (n,) for softmax, 0 or 1 (n, classes) for sigmoid.
    """

    views: Mapping[str, FloatArray]  # (n, dim) each
    truth: IntArray
    strata: IntArray  # (n,): what folds are balanced by
    sides: DoubleArray  # (n, classes): 1 or -1, is a text of a class or not
    classes: tuple[str, ...]
    link: str
    lengths: Mapping[str, float] | None = None  # of each dense view with principal components of its own; None: shared
    weight: DoubleArray | None = None  # (n,): as how many examples each text counts; None: as one

    @cached_property
    def dense(self) -> FloatArray:
        """All views but word pieces, side by side."""
        return np.concatenate([values for view, values in self.views.items() if view != PIECES], axis=1)

    @property
    def blocks(self) -> list[tuple[slice, float]]:
        """Columns of `dense` that have principal components together, and their weight."""
        if self.lengths is None:
            return [(slice(0, self.dense.shape[1]), 1.0)]
        dims = [self.views[view].shape[1] for view in self.lengths]
        ends = np.cumsum(dims).tolist()
        pairs = zip(self.lengths.values(), dims, ends, strict=True)
        return [(slice(end - dim, end), length / np.sqrt(dim)) for length, dim, end in pairs]

    def weight_of(self, rows: IntArray) -> DoubleArray | None:
        """Weights of some texts; None where all count the same."""
        return None if self.weight is None else self.weight[rows]

    def used(self, rows: IntArray) -> IntArray:
        """Those of some texts that count at all."""
        return rows if self.weight is None else rows[self.weight[rows] > 0]

    def over(self, lengths: Mapping[str, float]) -> Problem:
        """The same problem over some of its dense views, each of the given root mean square length; word pieces stay."""
        dense = [view for view in self.views if view != PIECES]
        if not lengths or not set(lengths) <= set(dense) or min(lengths.values()) <= 0:
            raise InputError(f"a choice is {dict(lengths)}; give numbers above 0 for some of {', '.join(dense)}")
        names = [*lengths, *(view for view in self.views if view == PIECES)]
        return replace(self, views={view: self.views[view] for view in names}, lengths=lengths)


@dataclass(frozen=True)
class Further:
    """Examples that are not texts of a class: names of classes, and texts that have none of them."""

    places: IntArray  # (k,): of the classes; -1 for none of them
    views: Mapping[str, FloatArray]  # (k, dim) each
    weight: float = 1.0  # as how many examples a name counts

    def and_of(self, other: Further | None) -> Further:
        """These, and others behind them."""
        if other is None:
            return self
        views = {view: np.concatenate([values, other.views[view]]) for view, values in self.views.items()}
        return replace(self, places=np.append(self.places, other.places), views=views)


def problem_of(
    views: Mapping[str, FloatArray],
    labels: Sequence[str] | npt.NDArray[Any],
    link: str = "softmax",
    names: Sequence[str] = (),
    sample_weight: npt.NDArray[Any] | None = None,
    least: int = 2,
) -> Problem:
    """Refuse data that no head can be fitted to, and bring the rest into arrays; see `fit_head`.

    Two classes at least must have `least` examples each.
    """
    given = list(labels)
    _check_views(views, len(given))
    if link == "sigmoid":
        classes, truth = tuple(names), _check_binary(given, names)
        # the rarest class of each text, from 1, or 0 for none
        counts = np.where(truth == 1, truth.sum(axis=0), len(truth) + 1)
        strata = np.where(truth.any(axis=1), counts.argmin(axis=1) + 1, 0)
        member = truth.astype(np.float64)
    else:
        classes, truth = check_classes(given, least)
        strata, member = truth, np.eye(len(classes), dtype=np.float64)[truth]
    return Problem(
        views={view: np.asarray(values, np.float32) for view, values in views.items()},
        truth=truth,
        strata=strata,
        sides=2 * member - 1,
        classes=classes,
        link=link,
        weight=None if sample_weight is None else _check_weight(sample_weight, strata, least),
    )


def _check_views(views: Mapping[str, FloatArray], rows: int) -> None:
    if not any(view != PIECES for view in views):
        raise InputError("views holds no vectors; give at least one view besides 'pieces'")
    for view, values in views.items():
        if values.ndim != 2 or len(values) != rows:
            raise InputError(f"view {view!r} has shape {values.shape}; give one row for each of {rows} labels")
        if not np.isfinite(values).all():
            raise InputError(f"view {view!r} holds NaN or infinity; give finite numbers")


def _check_weight(sample_weight: npt.NDArray[Any], strata: IntArray, least: int) -> DoubleArray:
    weight = np.array(sample_weight, np.float64)
    if weight.shape != strata.shape:
        raise InputError(f"sample_weight has shape {weight.shape}; give {strata.shape}, one number for each label")
    if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0 or not weight.any():
        raise InputError("sample_weight must hold finite numbers of at least 0, not all of them zero")
    if np.sort(np.bincount(strata[weight > 0], minlength=2))[-2] < least:
        raise InputError(f"two classes need {counted(least, 'example')} each with a sample_weight above 0; give more")
    return weight


def _check_binary(labels: list[Any], names: Sequence[str]) -> IntArray:
    """Bring rows of 0 and 1 into an array (n, classes); one class at least must have two examples of either side."""
    rows = [tuple(np.ravel(row).tolist()) for row in labels]
    right = all(len(row) == len(names) and {*row} <= {0, 1} for row in rows)
    if not rows or not right or len(set(names)) != max(len(names), 1):
        raise InputError(f"labels of a sigmoid head must be 0 or 1 for each of {len(names)} different names")
    truth = np.array(rows, np.int64)
    positives = truth.sum(axis=0)
    negatives = len(truth) - positives
    if not ((positives >= 2) & (negatives >= 2)).any():
        raise InputError(
            f"there are {positives.max()} texts with the label and {negatives[positives.argmax()]} without; give at least "
            "2 of each"
        )
    return truth


def check_classes(labels: Sequence[Any], least: int = 2) -> tuple[tuple[str, ...], IntArray]:
    """Sort the class names and index the labels, int64 of shape (n,); refuse what no softmax head can be fitted to."""
    if strange := [label for label in labels if not isinstance(label, str)]:
        raise InputError(f"labels must be strings, not {type(strange[0]).__name__}: {strange[0]!r}")
    names = tuple(sorted(set(labels)))
    place = {label: index for index, label in enumerate(names)}
    truth = np.array([place[label] for label in labels], np.int64)
    if len(names) < 2 or np.sort(np.bincount(truth))[-2] < least:
        raise InputError(
            f"labels hold {counted(len(names), 'class')}; "
            f"give at least two classes with at least {counted(least, 'example')} each"
        )
    return names, truth


def folds_of(
    problem: Problem,
    groups: Sequence[str] | None,
    folds: int | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    seed: int,
) -> list[Fold]:
    """Balanced folds that keep groups together, or those given; texts of weight 0 are in neither part of a fold."""
    if isinstance(folds, Sequence):
        count = len(problem.truth)
        found = [(np.asarray(fitted, np.int64), np.asarray(scored, np.int64)) for fitted, scored in folds]
        if any(((rows < 0) | (rows >= count)).any() for fold in found for rows in fold):
            raise InputError(f"folds names a row that does not exist; rows are 0 to {count - 1}")
    else:
        found = _balanced(problem, groups, folds, seed)
    found = [(problem.used(fitted), problem.used(scored)) for fitted, scored in found]
    # a sigmoid head of several classes bears that a fold holds none of a rare one
    if any(len(np.unique(problem.strata[fitted])) < 2 for fitted, _ in found):
        raise InputError("a fold has only one class to train on; give more examples, more groups or fewer folds")
    if not any(len(scored) for _, scored in found):
        raise InputError("folds hold out no text; give at least one to hold out")
    return found


def _balanced(problem: Problem, groups: Sequence[str] | None, folds: int, seed: int) -> list[Fold]:
    """Fewer folds than asked for where a class or the groups are too few."""
    selection = import_extra("sklearn.model_selection", "train")
    if check_positive(folds, "folds") < 2:
        raise InputError("folds is 1; cross-validation needs at least 2")
    count = len(problem.truth)
    if groups is not None and len(groups) != count:
        raise InputError(f"groups has {len(groups)} items; it must have one for each of {count} labels")
    codes = np.arange(count) if groups is None else np.asarray(groups, dtype=np.str_)
    rows = problem.used(np.arange(count))
    sizes = np.sort(np.bincount(problem.strata[rows]))
    rarest = int(sizes[0] if problem.link == "sigmoid" and len(problem.classes) == 1 else sizes[-2])
    numbers = np.unique(codes[rows], return_inverse=True)[1]
    folds = min(folds, rarest, int(numbers.max()) + 1)
    if folds < 2:
        raise InputError("all texts are in one group; give at least two groups")
    # shuffled here, as scikit-learn 1.8 does: releases before it, the last for Python 3.10, lose the balance by shuffling
    order = import_extra("sklearn.utils", "train").check_random_state(seed).permutation(numbers.max() + 1)
    numbers, splitter = np.argsort(order)[numbers], selection.StratifiedGroupKFold(folds)
    with warnings.catch_warnings():
        # classes rarer than the folds are missing from some; that is known and handled
        warnings.simplefilter("ignore", UserWarning)
        found = list(splitter.split(np.zeros(len(rows)), problem.strata[rows], numbers))
    return [(rows[fitted], rows[scored]) for fitted, scored in found]
