"""The search for the weight of a fusion, over the scores of whole rankings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.candidate_scores import CUTOFF, ranks_along, reciprocal_ranks
from semclass.evaluation.weight_search import ALPHA_GRID, BM25_GRID, WeightSearch, _check_grid, fold_of, search
from semclass.scoring import fusion


def search_weights(
    scores: Iterable[tuple[DoubleArray, DoubleArray]],
    places: Sequence[IntArray],
    method: str = "convex",
    *,
    default: float = fusion.ALPHA,
    depth: int | None = fusion.DEPTH,
    grid: DoubleArray | None = None,
    folds: int = 5,
    seed: int = 0,
) -> WeightSearch:
    """Search alpha of a convex combination, or w of the linear one, on the scores of questions with known answers.

    Ten to fifty questions are enough to find out that a default is far off; where it is about right, they leave it.
    Bruch, Gai and Ingber (2023) report that few examples are enough for alpha; see `FEW` for what guards against chance.
    """
    weights = grid if grid is not None else ALPHA_GRID if method == "convex" else BM25_GRID
    _check_grid(weights)
    if folds < 2 or len(places) < folds:
        raise InputError(
            f"{folds} folds need at least {max(folds, 2)} questions, and at least 2 folds; there are {len(places)}"
        )
    found = [
        ranks_fused(pair, place, weights, default, method=method, depth=depth)
        for pair, place in zip(scores, places, strict=True)
    ]
    ranks, current = np.stack([ranks for ranks, _ in found]), np.array([reciprocal for _, reciprocal in found])
    name = "alpha" if method == "convex" else "bm25"
    return search(name, default, weights, ranks, current, fold_of(len(found), folds, seed))


def ranks_fused(
    scores: tuple[DoubleArray, DoubleArray],
    place: IntArray,
    weights: DoubleArray,
    default: float,
    *,
    method: str = "linear",
    depth: int | None = None,
) -> tuple[npt.NDArray[np.int8], float]:
    """Rank passages for one question along the weight of a fusion."""
    dense, bm25 = scores
    rows = np.arange(len(dense)) if depth is None else fusion.pool(dense, bm25, depth)
    base, signal = fusion.line(dense[rows], bm25[rows], method)
    return _ranks_on_line(base, signal, np.isin(rows, place), weights, default)


def _ranks_on_line(
    base: DoubleArray, signal: DoubleArray, relevant: npt.NDArray[np.bool_], weights: DoubleArray, default: float
) -> tuple[npt.NDArray[np.int8], float]:
    """Ranks along base + weight * signal of one question, and the reciprocal with the default."""
    # beyond the cutoff a rank counts as 0, so small integers hold all that matters
    found = np.minimum(ranks_along(base[None], signal[None], relevant[None], weights)[0], CUTOFF + 1).astype(np.int8)
    if not relevant.any():
        found[:] = CUTOFF + 1
    return found, float(reciprocal_ranks((base + default * signal)[None], relevant[None])[0])
