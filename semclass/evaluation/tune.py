"""Searches a retriever's weights on questions with known answers.

A weight looks better than it is on the questions that were used to choose it. So the report has two results for each
weight: on all questions, and by cross-validation, where the questions of a fold are ranked with the best weight of the
other folds. A weight is worth storing if its cross-validated gain over the current weight exceeds a standard error. With
few questions, the gain must exceed `FEW_MARGIN` standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.dataset import Dataset
from semclass.ranking.methods import METHODS, method_for
from semclass.ranking.options import SearchOptions
from semclass.ranking.retriever import HybridRetriever

GRIDS: dict[str, DoubleArray] = {"alpha": np.arange(21) / 20, "evidence": np.append(0, 2 ** (np.arange(-6, 7) / 2))}
"""Values to try for each weight: shares of the vectors for alpha; 0 and factors from 1/8 to 8 for the evidence."""

CUTOFF = 10
"""Number of places that count in MRR@10."""

FEW_QUESTIONS = 100
"""Number of questions below which a gain must exceed `FEW_MARGIN` standard errors. Then the weight nearest to the default
is chosen among those at most one standard error worse than the best. With few questions, the best weight may be far off by
chance: on samples of 10 to 50 questions, the best alpha loses up to 0.019 of MRR@10, this rule 0.0001."""

FEW_MARGIN = 1.645
"""One-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True)
class WeightSearch:
    """The search of one weight over a grid. Every MRR@10 is over the same questions."""

    name: str
    default: float  #: the weight in use before
    best: float  #: best weight of the grid on all questions; the smallest in case of a tie
    mrr: DoubleArray  #: MRR@10 with each weight of the grid, of shape (w,)
    mrr_default: float
    mrr_searched: float  #: MRR@10 with `best` on the questions that chose it, so too optimistic
    mrr_cross_validated: float  #: MRR@10 where each question is ranked with the best weight of the other folds
    standard_error: float  #: standard error of `gain`
    margin: float  #: standard errors that `gain` must exceed
    cautious: float  #: the weight to use if it helps

    @property
    def gain(self) -> float:
        """Cross-validated gain in MRR@10 over the default."""
        return self.mrr_cross_validated - self.mrr_default

    @property
    def helps(self) -> bool:
        """Whether the gain exceeds `margin` standard errors."""
        return self.gain > self.margin * self.standard_error

    @property
    def weight(self) -> float:
        """The weight to use: the cautious weight if it helps, or else the default."""
        return self.cautious if self.helps else self.default

    def as_json(self) -> dict[str, Any]:
        """Return the figures, without the MRR@10 of each weight."""
        figures = {name: value for name, value in vars(self).items() if name not in ("name", "mrr")}
        return {**figures, "mrr_without": float(self.mrr[0]), "gain": self.gain, "helps": self.helps}


@dataclass(frozen=True)
class Tuning:
    """Tuned weights of an index: one search for each weight of its method."""

    searches: tuple[WeightSearch, ...]
    questions: int  #: number of questions with a relevant passage in the index; only these were used
    folds: int
    seed: int

    @property
    def weights(self) -> dict[str, float]:
        """The weights that are worth storing, by name."""
        return {item.name: item.weight for item in self.searches if item.helps}

    def as_record(self, found_on: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record that an index stores: weights, gains, and `found_on`, which describes the questions."""
        data = {"questions": self.questions, "folds": self.folds, "seed": self.seed, "measure": f"MRR@{CUTOFF}"}
        date = datetime.now(timezone.utc).date().isoformat()
        searches = {item.name: item.as_json() for item in self.searches}
        return {"weights": self.weights, "found_on": {**found_on, **data, "date": date}, "searches": searches}


def tune(
    retriever: HybridRetriever,
    dataset: Dataset,
    *,
    folds: int = 5,
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> Tuning:
    """Search the weights of a retriever's method, one after another, on questions with known answers.

    Questions without a relevant passage in the index are left out. `folds` (at least 2) and `seed` define the
    cross-validation. `progress` is called with the number of questions that were ranked with a weight.

    Raises
    ------
    InputError
        If fewer questions than folds have a relevant passage in the index, or the method has no weight to tune.
    """
    index, method = retriever.local_index, method_for(retriever.models, retriever.method)
    there = {name: index.find(list(dataset.relevance[name])).max() >= 0 for name in dataset.questions}
    names = [name for name, found in there.items() if found]
    fold = fold_of(len(names), folds, seed)
    weights, searches = dict(retriever.models.weights), list[WeightSearch]()
    for name in tunable(method.name):
        columns = []
        for weight in [*GRIDS[name].tolist(), weights[name]]:
            options = SearchOptions(method=method.name, weights={**weights, name: weight})
            results = retriever.search_many([dataset.questions[question] for question in names], CUTOFF, options)
            places = [
                [hit.rank for hit in result if hit.id in dataset.relevance[question]]
                for question, result in zip(names, results, strict=True)
            ]
            columns.append([1 / min(ranks) if ranks else 0.0 for ranks in places])
            progress(len(names))
        searches.append(search(name, weights[name], GRIDS[name], np.array(columns).T, fold))
        weights[name] = searches[-1].weight
    return Tuning(tuple(searches), len(names), folds, seed)


def tunable(method: str) -> list[str]:
    """Return the weights of a method that :func:`tune` searches."""
    names = [name for name in METHODS[method].weights if name in GRIDS]
    if not names:
        raise InputError(f"the method {method!r} has no weight to tune; tune one of default and convex")
    return names


def fold_of(n: int, folds: int, seed: int) -> IntArray:
    """Assign n questions at random to folds of about equal size. Returns the fold of each question, of shape (n,)."""
    if folds < 2 or n < folds:
        raise InputError(
            f"there are {counted(n, 'question')} with a relevant passage in the index, and {folds} folds; give at least "
            f"{max(folds, 2)} questions, and at least 2 folds"
        )
    return np.random.default_rng(seed).permutation(np.arange(n) % folds)


def search(name: str, default: float, grid: DoubleArray, ranks: DoubleArray, fold: IntArray) -> WeightSearch:
    """Choose a weight by the reciprocal ranks of q questions with each weight of a grid and, last, with the default.

    `ranks` has the shape (q, w + 1).
    """
    table, at_default = ranks[:, :-1], ranks[:, -1]
    sums = np.stack([table[fold == part].sum(axis=0) for part in range(fold.max() + 1)])
    total = sums.sum(axis=0)
    few, best = len(fold) < FEW_QUESTIONS, int(total.argmax())
    chosen = (total - sums).argmax(axis=1)  # of the other folds; the smallest weight, if several are best
    gains = table[np.arange(len(fold)), chosen[fold]] - at_default
    return WeightSearch(
        name=name,
        default=float(default),
        best=float(grid[best]),
        mrr=total / len(fold),
        mrr_default=float(at_default.mean()),
        mrr_searched=float(total[best] / len(fold)),
        mrr_cross_validated=float(at_default.mean() + gains.mean()),
        standard_error=float(gains.std(ddof=1) / np.sqrt(len(gains))),
        margin=FEW_MARGIN if few else 1.0,
        cautious=_nearest(table, best, grid, default) if few else float(grid[best]),
    )


def _nearest(table: DoubleArray, best: int, grid: DoubleArray, default: float) -> float:
    """The weight nearest to the default whose mean is not below that of the best by more than a standard error."""
    lost = table[:, [best]] - table
    near = np.flatnonzero(lost.mean(axis=0) <= lost.std(axis=0, ddof=1) / np.sqrt(len(table)))
    return float(grid[near[np.abs(grid[near] - default).argmin()]])
