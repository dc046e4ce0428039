"""The two kinds of heads, logistic regressions and support vector machines, fitted to texts in coordinates they share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_choice
from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.inputs import PIECES
from semclass.train.data import Problem
from semclass.train.fitted import (
    NGRAM_SLOTS,
    SMALLEST,
    FittedHead,
    Ngrams,
    Projection,
    Quantised,
    ngram_slots,
    squared_distances,
)

KINDS = ("logistic", "svm")
"""Kinds of heads; ``kind="auto"`` lets cross-validation choose."""

# what is tried; the mean squared distance of the training texts is 1, so these suit any views
LOGISTIC_STRENGTHS = (3.0, 30.0, 300.0, 3000.0)  # inverse regularisation C
SVM_STRENGTHS = (0.5, 1.5, 5.0)  # inverse regularisation C
GAMMA = 1.0  # of the Gaussian kernel exp(-gamma d**2); 0.5 is worse on TREC
ROUNDS = 60  # of least squares for a support vector machine at most
SETTLED = 0.01  # change of the scores, whose margin is 1, after which no round follows

KERNEL_TEXTS = (300, 10_000)
"""With fewer or more examples classifiers with ``kind="auto"`` try logistic regressions only. With few, cross-validation
cannot say which is better: on 8 questions of each coarse TREC class, accuracy on others is 0.741 with logistic regressions
alone and 0.732 with both. With many, a machine takes memory by the square and time by the cube of their number."""

COMPONENTS = 384  # principal components at most, of each view if it has its own
NGRAMS = 65_535  # n-grams at most, so that 16 bits number them
JITTER = 1e-5  # on the diagonal of the landmarks' kernel, as near-duplicates make it singular

NGRAM_WEIGHT = 0.4  # of the n-gram kernel beside the Gaussian one, which is 1 for a text with itself

NGRAM_TEXTS = 3
"""Training texts that an n-gram must occur in. On TREC 2 to 5 are equally good, and 3 takes half the room of 2."""

NO_VARIANCE = 1e-10  # share of the first principal axis's variance below which an axis is rounding error
FLAT = 0.01  # share of the median deviation of a view's columns below which one says nothing; some models have such


@dataclass(frozen=True)
class Candidate:
    """One setting that cross-validation tries."""

    kind: str
    strength: float  # inverse regularisation C
    views: tuple[str, ...] = ()  # where there is a choice

    def __str__(self) -> str:
        over = f" over {' + '.join(self.views)}" if self.views else ""
        return f"{self.kind} C={self.strength:g}{over}"


def candidates_of(kind: str, views: tuple[str, ...] = ()) -> list[Candidate]:
    """Settings to try, simplest first, so that a tie goes to the simplest."""
    logistic = [Candidate("logistic", strength, views) for strength in LOGISTIC_STRENGTHS]
    machines = [Candidate("svm", strength, views) for strength in SVM_STRENGTHS]
    return {"logistic": logistic, "svm": machines, "auto": logistic + machines}[kind]


def affordable_kind(kind: str, examples: int) -> str:
    """Leave support vector machines out of the choice where they bring nothing or take too long."""
    check_choice(kind, ("auto", *KINDS), "kind")
    least, most = KERNEL_TEXTS
    return "logistic" if kind == "auto" and not least <= examples <= most else kind


@dataclass(frozen=True)
class NgramSpace:
    """The n-grams of n training texts."""

    rows: npt.NDArray[np.int32]  # (NGRAM_SLOTS,), see Ngrams
    features: Any  # sparse (n, 1 + n-grams)
    scale: float  # the kernel of a text with itself is NGRAM_WEIGHT on average


@dataclass(frozen=True)
class Space:
    """n training texts in the coordinates that all settings share."""

    projection: Projection
    landmarks: Quantised  # (m, components): of every text, or of m that stand for all
    squared: DoubleArray  # distances (n, m) where a kernel head is fitted, or empty
    ngrams: NgramSpace | None


@dataclass(frozen=True)
class Limits:
    """How large a support vector machine may get."""

    components: int = COMPONENTS
    landmarks: int | None = None  # texts that others are compared with; None: all
    ngrams: int = NGRAMS  # the most frequent ones


def space_of(problem: Problem, chosen: IntArray, kernel: bool, limits: Limits | None = None) -> Space:
    """Compute what every setting shares, from the chosen texts alone."""
    limits = limits or Limits()
    projection = project(problem.dense[chosen], problem.blocks, problem.weight_of(chosen), limits.components)
    texts = Quantised.of(projection(problem.dense[chosen]))
    if not kernel:
        return Space(projection, texts, np.zeros((0, 0)), None)
    # evenly spaced, so that every source of the texts has its share
    count = min(limits.landmarks or len(chosen), len(chosen))
    landmarks = Quantised(texts.values[np.linspace(0, len(chosen) - 1, count).astype(np.int64)], texts.scale)
    pieces = problem.views.get(PIECES)
    ngrams = None if pieces is None else ngram_space(pieces[chosen].astype(np.int64), limits.ngrams)
    return Space(projection, landmarks, squared_distances(texts.dense(), landmarks.dense()), ngrams)


def project(
    dense: FloatArray,
    blocks: Sequence[tuple[slice, float]],
    weight: DoubleArray | None = None,
    components: int = COMPONENTS,
    even: Sequence[bool] = (),
    further: FloatArray | None = None,
) -> Projection:
    """Standardise, rotate each block of columns to its principal axes, and scale to a mean squared distance of 1.

    The columns of blocks that are `even` keep their proportions. The axes span `further` rows too.
    """
    if weight is None:
        mean, spread = dense.mean(axis=0, dtype=np.float64), dense.std(axis=0, dtype=np.float64)
    else:
        mean = np.average(dense, axis=0, weights=weight)
        spread = np.sqrt(np.average((dense - mean) ** 2, axis=0, weights=weight))
    for place, (part, _) in enumerate(blocks):
        spread[part] = spreads(spread[part], even=any(even[place : place + 1]))
    standard = (dense - mean) / spread
    more = further is not None and len(further) > 0
    both = np.concatenate([standard, (further - mean) / spread]) if more else standard
    matrices, variance = [], 0.0
    for part, length in blocks:
        axes, variances = _principal_axes(both[:, part], weight, components)
        if more:
            variances = (standard[:, part] @ axes.T).var(axis=0, ddof=1)
        rows = np.zeros((dense.shape[1], len(axes)))
        rows[part] = axes.T / spread[part, None] * length
        matrices.append(rows)
        variance += float(variances.sum()) * length**2
    # two independent rows are on average twice the total variance apart
    total = np.sqrt(max(2 * variance, SMALLEST))
    matrix = Quantised.of(np.concatenate(matrices, axis=1) / total)
    return Projection(matrix, (mean @ matrix.dense()).astype(np.float32))


def few_texts(examples: int, classes: int) -> bool:
    """Whether names of classes count less, are read alone, and give the principal components no directions.

    Texts that are held out lie in the directions of few texts, and new ones do not: with 5 questions of each coarse TREC
    class, log loss on others is 0.77 so and 0.95 otherwise. With one text of each class nothing is held out, and names that
    may differ in directions of their own bring accuracy from 0.38 to 0.44.
    """
    return classes < examples < COMPONENTS


def spreads(deviations: DoubleArray, *, even: bool = False) -> DoubleArray:
    """What columns are divided by: their standard deviations, or the root mean square of all of these."""
    # a column that hardly varies says nothing; do not blow up its rounding errors
    flat = deviations < max(FLAT * float(np.median(deviations)), 1e-6)
    if even:
        return np.full(len(deviations), np.sqrt(np.square(deviations).mean()) or 1.0)
    return np.where(flat, 1.0, deviations)


def _principal_axes(
    standard: DoubleArray, weight: DoubleArray | None, components: int
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
    kept = variances > NO_VARIANCE * max(float(variances[0]), SMALLEST)
    kept[0] = True
    return axes[kept], variances[kept]


def ngram_space(pieces: IntArray, most: int = NGRAMS) -> NgramSpace:
    """Count the n-grams that enough texts hold, `most` at most, and scale them."""
    slots, valid = ngram_slots(pieces)
    own = [np.unique(row[there]) for row, there in zip(slots, valid, strict=True)]
    held = np.bincount(np.concatenate(own), minlength=NGRAM_SLOTS)
    seen = np.zeros(NGRAM_SLOTS, np.bool_)
    seen[np.argsort(-held, kind="stable")[:most]] = True
    seen &= held >= NGRAM_TEXTS
    rows = np.where(seen, np.cumsum(seen), 0).astype(np.int32)
    # counts, divided by the root of the text's number of n-grams
    value = 1 / np.sqrt(np.maximum(valid.sum(axis=1), 1))
    columns = (rows[slots] * valid).ravel()
    texts = np.repeat(np.arange(len(slots)), slots.shape[1])
    kept = columns > 0
    sparse = import_extra("scipy.sparse", "train")
    raw = sparse.csr_matrix((value[texts[kept]], (texts[kept], columns[kept])), (len(slots), int(rows.max()) + 1))
    norm = raw.multiply(raw).sum() / len(pieces)
    scale = float(np.sqrt(NGRAM_WEIGHT / norm)) if norm > 0 else 0.0
    return NgramSpace(rows, raw * scale, scale)


def solve(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Fit one setting to the chosen texts, uncalibrated."""
    return {"logistic": _logistic, "svm": _svm}[candidate.kind](problem, chosen, candidate, space)


