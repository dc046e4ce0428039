"""Searches one weight over a grid, and tests it by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.candidate_scores import reciprocal_ranks
from semclass.scoring import fusion

GRID: DoubleArray = np.array([0.0, *(float(f"{weight:.2g}") for weight in np.geomspace(0.001, 10, 81))])
"""Weights to try: 0, which leaves the component out, and 20 weights a decade from 0.001 to 10."""

ALPHA_GRID: DoubleArray = np.arange(101) / 100
"""Values of alpha to try for a convex combination."""

FEW = 100
"""Number of questions below which a gain must exceed `FEW_MARGIN` standard errors. The chosen weight is then the weight
nearest to the default that is at most one standard error worse than the best, because the best weight on few questions
lies far off by chance.

On samples of 10, 20 and 50 questions of squad4 and pubmedqa, the best alpha of the sample loses 0.004 to 0.019 of
MRR@10 on all other questions against the default. This rule loses at most 0.0001, because it keeps the default in at
least 96 of 100 samples. From an alpha that costs 0.097, the rule gets back 0.015, 0.033 and 0.065.
"""

FEW_MARGIN = 1.645
"""One-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Comparison:
    """The MRR@10 of the same questions before and after a change, and the standard error of the difference."""

    before: float
    after: float
    standard_error: float

    @property
    def gain(self) -> float:
        """The difference, which is negative if MRR@10 got worse."""
        return self.after - self.before


@dataclass(frozen=True)
class WeightSearch:
    """The search of one weight over a grid. Every MRR@10 is over the same questions."""

    name: str
    default: float  # the weight in use before
    best: float  # of the grid, on all questions; the smallest, if several are best
    grid: DoubleArray  # ascending from 0, of shape (w,)
    mrr: DoubleArray  # with each weight of the grid, of shape (w,)
    mrr_default: float
    mrr_searched: float  # with the best: found on the questions that it is reported on, so too good
    mrr_cross_validated: float  # each question ranked with the weight that is best on the other folds
    standard_error: float  # of mrr_cross_validated - mrr_default
    fold_weights: tuple[float, ...]  # what each fold's questions were ranked with
    margin: float = 1.0  # standard errors that a gain must exceed
    cautious: float | None = None  # with few questions: used in place of the best
    learned: Comparison | None = None  # of w of BM25: learned re-ranking with the default, and with fold_weights

    @property
    def gain(self) -> float:
        """Cross-validated gain in MRR over the default."""
        return self.mrr_cross_validated - self.mrr_default

    @property
    def helps(self) -> bool:
        """Whether the gain exceeds `margin` standard errors.

        Learned re-ranking must also not lose a standard error or more.
        """
        spoils = self.learned is not None and self.learned.gain < -self.learned.standard_error
        return self.gain > self.margin * self.standard_error and not spoils

    @property
    def weight(self) -> float:
        """The weight to use: the best or the cautious weight if it helps, or else the default."""
        if not self.helps:
            return self.default
        return self.best if self.cautious is None else self.cautious

    def as_json(self) -> dict[str, Any]:
        """The figures, without the curve."""
        return {
            "default": self.default,
            "best": self.best,
            "weight": self.weight,
            "helps": self.helps,
            "mrr_without": float(self.mrr[0]),
            "mrr_default": self.mrr_default,
            "mrr_searched_on_the_same_questions": self.mrr_searched,
            "mrr_cross_validated": self.mrr_cross_validated,
            "gain_cross_validated": self.gain,
            "standard_error": self.standard_error,
            "margin": self.margin,
            "fold_weights": list(self.fold_weights),
            **({} if self.learned is None else {"learned": asdict(self.learned)}),
        }


def fold_of(n: int, folds: int, seed: int) -> IntArray:
    """Assign n questions to folds of about equal size by chance, of shape (n,)."""
    if folds < 2 or n < folds:
        raise InputError(
            f"there are {counted(n, 'question')} with a relevant passage in the index, and {folds} folds; give at least "
            f"{max(folds, 2)} questions, and at least 2 folds"
        )
    return np.random.default_rng(seed).permutation(np.arange(n) % folds)


