"""Training data: texts and labels are checked, encoded, brought into arrays and split into folds."""

from __future__ import annotations

import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import STATES
from semclass.core.checks import check_choice, check_positive, counted, short
from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.core.types import ClassName, DoubleArray, Encoder, FloatArray, IntArray
from semclass.encoders.batching import CHUNK, warn_truncated
from semclass.heads.classifier import SURFACE
from semclass.heads.surface import surface_features
from semclass.heads.texts import open_encoder

PHRASES = ("{}", "a question about {}", "I want to talk about {}", "help with {}")
"""Sentences around a class's name. The mean of their vectors is nearer to messages than the vector of the name."""

NAME_WEIGHT = 1.5  # as how many examples the name of a class counts

Say: TypeAlias = Callable[[str], object]
Progress: TypeAlias = Say | bool
Views: TypeAlias = dict[str, FloatArray]

Fold: TypeAlias = tuple[IntArray, IntArray]  # rows to fit on and rows to score


# -- labels -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Targets:
    """Checked labels of n texts."""

    rows: Sequence[tuple[ClassName, ...]]  # each text's
    classes: tuple[ClassName, ...]  # all of them, sorted
    multi_label: bool  # whether a text may have several
    indicator: bool  # whether they were given as an array of 0 and 1

    @classmethod
    def of(cls, y: Any, *, multi_label: bool) -> Targets:
        """Check labels of either shape."""
        if y is None or isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
            raise InputTypeError(f"labels must be a sequence with one label per text, not {short(y)}")
        if multi_label and isinstance(y, np.ndarray) and y.ndim == 2:
            if not np.isin(y, (0, 1)).all():
                raise InputError("labels in an array of two dimensions must be 0 or 1, one column per class")
            rows = [tuple(np.flatnonzero(row).tolist()) for row in y]
            return cls(rows, tuple(range(y.shape[1])), multi_label=True, indicator=True)
        remedy = "; for several labels per text set multi_label=True"
        rows = [
            _several(item, f"labels[{place}]") if multi_label else (_label(item, f"labels[{place}]", remedy),)
            for place, item in enumerate(y)
        ]
        classes = {label for row in rows for label in row}
        if len({type(label) for label in classes}) > 1:
            raise InputTypeError("labels mix strings and integers; make all of them strings")
        return cls(rows, tuple(sorted(classes)), multi_label=multi_label, indicator=False)

    def without(self, ood_label: ClassName | None) -> tuple[Targets, IntArray]:
        """The labels of texts that have a class, and the rows of these."""
        if ood_label is None:
            return self, np.arange(len(self.rows))
        if (ood_label,) not in self.rows:
            raise InputError(
                f"ood_label is {short(ood_label)}, but no text has this label; give such texts, or leave it out"
            )
        kept = [place for place, row in enumerate(self.rows) if row != (ood_label,)]
        classes = tuple(label for label in self.classes if label != ood_label)
        return replace(self, rows=[self.rows[place] for place in kept], classes=classes), np.array(kept, np.int64)

    def matrix(self) -> npt.NDArray[np.bool_]:
        """Which text has which class, bool of shape (n, n_classes)."""
        binarizer = import_extra("sklearn.preprocessing", "train").MultiLabelBinarizer(classes=self.classes)
        found: npt.NDArray[np.bool_] = binarizer.fit_transform(self.rows).astype(np.bool_)
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


def words_of(label: ClassName) -> str:
    """The words of a label that is a name, or nothing."""
    return " ".join(re.findall(r"[^\W_]+", label)) if isinstance(label, str) else ""


# -- texts ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _named_encoder(name: str | None) -> Encoder:
    """Load an encoder once; the clones of a grid search share it."""
    return open_encoder(name)


def shared_encoder(encoder: Encoder | str | Path | None) -> Encoder:
    """Give the encoder that a parameter means."""
    if encoder is None or isinstance(encoder, (str, Path)):
        return _named_encoder(None if encoder is None else str(encoder))
    return encoder


def check_view_names(views: Sequence[str], encoder: Encoder) -> tuple[str, ...]:
    """Give the views that the head will read."""
    if isinstance(views, str):
        raise InputTypeError(f"views must be a sequence of names, not one string; write ({views!r},)")
    allowed = [name for name in encoder.views if name not in ("tokens", STATES)] + [SURFACE]
    for name in views:
        check_choice(name, allowed, "view")
    return tuple(dict.fromkeys(views))