def _logistic(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Fit a logistic regression in the coordinates, and fold them into its weights."""
    coordinates, labels = space.projection(problem.dense[chosen]), problem.truth[chosen]
    weight = problem.weight_of(chosen)
    if problem.link == "softmax":
        coefficients, bias = _one_of_many(coordinates, labels, weight, candidate.strength, len(problem.classes))
    else:
        columns = [_yes_or_no(coordinates, column, weight, candidate.strength) for column in labels.T]
        coefficients = np.stack([column for column, _ in columns], axis=1)
        bias = np.array([intercept for _, intercept in columns])
    return FittedHead(
        kind="logistic",
        link=problem.link,
        classes=problem.classes,
        inputs={view: values.shape[1] for view, values in problem.views.items() if view != PIECES},
        weights=space.projection.matrix.dense() @ coefficients,
        bias=bias - space.projection.offset @ coefficients,
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


def _svm(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Fit a support vector machine; the n-gram kernel is linear, so its part becomes one weight per n-gram."""
    kernel, ngrams = np.exp(-GAMMA * space.squared), space.ngrams
    sides, weight = problem.sides[chosen], problem.weight_of(chosen)
    root = np.ones((len(sides), 1)) if weight is None else np.sqrt(np.maximum(weight, SMALLEST))[:, None]
    solved = _dual if kernel.shape[0] == kernel.shape[1] else _primal
    weights, linear, bias = solved(kernel, space, candidate, sides, root)
    return FittedHead(
        kind="svm",
        link=problem.link,
        classes=problem.classes,
        inputs={view: values.shape[1] for view, values in problem.views.items()},
        weights=weights,
        bias=bias,
        projection=space.projection,
        landmarks=space.landmarks,
        gamma=GAMMA,
        ngrams=None if ngrams is None else Ngrams(ngrams.rows, Quantised.of(ngrams.scale * linear, np.int16)),
    )


def _settled(fitted: Callable[[DoubleArray], tuple[DoubleArray, DoubleArray]], sides: DoubleArray) -> DoubleArray:
    """Weights of support vector machines with the squared hinge loss, by rounds of least squares.

    `fitted` gives weights and scores for targets. A text beyond its margin costs nothing, so its target is its score.
    Rounds go on in the direction in which scores moved (Nesterov 1983), until that overshoots.
    """
    scores = ahead = np.zeros_like(sides)
    pace = 1.0
    for _ in range(ROUNDS):
        weights, found = fitted(sides * np.maximum(1.0, sides * ahead))
        step = found - scores
        faster = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        if np.vdot(ahead - found, step) > 0:
            ahead, pace = found, 1.0
        else:
            ahead, pace = found + (pace - 1) / faster * step, faster
        scores = found
        if np.abs(step).max() < SETTLED:
            break
    return weights


_Solution = tuple[DoubleArray, DoubleArray, DoubleArray]  # weights of landmarks, of n-grams, and intercepts


def _dual(kernel: DoubleArray, space: Space, candidate: Candidate, sides: DoubleArray, root: DoubleArray) -> _Solution:
    """Every text is a landmark; `root` (n, 1) is the root of its weight."""
    linalg, penalty = import_extra("scipy.linalg", "train"), 1 / (2 * candidate.strength)
    features = None if space.ngrams is None else space.ngrams.features
    both = kernel if features is None else kernel + (features @ features.T).toarray()
    gram = (both + 1.0) * root * root.T  # the one is of the intercept
    gram[np.diag_indices(len(gram))] += penalty
    factor = linalg.cho_factor(gram, overwrite_a=True)

    def fitted(targets: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        dual = linalg.cho_solve(factor, root * targets)
        return root * dual, targets - penalty * dual / root

    dual = _settled(fitted, sides)
    return dual, np.zeros((0, dual.shape[1])) if features is None else features.T @ dual, dual.sum(axis=0)


def _primal(
    kernel: DoubleArray, space: Space, candidate: Candidate, sides: DoubleArray, root: DoubleArray
) -> _Solution:
    """Some texts are landmarks: a linear machine over what they tell of others (Williams and Seeger 2001) and n-grams."""
    linalg, sparse = import_extra("scipy.linalg", "train"), import_extra("scipy.sparse", "train")
    points = space.landmarks.dense()
    between = np.exp(-GAMMA * squared_distances(points, points)) + JITTER * np.eye(len(points))
    lower, count = np.linalg.cholesky(between), len(points)
    told = linalg.solve_triangular(lower, kernel.T, lower=True).T
    ones = np.ones((len(told), 1))  # of the intercept
    seen = (np.concatenate([told, ones], axis=1) * root).astype(np.float32)
    features = sparse.csr_matrix((len(seen), 0)) if space.ngrams is None else space.ngrams.features
    ngrams = (sparse.diags(root[:, 0]) @ features).astype(np.float32)
    mixed = ngrams.T @ seen
    gram = np.block([[seen.T @ seen, mixed.T], [mixed, (ngrams.T @ ngrams).toarray()]]).astype(np.float64)
    gram[np.diag_indices(len(gram))] += 1 / (2 * candidate.strength)
    factor = linalg.cho_factor(gram, overwrite_a=True)

    def fitted(targets: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        wanted = (root * targets).astype(np.float32)
        found = linalg.cho_solve(factor, np.concatenate([seen.T @ wanted, ngrams.T @ wanted]).astype(np.float64))
        near = found.astype(np.float32)
        return found, (seen @ near[: count + 1] + ngrams @ near[count + 1 :]) / root

    found = _settled(fitted, sides)
    weights = linalg.solve_triangular(lower, found[:count], lower=True, trans=1)
    return weights, found[count + 1 :], found[count]