def ranks_along(
    base: DoubleArray, signal: DoubleArray, relevant: npt.NDArray[np.bool_], weights: DoubleArray
) -> DoubleArray:
    """Return the reciprocal ranks in the order of base + weight * signal, (q, w), for candidates of shape (q, d)."""
    return np.stack([reciprocal_ranks(base + weight * signal, relevant) for weight in weights], axis=1)


def search(name: str, default: float, grid: DoubleArray, reciprocal: DoubleArray, fold: IntArray) -> WeightSearch:
    """Find the best weight from the reciprocal ranks of each weight of the grid. The default comes last."""
    table, at_default = reciprocal[:, :-1], reciprocal[:, -1]
    sums = np.stack([table[fold == part].sum(axis=0) for part in range(fold.max() + 1)])
    total = sums.sum(axis=0)
    few = len(fold) < FEW
    chosen = (total - sums).argmax(axis=1)  # of the other folds; the smallest weight, if several are best
    gains = table[np.arange(len(fold)), chosen[fold]] - at_default
    best = int(total.argmax())
    return WeightSearch(
        name=name,
        default=float(default),
        best=float(grid[best]),
        grid=grid,
        mrr=total / len(fold),
        mrr_default=float(at_default.mean()),
        mrr_searched=float(total[best] / len(fold)),
        mrr_cross_validated=float(at_default.mean() + gains.mean()),
        standard_error=_standard_error(gains),
        fold_weights=tuple(grid[chosen].tolist()),
        margin=FEW_MARGIN if few else 1.0,
        cautious=_nearest(table, best, grid, default) if few else None,
    )


def compared(before: DoubleArray, after: DoubleArray) -> Comparison:
    """Compare reciprocal ranks of the same questions."""
    return Comparison(float(before.mean()), float(after.mean()), _standard_error(after - before))


def _standard_error(differences: DoubleArray) -> float:
    return float(differences.std(ddof=1) / np.sqrt(len(differences)))


def _nearest(table: DoubleArray, best: int, grid: DoubleArray, default: float) -> float:
    """The weight nearest to the default whose mean is not below that of the best by more than a standard error."""
    lost = table[:, [best]] - table
    near = np.flatnonzero(lost.mean(axis=0) <= lost.std(axis=0, ddof=1) / np.sqrt(len(table)))
    return float(grid[near[np.abs(grid[near] - default).argmin()]])


def search_weights(
    scores: Iterable[tuple[DoubleArray, DoubleArray]],
    places: Sequence[IntArray],
    method: str = "convex",
    *,
    bm25_tops: Iterable[float] = repeat(0.0),
    default: float = fusion.ALPHA,
    folds: int = 5,
    seed: int = 0,
) -> WeightSearch:
    """Search alpha of a convex combination, or w of the linear one, on the scores of questions with known answers.

    For each question, `scores` gives the scores of all n passages by vectors and by BM25, and `places` gives the places
    of the relevant passages. `bm25_tops` gives the BM25 score that counts as 1 for each question in convex combination.
    Bruch, Gai and Ingber (2023) report that few questions are enough for alpha. `FEW` guards against chance.
    """
    name, grid = ("alpha", ALPHA_GRID) if method == "convex" else ("bm25", GRID)
    fold = fold_of(len(places), folds, seed)
    weights = np.append(grid, default)
    found = [
        _ranks_of(*pair, place, method, weights, top)
        for (pair, place), top in zip(zip(scores, places, strict=True), bm25_tops, strict=False)
    ]
    return search(name, default, grid, np.stack(found), fold)


def _ranks_of(
    dense: DoubleArray, bm25: DoubleArray, place: IntArray, method: str, weights: DoubleArray, bm25_top: float
) -> DoubleArray:
    """Reciprocal ranks of one question along the weight of a fusion, of shape (w,)."""
    rows = fusion.pool(dense, bm25) if method == "convex" else np.arange(len(dense))
    base, signal = fusion.line(dense[rows], bm25[rows], method, bm25_top)
    relevant = np.isin(rows, place)
    if not relevant.any():
        return np.zeros(len(weights))
    # all others are behind every relevant passage, whatever the weight
    ahead = (base >= base[relevant].min()) | (signal >= signal[relevant].min())
    ranks = ranks_along(base[None, ahead], signal[None, ahead], relevant[None, ahead], weights)
    return ranks.reshape(len(weights))
