"""Checked training data: what heads are fitted to, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.inputs import PIECES


@dataclass(frozen=True)
class Problem:
    """Training data of n texts.

    `truth` and `labels` are class indices (n,) for softmax, 0 or 1 (n, classes) for sigmoid. They differ where classes are
    merged: logistic regressions learn `labels`, and `truth` is what is right.
    """

    inputs: Mapping[str, int]  # dimension of each view
    dense: FloatArray  # (n, dim): all views but word pieces, side by side
    pieces: IntArray | None  # (n, length)
    blocks: Sequence[tuple[slice, float]]  # columns that have principal components together, and their weight
    labels: IntArray
    truth: IntArray
    strata: IntArray  # (n,): what folds are balanced by
    targets: DoubleArray  # (n, scores): what a kernel machine regresses on
    classes: tuple[str, ...]
    link: str
    weight: DoubleArray | None = None  # (n,): as how many examples each text counts; None: as one
    merge: npt.NDArray[np.bool_] | None = None  # (scores, classes), see FittedHead

    def weight_of(self, rows: IntArray) -> DoubleArray | None:
        """Weights of some texts; None where all count the same."""
        return None if self.weight is None else self.weight[rows]

    def used(self, rows: IntArray) -> IntArray:
        """Those of some texts that count at all."""
        return rows if self.weight is None else rows[self.weight[rows] > 0]

    def views(self, rows: IntArray | None = None) -> dict[str, Any]:
        """The views of some texts, of all if None, by name."""
        chosen: Any = slice(None) if rows is None else rows
        views: dict[str, Any] = {}
        start = 0
        for view, dim in self.inputs.items():
            if view == PIECES and self.pieces is not None:
                views[view] = self.pieces[chosen]
            else:
                views[view] = self.dense[chosen, start : start + dim]
                start += dim
        return views


def problem_of(
    views: Mapping[str, FloatArray],
    labels: Sequence[str] | npt.NDArray[Any],
    link: str,
    names: Sequence[str],
    parents: Mapping[str, str] | None,
    merge: bool,
    sample_weight: npt.NDArray[Any] | None,
) -> Problem:
    """Refuse data that no head can be fitted to, and bring the rest into arrays; see `fit_head`."""
    given = list(labels)
    inputs = _check_views(views, len(given))
    if link == "sigmoid":
        if parents is not None or merge:
            raise InputError("parents and merge belong to softmax heads; a sigmoid head has no superclasses")
        classes = tuple(names)
        truth = _check_binary(given, classes)
        strata, targets = _rarest(truth), 2 * truth.astype(np.float64) - 1
    else:
        classes, truth = check_classes(given)
        strata, targets = truth, np.eye(len(classes), dtype=np.float64)[truth]
    problem = Problem(
        inputs=inputs,
        dense=np.concatenate([views[view] for view in inputs if view != PIECES], axis=1).astype(np.float32),
        pieces=views[PIECES].astype(np.int64) if PIECES in inputs else None,
        blocks=[(slice(0, sum(dim for view, dim in inputs.items() if view != PIECES)), 1.0)],
        labels=truth,
        truth=truth,
        strata=strata,
        targets=targets,
        classes=classes,
        link=link,
    )
    return _with_weight(_with_parents(problem, parents, merge), sample_weight)


def _with_parents(problem: Problem, parents: Mapping[str, str] | None, merge: bool) -> Problem:
    """Let superclasses be learned beside the classes, or decided between instead of them."""
    if parents is None:
        if merge:
            raise InputError("merge needs parents: the superclass of each class name")
        return problem
    missing = [label for label in problem.classes if label not in parents]
    if missing:
        raise InputError(f"parents names no superclass of {missing[0]!r}")
    above = sorted({parents[label] for label in problem.classes})
    member = np.array([[parents[label] == parent for parent in above] for label in problem.classes])
    problem = replace(problem, targets=problem.targets + (member.astype(np.float64) @ member.T)[problem.labels])
    if not merge:
        return problem
    return replace(problem, truth=member[problem.labels].argmax(axis=1), classes=tuple(above), merge=member)


def _with_weight(problem: Problem, sample_weight: npt.NDArray[Any] | None) -> Problem:
    """Check the weights of texts, and add them."""
    if sample_weight is None:
        return problem
    count, weight = len(problem.labels), np.array(sample_weight, np.float64)
    if weight.shape != (count,):
        raise InputError(f"sample_weight has shape {weight.shape}; it must be ({count},), one number for each label")
    if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0 or not weight.any():
        raise InputError("sample_weight must hold finite numbers of at least 0, and not zero for all")
    if np.sort(np.bincount(problem.strata[weight > 0], minlength=2))[-2] < 2:
        raise InputError("fewer than two classes have two examples each with a sample_weight above 0")
    return replace(problem, weight=weight)


def with_views(problem: Problem, weights: Mapping[str, float]) -> Problem:
    """The same problem over some of its dense views, each of the given root mean square length; word pieces stay."""
    dense = [view for view in problem.inputs if view != PIECES]
    if not weights or not set(weights) <= set(dense) or min(weights.values()) <= 0:
        raise InputError(f"a choice must have a number above 0 for some of {', '.join(dense)}, not {dict(weights)}")
    views, dims = problem.views(), {view: problem.inputs[view] for view in weights}
    ends = np.cumsum([0, *dims.values()]).tolist()
    return replace(
        problem,
        inputs=dims | {view: dim for view, dim in problem.inputs.items() if view == PIECES},
        dense=np.concatenate([views[view] for view in weights], axis=1),
        blocks=[
            (slice(start, end), weight / np.sqrt(end - start))
            for weight, start, end in zip(weights.values(), ends[:-1], ends[1:], strict=True)
        ],
    )


def _check_views(views: Mapping[str, FloatArray], rows: int) -> dict[str, int]:
    """Give the dimension of each view, after checking shape and content."""
    if not any(view != PIECES for view in views):
        raise InputError("views holds no vectors; give at least one view besides 'pieces'")
    for view, values in views.items():
        if values.ndim != 2 or len(values) != rows:
            raise InputError(f"view {view!r} has shape {values.shape}; it must have one row for each of {rows} labels")
        if not np.isfinite(values).all():
            raise InputError(f"view {view!r} holds values that are not finite")
    return {view: int(values.shape[1]) for view, values in views.items()}


def _check_binary(labels: list[Any], names: tuple[str, ...]) -> IntArray:
    """Bring rows of 0 and 1 into an array (n, classes); one class at least must have two examples of either side."""
    try:
        truth = np.array(labels)
    except ValueError as error:
        raise InputError(f"labels of a sigmoid head must have 0 or 1 for each of {len(names)} classes") from error
    if truth.ndim != 2 or truth.shape[1] != len(names) or len(set(names)) != len(names):
        raise InputError(
            f"labels have shape {truth.shape[1:]} each; names has {len(names)} names, which must be different"
        )
    strange = truth[~np.isin(truth, (0, 1))]
    if len(strange):
        raise InputError(f"labels of a sigmoid head must be 0 or 1, not {strange.tolist()[0]!r}")
    truth = truth.astype(np.int64)
    positives = truth.sum(axis=0)
    negatives = len(truth) - positives
    if not ((positives >= 2) & (negatives >= 2)).any():
        raise InputError(
            f"there are {positives.max()} examples of the class and {negatives[positives.argmax()]} of its absence; both "
            "need at least 2"
        )
    return truth


def _rarest(truth: IntArray) -> IntArray:
    """The rarest class of each text, from 1, or 0 for none: what folds of several classes are balanced by."""
    counts = np.where(truth == 1, truth.sum(axis=0), len(truth) + 1)
    return np.where(truth.any(axis=1), counts.argmin(axis=1) + 1, 0)


def check_classes(labels: Sequence[Any]) -> tuple[tuple[str, ...], IntArray]:
    """Sort the class names and index the labels, int64 of shape (n,); refuse what no softmax head can be fitted to."""
    strange = [label for label in labels if not isinstance(label, str)]
    if strange:
        raise InputError(f"labels must be class names, not {type(strange[0]).__name__}: {strange[0]!r}")
    names = tuple(sorted(set(labels)))
    place = {label: index for index, label in enumerate(names)}
    truth = np.array([place[label] for label in labels], np.int64)
    if len(names) < 2 or np.sort(np.bincount(truth))[-2] < 2:
        raise InputError(
            f"labels hold {len(names)} class{'es' * (len(names) != 1)}; "
            "at least two classes with at least two examples each are needed"
        )
    return names, truth
