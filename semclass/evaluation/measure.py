"""Measures of rankings by two protocols, with confidence intervals and tests of differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError, import_extra
from semclass.core.types import DoubleArray
from semclass.evaluation.dataset import Dataset

DEPTH = 10
"""Candidates that are re-ranked and measured by default."""


BASELINE = "hybrid"
"""The method that all others are compared with: dense + w * BM25, the reference system's sum, nothing else."""


MEASURES = ("AP@10", "nDCG@10", "P@1", "P@5", "R@5", "R@10", "F1@5", "F1@10")
"""Measures that are given beside the fixed ones where none are named."""


CONFIDENCE = 0.95
"""Level of the confidence intervals."""


_RESAMPLES = 2000
"""Bootstrap samples of a confidence interval; its ends then vary by a few hundredths of its width between seeds."""


_F1 = re.compile(r"F1@([1-9][0-9]*)")


@dataclass(frozen=True)
class MethodResult:
    """Figures of one method; all are in [0, 1], except that `error_removed` may be negative.

    Attributes
    ----------
    mrr, top1, top_k, recall, ndcg
        MRR@10, share of questions with a relevant passage in first place, the same for the first 1 to 10, recall@10 and
        nDCG@10, over all questions.
    cond_mrr, cond_top1
        The same over the questions whose answer is among the hybrid's first ten.
    error_removed
        Share of the hybrid's 1 - cond_mrr that the method removes.
    p_value
        Two-sided paired randomisation test of the reciprocal ranks against the hybrid's; 1 for the hybrid itself.
    mrr_ci, error_removed_ci
        Lower and upper end of their bootstrap confidence intervals over questions, at the level `CONFIDENCE`.
    measures
        Further measures over all questions, by the names that were asked for.
    slices
        By kind of slice and slice: how many ``questions`` it has, how many of these the hybrid ``answered`` in its first
        ten, and ``mrr@10``, ``cond_mrr``, ``error_removed`` and ``p_value`` over them.
    """

    mrr: float
    top1: float
    top_k: tuple[float, ...]
    recall: float
    ndcg: float
    cond_mrr: float
    cond_top1: float
    error_removed: float
    p_value: float
    mrr_ci: tuple[float, float]
    error_removed_ci: tuple[float, float]
    measures: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The figures under the names that reports use, such as ``mrr@10``."""
        names = {"mrr": "mrr@10", "recall": "recall@10", "ndcg": "ndcg@10", "mrr_ci": "mrr@10_ci"}
        record = {names.get(key, key): value for key, value in asdict(self).items()}
        pairs = {key: list(record[key]) for key in ("top_k", "mrr@10_ci", "error_removed_ci")}
        return {**{key: value for key, value in record.items() if value != {}}, **pairs}


def measure(
    dataset: Dataset,
    rankings: Mapping[str, Sequence[Sequence[str]]],
    *,
    seed: int = 0,
    measures: Sequence[str] = (),
    slices: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, MethodResult]:
    """Measure rankings; the one named ``"hybrid"`` is what the others are compared with.

    Parameters
    ----------
    dataset
        n questions with judgements.
    rankings
        By method: for each question, passage ids, best first.
    seed
        Of the randomisation test and the confidence intervals.
    measures
        Further measures, by the names that ir-measures has for them, such as ``"AP@100"``, or ``"F1@k"``, see
        :func:`per_question`.
    slices
        By kind of slice, such as ``"passage kind"``: the slice of each question.

    Returns
    -------
    dict
        A result by method name.

    Raises
    ------
    InputError
        If a measure has no such name.
    """
    wanted = tuple(dict.fromkeys(("RR@10", "R@10", "nDCG@10", *measures)))
    values = {name: per_question(dataset, ranking, wanted) for name, ranking in rankings.items()}
    base = values[BASELINE]["RR@10"]
    answered = base > 0
    groups = {} if slices is None else {kind: np.asarray(labels) for kind, labels in slices.items()}
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
            cond_mrr=float(reciprocal[answered].mean()) if answered.any() else 1.0,
            cond_top1=float((first == 1)[answered].mean()) if answered.any() else 1.0,
            error_removed=_error_removed(reciprocal, base),
            p_value=_randomisation_test(reciprocal, base, seed),
            mrr_ci=_interval(_mean, (reciprocal,), seed),
            error_removed_ci=_interval(_error_removed, (reciprocal[answered], base[answered]), seed),
            measures={item: float(found[item].mean()) for item in measures},
            slices={kind: _by_slice(reciprocal, base, labels, seed) for kind, labels in groups.items()},
        )
    return results


def _by_slice(
    values: DoubleArray, base: DoubleArray, labels: npt.NDArray[Any], seed: int
) -> dict[str, dict[str, float]]:
    """The main figures over each slice."""
    found = {}
    for label in np.unique(labels).tolist():
        inside = labels == label
        mine, theirs = values[inside], base[inside]
        answered = theirs > 0
        found[str(label)] = {
            "questions": int(inside.sum()),
            "answered": int(answered.sum()),
            "mrr@10": float(mine.mean()),
            "cond_mrr": float(mine[answered].mean()) if answered.any() else 1.0,
            "error_removed": _error_removed(mine, theirs),
            "p_value": _randomisation_test(mine, theirs, seed),
        }
    return found


def check_measures(names: Sequence[str]) -> None:
    """Refuse names that are no measures.

    Raises
    ------
    InputError
        Naming the first that is none.
    MissingExtraError
        If ir-measures is not installed.
    """
    for name in names:
        _parse(name)


def _parse(name: str) -> tuple[Any, int | None]:
    """The measure of ir-measures behind a name, and the rank at which rankings are to be cut before."""
    ir = import_extra("ir_measures", "eval")
    cut = _F1.fullmatch(name)
    try:
        measure = ir.SetF if cut else ir.parse_measure(name)
        known = ir.DefaultPipeline.supports(measure)
    except (NameError, ValueError, AssertionError, SyntaxError, TypeError):
        known = False
    if not known:
        raise InputError(
            f"{name!r} is no measure that ir-measures can compute here; such are nDCG@10, P@5, R@100, AP@100, RR@10, SetF "
            "and, beside them, F1@5"
        )
    return measure, int(cut[1]) if cut else None


def per_question(dataset: Dataset, ranking: Sequence[Sequence[str]], measures: Sequence[str]) -> dict[str, DoubleArray]:
    """Values of measures for each question.

    Parameters
    ----------
    dataset
        n questions with judgements.
    ranking
        For each question, passage ids, best first; may be empty.
    measures
        Names that ir-measures knows. ``"F1@k"``, which it does not, is its ``SetF`` over the first k of each ranking: the
        harmonic mean of precision and recall of these k.

    Returns
    -------
    dict
        By name: float64 of shape (n,), in the data set's order.

    Raises
    ------
    InputError
        If a measure has no such name.
    """
    ir = import_extra("ir_measures", "eval")
    # measures sort by score; scores made from the places keep each method's own order, also where its scores tie
    run = {
        question: {passage: float(-place) for place, passage in enumerate(passages)}
        for question, passages in zip(dataset.questions, ranking, strict=True)
    }
    place = {question: row for row, question in enumerate(dataset.questions)}
    values: dict[str, DoubleArray] = {name: np.zeros(len(place)) for name in measures}
    by_cut: dict[int | None, dict[Any, list[str]]] = {}
    for name in values:
        parsed, cut = _parse(name)
        by_cut.setdefault(cut, {}).setdefault(parsed, []).append(name)
    for cut, wanted in by_cut.items():
        part = run if cut is None else {question: dict(list(row.items())[:cut]) for question, row in run.items()}
        for metric in ir.iter_calc(list(wanted), dataset.relevance, part):
            for name in wanted[metric.measure]:
                values[name][place[metric.query_id]] = metric.value
    return values


def _mean(values: DoubleArray, axis: int = -1) -> DoubleArray:
    return np.asarray(values.mean(axis=axis))


def _error_removed(values: DoubleArray, base: DoubleArray, axis: int = -1) -> Any:
    """Share of the error 1 - RR of the questions with base > 0 that is gone; 0 if there was none. Sums over `axis`."""
    answered = base > 0
    gained = ((values - base) * answered).sum(axis=axis)
    error = ((1 - base) * answered).sum(axis=axis)
    removed = np.divide(gained, error, out=np.zeros_like(gained, dtype=np.float64), where=error > 0)
    return removed if removed.ndim else float(removed)


def _interval(statistic: Callable[..., Any], samples: Sequence[DoubleArray], seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic over questions, which are drawn together from all samples."""
    stats = import_extra("scipy.stats", "eval")
    if len(samples[0]) < 2:
        value = float(statistic(*samples)) if len(samples[0]) else 0.0
        return value, value
    found = stats.bootstrap(
        samples,
        statistic,
        paired=True,
        n_resamples=_RESAMPLES,
        batch=200,
        vectorized=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def _randomisation_test(values: DoubleArray, base: DoubleArray, seed: int) -> float:
    """Two-sided paired randomisation test of a difference in means, with 9,999 random sign flips."""
    stats = import_extra("scipy.stats", "eval")
    difference = values - base
    difference = difference[difference != 0]  # flipping the sign of 0 changes nothing
    if len(difference) < 2:
        return 1.0  # of one difference both signs are as large

    def mean(sample: DoubleArray, axis: int) -> DoubleArray:
        return np.asarray(sample.mean(axis=axis))

    result = stats.permutation_test(
        (difference,),
        mean,
        permutation_type="samples",
        n_resamples=9999,
        batch=256,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
