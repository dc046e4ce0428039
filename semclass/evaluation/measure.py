"""Measures rankings by two protocols, with confidence intervals and tests of differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray
from semclass.evaluation.dataset import Dataset

DEPTH = 10
"""Default number of candidates that are re-ranked and measured."""

BASELINE = "hybrid"
"""The method with which all others are compared: dense + w * BM25, the sum of the reference system."""

LEVEL = 0.05
"""p-value below which a difference is called more than chance."""

RESAMPLES = 2000
"""Bootstrap samples of an interval. Its ends vary by a few hundredths of its width between seeds."""


@dataclass(frozen=True)
class MethodResult:
    """The figures of one method. All are in [0, 1], except for `error_removed`, which may be negative.

    Figures named ``cond`` count only the conditional questions: their answer is among the first ten hits of ``hybrid``.
    """

    mrr: float  #: MRR@10
    top1: float  #: share of questions with a relevant passage in first place
    top_k: tuple[float, ...]  #: share of questions with a relevant passage in the first 1 to 10 places
    recall: float  #: recall@10
    ndcg: float  #: nDCG@10
    cond_mrr: float  #: MRR@10 over the conditional questions
    cond_top1: float  #: `top1` over the conditional questions
    error_removed: float  #: share of the error of ``hybrid``, 1 - cond_mrr, that the method removes
    p_value: float  #: p-value of a paired randomisation test, two-sided, of reciprocal ranks against ``hybrid``
    mrr_ci: tuple[float, float]  #: 95 % bootstrap interval of `mrr` over questions
    error_removed_ci: tuple[float, float]  #: 95 % bootstrap interval of `error_removed`

    def as_json(self) -> dict[str, Any]:
        """Return the figures by their names in reports, such as ``mrr@10``."""
        names = {"mrr": "mrr@10", "recall": "recall@10", "ndcg": "ndcg@10", "mrr_ci": "mrr@10_ci"}
        record = {names.get(key, key): value for key, value in asdict(self).items()}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in record.items()}


@dataclass(frozen=True)
class Verdict:
    """The best method by nDCG@10, and its comparison with the method in use."""

    best: str
    ndcg: float  #: mean nDCG@10 of the best method
    gain: float  #: gain in nDCG@10 over the method in use
    #: p-value of a two-sided paired randomisation test, times the number of other methods (Bonferroni correction)
    p_value: float

    @property
    def is_clear(self) -> bool:
        """Whether the gain is more than chance, at a level of 5 %."""
        return self.p_value < LEVEL


def compare(dataset: Dataset, rankings: Mapping[str, Sequence[Sequence[str]]], used: str, *, seed: int = 0) -> Verdict:
    """Find the best method by nDCG@10, and compare it with the method `used`. In a tie, `used` is the best."""
    values = {name: per_question(dataset, ranking, ("nDCG@10",))["nDCG@10"] for name, ranking in rankings.items()}
    best = max(values, key=lambda name: (round(values[name].mean(), 9), name == used))
    p_value = randomisation_test(values[best], values[used], seed) * max(len(values) - 1, 1)
    gain = float(values[best].mean() - values[used].mean())
    return Verdict(best, float(values[best].mean()), gain, min(p_value, 1.0))


def measure(
    dataset: Dataset, rankings: Mapping[str, Sequence[Sequence[str]]], *, seed: int = 0
) -> dict[str, MethodResult]:
    """Measure the rankings of several methods, and compare them with the ranking of :data:`BASELINE`.

    `rankings` holds the rankings by method: for each question, ids of passages, best first. `seed` is the seed of the test
    and of the intervals.
    """
    wanted = ("RR@10", "R@10", "nDCG@10")
    values = {name: per_question(dataset, ranking, wanted) for name, ranking in rankings.items()}
    base = values[BASELINE]["RR@10"]
    answered = base > 0
    results = {}
    for name, found in values.items():
        reciprocal = found["RR@10"]
        first = np.divide(1, reciprocal, out=np.full(len(base), np.inf), where=reciprocal > 0).round()
        top_k = tuple(float((first <= k).mean()) for k in range(1, DEPTH + 1))
        results[name] = MethodResult(
            mrr=float(reciprocal.mean()),
            top1=top_k[0],
            top_k=top_k,
            recall=float(found["R@10"].mean()),
            ndcg=float(found["nDCG@10"].mean()),
            cond_top1=float((first == 1)[answered].mean()) if answered.any() else 1.0,
            mrr_ci=interval(np.mean, (reciprocal,), seed),
            error_removed_ci=interval(_error_removed, (reciprocal[answered], base[answered]), seed),
            cond_mrr=float(reciprocal[answered].mean()) if answered.any() else 1.0,
            error_removed=float(_error_removed(reciprocal, base)),
            p_value=randomisation_test(reciprocal, base, seed),
        )
    return results


def per_question(dataset: Dataset, ranking: Sequence[Sequence[str]], measures: Sequence[str]) -> dict[str, DoubleArray]:
    """Compute measures of ir-measures for each question of a data set. Returns values by measure, (n,) each."""
    ir = import_extra("ir_measures", "eval")
    # measures sort by score; scores made from the places keep each method's own order, also where its scores tie
    run = {
        question: {passage: float(-place) for place, passage in enumerate(passages)}
        for question, passages in zip(dataset.questions, ranking, strict=True)
    }
    place = {question: row for row, question in enumerate(dataset.questions)}
    parsed = {name: ir.parse_measure(name) for name in measures}
    values = {measure: np.zeros(len(place)) for measure in parsed.values()}
    for item in ir.iter_calc(list(values), dataset.relevance, run):
        values[item.measure][place[item.query_id]] = item.value
    return {name: values[measure] for name, measure in parsed.items()}


def _error_removed(values: DoubleArray, base: DoubleArray, axis: int = -1) -> Any:
    """Share of the error 1 - RR that is removed, over the questions with base > 0; 0 if there was none."""
    answered = base > 0
    gained = ((values - base) * answered).sum(axis=axis)
    error = ((1 - base) * answered).sum(axis=axis)
    return np.divide(gained, error, out=np.zeros_like(gained, dtype=np.float64), where=error > 0)


def interval(statistic: Callable[..., Any], samples: Sequence[DoubleArray], seed: int) -> tuple[float, float]:
    """Compute the percentile bootstrap interval of a statistic. Each draw takes the same questions from all samples."""
    stats = import_extra("scipy.stats", "eval")
    if len(samples[0]) < 2:
        value = float(statistic(*samples)) if len(samples[0]) else 0.0
        return value, value
    how: dict[str, Any] = {"paired": True, "vectorized": True, "method": "percentile", "confidence_level": 0.95}
    rng = np.random.default_rng(seed)
    found = stats.bootstrap(samples, statistic, n_resamples=RESAMPLES, batch=200, rng=rng, **how).confidence_interval
    return float(found.low), float(found.high)


def randomisation_test(values: DoubleArray, base: DoubleArray, seed: int) -> float:
    """Return the p-value of a two-sided paired randomisation test of a difference in means, with 9,999 sign flips."""
    stats = import_extra("scipy.stats", "eval")
    difference = values - base
    difference = difference[difference != 0]  # flipping the sign of 0 changes nothing
    if len(difference) < 2:
        return 1.0  # of one difference both signs are as large
    result = stats.permutation_test(
        (difference,), np.mean, permutation_type="samples", n_resamples=9999, batch=256, rng=np.random.default_rng(seed)
    )
    return float(result.pvalue)
