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

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_choice, check_positive
from semclass.core.errors import InputError, import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.inputs import PIECES
from semclass.train.calibration import (
    LINKS,
    calibrate,
    expected_calibration_error,
    f1_score,
    log_loss,
    probabilities_of,
)

KINDS = ("logistic", "svm")
"""Kinds of heads; ``kind="auto"`` lets cross-validation choose."""

LOGISTIC_STRENGTHS = (3.0, 30.0, 300.0, 3000.0)
"""Inverse regularisation C that is tried; features have mean squared distance 1, so the range suits any views."""

KERNEL_WIDTHS = (0.5, 1.0)
"""Values of gamma in exp(-gamma d**2) that are tried; the mean squared distance of the training texts is 1."""

KERNEL_RIDGES = (0.03, 0.1, 0.3, 1.0)
"""Ridge penalties of the kernel machine that are tried."""

COMPARED = 2000
"""Held-out texts that settings over several choices of views are compared on, at least; only the best one is then fitted
in the folds that remain. Differences of less than half a point are not worth the hours that all folds would take."""

NGRAM_WEIGHT = 0.4
"""Weight of the n-gram kernel beside the Gaussian one; both are 1 for a text with itself."""

NGRAM_SLOTS = 65536
"""Size of the hash table of n-grams."""

NGRAM_POSITIONS = 4
"""Word pieces at the beginning that also count together with their position: "what" as first piece."""

HASH_PRIME = 2147483647
"""Modulus of the n-gram hashes (Carter and Wegman 1979): products with word-piece ids below 2**24 fit in 63 bits."""

UNIGRAM_HASH = (1103515245, 12345)
BIGRAM_HASH = (1664525, 22695477, 777)
POSITION_HASH = (69621, 40692003)

NGRAM_TEXTS = 3
"""Training texts that an n-gram must occur in; rarer ones say what to memorise more than what to learn. On TREC 2 to 5 are
equally good (cross-validated coarse 94.1 to 94.2, fine 88.8 to 88.9), and 3 takes half the room of 2."""

_CLIP = 1e-12

_NO_VARIANCE = 1e-10
"""Share of the first principal axis's variance below which an axis is rounding error."""


@dataclass(frozen=True)
class Quantised:
    """A matrix in 8 bits: ``values * scale``.

    Attributes
    ----------
    values
        int8 of shape (rows, columns), in [-127, 127].
    scale
        float32 of shape (columns,), positive.
    """

    values: npt.NDArray[np.int8]
    scale: FloatArray

    @classmethod
    def of(cls, matrix: npt.NDArray[np.floating[Any]]) -> Quantised:
        """Round a matrix of shape (rows, columns), each column to 255 levels symmetric about 0."""
        scale = np.maximum(np.abs(matrix).max(axis=0) / 127, _CLIP).astype(np.float32)
        return cls(np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8), scale)

    def dense(self) -> DoubleArray:
        """Give the matrix as float64 of shape (rows, columns)."""
        return self.values.astype(np.float64) * self.scale.astype(np.float64)


@dataclass(frozen=True)
class Projection:
    """From the concatenated views to coordinates: ``x @ matrix - offset``.

    Attributes
    ----------
    matrix
        (dim, components): standardisation, principal axes, and division by the root mean squared distance in one.
    offset
        float32 of shape (components,).
    """

    matrix: Quantised
    offset: FloatArray

    def __call__(self, dense: FloatArray | DoubleArray) -> DoubleArray:
        """Project (n, dim) views to float64 (n, components)."""
        return np.asarray(dense, np.float64) @ self.matrix.dense() - self.offset


@dataclass(frozen=True)
class Ngrams:
    """A linear function of hashed word-piece n-grams.

    Attributes
    ----------
    rows
        int32 of shape (NGRAM_SLOTS,): row of `weights` for each hash slot; 0 for n-grams that too few training texts hold.
    weights
        int16 of shape (1 + n-grams, scores); row 0 is zero. Unlike the coordinates these are
        rounded after fitting, so they have 16 bits, which keep scores within 1e-4.
    scale
        float32 of shape (scores,): the weights are ``weights * scale``.
    """

    rows: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int16]
    scale: FloatArray

    @classmethod
    def of(cls, rows: npt.NDArray[np.int32], weights: DoubleArray) -> Ngrams:
        """Round weights of shape (1 + n-grams, scores), each column to 65,535 levels symmetric about 0."""
        scale = np.maximum(np.abs(weights).max(axis=0) / 32767, _CLIP).astype(np.float32)
        return cls(rows, np.clip(np.rint(weights / scale), -32767, 32767).astype(np.int16), scale)


