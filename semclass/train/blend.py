"""A head of few labels and many: one Gaussian kernel, a ridge regression and a softmax regression over it, averaged.

The ridge regression has its leave-one-out scores in closed form (Rifkin and Lippert 2007, "Notes on Regularized Least
Squares"), so what the kernel compares is chosen in seconds, and with two examples a class. Names of the classes count as
examples where the texts are classified better for it. The softmax regression is closer to probabilities; the mean of both
is right more often than either. It is one kernel expansion, and runs as any other kernel head does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semclass.core.errors import InputError, import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.inputs import PIECES
from semclass.train.calibration import calibrate
from semclass.train.data import Further, Problem, folds_of
from semclass.train.fit import judge
from semclass.train.fitted import SMALLEST, FittedHead, Ngrams, Projection, Quantised, squared_distances, support_of
from semclass.train.solvers import JITTER, NgramSpace, few_texts, ngram_space, project, spreads

SHARES = (0.0, 0.15, 0.4, 1.0)
"""Share of ``layers`` in the squared distance, beside ``pooled``. Topics and intents are in ``pooled``, types of questions
in ``layers``."""

UNKNOWN = (0.05,)  # where nothing can be left out

GAMMA = 1.0  # in exp(-gamma d**2), where the mean squared distance of texts is 1
RIDGE, STEP = 0.1, 10**0.5  # first ridge penalty, and how far apart those are that are tried until none is better
SOFTMAX = 100.0  # C of the softmax regression; less where the ridge penalty is above `RIDGE`
RIDGE_PARTS = (0.5, 0.2, 0.0)  # of the mean of both; the first of the best held-out accuracy
NAME_WEIGHT, FEW_WEIGHT = 1.5, 0.5  # as how many examples a class's name counts; see `few_texts`
COMPARED = 2000  # texts at most that settings are compared on
LANDMARKS = 3000  # texts at most that others are compared with
COORDINATES = 2000  # principal ones at most that a regression reads
STEPS = 30  # of the softmax regression at most
FEW_STEPS = 100  # the same with `COMPARED` examples or fewer: there it ends where its loss is least
STEEP = 0.0003  # p (1 - p) of a class where the softmax regression ends, about: its coordinates are scaled by that
LEAST = 0.98  # share of the log loss that another ridge penalty must reach: a stronger one flatters it, and errs more
UNSEEN = 2.4
"""Factor of the softmax regression's scores where nothing can be left out, with many classes: about the best with one
message of each of 12 and of 150 intents; with two classes 0.15 of that is best. There it is right more often alone."""

LAYERS = "layers"


@dataclass(frozen=True)
class Setting:
    """What the kernel compares, and how strong the ridge is."""

    share: float = 0.0  # of layers in the squared distance
    grams: bool = False  # whether a linear kernel of word-piece n-grams is added
    names: bool = False  # whether names of classes are examples
    ridge: float = RIDGE

    def __str__(self) -> str:
        over = {0.0: "pooled", 1.0: "layers"}.get(self.share, f"pooled + {self.share:g} layers")
        more = " + n-grams" * self.grams + " + names" * self.names
        return f"kernel ridge={self.ridge:.2g} over {over}{more}"


@dataclass(frozen=True)
class Basis:
    """n used texts, and k names behind them, in coordinates whose inner products are the kernel."""

    features: FloatArray  # (n + k, r): principal ones, of squared lengths `values` as weighted
    values: DoubleArray  # (r,)
    root: DoubleArray  # (m, r): what weights of coordinates are as weights of landmarks
    targets: DoubleArray  # (n + k, classes): 0 or 1
    weight: DoubleArray  # (n + k,): as how many examples each counts
    projection: Projection
    landmarks: Quantised  # (m, components)
    places: IntArray  # (m,): rows of the landmarks
    ngrams: NgramSpace | None


def fit_blend(
    problem: Problem,
    names: Further | None,
    ood: Further | None,
    groups: Sequence[str],
    *,
    rejection_rate: float = 0.0,  # share of the texts that may be rejected as having none of the classes
    folds: int,
    seed: int,
    say: Callable[[str], object],
) -> FittedHead:
    """Fit a softmax head over ``pooled``, ``layers`` if there are any, and word-piece n-grams, as leaving out chooses.

    Where fewer than two classes have two texts, nothing can be held out: its report is of each text by its class's name.
    Texts that have none of the classes are taught as being of each class as little as of any other.
    """
    used, count = problem.used(np.arange(len(problem.truth))), len(problem.classes)
    codes = np.unique(np.asarray(groups, np.str_)[used], return_inverse=True)[1]
    several = np.sort([len({*codes[problem.truth[used] == place].tolist()}) for place in range(count)])[-2] > 1
    if rejection_rate and not several:
        raise InputError(
            "rejection_rate needs two classes with at least two examples each, to hold some out; give more examples"
        )
    splits = folds_of(problem, groups, folds, seed) if several else []
    if names is not None:
        names = replace(names, weight=FEW_WEIGHT) if few_texts(len(used), count) else _among(problem, used, names)
    setting, tried, rows, left_out = _choose(problem, names, codes, several, say)
    say(f"fitting {setting}")
    behind = names if setting.names else None
    behind = behind if ood is None else ood if behind is None else behind.and_of(ood)
    basis = _basis_of(problem.over(_lengths(problem, setting.share)), used, behind, setting)
    everything, texts = np.arange(len(basis.features)), len(used)
    # what has no class is in one fold each, names are in none
    alone = everything[texts:][behind.places < 0] if behind is not None else everything[:0]
    place = np.full(len(problem.truth), -1)
    place[used] = everything[:texts]
    held_out = np.full((2, len(basis.features), count), np.nan)
    for number, (fitted, scored) in enumerate(splits):
        apart = alone[number :: len(splits)]
        those = np.append(place[fitted], np.setdiff1d(everything[texts:], apart))
        apart = np.append(place[scored], apart)
        held_out[:, apart] = [basis.features[apart] @ weights + bias for weights, bias in _solve(basis, those, setting)]
        say(f"fold {number + 1} of {len(splits)}: 1 setting")
    shares = np.array([0.0, UNSEEN * (1 - 0.85 / (count - 1))])
    calibration, least = (np.ones(1), np.zeros(1)), None
    if several:
        inside = np.flatnonzero(np.isfinite(held_out[0, :texts, 0]))
        truth, weight = problem.truth[used[inside]], problem.weight_of(used[inside])
        slopes = [calibrate(part[inside], truth, "softmax", weight)[0][0] for part in held_out]
        mixes = [np.array([part, 1 - part]) * slopes for part in RIDGE_PARTS]
        right = [np.tensordot(mix, held_out[:, inside], 1).argmax(axis=1) == truth for mix in mixes]
        shares = mixes[int(np.argmax([round(float(np.average(one, weights=weight)), 9) for one in right]))]
        mixed = np.tensordot(shares, held_out, 1)
        scored, held = used[inside], np.zeros((len(problem.truth), count))
        held[scored] = mixed[inside]
        judged, calibration, figures = judge(problem, held, scored)
        if rejection_rate:
            support = support_of(calibration[0] * mixed)
            least = float(np.quantile(support[inside], rejection_rate))
            figures["rejected"] = float((support[inside] < least).mean())
            if len(alone):
                figures["rejected_ood"] = float((support[alone] < least).mean())
    else:
        scored = rows
        judged, _, figures = judge(problem, left_out, scored)
    probabilities = np.full((len(problem.truth), count), np.nan)
    probabilities[scored] = judged
    solved = _solve(basis, everything, setting)
    weights, bias = (sum(s * part[i] for s, part in zip(shares, solved, strict=True)) for i in (0, 1))
    return FittedHead(
        kind="kernel ridge",
        link="softmax",
        classes=problem.classes,
        inputs=_inputs(problem, setting),
        weights=basis.root @ weights,
        bias=bias,
        slope=float(calibration[0][0]),
        projection=basis.projection,
        landmarks=basis.landmarks,
        gamma=GAMMA,
        ngrams=_ngrams(basis, basis.root @ weights),
        ood_threshold=least,
        out_of_fold=probabilities,
        report={
            "examples": len(problem.truth),
            "folds": len(splits) or texts,
            "seed": seed,
            "chosen": str(setting),
            "candidates": tried,
            "compared": len(rows),
            **figures,
        },
    )


def _among(problem: Problem, rows: IntArray, names: Further) -> Further:
    """Names, moved to where the texts are: a name is no message, and all names have that in common."""
    truth, weight = problem.truth[rows], problem.weight_of(rows)
    each = 1 / np.bincount(truth, weight)[truth] * (1.0 if weight is None else weight)  # classes count the same
    views = dict(names.views)
    for view in problem.views.keys() - {PIECES}:
        middle = np.average(problem.views[view][rows], axis=0, weights=each)
        views[view] = (views[view] - views[view].mean(axis=0) + middle).astype(np.float32)
    return Further(names.places, views, NAME_WEIGHT)


def _lengths(problem: Problem, share: float) -> dict[str, float]:
    """Root mean square length of each view that is read."""
    shares = {view: share if view == LAYERS else 1 - share for view in problem.views if view != PIECES}
    return {view: part**0.5 for view, part in shares.items() if part > 0}


def _inputs(problem: Problem, setting: Setting) -> dict[str, int]:
    views = [*_lengths(problem, setting.share), *([PIECES] if setting.grams else [])]
    return {view: problem.views[view].shape[1] for view in views}


def _ngrams(basis: Basis, dual: DoubleArray) -> Ngrams | None:
    """The n-gram kernel is linear, so its part of the expansion becomes one weight per n-gram."""
    if basis.ngrams is None:
        return None
    linear = basis.ngrams.features[basis.places].T @ dual
    return Ngrams(basis.ngrams.rows, Quantised.of(basis.ngrams.scale * linear, np.int16))


def _choose(
    problem: Problem, names: Further | None, codes: IntArray, several: bool, say: Callable[[str], object]
) -> tuple[Setting, list[dict[str, Any]], IntArray, DoubleArray]:
    """The setting of the least leave-one-out log loss, all that were tried, and the texts and scores of that."""
    used = problem.used(np.arange(len(problem.truth)))
    # every class has its share of those that are compared
    order = np.argsort(problem.truth[used], kind="stable")
    some = np.sort(order[np.linspace(0, len(order) - 1, min(COMPARED, len(order))).astype(np.int64)])
    rows, codes = used[some], codes[some]
    apart = _Apart.of(problem, rows, names, codes, several)
    found: dict[Setting, tuple[float, dict[str, Any], DoubleArray]] = {}

    def loss(setting: Setting) -> float:
        if setting not in found:
            held = np.zeros((len(problem.truth), len(problem.classes)))
            held[rows] = apart.left_out(setting)
            figures = judge(problem, held, rows)[2]
            found[setting] = round(figures["log_loss"], 6), {"candidate": str(setting), **figures}, held
            say("  ".join(f"{key} {value:.4f}" for key, value in figures.items()) + f"  {setting}")
        return found[setting][0]

    views = [view for view in problem.views if view != PIECES]
    shares = (1.0,) if views == [LAYERS] else (0.0,) if LAYERS not in views else SHARES if several else UNKNOWN
    settings = [Setting(share, names=named) for named in (False, True)[: 1 + (names is not None)] for share in shares]
    best = min(settings, key=loss)
    if several:
        best = min((best, *([replace(best, grams=True)] if PIECES in problem.views else [])), key=loss)
        for step in (STEP, 1 / STEP):  # until none is better: the best is never the last that was tried
            while loss(next_one := replace(best, ridge=best.ridge * step)) < loss(best) * LEAST:
                best = next_one
    return best, [row for _, row, _ in found.values()], rows, found[best][2]


@dataclass(frozen=True)
class _Apart:
    """Some texts, and all names behind them, in what the settings share."""

    squares: Mapping[str, DoubleArray]  # squared distances of each view, 1 on average
    grams: DoubleArray | None  # the kernel of n-grams
    targets: DoubleArray
    weight: DoubleArray
    codes: IntArray  # of texts: equal ones are left out together
    several: bool  # whether two classes have two texts at least

    @classmethod
    def of(cls, problem: Problem, rows: IntArray, names: Further | None, codes: IntArray, several: bool) -> _Apart:
        squares = {}
        for view, values in problem.views.items():
            if view != PIECES:
                texts = values[rows].astype(np.float64)
                spread = spreads(texts.std(axis=0), even=view != LAYERS)
                both = texts if names is None else np.concatenate([texts, names.views[view]])
                both = (both - texts.mean(axis=0)) / spread
                squares[view] = squared_distances(both, both) / max(2 * both[: len(rows)].var(axis=0).sum(), SMALLEST)
        space = _space_of_grams(problem, rows, names)
        grams = None if space is None else (space.features @ space.features.T).toarray()
        return cls(squares, grams, *_examples(problem, rows, names), codes, several)

    def left_out(self, setting: Setting) -> DoubleArray:
        """Scores of each text by ridge regressions that did not see it, nor those equal to it.

        Where that leaves no text of its class, by the names alone.
        """
        lengths = {view: setting.share if view == LAYERS else 1 - setting.share for view in self.squares}
        count = len(self.weight) if setting.names else len(self.codes)
        kernel = np.exp(-GAMMA * sum(part * self.squares[view][:count, :count] for view, part in lengths.items()))
        if setting.grams and self.grams is not None:
            kernel += self.grams[:count, :count]
        texts = len(self.codes)
        if not self.several:
            between = kernel[texts:, texts:] + np.diag(setting.ridge / self.weight[texts:count])
            by_name: DoubleArray = kernel[:texts, texts:] @ np.linalg.solve(between, self.targets[texts:count])
            return by_name
        kernel[np.diag_indices(count)] += setting.ridge / self.weight[:count]
        linalg = import_extra("scipy.linalg", "train")
        lower = linalg.lapack.dpotri(linalg.cho_factor(kernel, lower=True, overwrite_a=True)[0], lower=True)[0]
        inverse = np.tril(lower) + np.tril(lower, -1).T
        targets = self.targets[:count]
        dual = inverse @ (targets - np.average(targets, axis=0, weights=self.weight[:count]))
        scores: DoubleArray = targets[:texts] - dual[:texts] / np.diag(inverse)[:texts, None]
        for code in np.flatnonzero(np.bincount(self.codes) > 1):
            together = np.flatnonzero(self.codes == code)
            scores[together] = targets[together] - np.linalg.solve(inverse[np.ix_(together, together)], dual[together])
        return scores


def _examples(problem: Problem, rows: IntArray, names: Further | None) -> tuple[DoubleArray, DoubleArray]:
    """Targets and weights of texts, and of names behind them."""
    weight = np.ones(len(rows)) if problem.weight is None else problem.weight[rows]
    targets = np.eye(len(problem.classes))[problem.truth[rows]]
    if names is not None:
        theirs = np.eye(len(problem.classes))[names.places]
        theirs[names.places < 0] = 1 / len(problem.classes)
        targets = np.concatenate([targets, theirs])
        weight = np.append(weight, np.where(names.places < 0, 1.0, names.weight))
    return targets, weight


def _space_of_grams(problem: Problem, rows: IntArray, names: Further | None) -> NgramSpace | None:
    if PIECES not in problem.views:
        return None
    pieces = problem.views[PIECES][rows]
    return ngram_space(np.concatenate([pieces, *([] if names is None else [names.views[PIECES]])]).astype(np.int64))


def _basis_of(problem: Problem, rows: IntArray, names: Further | None, setting: Setting) -> Basis:
    """Coordinates of the texts (Williams and Seeger 2001): exact where every text is a landmark."""
    dense = problem.dense[rows]
    theirs = dense[:0]
    if names is not None:
        theirs = np.concatenate([names.views[view] for view in problem.lengths or ()], axis=1)
    even = [view != LAYERS for view in problem.lengths or ()]
    projection = project(
        dense, problem.blocks, even=even, further=theirs[: 0 if few_texts(len(rows), len(problem.classes)) else None]
    )
    coordinates = projection(np.concatenate([dense, theirs]))
    order = np.argsort(problem.truth[rows], kind="stable")
    places = np.sort(order[np.linspace(0, len(rows) - 1, min(LANDMARKS, len(rows))).astype(np.int64)])
    if names is not None:
        places = np.append(places, np.arange(len(rows), len(coordinates)))
    landmarks = Quantised.of(coordinates[places])
    points = landmarks.dense()
    kernel, between = (np.exp(-GAMMA * squared_distances(some, points)) for some in (coordinates, points))
    ngrams = _space_of_grams(problem, rows, names) if setting.grams else None
    if ngrams is not None:
        theirs = ngrams.features[places].T
        kernel += (ngrams.features @ theirs).toarray()
        between += (ngrams.features[places] @ theirs).toarray()
    linalg = import_extra("scipy.linalg", "train")
    between[np.diag_indices(len(between))] += JITTER  # near-duplicates make it singular
    root = linalg.cholesky(between, lower=True, overwrite_a=True)
    single = root.astype(np.float32), kernel.T.astype(np.float32)
    features = linalg.solve_triangular(*single, lower=True, overwrite_b=True).T
    targets, weight = _examples(problem, rows, names)
    gram = features.T @ (features * weight[:, None].astype(np.float32))
    lengths, axes = (found[..., -COORDINATES:] for found in linalg.eigh(gram, overwrite_a=True, driver="evd"))
    weights = linalg.solve_triangular(root, axes.astype(np.float64), lower=True, trans=1)
    values = np.maximum(lengths, 0.0).astype(np.float64)
    return Basis(features @ axes, values, weights, targets, weight, projection, landmarks, places, ngrams)


def _solve(basis: Basis, rows: IntArray, setting: Setting) -> list[tuple[DoubleArray, DoubleArray]]:
    """Weights (r, classes) and biases of the ridge and of the softmax regression on some rows."""
    features, targets, weight = basis.features[rows], basis.targets[rows], basis.weight[rows]
    bias = np.average(targets, axis=0, weights=weight)
    # what all examples have in common less what those that are left out have
    others = np.setdiff1d(np.arange(len(basis.features)), rows)
    gram = np.diag(basis.values + setting.ridge)
    gram -= basis.features[others].T @ (basis.features[others] * basis.weight[others, None].astype(np.float32))
    linalg = import_extra("scipy.linalg", "train")
    right = features.T @ (weight[:, None] * (targets - bias)).astype(np.float32)
    ridge = linalg.cho_solve(linalg.cho_factor(gram, overwrite_a=True), right)
    # in these coordinates the loss is about as steep in every direction, so that few steps are enough
    strength = min(SOFTMAX, SOFTMAX * RIDGE / setting.ridge)
    scale = 1 / np.sqrt(1 + strength * STEEP * basis.values)
    turned = features * scale.astype(np.float32)
    size, columns = turned.shape[1], targets.shape[1]
    mass = (weight / weight.sum()).astype(np.float32)[:, None]
    each, penalty = targets.astype(np.float32), scale[:, None] ** 2 / (strength * weight.sum())

    def loss(flat: DoubleArray) -> tuple[float, DoubleArray]:
        own, start = flat[: size * columns].reshape(size, columns), flat[size * columns :]
        scores = turned @ own.astype(np.float32) + start.astype(np.float32)
        scores -= scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        total = powers.sum(axis=1, keepdims=True)
        value = float((mass * (np.log(total) - (each * scores).sum(axis=1, keepdims=True))).sum())
        slope = mass * (powers / total - each)
        shrunk = penalty * own
        gradient = np.concatenate([(turned.T @ slope + shrunk).ravel(), slope.sum(axis=0)])
        return value + 0.5 * float((shrunk * own).sum()), gradient.astype(np.float64)

    optimise = import_extra("scipy.optimize", "train")
    start = np.append(np.zeros(size * columns), np.log(bias + 1e-4))
    ending = {"maxiter": FEW_STEPS, "ftol": 1e-8} if len(rows) <= COMPARED else {"maxiter": STEPS, "ftol": 1e-6}
    found = optimise.minimize(loss, start, jac=True, method="L-BFGS-B", options=ending).x
    softmax = scale[:, None] * found[: size * columns].reshape(size, columns)
    return [(ridge, bias), (softmax, found[size * columns :])]
