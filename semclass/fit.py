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
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.errors import InputError, import_extra
from semclass.types import DoubleArray, FloatArray, IntArray
from semclass.validation import check_choice, check_positive
from semclass.views import PIECES

KINDS = ("logistic", "svm")
"""Kinds of heads; ``kind="auto"`` lets cross-validation choose."""

LINKS = ("softmax", "sigmoid")

LOGISTIC_STRENGTHS = (3.0, 30.0, 300.0, 3000.0)
"""Inverse regularisation C that is tried; features have mean squared distance 1, so the range suits any views."""

KERNEL_WIDTHS = (0.5, 1.0)
"""Values of gamma in exp(-gamma d**2) that are tried; the mean squared distance of the training texts is 1."""

KERNEL_RIDGES = (0.03, 0.1, 0.3, 1.0)
"""Ridge penalties of the kernel machine that are tried."""

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
    """A fitted head as plain arrays; :func:`semclass.export.head_to_onnx` writes it as a network.

    Attributes
    ----------
    kind
        ``"logistic"`` or ``"svm"``.
    link
        ``"softmax"`` or ``"sigmoid"``.
    classes
        Names of the output columns; one for ``"sigmoid"``.
    inputs
        Name and dimension of each view, in the order in which they are concatenated; ``pieces`` is not concatenated.
    weights
        float32 of shape (dim, scores) for a logistic head, (landmarks, scores) for a kernel head.
    bias
        float32 of shape (scores,).
    slope, intercept
        Calibration: probabilities are link(slope * scores + intercept).
    projection, landmarks, gamma
        Kernel head: coordinates of a text, those of the training texts (n, components), and the kernel's width.
    ngrams
        Kernel head with the view ``pieces``: what n-grams add to the scores.
    merge
        bool of shape (scores, classes): the scores of which the largest is a class's score; None where every score is
        a class.
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
    weights: FloatArray
    bias: FloatArray
    slope: float = 1.0
    intercept: float = 0.0
    projection: Projection | None = None
    landmarks: Quantised | None = None
    gamma: float = 0.0
    ngrams: Ngrams | None = None
    merge: npt.NDArray[np.bool_] | None = None
    report: Mapping[str, Any] = field(default_factory=dict)


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
    """

    kind: str
    strength: float
    gamma: float = 0.0

    def __str__(self) -> str:
        """Name it, for tables."""
        name = "C" if self.kind == "logistic" else "ridge"
        width = f" gamma={self.gamma:g}" if self.kind == "svm" else ""
        return f"{self.kind} {name}={self.strength:g}{width}"


@dataclass(frozen=True)
class _Problem:
    """Checked training data.

    `targets` are what a kernel machine regresses on, (n, scores); `truth` indexes `classes` (softmax) or is 0/1.
    """

    inputs: Mapping[str, int]
    dense: FloatArray
    pieces: IntArray | None
    labels: IntArray
    truth: IntArray
    targets: DoubleArray
    classes: tuple[str, ...]
    link: str
    merge: npt.NDArray[np.bool_] | None