def encode(texts: Sequence[str], names: Iterable[str], encoder: Encoder, say: Say) -> tuple[Views, list[int]]:
    """Views of texts, and which texts were longer than the encoder reads."""
    parts: dict[str, list[FloatArray]] = {name: [] for name in names}
    wanted = [name for name in parts if name != SURFACE]
    cut: list[int] = []
    for start in range(0, len(texts), CHUNK):
        chunk = list(texts[start : start + CHUNK])
        encoding = encoder.encode(chunk, views=wanted)
        cut += [start + row for row in encoding.truncated]
        for name, part in parts.items():
            part.append(surface_features(chunk) if name == SURFACE else encoding.rows(name))
        say(f"encoded {start + len(chunk)} of {len(texts)} texts")
    return {name: np.concatenate(part) for name, part in parts.items()}, cut


def encode_unique(texts: Sequence[str], names: Sequence[str], encoder: Encoder, say: Say) -> Views:
    """Views of texts; equal texts are encoded once."""
    unique, rows = np.unique(np.array(texts, dtype=object), return_inverse=True)
    views, cut = encode(unique.tolist(), names, encoder, say)
    warn_truncated(cut, len(unique))
    return {name: values[rows] for name, values in views.items()}


def say_to(progress: Progress) -> Say:
    """The caller's function, or one line of standard error if that is a terminal, or nothing."""
    if callable(progress):
        return progress
    if progress and sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1  # a longer line would wrap
        # back to the line's beginning, and blank to its end
        return lambda line: sys.stderr.write(f"\r{line[:width]}\x1b[K")
    return lambda line: None


def names_of(classes: Sequence[ClassName], views: Sequence[str], encoder: Encoder) -> tuple[IntArray, Views] | None:
    """Encode the names of classes in `PHRASES`: their places, and a row for each; None if fewer than two are words."""
    places = [place for place, label in enumerate(classes) if words_of(label)]
    if len(places) < 2:
        return None
    texts = [phrase.format(words_of(classes[place])) for place in places for phrase in PHRASES]
    found, _ = encode(texts, views, encoder, lambda line: None)
    return np.array(places), {
        view: rows.reshape(len(places), len(PHRASES), -1).mean(axis=1) for view, rows in found.items()
    }


# -- arrays -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Training data of n texts, and of m further examples behind them, which are never scored."""

    views: Mapping[str, FloatArray]  # (n + m, dim) each
    truth: IntArray  # class indices (n,) for softmax, 0 or 1 (n, classes) for sigmoid
    targets: DoubleArray  # (n + m, classes), in [0, 1]
    strata: IntArray  # (n,): what folds are balanced by
    weight: DoubleArray  # (n + m,): as how many examples each counts
    classes: tuple[str, ...]
    link: str
    names: IntArray  # rows of the names of classes
    ood: IntArray  # rows of texts out of domain

    @property
    def used(self) -> IntArray:
        """Texts that count at all."""
        return np.flatnonzero(self.weight[: len(self.truth)] > 0)

    def subset(self, rows: IntArray) -> Problem:
        """The same problem with some of its texts and all further examples."""
        shift = len(rows) - len(self.truth)
        every = np.append(rows, np.arange(len(self.truth), len(self.weight)))
        return replace(
            self,
            views={view: values[every] for view, values in self.views.items()},
            truth=self.truth[rows],
            targets=self.targets[every],
            strata=self.strata[rows],
            weight=self.weight[every],
            names=self.names + shift,
            ood=self.ood + shift,
        )

    def with_names(self, places: IntArray, views: Mapping[str, FloatArray]) -> Problem:
        """Add the names of some classes as examples.

        They are moved to the middle of the texts: a name is no message, and all names have that in common.
        """
        n = len(self.truth)
        share = self.weight[:n] / np.bincount(self.truth, self.weight[:n]).clip(1e-12)[self.truth]  # equal for classes
        moved = {
            view: rows - rows.mean(axis=0) + np.average(self.views[view][:n], axis=0, weights=share)
            for view, rows in views.items()
        }
        targets = np.eye(len(self.classes))[places]
        wider = self._with(moved, targets, NAME_WEIGHT)
        return replace(wider, names=np.arange(len(self.weight), len(wider.weight)))

    def with_ood(self, views: Mapping[str, FloatArray]) -> Problem:
        """Add texts out of domain, which are of each class as little as of any other."""
        count = len(next(iter(views.values())))
        wider = self._with(views, np.full((count, len(self.classes)), 1 / len(self.classes)), 1.0)
        return replace(wider, ood=np.arange(len(self.weight), len(wider.weight)))

    def _with(self, views: Mapping[str, FloatArray | DoubleArray], targets: DoubleArray, weight: float) -> Problem:
        return replace(
            self,
            views={view: np.concatenate([rows, views[view].astype(np.float32)]) for view, rows in self.views.items()},
            targets=np.concatenate([self.targets, targets]),
            weight=np.append(self.weight, np.full(len(targets), weight)),
        )


