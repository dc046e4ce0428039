"""Linear scores of a question and a passage: fitted, chosen on domains that the fit did not see, and calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

Array = npt.NDArray[Any]

RIDGES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # strengths of the penalty that are tried, strongest first
# weights that are tried for the integrated methods
LAMBDAS = tuple(np.round(np.concatenate([[0.0], np.geomspace(0.01, 100, 81)]), 3).tolist())


@dataclass(frozen=True)
class Examples:
    """Questions whose answer is among their candidates."""

    features: Array  # (n, 10, n_features)
    answers: Array  # bool (n, 10)
    score: Array  # dense + w * BM25, (n, 10), falling
    match: Array  # class match, (n, 10)
    domain: Array  # place of the domain of each, (n,)
    weight: Array  # of each question in fits and means, (n,), sums to 1
    unseen: Array  # whether the encoder was not tuned on the question, bool (n,)

    def take(self, rows: Array) -> Examples:
        """Some of them (bool of shape (n,)), weighing what they weighed."""
        parts = {
            name: getattr(self, name)[rows] for name in ("features", "answers", "score", "match", "domain", "unseen")
        }
        weight = self.weight[rows] / self.weight[rows].sum()
        return Examples(**parts, weight=weight)


@dataclass(frozen=True)
class Linear:
    """A linear score: features @ weights + bias."""

    weights: Array
    bias: float = 0.0

    def __call__(self, features: Array) -> Array:
        """Score features of shape (..., n_features)."""
        return np.asarray(features @ self.weights + self.bias)


def fit_pointwise(data: Examples, ridge: float) -> Linear:
    """Fit a logistic regression with the weighted mean log loss + ridge / 2 * |w|**2 over standardised features."""
    features = data.features.reshape(-1, data.features.shape[-1])
    centre, scale = features.mean(axis=0), _or_one(features.std(axis=0))
    weights, bias = logistic((features - centre) / scale, data.answers.ravel(), _of_pairs(data), ridge)
    return Linear(weights / scale, bias - float(centre @ (weights / scale)))


def logistic(inputs: Array, target: Array, weight: Array, ridge: float) -> tuple[Array, float]:
    """Weights and bias of a logistic regression, by weighted mean log loss + ridge / 2 * |w|**2."""

    def loss(theta: Array) -> tuple[float, Array]:
        score = inputs @ theta[:-1] + theta[-1]
        error = weight * (1 / (1 + np.exp(-score)) - target)
        slope = np.append(inputs.T @ error + ridge * theta[:-1], error.sum())
        value = (weight * (np.logaddexp(0, score) - target * score)).sum() + ridge / 2 * theta[:-1] @ theta[:-1]
        return float(value), slope

    found = minimize(loss, np.zeros(inputs.shape[-1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    return found.x[:-1], float(found.x[-1])


def _of_pairs(data: Examples) -> Array:
    """Weight of each pair, shape (n * 10,), sums to 1."""
    return np.repeat(data.weight, data.answers.shape[1]) / data.answers.shape[1]


def _or_one(scale: Array) -> Array:
    return np.where(scale > 1e-9, scale, 1.0)


def cross_fit(fit: Callable[[Examples, float], Linear], data: Examples, ridge: float) -> Array:
    """Score every question by a head that was fitted on the other domains, shape (n, 10)."""
    scores = np.zeros(data.answers.shape)
    for place in np.unique(data.domain):
        seen = data.domain != place
        scores[~seen] = fit(data.take(seen), ridge)(data.features[~seen])
    return scores


def choose(
    fit: Callable[[Examples, float], Linear], data: Examples, loss: Callable[[Array, Array], Array]
) -> tuple[float, Array]:
    """Strongest penalty whose loss on unseen domains is within one standard error of the least: it carries over better.

    Gives the scores of unseen domains, too.
    """
    unseen = data.take(data.unseen)
    scores = {ridge: cross_fit(fit, data, ridge) for ridge in RIDGES}
    losses = {ridge: loss(score[data.unseen], unseen.answers) for ridge, score in scores.items()}
    means = {ridge: float(unseen.weight @ values) for ridge, values in losses.items()}
    for ridge, mean in means.items():
        print(f"  ridge {ridge}: loss {mean:.4f}, error removed {removed(scores[ridge][data.unseen], unseen):.3f}")
    best = min(RIDGES, key=lambda ridge: means[ridge])
    error = float(np.sqrt(unseen.weight**2 @ (losses[best] - means[best]) ** 2))
    chosen = next(ridge for ridge in RIDGES if means[ridge] <= means[best] + error)
    return chosen, scores[chosen]


def reciprocal_ranks(score: Array, answers: Array) -> Array:
    """Reciprocal rank of the first answer, shape (n,); equal scores keep their order."""
    order = np.argsort(-score, axis=1, kind="stable")
    return np.asarray(1 / (1 + np.take_along_axis(answers, order, axis=1).argmax(axis=1)))


def mean_rank(score: Array, data: Examples) -> float:
    return float(reciprocal_ranks(score, data.answers) @ data.weight)


def removed(score: Array, data: Examples) -> float:
    """Share of 1 - MRR that a score removes against the hybrid."""
    before = mean_rank(data.score, data)
    return (mean_rank(score, data) - before) / (1 - before)


def log_loss(score: Array, answers: Array) -> Array:
    return np.asarray((np.logaddexp(0, score) - answers * score).mean(axis=1))


def calibrated(head: Linear, scores: Array, data: Examples) -> tuple[Linear, Array]:
    """Platt's sigmoid on scores of unseen questions; gives the head in log-odds, and those questions' probabilities."""
    weights, bias = logistic(scores.reshape(-1, 1), data.answers.ravel(), _of_pairs(data), 0.0)
    slope = float(weights[0])
    return Linear(head.weights * slope, head.bias * slope + bias), 1 / (1 + np.exp(-slope * scores - bias))


def best_threshold(probabilities: Array, data: Examples) -> float:
    """Threshold that makes the stable partition best, to three decimals."""
    grid = np.round(np.linspace(0.02, 0.98, 97), 3)
    partition = [mean_rank((probabilities >= threshold).astype(float), data) for threshold in grid]
    return float(grid[int(np.argmax(partition))])


def best_weight(signal: Array, data: Examples) -> float:
    return float(LAMBDAS[int(np.argmax([mean_rank(data.score + weight * signal, data) for weight in LAMBDAS]))])
