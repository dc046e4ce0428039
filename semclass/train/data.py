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

from semclass.core.checks import check_positive, short
from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.core.types import ClassName, DoubleArray, Encoder, FloatArray, IntArray
from semclass.encoders.batching import CHUNK
from semclass.heads.head import SURFACE
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

    @classmethod
    def of(cls, y: Any, *, multi_label: bool) -> Targets:
        """Check labels of either shape."""
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
    """Return the words of a label, joined by spaces; "" for a label that is a number."""
    return " ".join(re.findall(r"[^\W_]+", label)) if isinstance(label, str) else ""


# -- texts ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _named_encoder(name: str | None) -> Encoder:
    """Load an encoder once; the clones of a grid search share it."""
    return open_encoder(name)


def shared_encoder(encoder: Encoder | str | Path | None) -> Encoder:
    """Return the encoder that a parameter means."""
    if encoder is None or isinstance(encoder, (str, Path)):
        return _named_encoder(None if encoder is None else str(encoder))
    return encoder


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


def say_to(progress: Progress) -> Say:
    """The caller's function, or one line of standard error if that is a terminal, or nothing."""
    if callable(progress):
        return progress
    if not (progress and sys.stderr.isatty()):
        return lambda line: None
    width = shutil.get_terminal_size().columns - 1  # a longer line would wrap
    return lambda line: sys.stderr.write(f"\r{line[:width]}\x1b[K")  # the code blanks the line to its end


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
        )

    def with_names(self, places: IntArray, views: Mapping[str, FloatArray]) -> Problem:
        """Add the names of some classes as examples.

        They are moved to the middle of the texts: names differ from messages, and all in the same way.
        """
        n = len(self.truth)
        share = self.weight[:n] / np.bincount(self.truth, self.weight[:n]).clip(1e-12)[self.truth]  # equal for classes
        moved = {
            view: rows - rows.mean(axis=0) + np.average(self.views[view][:n], axis=0, weights=share)
            for view, rows in views.items()
        }
        return replace(
            self,
            views={view: np.concatenate([rows, moved[view].astype(np.float32)]) for view, rows in self.views.items()},
            targets=np.concatenate([self.targets, np.eye(len(self.classes))[places]]),
            weight=np.append(self.weight, np.full(len(places), NAME_WEIGHT)),
            names=len(self.weight) + np.arange(len(places)),
        )


def problem_of(
    views: Mapping[str, FloatArray], targets: Targets, sample_weight: npt.NDArray[Any] | None = None
) -> Problem:
    """Refuse data that no head can be fitted to, and bring the rest into arrays.

    Of labels of which a text has one, there must be two. Of others, at least one needs two texts with it and two without.
    `sample_weight` says as how many examples each text counts, at least 0.
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
            raise InputError("labels hold 1 class; give at least two classes with at least 1 example each")
    weight = np.ones(len(matrix)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    arrays = {view: np.asarray(values, np.float32) for view, values in views.items()}
    classes, link = tuple(map(str, targets.classes)), "sigmoid" if targets.multi_label else "softmax"
    none = np.zeros(0, np.int64)
    return Problem(arrays, truth, matrix.astype(np.float64), strata, weight, classes, link, none)


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
                "fewer than two classes have two different examples, and the names of the labels cannot serve as "
                "examples; give at least two different examples of two classes"
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
