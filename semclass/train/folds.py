"""Folds of a cross-validation: balanced, with groups kept together, or as the caller gives them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_positive
from semclass.core.errors import InputError, import_extra
from semclass.core.types import IntArray
from semclass.train.problem import Problem

Fold: TypeAlias = tuple[IntArray, IntArray]
"""Rows to fit on and rows to score."""


def folds_of(
    problem: Problem,
    groups: Sequence[str] | None,
    folds: int | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    seed: int,
) -> list[Fold]:
    """Rows to fit on and rows to score, for each fold; texts of weight 0 are in neither."""
    if isinstance(folds, Sequence):
        found = [_given(pair, len(problem.labels)) for pair in folds]
    else:
        found = _balanced(problem, groups, folds, seed)
    found = [(problem.used(fitted), problem.used(scored)) for fitted, scored in found]
    # a sigmoid head of several classes bears that a fold holds none of a rare one
    if any(len(np.unique(problem.strata[fitted])) < 2 for fitted, _ in found):
        raise InputError("a fold would be fitted on one class only; give more examples, more groups or fewer folds")
    if not any(len(scored) for _, scored in found):
        raise InputError("the folds score no text; cross-validation needs some")
    return found


def scored_rows(folds: Sequence[Fold]) -> IntArray:
    """Rows that some fold scores, ascending."""
    return np.unique(np.concatenate([scored for _, scored in folds]))


def _given(pair: tuple[npt.NDArray[Any], npt.NDArray[Any]], count: int) -> Fold:
    """Check a pair of rows that the caller chose."""
    fitted, scored = (np.asarray(rows, np.int64) for rows in pair)
    both = np.concatenate([fitted, scored])
    if both.min(initial=0) < 0 or both.max(initial=0) >= count:
        raise InputError(f"folds names rows that are not there; rows go from 0 to {count - 1}")
    return fitted, scored


def _balanced(problem: Problem, groups: Sequence[str] | None, folds: int, seed: int) -> list[Fold]:
    """Balanced folds that keep groups together, fewer than asked for where a class or the groups are too few."""
    selection = import_extra("sklearn.model_selection", "train")
    if check_positive(folds, "folds") < 2:
        raise InputError("folds is 1; cross-validation needs at least 2")
    count = len(problem.labels)
    codes = np.arange(count)
    if groups is not None:
        if len(groups) != count:
            raise InputError(f"groups has {len(groups)} items; it must have one for each of {count} labels")
        codes = np.unique(np.asarray(groups, dtype=np.str_), return_inverse=True)[1]
    rows = problem.used(np.arange(count))
    sizes = np.sort(np.bincount(problem.strata[rows]))
    rarest = int(sizes[0] if problem.link == "sigmoid" and len(problem.classes) == 1 else sizes[-2])
    numbers = np.unique(codes[rows], return_inverse=True)[1]
    folds = min(folds, rarest, int(numbers.max()) + 1)
    if folds < 2:
        raise InputError("all texts are in one group; cross-validation needs at least two")
    # shuffled here, as scikit-learn 1.8 does: releases before it, the last for Python 3.10, lose the balance by shuffling
    order = import_extra("sklearn.utils", "train").check_random_state(seed).permutation(numbers.max() + 1)
    numbers, splitter = np.argsort(order)[numbers], selection.StratifiedGroupKFold(folds)
    with warnings.catch_warnings():
        # classes rarer than the folds are missing from some; that is known and handled
        warnings.simplefilter("ignore", UserWarning)
        found = list(splitter.split(np.zeros(len(rows)), problem.strata[rows], numbers))
    return [(rows[fitted], rows[scored]) for fitted, scored in found]