def fit_head(
    views: Mapping[str, FloatArray],
    labels: Sequence[str] | Sequence[int] | npt.NDArray[Any],
    *,
    kind: str = "auto",
    link: str = "softmax",
    name: str = "yes",
    parents: Mapping[str, str] | None = None,
    merge: bool = False,
    groups: Sequence[str] | None = None,
    components: int = 384,
    folds: int = 5,
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
        n class names; for ``link="sigmoid"`` n times 0 or 1.
    kind
        ``"logistic"``, ``"svm"`` or ``"auto"``, which tries both.
    link
        ``"softmax"``: one class of several. ``"sigmoid"``: one class or not.
    name
        Name of the one column of a sigmoid head.
    parents
        Superclass of each class name. A kernel machine then also regresses on the superclass, which helps classes with
        few examples: neighbours of the same superclass are half right.
    merge
        Give the probabilities of the superclasses instead of the classes'. A superclass has the score of its best
        class, so its decision is always the superclass of the decision between classes.
    groups
        n names; texts of one group are kept in one fold. Put near-duplicates into one group, or the choice will be
        for memorising. None: every text is a group of its own.
    components
        Principal components at most.
    folds
        Folds of the cross-validation, at least 2; fewer are used where a sigmoid head has fewer examples of a side.
    seed
        Of the folds.
    progress
        Called with one line of text per finished step.

    Returns
    -------
    FittedHead
        Fitted on all n texts, with the setting of the best cross-validated accuracy (softmax) or log loss (sigmoid).

    Raises
    ------
    InputError
        If views, labels and groups do not have n rows, hold values that are not finite, or the labels hold fewer than
        two classes with at least two examples each.
    MissingExtraError
        If scikit-learn is not installed.

    Notes
    -----
    Calibration is fitted on out-of-fold scores: each text is scored by a head that was fitted without it. A softmax head
    gets one temperature, which leaves every decision as it is (Guo et al. 2017, "On Calibration of Modern Neural
    Networks"); a sigmoid head gets slope and intercept with Platt's smoothed targets (Platt 1999).
    """
    check_choice(kind, ("auto", *KINDS), "kind")
    check_choice(link, LINKS, "link")
    check_positive(components, "components")
    problem = _check(views, labels, link, name, parents, merge)
    say = progress or (lambda line: None)
    candidates = _candidates(kind)
    splits = _splits(problem, groups, folds, seed)
    held_out = [
        merged(scores, problem.merge) for scores in _cross_validate(problem, candidates, splits, components, say)
    ]
    calibrations = [_calibrate(scores, problem) for scores in held_out]
    rows = [
        _row(candidate, scores, problem, *calibration)
        for candidate, scores, calibration in zip(candidates, held_out, calibrations, strict=True)
    ]
    for row in rows:
        say("  ".join(f"{key} {value:.4f}" if isinstance(value, float) else str(value) for key, value in row.items()))
    best = _best(rows, link)
    slope, intercept = calibrations[best]
    estimator = _fit(problem, candidates[best], components)
    report = {
        "examples": len(problem.labels),
        "folds": len(splits),
        "seed": seed,
        "chosen": str(candidates[best]),
        "candidates": rows,
        "rounding_error": _rounding_error(problem, estimator),
        "uncalibrated_log_loss": _log_loss(_link(held_out[best], problem.link), problem),
        **{key: value for key, value in rows[best].items() if key != "candidate"},
    }
    return replace(estimator.head, slope=slope, intercept=intercept, report=report)


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
    return _link(head.slope * merged(head_scores(head, views), head.merge) + head.intercept, head.link)


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
    name: str,
    parents: Mapping[str, str] | None,
    merge: bool,
) -> _Problem:
    """Refuse data that no head can be fitted to, and bring the rest into arrays."""
    given = list(labels)
    inputs = _check_views(views, len(given))
    dense = np.concatenate([views[view] for view in inputs if view != PIECES], axis=1).astype(np.float32)
    pieces = views[PIECES].astype(np.int64) if PIECES in inputs else None
    if link == "sigmoid":
        if parents is not None or merge:
            raise InputError("parents and merge belong to softmax heads; a sigmoid head has one class")
        truth = _check_binary(given)
        signs = 2 * truth.astype(np.float64)[:, None] - 1
        return _Problem(inputs, dense, pieces, truth, truth, signs, (name,), link, None)
    names, truth = _check_classes(given)
    targets = np.eye(len(names), dtype=np.float64)[truth]
    if parents is None:
        if merge:
            raise InputError("merge needs parents: the superclass of each class name")
        return _Problem(inputs, dense, pieces, truth, truth, targets, names, link, None)
    missing = [label for label in names if label not in parents]
    if missing:
        raise InputError(f"parents names no superclass of {missing[0]!r}")
    above = sorted({parents[label] for label in names})
    member = np.array([[parents[label] == parent for parent in above] for label in names])
    targets = targets + (member.astype(np.float64) @ member.T)[truth]
    if not merge:
        return _Problem(inputs, dense, pieces, truth, truth, targets, names, link, None)
    return _Problem(inputs, dense, pieces, truth, member[truth].argmax(axis=1), targets, tuple(above), link, member)


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


def _check_binary(labels: list[Any]) -> IntArray:
    """Bring 0/1 labels into an array; both must come at least twice."""
    strange = [label for label in labels if label not in (0, 1)]
    if strange:
        raise InputError(f"labels of a sigmoid head must be 0 or 1, not {strange[0]!r}")
    truth = np.array(labels, np.int64)
    counts = np.bincount(truth, minlength=2)
    if counts.min() < 2:
        raise InputError(
            f"there are {counts[1]} examples of the class and {counts[0]} of its absence; both need at least 2"
        )
    return truth


def _check_classes(labels: list[Any]) -> tuple[tuple[str, ...], IntArray]:
    """Sort the class names and index the labels; two classes must come at least twice."""
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


def _project(dense: FloatArray, components: int) -> Projection:
    """Standardise, rotate to principal axes, and scale to a mean squared distance of 1."""
    pca = import_extra("sklearn.decomposition", "train").PCA
    mean = dense.mean(axis=0, dtype=np.float64)
    spread = dense.std(axis=0, dtype=np.float64)
    spread[spread < 1e-6] = 1.0  # a column that never varies says nothing; do not blow up its rounding errors
    standard = (dense - mean) / spread
    count = min(components, dense.shape[1], len(dense) - 1)
    solver = "covariance_eigh" if len(dense) > dense.shape[1] else "full"
    fitted = pca(count, svd_solver=solver).fit(standard)
    # two independent rows are on average twice the total variance apart
    total = np.sqrt(max(2 * float(fitted.explained_variance_.sum()), _CLIP))
    matrix = Quantised.of(fitted.components_.T / spread[:, None] / total)
    return Projection(matrix, (mean @ matrix.dense()).astype(np.float32))


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
    scale: float


def _space(problem: _Problem, chosen: IntArray, components: int, kernel: bool) -> _Space:
    """Compute what every setting shares, from the chosen texts alone."""
    projection = _project(problem.dense[chosen], components)
    coordinates = projection(problem.dense[chosen])
    landmarks = Quantised.of(coordinates)
    if not kernel:
        return _Space(projection, landmarks, np.zeros((0, 0)), None, None, 0.0)
    points = landmarks.dense()
    squared = _squared_distances(points, points)
    if problem.pieces is None:
        return _Space(projection, landmarks, squared, None, None, 0.0)
    rows = _ngram_rows(problem.pieces[chosen])
    raw = _ngram_features(problem.pieces[chosen], rows, 1.0)
    norm = raw.multiply(raw).sum() / len(chosen)
    scale = float(np.sqrt(NGRAM_WEIGHT / norm)) if norm > 0 else 0.0
    return _Space(projection, landmarks, squared, rows, raw * scale, scale)


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


def _fit(problem: _Problem, candidate: Candidate, components: int) -> _Estimator:
    """Fit one setting to all texts."""
    everything = np.arange(len(problem.labels))
    return _fit_one(problem, everything, candidate, _space(problem, everything, components, candidate.kind == "svm"))


def _fit_logistic(problem: _Problem, chosen: IntArray, candidate: Candidate, space: _Space) -> _Estimator:
    """Fit a logistic regression in the coordinates, and fold them into its weights."""
    linear = import_extra("sklearn.linear_model", "train")
    model = linear.LogisticRegression(C=candidate.strength, max_iter=5000, tol=1e-6)
    model.fit(space.projection(problem.dense[chosen]), problem.labels[chosen])

    def scores_of(values: DoubleArray) -> DoubleArray:
        # one row of log odds means two classes; a sigmoid head wants just that, a softmax head a score for each
        if values.shape[1] == 1 and problem.link == "softmax":
            values = np.concatenate([-values, values], axis=1) / 2
        return values

    coefficients, bias = scores_of(model.coef_.T), scores_of(model.intercept_[None])[0]
    if problem.link == "softmax":
        # a class that a fold does not hold at all scores below every other
        missing = np.setdiff1d(np.arange(problem.targets.shape[1]), model.classes_)
        places = missing - np.arange(len(missing))
        coefficients = np.insert(coefficients, places, 0.0, axis=1)
        bias = np.insert(bias, places, bias.min() - 10.0)
    head = FittedHead(
        kind="logistic",
        link=problem.link,
        classes=problem.classes,
        inputs={view: dim for view, dim in problem.inputs.items() if view != PIECES},
        weights=(space.projection.matrix.dense() @ coefficients).astype(np.float32),
        bias=(bias - space.projection.offset @ coefficients).astype(np.float32),
        merge=problem.merge,
    )

    def predict(dense: FloatArray, pieces: IntArray | None) -> DoubleArray:
        decision = model.decision_function(space.projection(dense))
        return scores_of(decision[:, None] if decision.ndim == 1 else decision)

    return _Estimator(head, predict)


def _fit_kernel(problem: _Problem, chosen: IntArray, candidate: Candidate, space: _Space) -> _Estimator:
    """Solve the kernel machine; the n-gram kernel is linear, so its part becomes one weight per n-gram."""
    ridge = import_extra("sklearn.kernel_ridge", "train").KernelRidge
    kernel = np.exp(-candidate.gamma * space.squared)
    if space.ngrams is not None:
        kernel += (space.ngrams @ space.ngrams.T).toarray()
    targets = problem.targets[chosen]
    bias = targets.mean(axis=0)
    model = ridge(alpha=candidate.strength, kernel="precomputed").fit(kernel, targets - bias)
    ngrams = None
    if space.rows is not None:
        ngrams = Ngrams.of(space.rows, space.scale * (space.ngrams.T @ model.dual_coef_))
    head = FittedHead(
        kind="svm",
        link=problem.link,
        classes=problem.classes,
        inputs=problem.inputs,
        weights=model.dual_coef_.astype(np.float32),
        bias=bias.astype(np.float32),
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


def _splits(problem: _Problem, groups: Sequence[str] | None, folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Rows to fit on and rows to score, for each fold."""
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
    sizes = np.bincount(problem.labels)
    rarest = int(sizes.min()) if problem.link == "sigmoid" else int(np.sort(sizes)[-2])
    folds = min(folds, rarest, len(np.unique(codes)))
    if folds < 2:
        raise InputError("all texts are in one group; cross-validation needs at least two")
    splitter = selection.StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # classes rarer than the folds are missing from some; that is known and handled
        warnings.simplefilter("ignore", UserWarning)
        found = list(splitter.split(np.zeros(count), problem.labels, codes))
    for fit_rows, _ in found:
        if len(np.unique(problem.labels[fit_rows])) < 2:
            raise InputError("a fold would be fitted on one class only; give more examples, more groups or fewer folds")
    return found


def _cross_validate(
    problem: _Problem,
    candidates: list[Candidate],
    splits: list[tuple[IntArray, IntArray]],
    components: int,
    say: Callable[[str], object],
) -> list[DoubleArray]:
    """Out-of-fold scores of each candidate, each float64 of shape (n, scores)."""
    held_out = [np.zeros(problem.targets.shape) for _ in candidates]
    kernel = any(candidate.kind == "svm" for candidate in candidates)
    for number, (fit_rows, score_rows) in enumerate(splits):
        space = _space(problem, fit_rows, components, kernel)
        views = _rows_of(problem, score_rows)
        for candidate, scores in zip(candidates, held_out, strict=True):
            scores[score_rows] = head_scores(_fit_one(problem, fit_rows, candidate, space).head, views)
        say(f"fold {number + 1} of {len(splits)}: {len(candidates)} settings")
    return held_out


def _rounding_error(problem: _Problem, estimator: _Estimator) -> float:
    """Largest difference between the scores of the head's arrays and of the scikit-learn estimator, over all texts."""
    everything = np.arange(len(problem.labels))
    scores = head_scores(estimator.head, _rows_of(problem, everything))
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


def _link(scores: DoubleArray, link: str) -> DoubleArray:
    """Turn calibrated scores into probabilities."""
    if link == "sigmoid":
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)), np.float64)  # the same as 1 / (1 + exp(-x)), never overflows
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: DoubleArray = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def _log_loss(probabilities: DoubleArray, problem: _Problem) -> float:
    """Mean negative logarithm of the probability of the truth."""
    if problem.link == "sigmoid":
        right = np.where(problem.truth == 1, probabilities[:, 0], 1 - probabilities[:, 0])
    else:
        right = probabilities[np.arange(len(probabilities)), problem.truth]
    return float(-np.log(np.maximum(right, _CLIP)).mean())