@dataclass(frozen=True)
class FittedHead:
    """A fitted head as plain arrays; :func:`semclass.train.export.head_to_onnx` writes it as a network.

    Attributes
    ----------
    kind
        ``"logistic"`` or ``"svm"``.
    link
        ``"softmax"`` or ``"sigmoid"``.
    classes
        Names of the output columns.
    inputs
        Name and dimension of each view, in the order in which they are concatenated; ``pieces`` is not concatenated.
    weights
        Floats of shape (dim, scores) for a logistic head, (landmarks, scores) for a kernel head; float32 in the network.
    bias
        Floats of shape (scores,); float32 in the network.
    slope, intercept
        Calibration: probabilities are link(slope * scores + intercept). Of a sigmoid head with several columns, which
        are calibrated each on their own, slopes and intercepts are part of `weights`, `ngrams` and `bias` instead.
    projection, landmarks, gamma
        Kernel head: coordinates of a text, those of the training texts (n, components), and the kernel's width.
    ngrams
        Kernel head with the view ``pieces``: what n-grams add to the scores.
    merge
        bool of shape (scores, classes): the scores of which the largest is a class's score; None where every score is
        a class.
    out_of_fold
        float64 of shape (n, classes): calibrated probabilities of the training texts, each from a head that was fitted
        without it; nan for texts that were fitted on only. What thresholds, reliability diagrams and tables of
        precision and recall are made of. None for a head that was not made by :func:`fit_head`.
    report
        Of the cross-validation, in JSON types: ``candidates`` (a row of figures each), ``chosen``, its ``accuracy``,
        ``log_loss``, ``calibration_error`` (and ``f1``) on held-out texts, ``uncalibrated_log_loss``, ``examples``,
        ``folds``, ``seed``, and ``rounding_error``, the largest difference between the scores of these arrays and
        of the scikit-learn estimator they were made from.
    """

    kind: str
    link: str
    classes: tuple[str, ...]
    inputs: Mapping[str, int]
    weights: FloatArray | DoubleArray
    bias: FloatArray | DoubleArray
    slope: float = 1.0
    intercept: float = 0.0
    projection: Projection | None = None
    landmarks: Quantised | None = None
    gamma: float = 0.0
    ngrams: Ngrams | None = None
    merge: npt.NDArray[np.bool_] | None = None
    out_of_fold: DoubleArray | None = None
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """Views that a head may read, where cross-validation is to choose among several.

    Attributes
    ----------
    weights
        Root mean square length of each view, by name, as `view_weights` of :func:`fit_head`.
    kind
        ``"logistic"``, ``"svm"`` or ``"auto"``: what is tried over these views.
    """

    weights: Mapping[str, float]
    kind: str = "auto"


