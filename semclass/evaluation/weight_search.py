"""The search for one weight: its curve over a grid, and what cross-validation says of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.candidate_scores import CUTOFF

GRID: DoubleArray = np.arange(1001) / 100
"""The weights that are tried: 0 (without the component), and 0.01 to 10 in steps of 0.01, as the reference system did."""

BM25_GRID: DoubleArray = np.concatenate([np.arange(100) / 1000, GRID[10:]])
"""The same for w of BM25, whose scores have no upper bound: in steps of 0.001 below 0.1."""

ALPHA_GRID: DoubleArray = np.arange(101) / 100
"""The same for alpha of a convex combination: 0 to 1 in steps of 0.01."""

FEW = 100
"""With fewer questions than this, a gain must exceed `FEW_MARGIN` standard errors, and then the weight nearest to the
default is taken that is no worse than the best by one: the best of few questions lies far off by chance.

``python -m bench tune`` searches samples of squad4 and pubmedqa. With 10, 20 and 50 questions, the best alpha of the sample
loses 0.004 to 0.019 of MRR@10 on the other questions against the default, and this rule at most 0.0001, as it keeps the
default in at least 96 of 100 samples. From an alpha that costs 0.097, it gets back 0.015, 0.033 and 0.065.
"""


FEW_MARGIN = 1.645
"""One-sided 95 % of the normal distribution."""


@dataclass(frozen=True)
class Comparison:
    """MRR@10 of the same questions, before and after.

    Attributes
    ----------
    before, after
        The two.
    standard_error
        Of their difference, over the questions.
    """

    before: float
    after: float
    standard_error: float

    @property
    def gain(self) -> float:
        """Difference; negative if it got worse."""
        return self.after - self.before


@dataclass(frozen=True)
class WeightSearch:
    """One weight, searched over a grid. All MRR@10 are over the same questions.

    Attributes
    ----------
    name
        Which one; one of `TUNED`.
    default
        The weight in use before.
    best
        The best of the grid on all questions; the smallest, if several are.
    grid
        The weights that were tried, ascending from 0, float64 of shape (w,).
    mrr
        With each weight of the grid, float64 of shape (w,): the curve.
    mrr_default
        With the default.
    mrr_searched
        With the best: searched on the questions it is reported on, so too good.
    mrr_cross_validated
        Each question ranked with the weight that is best on the other folds.
    standard_error
        Of mrr_cross_validated - mrr_default, over the questions.
    fold_weights
        What each fold's questions were ranked with.
    margin
        Standard errors that a gain must exceed.
    cautious
        What is used in place of the best, if it helps: with few questions, the weight nearest to the default that is not
        worse than the best by more than a standard error. None with many.
    learned
        Of w alone, which decides what there is to re-rank: learned re-ranking with the default and, cross-validated, with
        the weights found.
    """

    name: str
    default: float
    best: float
    grid: DoubleArray
    mrr: DoubleArray
    mrr_default: float
    mrr_searched: float
    mrr_cross_validated: float
    standard_error: float
    fold_weights: tuple[float, ...]
    margin: float = 1.0
    cautious: float | None = None
    learned: Comparison | None = None

    @property
    def gain(self) -> float:
        """Cross-validated gain in MRR over the default."""
        return self.mrr_cross_validated - self.mrr_default

    @property
    def helps(self) -> bool:
        """Whether the cross-validated gain exceeds `margin` standard errors, and learned re-ranking is no worse by one."""
        spoils = self.learned is not None and self.learned.gain < -self.learned.standard_error
        return self.gain > self.margin * self.standard_error and not spoils

    @property
    def weight(self) -> float:
        """The weight to use: the best, or the cautious one, if that helps, else the default."""
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


def search(
    name: str,
    default: float,
    grid: DoubleArray,
    ranks: npt.NDArray[np.integer[Any]],
    at_default: DoubleArray,
    fold: IntArray,
) -> WeightSearch:
    """Find the best weight from the ranks that every weight gives."""
    table = np.where(ranks <= CUTOFF, 1 / ranks, 0.0)
    folds = int(fold.max()) + 1
    sums = np.stack([table[fold == part].sum(axis=0) for part in range(folds)])
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
        standard_error=float(gains.std(ddof=1) / np.sqrt(len(gains))),
        fold_weights=tuple(grid[chosen].tolist()),
        margin=FEW_MARGIN if few else 1.0,
        cautious=_nearest(table, best, grid, default) if few else None,
    )


def _nearest(table: DoubleArray, best: int, grid: DoubleArray, default: float) -> float:
    """The weight nearest to the default whose mean is not below that of the best by more than a standard error."""
    lost = table[:, [best]] - table
    near = np.flatnonzero(lost.mean(axis=0) <= lost.std(axis=0, ddof=1) / np.sqrt(len(table)))
    return float(grid[near[np.abs(grid[near] - default).argmin()]])


def _check_grid(weights: DoubleArray) -> None:
    if len(weights) < 2 or weights[0] != 0 or not (np.diff(weights) > 0).all():
        raise InputError(
            "a grid of weights must begin with 0 and ascend, as semclass.evaluation.weight_search.GRID does"
        )


def fold_of(n: int, folds: int, seed: int) -> IntArray:
    """Assign n questions to folds of about equal size by chance, int64 of shape (n,)."""
    return np.random.default_rng(seed).permutation(np.arange(n) % folds)