def _calibrate(scores: DoubleArray, problem: _Problem) -> tuple[float, float]:
    """Slope and intercept that make held-out scores probabilities; see the notes of :func:`fit_head`."""
    optimise = import_extra("scipy.optimize", "train")
    if problem.link == "softmax":

        def loss(log_slope: float) -> float:
            return _log_loss(_link(np.exp(log_slope) * scores, "softmax"), problem)

        found = optimise.minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-4})
        return float(np.exp(found.x)), 0.0
    positives = int(problem.truth.sum())
    negatives = len(problem.truth) - positives
    smoothed = np.where(problem.truth == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    column = scores[:, 0]
    scale = max(float(column.std()), _CLIP)

    def platt(parameters: DoubleArray) -> float:
        # the slope is an exponential, so that a higher score never means a lower probability
        logits = np.exp(np.clip(parameters[0], -10, 10)) / scale * column + parameters[1]
        return float((np.logaddexp(0.0, logits) - smoothed * logits).mean())

    start = np.array([0.0, np.log(positives / negatives)])
    found = optimise.minimize(platt, start, method="BFGS")
    return float(np.exp(np.clip(found.x[0], -10, 10)) / scale), float(found.x[1])


def expected_calibration_error(probabilities: DoubleArray, right: npt.NDArray[np.bool_], bins: int = 10) -> float:
    """Mean distance between confidence and accuracy (Guo et al. 2017, eq. 3).

    Parameters
    ----------
    probabilities
        float64 of shape (n,): of the decision that was taken, in [0, 1].
    right
        bool of shape (n,): whether it was right.
    bins
        Number of equal bins of [0, 1].

    Returns
    -------
    float
        In [0, 1]; 0 is best.
    """
    places = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(places, weights=probabilities - right, minlength=bins)
    return float(np.abs(gaps).sum() / len(probabilities))


def _row(
    candidate: Candidate, scores: DoubleArray, problem: _Problem, slope: float, intercept: float
) -> dict[str, Any]:
    """Figures of one candidate on its held-out scores."""
    probabilities = _link(slope * scores + intercept, problem.link)
    if problem.link == "sigmoid":
        positive = probabilities[:, 0]
        right = (positive >= 0.5) == (problem.truth == 1)
        error = expected_calibration_error(positive, problem.truth == 1)
        figures = {"f1": _f1(positive >= 0.5, problem.truth == 1)}
    else:
        right = probabilities.argmax(axis=1) == problem.truth
        error = expected_calibration_error(probabilities.max(axis=1), right)
        figures = {}
    return {
        "candidate": str(candidate),
        "accuracy": float(right.mean()),
        **figures,
        "log_loss": _log_loss(probabilities, problem),
        "calibration_error": error,
    }


def _f1(said: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> float:
    """Harmonic mean of precision and recall."""
    return float(2 * (said & true).sum() / max(int(said.sum() + true.sum()), 1))


def _best(rows: list[dict[str, Any]], link: str) -> int:
    """Place of the best candidate: by log loss for sigmoid; by accuracy, then log loss, for softmax; then the first."""
    if link == "sigmoid":
        return min(range(len(rows)), key=lambda place: (round(rows[place]["log_loss"], 6), place))
    return min(range(len(rows)), key=lambda place: (-rows[place]["accuracy"], round(rows[place]["log_loss"], 6), place))