def problem_of(
    views: Mapping[str, FloatArray],
    targets: Targets,
    sample_weight: npt.NDArray[Any] | None = None,
    min_examples: int = 2,
) -> Problem:
    """Refuse data that no head can be fitted to, and bring the rest into arrays.

    Of labels of which a text has one, at least two need `min_examples` examples each. Of others, at least one needs two
    texts with it and two without.
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
        if len(counts) < 2 or np.sort(counts)[-2] < min_examples:
            raise InputError(
                f"labels hold {counted(len(counts), 'class')}; "
                f"give at least two classes with at least {counted(min_examples, 'example')} each"
            )
    weight = np.ones(len(matrix)) if sample_weight is None else _check_weight(sample_weight, strata, min_examples)
    arrays, none = {view: np.asarray(values, np.float32) for view, values in views.items()}, np.zeros(0, np.int64)
    classes, link = tuple(map(str, targets.classes)), "sigmoid" if targets.multi_label else "softmax"
    return Problem(arrays, truth, matrix.astype(np.float64), strata, weight, classes, link, none, none)


def _check_weight(sample_weight: npt.NDArray[Any], strata: IntArray, min_examples: int) -> DoubleArray:
    weight = np.array(sample_weight, np.float64)
    if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0 or not weight.any():
        raise InputError("sample_weight must hold finite numbers of at least 0, not all of them zero")
    if np.sort(np.bincount(strata[weight > 0], minlength=2))[-2] < min_examples:
        raise InputError(
            f"two classes need {counted(min_examples, 'example')} each with a sample_weight above 0; give more"
        )
    return weight


def folds_of(
    problem: Problem,
    groups: Sequence[str] | None,
    folds: int | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    seed: int,
) -> list[Fold]:
    """Balanced folds that keep groups together, or the given folds; texts of weight 0 are in neither part of a fold.

    If fewer than two classes have two groups, one fold scores all texts by the names of classes alone.
    """
    if isinstance(folds, Sequence):
        found = [(np.asarray(fitted, np.int64), np.asarray(scored, np.int64)) for fitted, scored in folds]
    elif problem.link == "softmax" and not can_hold_out(problem, groups):
        if not len(problem.names):
            raise InputError(
                "fewer than two classes have two different examples, and their labels are no words that could stand for "
                "them; give at least two different examples of two classes"
            )
        return [(np.zeros(0, np.int64), problem.used)]
    else:
        found = _balanced(problem, groups, folds, seed)
    used = problem.weight > 0
    found = [(fitted[used[fitted]], scored[used[scored]]) for fitted, scored in found]
    # a sigmoid head of several classes bears that a fold holds none of a rare one
    if any(len(np.unique(problem.strata[fitted])) < 2 for fitted, _ in found):
        raise InputError("a fold has only one class to train on; give more examples, more groups or fewer folds")
    if not any(len(scored) for _, scored in found):
        raise InputError("folds hold out no text; give at least one to hold out")
    return found


def can_hold_out(problem: Problem, groups: Sequence[str] | None) -> bool:
    """Whether two classes have texts of at least two groups each."""
    used = problem.used
    codes = used if groups is None else np.unique(np.asarray(groups, np.str_)[used], return_inverse=True)[1]
    pairs = np.unique(np.stack([problem.truth[used], codes]), axis=1)[0]
    return bool(np.sort(np.bincount(pairs, minlength=2))[-2] > 1)


def _balanced(problem: Problem, groups: Sequence[str] | None, folds: int, seed: int) -> list[Fold]:
    """Fewer folds than asked for where a class or the groups are too few."""
    selection = import_extra("sklearn.model_selection", "train")
    if check_positive(folds, "folds") < 2:
        raise InputError("folds is 1; cross-validation needs at least 2")
    count = len(problem.truth)
    codes = np.arange(count) if groups is None else np.asarray(groups, dtype=np.str_)
    rows = problem.used
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