@dataclass(frozen=True)
class Candidate:
    """One setting that cross-validation tries.

    Attributes
    ----------
    kind
        ``"logistic"`` or ``"svm"``.
    strength
        C of a logistic regression (larger is freer), or the ridge penalty of a kernel machine (larger is tighter).
    gamma
        Width of the Gaussian kernel.
    views
        Names of the views, where there is a choice.
    """

    kind: str
    strength: float
    gamma: float = 0.0
    views: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Name it, for tables."""
        name = "C" if self.kind == "logistic" else "ridge"
        width = f" gamma={self.gamma:g}" if self.kind == "svm" else ""
        over = f" over {' + '.join(self.views)}" if self.views else ""
        return f"{self.kind} {name}={self.strength:g}{width}{over}"


@dataclass(frozen=True)
class _Problem:
    """Checked training data.

    `targets` are what a kernel machine regresses on, (n, scores); `labels` what logistic regressions learn and `truth`
    what is right: an index of `classes` for each text (softmax), or 0/1 for each text and class (sigmoid). The two
    differ where classes are merged. `strata` is what folds are balanced by. `blocks` are the columns of `dense` that
    principal components are found of together, each with its weight.
    """

    inputs: Mapping[str, int]
    dense: FloatArray
    pieces: IntArray | None
    blocks: Sequence[tuple[slice, float]]
    labels: IntArray
    truth: IntArray
    strata: IntArray
    targets: DoubleArray
    classes: tuple[str, ...]
    link: str
    judged: npt.NDArray[np.bool_]
    weight: DoubleArray | None = None
    merge: npt.NDArray[np.bool_] | None = None

    def weight_of(self, rows: IntArray) -> DoubleArray | None:
        """Weights of some texts; None where all count the same."""
        return None if self.weight is None else self.weight[rows]

    def used(self, rows: IntArray) -> IntArray:
        """Those of some texts that count at all."""
        return rows if self.weight is None else rows[self.weight[rows] > 0]


def fit_head(
    views: Mapping[str, FloatArray],
    labels: Sequence[str] | Sequence[int] | npt.NDArray[Any],
    *,
    kind: str = "auto",
    link: str = "softmax",
    name: str | Sequence[str] = "yes",
    parents: Mapping[str, str] | None = None,
    merge: bool = False,
    groups: Sequence[str] | None = None,
    sample_weight: npt.NDArray[Any] | None = None,
    judged: npt.NDArray[np.bool_] | None = None,
    view_weights: Mapping[str, float] | None = None,
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
        n class names; for ``link="sigmoid"`` 0 or 1, of shape (n,) for one class or (n, classes) for several.
    kind
        ``"logistic"``, ``"svm"`` or ``"auto"``, which tries both.
    link
        ``"softmax"``: one class of several. ``"sigmoid"``: for each class, yes or no. Several classes share the kind and
        the regularisation, and have weights, calibration and decision each of their own.
    name
        Name of the one column of a sigmoid head, or the names of its columns.
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
    judged
        n times whether a text also takes part in choice, calibration and report; one that does not is only fitted on.
        Meant for altered copies of texts, in one group with the original, and for labels of less worth. None: all.
    view_weights
        Root mean square length that each view gets where the penalty works, by name, all but ``pieces``: a view then
        counts for what it says, not for its number of columns, and has principal components of its own. None: all
        columns are standardised alike and have their principal components together.
    choices
        Views, with their weights and kinds, that cross-validation chooses among, in place of `kind` and `view_weights`.
        All are compared on the first folds that score `COMPARED` texts together, the best is fitted in the others too.
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
    problem = _check(views, labels, link, name, parents, merge)
    problem = _with_weights(problem, sample_weight, judged, view_weights)
    say = progress or (lambda line: None)
    problem, splits = _with_folds(problem, groups, folds, seed)
    trials = _trials(problem, kind, choices)
    first = len(splits) if choices is None else _enough(splits)
    held_out = [np.zeros(problem.targets.shape) for _ in trials]
    _cross_validate(trials, held_out, splits, range(first), components, say)
    compared = np.zeros(len(problem.labels), np.bool_)
    compared[np.concatenate([score_rows for _, score_rows in splits[:first]])] = True
    part = replace(problem, judged=compared)
    rows = [
        {"candidate": str(trial.candidate), **_verdict(part, scores).figures}
        for trial, scores in zip(trials, held_out, strict=True)
    ]
    for row in rows:
        say("  ".join(f"{key} {value:.4f}" if isinstance(value, float) else str(value) for key, value in row.items()))
    # over several views log loss decides: accuracy moves by chance where there are few texts, and says nothing of trust
    best = _best(rows, by_loss=link == "sigmoid" or choices is not None)
    chosen, scores = trials[best], held_out[best]
    _cross_validate([chosen], [scores], splits, range(first, len(splits)), components, say)
    verdict = _verdict(problem, scores)
    say(f"fitting {chosen.candidate} to all")
    estimator = _fit(chosen, components)
    report = {
        "examples": len(problem.labels),
        "folds": len(splits),
        "seed": seed,
        "chosen": str(chosen.candidate),
        "candidates": rows,
        "compared": int(compared.sum()),
        "rounding_error": _rounding_error(chosen.problem, estimator),
        "uncalibrated_log_loss": verdict.uncalibrated,
        **verdict.figures,
    }
    probabilities = np.where(problem.judged[:, None], verdict.probabilities, np.nan)
    return replace(_calibrated(estimator.head, *verdict.calibration), out_of_fold=probabilities, report=report)


def head_scores(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """Compute a head's scores in numpy, float64: the reference that the network is compared with.

    Parameters
    ----------
    head
        The head.
    views
        (n, dim) by name.

    Returns
    -------
    ndarray
        float64 of shape (n, scores), uncalibrated.
    """
    dense = np.concatenate([views[name] for name in head.inputs if name != PIECES], axis=1).astype(np.float64)
    if head.projection is None or head.landmarks is None:
        features: DoubleArray = dense
    else:
        features = np.exp(-head.gamma * _squared_distances(head.projection(dense), head.landmarks.dense()))
    scores = features @ head.weights.astype(np.float64) + head.bias
    if head.ngrams is not None:
        slots, valid = ngram_slots(views[PIECES].astype(np.int64))
        rows = head.ngrams.rows[slots] * valid
        total = head.ngrams.weights.astype(np.float64)[rows].sum(axis=1)
        scores += total * head.ngrams.scale / np.sqrt(np.maximum(valid.sum(axis=1, keepdims=True), 1))
    return scores


def head_probabilities(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """Compute a head's calibrated probabilities in numpy, float64 of shape (n, classes)."""
    return probabilities_of(head.slope * merged(head_scores(head, views), head.merge) + head.intercept, head.link)


