"""The two kinds of heads: logistic regressions and kernel machines, fitted to texts in coordinates that they share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
KERNEL_WIDTHS = (0.5, 1.0)  # gamma in exp(-gamma d**2)
KERNEL_RIDGES = (0.03, 0.1, 0.3, 1.0)

KERNEL_TEXTS = (300, 10_000)
"""With fewer or more examples classifiers with ``kind="auto"`` try logistic regressions only. With few, cross-validation
cannot say which is better: on 8 questions of each coarse TREC class, accuracy on others is 0.741 with logistic regressions
alone and 0.732 with both. With many, a kernel machine takes memory by the square and time by the cube of their number."""

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
    strength: float  # C of a logistic regression, or ridge penalty of a kernel machine
    gamma: float = 0.0  # of a kernel machine
    views: tuple[str, ...] = ()  # where there is a choice

    def __str__(self) -> str:
        name = "C" if self.kind == "logistic" else "ridge"
        width = f" gamma={self.gamma:g}" if self.kind == "svm" else ""
        over = f" over {' + '.join(self.views)}" if self.views else ""
        return f"{self.kind} {name}={self.strength:g}{width}{over}"


def candidates_of(kind: str, views: tuple[str, ...] = ()) -> list[Candidate]:
    """Settings to try, simplest first, so that a tie goes to the simplest."""
    logistic = [Candidate("logistic", strength, views=views) for strength in LOGISTIC_STRENGTHS]
    kernel = [Candidate("svm", ridge, gamma, views) for gamma in KERNEL_WIDTHS for ridge in reversed(KERNEL_RIDGES)]
    return {"logistic": logistic, "svm": kernel, "auto": logistic + kernel}[kind]


def affordable_kind(kind: str, examples: int) -> str:
    """Leave kernel machines out of the choice where they bring nothing or take too long."""
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
    """How large a kernel machine may get."""

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
    return {"logistic": _logistic, "svm": _kernel}[candidate.kind](problem, chosen, candidate, space)


def _logistic(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Fit a logistic regression in the coordinates, and fold them into its weights."""
    coordinates, labels = space.projection(problem.dense[chosen]), problem.truth[chosen]
    weight = problem.weight_of(chosen)
    if problem.link == "softmax":
        coefficients, bias = _one_of_many(coordinates, labels, weight, candidate.strength, problem.targets.shape[1])
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


def _kernel(problem: Problem, chosen: IntArray, candidate: Candidate, space: Space) -> FittedHead:
    """Solve the kernel machine; the n-gram kernel is linear, so its part becomes one weight per n-gram."""
    kernel, ngrams = np.exp(-candidate.gamma * space.squared), space.ngrams
    targets, weight = problem.targets[chosen], problem.weight_of(chosen)
    bias = np.average(targets, axis=0, weights=weight)
    solved = _dual if kernel.shape[0] == kernel.shape[1] else _primal
    weights, linear = solved(kernel, space, candidate, targets - bias, weight)
    return FittedHead(
        kind="svm",
        link=problem.link,
        classes=problem.classes,
        inputs={view: values.shape[1] for view, values in problem.views.items()},
        weights=weights,
        bias=bias,
        projection=space.projection,
        landmarks=space.landmarks,
        gamma=candidate.gamma,
        ngrams=None if ngrams is None else Ngrams(ngrams.rows, Quantised.of(ngrams.scale * linear, np.int16)),
    )


_Solution = tuple[DoubleArray, DoubleArray]  # weights of landmarks and of n-grams, (m, scores) and (n-grams, scores)


def _dual(
    kernel: DoubleArray, space: Space, candidate: Candidate, targets: DoubleArray, weight: DoubleArray | None
) -> _Solution:
    """Every text is a landmark: kernel ridge regression."""
    ridge = import_extra("sklearn.kernel_ridge", "train").KernelRidge(alpha=candidate.strength, kernel="precomputed")
    if space.ngrams is None:
        return ridge.fit(kernel, targets, weight).dual_coef_, np.zeros((0, 0))
    features = space.ngrams.features
    dual = ridge.fit(kernel + (features @ features.T).toarray(), targets, weight).dual_coef_
    return dual, features.T @ dual


def _primal(
    kernel: DoubleArray, space: Space, candidate: Candidate, targets: DoubleArray, weight: DoubleArray | None
) -> _Solution:
    """Some texts are landmarks: ridge regression on what they tell of the others (Williams and Seeger 2001) and n-grams."""
    linalg, sparse = import_extra("scipy.linalg", "train"), import_extra("scipy.sparse", "train")
    points = space.landmarks.dense()
    between = np.exp(-candidate.gamma * squared_distances(points, points)) + JITTER * np.eye(len(points))
    root = np.linalg.cholesky(between)
    seen = linalg.solve_triangular(root, kernel.T, lower=True).T.astype(np.float32)
    ngrams = sparse.csr_matrix((len(seen), 0)) if space.ngrams is None else space.ngrams.features
    if weight is not None:
        root_weight = np.sqrt(weight)[:, None]
        seen, targets = seen * root_weight.astype(np.float32), targets * root_weight
        ngrams = sparse.diags(root_weight[:, 0]) @ ngrams
    mixed = ngrams.T @ seen
    gram = np.block([[seen.T @ seen, mixed.T], [mixed, (ngrams.T @ ngrams).toarray()]])
    gram[np.diag_indices(len(gram))] += candidate.strength
    right = np.concatenate([seen.T @ targets, ngrams.T @ targets])
    found = linalg.cho_solve(linalg.cho_factor(gram, overwrite_a=True), right)
    return linalg.solve_triangular(root, found[: len(points)], lower=True, trans=1), found[len(points) :]