def ngram_slots(pieces: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Hash the n-grams of texts: word pieces, pairs of neighbours, and the first pieces with their position.

    Parameters
    ----------
    pieces
        int64 of shape (n, length), word-piece ids below 2**24, padded with -1 at the end.

    Returns
    -------
    tuple
        Slots, int64 of shape (n, features) in [0, NGRAM_SLOTS), and whether the feature is there or padding, bool.
    """
    shifted = pieces + 2
    before = np.concatenate([np.zeros((len(pieces), 1), np.int64), shifted[:, :-1]], axis=1)
    first = shifted[:, :NGRAM_POSITIONS]
    places = np.arange(1, first.shape[1] + 1)
    hashes = [
        shifted * UNIGRAM_HASH[0] + UNIGRAM_HASH[1],
        before * BIGRAM_HASH[0] + shifted * BIGRAM_HASH[1] + BIGRAM_HASH[2],
        first * POSITION_HASH[0] + places * POSITION_HASH[1],
    ]
    valid = np.concatenate([shifted, shifted, first], axis=1) > 1
    return np.concatenate(hashes, axis=1) % HASH_PRIME % NGRAM_SLOTS, valid


# -- what is fitted ---------------------------------------------------------------------------------------------------


def _check(
    views: Mapping[str, FloatArray],
    labels: Sequence[str] | Sequence[int] | npt.NDArray[Any],
    link: str,
    name: str | Sequence[str],
    parents: Mapping[str, str] | None,
    merge: bool,
) -> _Problem:
    """Refuse data that no head can be fitted to, and bring the rest into arrays."""
    given = list(labels)
    inputs = _check_views(views, len(given))
    if link == "sigmoid":
        if parents is not None or merge:
            raise InputError("parents and merge belong to softmax heads; a sigmoid head has no superclasses")
        names = (name,) if isinstance(name, str) else tuple(name)
        labels_of = _check_binary(given, names)
        strata, targets = _rarest(labels_of), 2 * labels_of.astype(np.float64) - 1
    else:
        names, labels_of = check_classes(given)
        strata, targets = labels_of, np.eye(len(names), dtype=np.float64)[labels_of]
    problem = _Problem(
        inputs=inputs,
        dense=np.concatenate([views[view] for view in inputs if view != PIECES], axis=1).astype(np.float32),
        pieces=views[PIECES].astype(np.int64) if PIECES in inputs else None,
        blocks=[(slice(0, sum(dim for view, dim in inputs.items() if view != PIECES)), 1.0)],
        labels=labels_of,
        truth=labels_of,
        strata=strata,
        targets=targets,
        classes=names,
        link=link,
        judged=np.ones(len(given), np.bool_),
    )
    return _with_parents(problem, parents, merge)


def _with_parents(problem: _Problem, parents: Mapping[str, str] | None, merge: bool) -> _Problem:
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


def _with_weights(
    problem: _Problem,
    sample_weight: npt.NDArray[Any] | None,
    judged: npt.NDArray[np.bool_] | None,
    view_weights: Mapping[str, float] | None,
) -> _Problem:
    """Check the weights of texts and of views, and add them."""
    count = len(problem.labels)
    if sample_weight is not None:
        weight = np.array(sample_weight, np.float64)
        if weight.shape != (count,):
            raise InputError(
                f"sample_weight has shape {weight.shape}; it must be ({count},), one number for each label"
            )
        if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0 or not weight.any():
            raise InputError("sample_weight must hold finite numbers of at least 0, and not zero for all")
        problem = replace(problem, weight=weight)
        if np.sort(np.bincount(problem.strata[weight > 0], minlength=2))[-2] < 2:
            raise InputError("fewer than two classes have two examples each with a sample_weight above 0")
    if judged is not None:
        mask = np.array(judged, np.bool_)
        if mask.shape != (count,) or not mask.any():
            raise InputError(f"judged has shape {mask.shape}; it must be ({count},), with at least one true")
        problem = replace(problem, judged=mask)
    if view_weights is None:
        return problem
    dense = [view for view in problem.inputs if view != PIECES]
    if sorted(view_weights) != sorted(dense) or min(view_weights.values()) <= 0:
        raise InputError(f"view_weights must have a number above 0 for each of {', '.join(dense)}")
    return replace(problem, blocks=_blocks({view: problem.inputs[view] for view in dense}, view_weights))


def _blocks(dims: Mapping[str, int], weights: Mapping[str, float]) -> list[tuple[slice, float]]:
    """Columns of each view, and what they are multiplied by for a root mean square length of the view's weight."""
    ends = np.cumsum([0, *dims.values()]).tolist()
    return [
        (slice(start, end), weights[view] / np.sqrt(end - start))
        for view, start, end in zip(dims, ends[:-1], ends[1:], strict=True)
    ]


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
    """Bring 0/1 labels into an array (n, classes).

    Both must come at least twice for one class at least; another class may be rarer, or have no example at all, as happens
    in the parts of a cross-validation.
    """
    try:
        truth = np.array(labels)
    except ValueError as error:
        raise InputError(f"labels of a sigmoid head must have 0 or 1 for each of {len(names)} classes") from error
    truth = truth[:, None] if truth.ndim == 1 else truth
    if truth.ndim != 2 or truth.shape[1] != len(names) or len(set(names)) != len(names):
        raise InputError(
            f"labels have shape {truth.shape[1:]} each; name has {len(names)} names, which must be different"
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


def check_classes(labels: list[Any]) -> tuple[tuple[str, ...], IntArray]:
    """Sort the class names and index the labels, as :func:`fit_head` does for softmax heads.

    Parameters
    ----------
    labels
        n class names.

    Returns
    -------
    tuple
        Names, and their indices for each label, int64 of shape (n,).

    Raises
    ------
    InputError
        If a label is no string, or fewer than two classes come at least twice.
    """
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


def _candidates(kind: str) -> list[Candidate]:
    """Settings to try, simplest first, so that a tie goes to the simplest."""
    logistic = [Candidate("logistic", strength) for strength in LOGISTIC_STRENGTHS]
    kernel = [Candidate("svm", ridge, gamma) for gamma in KERNEL_WIDTHS for ridge in reversed(KERNEL_RIDGES)]
    return {"logistic": logistic, "svm": kernel, "auto": logistic + kernel}[kind]


@dataclass(frozen=True)
class _Trial:
    """A setting, and the problem with the views that it is tried on."""

    problem: _Problem
    candidate: Candidate


def _trials(problem: _Problem, kind: str, choices: Sequence[Choice] | None) -> list[_Trial]:
    """Every setting to try; those over the same views stand together."""
    if choices is None:
        return [_Trial(problem, candidate) for candidate in _candidates(kind)]
    if not choices:
        raise InputError("choices is empty; give at least one, or None")
    return [
        _Trial(over, replace(candidate, views=tuple(choice.weights)))
        for choice in choices
        for over in [_over(problem, choice.weights)]
        for candidate in _candidates(choice.kind)
    ]


def _over(problem: _Problem, weights: Mapping[str, float]) -> _Problem:
    """The same problem with some of its dense views; word pieces stay."""
    dense = [view for view in problem.inputs if view != PIECES]
    if not weights or not set(weights) <= set(dense) or min(weights.values()) <= 0:
        raise InputError(f"a choice must have a number above 0 for some of {', '.join(dense)}, not {dict(weights)}")
    ends = np.cumsum([0, *(problem.inputs[view] for view in dense)]).tolist()
    columns = [problem.dense[:, ends[place] : ends[place + 1]] for place in map(dense.index, weights)]
    dims = {view: problem.inputs[view] for view in weights}
    inputs = {**dims, **{view: dim for view, dim in problem.inputs.items() if view == PIECES}}
    return replace(problem, inputs=inputs, dense=np.concatenate(columns, axis=1), blocks=_blocks(dims, weights))


def _project(
    dense: FloatArray,
    components: int,
    blocks: Sequence[tuple[slice, float]] | None = None,
    weight: DoubleArray | None = None,
) -> Projection:
    """Standardise, rotate each block of columns to its principal axes, and scale to a mean squared distance of 1."""
    mean = np.average(dense, axis=0, weights=weight) if weight is not None else dense.mean(axis=0, dtype=np.float64)
    if weight is None:
        spread = dense.std(axis=0, dtype=np.float64)
    else:
        spread = np.sqrt(np.average((dense - mean) ** 2, axis=0, weights=weight))
    spread[spread < 1e-6] = 1.0  # a column that never varies says nothing; do not blow up its rounding errors
    standard = (dense - mean) / spread
    matrices, variance = [], 0.0
    for part, length in [(slice(0, dense.shape[1]), 1.0)] if blocks is None else blocks:
        axes, variances = _principal_axes(standard[:, part], components, weight)
        rows = np.zeros((dense.shape[1], len(axes)))
        rows[part] = axes.T / spread[part, None] * length
        matrices.append(rows)
        variance += float(variances.sum()) * length**2
    # two independent rows are on average twice the total variance apart
    total = np.sqrt(max(2 * variance, _CLIP))
    matrix = Quantised.of(np.concatenate(matrices, axis=1) / total)
    return Projection(matrix, (mean @ matrix.dense()).astype(np.float32))


def _principal_axes(
    standard: DoubleArray, components: int, weight: DoubleArray | None
) -> tuple[DoubleArray, DoubleArray]:
    """Principal axes, (components, columns), and their variances; directions in which nothing varies are left out."""
    rows, columns = standard.shape
    count = min(components, columns, rows - 1)
    if weight is None:
        pca = import_extra("sklearn.decomposition", "train").PCA
        fitted = pca(count, svd_solver="covariance_eigh" if rows > columns else "full").fit(standard)
        axes, variances = fitted.components_, fitted.explained_variance_
    else:
        # scikit-learn's has no weights; a text of weight 2 must be the same as that text twice
        examples = float(weight.sum())
        scaled = standard * np.sqrt(weight / max(examples - 1, examples / 2))[:, None]
        _, values, axes = np.linalg.svd(scaled if rows <= columns else np.linalg.qr(scaled, mode="r"))
        axes, variances = axes[:count], values[:count] ** 2
    kept = variances > _NO_VARIANCE * max(float(variances[0]), _CLIP)
    kept[0] = True
    return axes[kept], variances[kept]


def _squared_distances(left: DoubleArray, right: DoubleArray) -> DoubleArray:
    """Squared Euclidean distances between rows, (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    distances: DoubleArray = np.maximum(squares - 2 * left @ right.T, 0.0)
    return distances


def _ngram_features(pieces: IntArray, rows: npt.NDArray[np.int32], scale: float) -> Any:
    """Sparse (n, 1 + n-grams) matrix of n-gram counts, divided by the root of the text's number of n-grams."""
    sparse = import_extra("scipy.sparse", "train")
    slots, valid = ngram_slots(pieces)
    value = scale / np.sqrt(np.maximum(valid.sum(axis=1), 1))
    columns = (rows[slots] * valid).ravel()
    texts = np.repeat(np.arange(len(pieces)), slots.shape[1])
    kept = columns > 0
    data = value[texts[kept]]
    return sparse.csr_matrix((data, (texts[kept], columns[kept])), (len(pieces), int(rows.max()) + 1))


def _ngram_rows(pieces: IntArray) -> npt.NDArray[np.int32]:
    """Number the hash slots that enough training texts fill, from 1; the others get 0."""
    slots, valid = ngram_slots(pieces)
    own = [np.unique(row[there]) for row, there in zip(slots, valid, strict=True)]
    texts = np.bincount(np.concatenate(own), minlength=NGRAM_SLOTS)
    seen = texts >= NGRAM_TEXTS
    return np.where(seen, np.cumsum(seen), 0).astype(np.int32)


@dataclass(frozen=True)
class _Space:
    """Training texts in the coordinates of kernel heads; shared by all settings."""

    projection: Projection
    landmarks: Quantised
    squared: DoubleArray
    rows: npt.NDArray[np.int32] | None
    ngrams: Any
    ngram_kernel: DoubleArray | None
    scale: float


def _space(problem: _Problem, chosen: IntArray, components: int, kernel: bool) -> _Space:
    """Compute what every setting shares, from the chosen texts alone."""
    projection = _project(problem.dense[chosen], components, problem.blocks, problem.weight_of(chosen))
    coordinates = projection(problem.dense[chosen])
    landmarks = Quantised.of(coordinates)
    if not kernel:
        return _Space(projection, landmarks, np.zeros((0, 0)), None, None, None, 0.0)
    points = landmarks.dense()
    squared = _squared_distances(points, points)
    if problem.pieces is None:
        return _Space(projection, landmarks, squared, None, None, None, 0.0)
    rows = _ngram_rows(problem.pieces[chosen])
    raw = _ngram_features(problem.pieces[chosen], rows, 1.0)
    norm = raw.multiply(raw).sum() / len(chosen)
    scale = float(np.sqrt(NGRAM_WEIGHT / norm)) if norm > 0 else 0.0
    ngrams = raw * scale
    return _Space(projection, landmarks, squared, rows, ngrams, (ngrams @ ngrams.T).toarray(), scale)


@dataclass(frozen=True)
class _Estimator:
    """A fitted head, and the scikit-learn estimator it was made from, to compare with.

    `predict` gives the estimator's scores of texts, from their dense views and their pieces.
    """

    head: FittedHead
    predict: Callable[[FloatArray, IntArray | None], DoubleArray]


def _fit_one(problem: _Problem, chosen: IntArray, candidate: Candidate, space: _Space) -> _Estimator:
    """Fit one setting to the chosen texts, uncalibrated."""
    if candidate.kind == "logistic":
        return _fit_logistic(problem, chosen, candidate, space)
    return _fit_kernel(problem, chosen, candidate, space)


def _fit(trial: _Trial, components: int) -> _Estimator:
    """Fit one setting to all texts."""
    problem, candidate = trial.problem, trial.candidate
    everything = problem.used(np.arange(len(problem.labels)))
    return _fit_one(problem, everything, candidate, _space(problem, everything, components, candidate.kind == "svm"))


def _fit_logistic(problem: _Problem, chosen: IntArray, candidate: Candidate, space: _Space) -> _Estimator:
    """Fit a logistic regression in the coordinates, and fold them into its weights."""
    coordinates, labels = space.projection(problem.dense[chosen]), problem.labels[chosen]
    weight = problem.weight_of(chosen)
    if problem.link == "softmax":
        coefficients, bias = _one_of_many(coordinates, labels, weight, candidate.strength, problem.targets.shape[1])
    else:
        columns = [_yes_or_no(coordinates, column, weight, candidate.strength) for column in labels.T]
        coefficients = np.stack([column for column, _ in columns], axis=1)
        bias = np.array([intercept for _, intercept in columns])
    head = FittedHead(
        kind="logistic",
        link=problem.link,
        classes=problem.classes,
        inputs={view: dim for view, dim in problem.inputs.items() if view != PIECES},
        weights=space.projection.matrix.dense() @ coefficients,
        bias=bias - space.projection.offset @ coefficients,
        merge=problem.merge,
    )
    return _Estimator(head, lambda dense, pieces: np.asarray(space.projection(dense) @ coefficients + bias))


def _logistic(strength: float) -> Any:
    linear = import_extra("sklearn.linear_model", "train")
    return linear.LogisticRegression(C=strength, max_iter=5000, tol=1e-6)


def _one_of_many(
    coordinates: DoubleArray, labels: IntArray, weight: DoubleArray | None, strength: float, count: int
) -> tuple[DoubleArray, DoubleArray]:
    """Coefficients (components, classes) and intercepts (classes,) of a multinomial regression on class numbers."""
    with warnings.catch_warnings():
        # few texts of many classes: the numbers of classes look like measurements, which they are not
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model = _logistic(strength).fit(coordinates, labels, weight)
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
    model = _logistic(strength).fit(coordinates, labels, weight)
    return model.coef_[0], float(model.intercept_[0])


def _fit_kernel(problem: _Problem, chosen: IntArray, candidate: Candidate, space: _Space) -> _Estimator:
    """Solve the kernel machine; the n-gram kernel is linear, so its part becomes one weight per n-gram."""
    ridge = import_extra("sklearn.kernel_ridge", "train").KernelRidge
    kernel = np.exp(-candidate.gamma * space.squared)
    if space.ngram_kernel is not None:
        kernel += space.ngram_kernel
    targets, weight = problem.targets[chosen], problem.weight_of(chosen)
    bias = np.average(targets, axis=0, weights=weight)
    model = ridge(alpha=candidate.strength, kernel="precomputed").fit(kernel, targets - bias, weight)
    ngrams = None
    if space.rows is not None:
        ngrams = Ngrams.of(space.rows, space.scale * (space.ngrams.T @ model.dual_coef_))
    head = FittedHead(
        kind="svm",
        link=problem.link,
        classes=problem.classes,
        inputs=problem.inputs,
        weights=model.dual_coef_,
        bias=bias,
        projection=space.projection,
        landmarks=space.landmarks,
        gamma=candidate.gamma,
        ngrams=ngrams,
        merge=problem.merge,
    )

    def predict(dense: FloatArray, pieces: IntArray | None) -> DoubleArray:
        rbf = import_extra("sklearn.metrics.pairwise", "train").rbf_kernel
        against = rbf(space.projection(dense), space.landmarks.dense(), gamma=candidate.gamma)
        if pieces is not None and space.rows is not None:
            against += (_ngram_features(pieces, space.rows, space.scale) @ space.ngrams.T).toarray()
        predicted: DoubleArray = model.predict(against) + bias
        return predicted

    return _Estimator(head, predict)


# -- cross-validation and calibration ---------------------------------------------------------------------------------


def _with_folds(
    problem: _Problem,
    groups: Sequence[str] | None,
    folds: int | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    seed: int,
) -> tuple[_Problem, list[tuple[IntArray, IntArray]]]:
    """Rows to fit on and rows to score, for each fold; rows that no fold scores are judged no longer."""
    found = _given_folds(problem, folds) if isinstance(folds, Sequence) else _splits(problem, groups, folds, seed)
    splits = []
    scored = np.zeros(len(problem.labels), np.bool_)
    for fit_rows, score_rows in found:
        fit_rows, score_rows = problem.used(fit_rows), problem.used(score_rows)
        score_rows = score_rows[problem.judged[score_rows]]
        # a sigmoid head of several classes bears that a fold holds none of a rare one
        if len(np.unique(problem.strata[fit_rows])) < 2:
            raise InputError("a fold would be fitted on one class only; give more examples, more groups or fewer folds")
        scored[score_rows] = True
        splits.append((fit_rows, score_rows))
    if not scored.any():
        raise InputError("the folds score no text; cross-validation needs some")
    return replace(problem, judged=problem.judged & scored), splits


def _given_folds(
    problem: _Problem, folds: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]
) -> list[tuple[IntArray, IntArray]]:
    """Check pairs of rows that the caller chose."""
    count = len(problem.labels)
    found = []
    for pair in folds:
        fit_rows, score_rows = (np.asarray(rows, np.int64) for rows in pair)
        both = np.concatenate([fit_rows, score_rows])
        if both.min(initial=0) < 0 or both.max(initial=0) >= count:
            raise InputError(f"folds names rows that are not there; rows go from 0 to {count - 1}")
        found.append((fit_rows, score_rows))
    return found


def _splits(problem: _Problem, groups: Sequence[str] | None, folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Balanced folds that keep groups together."""
    selection = import_extra("sklearn.model_selection", "train")
    if check_positive(folds, "folds") < 2:
        raise InputError("folds is 1; cross-validation needs at least 2")
    count = len(problem.labels)
    if groups is None:
        codes = np.arange(count)
    else:
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
    return [(rows[fit_rows], rows[score_rows]) for fit_rows, score_rows in found]


def _enough(splits: list[tuple[IntArray, IntArray]]) -> int:
    """How many folds it takes to score `COMPARED` texts, or the number of all."""
    scored = np.cumsum([len(score_rows) for _, score_rows in splits])
    return min(int(np.searchsorted(scored, COMPARED)) + 1, len(splits))


def _cross_validate(
    trials: list[_Trial],
    held_out: list[DoubleArray],
    splits: list[tuple[IntArray, IntArray]],
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
            space = _space(problem, fit_rows, components, kernel)
            views = _rows_of(problem, score_rows)
            for trial, scores in together:
                scores[score_rows] = head_scores(_fit_one(problem, fit_rows, trial.candidate, space).head, views)
        say(f"fold {number + 1} of {len(splits)}: {len(trials)} setting{'s' * (len(trials) > 1)}")


def _rounding_error(problem: _Problem, estimator: _Estimator) -> float:
    """Largest difference between the scores of the head's arrays and of the scikit-learn estimator, over all texts."""
    scores = head_scores(estimator.head, _rows_of(problem, np.arange(len(problem.labels))))
    return float(np.abs(scores - estimator.predict(problem.dense, problem.pieces)).max())


def _rows_of(problem: _Problem, rows: IntArray) -> dict[str, Any]:
    """The views of some texts, by name, as `head_scores` reads them."""
    views: dict[str, Any] = {}
    start = 0
    for view, dim in problem.inputs.items():
        if view == PIECES and problem.pieces is not None:
            views[view] = problem.pieces[rows]
        else:
            views[view] = problem.dense[rows, start : start + dim]
            start += dim
    return views


def merged(scores: DoubleArray, merge: npt.NDArray[np.bool_] | None) -> DoubleArray:
    """Give each superclass the largest of its classes' scores.

    Parameters
    ----------
    scores
        float64 of shape (n, scores).
    merge
        bool of shape (scores, classes); None leaves the scores as they are.

    Returns
    -------
    ndarray
        float64 of shape (n, classes).
    """
    if merge is None:
        return scores
    return np.stack([scores[:, members].max(axis=1) for members in merge.T], axis=1)


@dataclass(frozen=True)
class _Verdict:
    """What held-out scores of the judged texts say: calibration, probabilities of all texts, and figures."""

    calibration: tuple[DoubleArray, DoubleArray]
    probabilities: DoubleArray
    uncalibrated: float
    figures: dict[str, float]


def _verdict(problem: _Problem, held_out: DoubleArray) -> _Verdict:
    """Calibrate on the judged texts, and measure there."""
    rows = np.flatnonzero(problem.judged)
    scores = merged(held_out, problem.merge)
    judgement = problem.truth[rows], problem.link, problem.weight_of(rows)
    slope, intercept = calibrate(scores[rows], *judgement)
    probabilities = probabilities_of(slope * scores + intercept, problem.link)
    return _Verdict(
        calibration=(slope, intercept),
        probabilities=probabilities,
        uncalibrated=log_loss(probabilities_of(scores[rows], problem.link), *judgement),
        figures=_figures(probabilities[rows], *judgement),
    )


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
        columns = range(truth.shape[1])
        accuracy = float(np.average((said == true).mean(axis=1), weights=weight))
        figures["f1"] = float(np.mean([f1_score(said[:, k], true[:, k], weight) for k in columns]))
        errors = [expected_calibration_error(probabilities[:, k], true[:, k], weight=weight) for k in columns]
        error = float(np.mean(errors))
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
