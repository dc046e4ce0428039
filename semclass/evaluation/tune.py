"""Searches a retriever's weights on questions with known answers.

A weight looks better than it is on the questions on which it was searched. So the report has two results for each
weight: on all questions, and by cross-validation, where the questions of a fold are ranked with the weight that is best
on the other folds. A weight is worth storing if its cross-validated gain over the current weight exceeds a standard
error, or `FEW_MARGIN` standard errors with few questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.evaluate import methods_of
from semclass.index.candidates import Query
from semclass.ranking.methods import METHODS
from semclass.ranking.options import SearchOptions
from semclass.ranking.retriever import HybridRetriever
from semclass.scoring import fusion

FUSIONS = {"bm25": "hybrid", "alpha": "convex"}
"""The weight of each fusion of vectors and BM25, which is searched in the ranking of the whole index."""

RERANKING = {"evidence": "default", "entailment": "entail-integrated", "class": "class-integrated"}
"""The weight of what each method adds to the fused score, which is searched over the candidates of the method."""

GRID: DoubleArray = np.array([0.0, *(float(f"{weight:.2g}") for weight in np.geomspace(0.001, 10, 81))])
"""Weights to try: 0, which leaves the component out, and 20 weights a decade from 0.001 to 10."""

ALPHA_GRID: DoubleArray = np.arange(101) / 100
"""Values of alpha to try for a convex combination."""

CUTOFF = 10
"""Number of places that count in MRR@10."""

FEW_QUESTIONS = 100
"""Number of questions below which a gain must exceed `FEW_MARGIN` standard errors. The chosen weight is then the weight
nearest to the default that is at most one standard error worse than the best, because the best weight on few questions
lies far off by chance: on samples of 10 to 50 questions, the best alpha loses up to 0.019 of MRR@10, this rule 0.0001."""

FEW_MARGIN = 1.645
"""One-sided 95 % quantile of the normal distribution."""

Flags = npt.NDArray[np.bool_]
Line = tuple[DoubleArray, DoubleArray, Flags]
"""Of n candidates: base and signal, whose weighted sum is the key, and whether each is relevant."""


@dataclass(frozen=True)
class WeightSearch:
    """The search of one weight over a grid. Every MRR@10 is over the same questions."""

    name: str
    default: float  #: the weight in use before
    best: float  #: the best of the grid on all questions; the smallest, if several are best
    mrr: DoubleArray  #: with each weight of the grid, of shape (w,)
    mrr_default: float
    mrr_searched: float  #: with the best weight: searched on the questions that it is reported on, so too good
    mrr_cross_validated: float  #: each question ranked with the weight that is best on the other folds
    standard_error: float  #: of `gain`
    margin: float  #: standard errors that `gain` must exceed
    cautious: float  #: the weight to use if it helps

    @property
    def gain(self) -> float:
        """Cross-validated gain over the default."""
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
        """The figures, without the curve."""
        figures = {name: value for name, value in vars(self).items() if name not in ("name", "mrr")}
        return {**figures, "mrr_without": float(self.mrr[0]), "gain": self.gain, "helps": self.helps}


@dataclass(frozen=True)
class Tuning:
    """Tuned weights of an index: one search for each weight whose method the models have heads for."""

    searches: tuple[WeightSearch, ...]
    questions: int  #: number of questions with a relevant passage in the index; only these were used
    folds: int
    seed: int

    @property
    def weights(self) -> dict[str, float]:
        """The weights that are worth storing, by name."""
        return {item.name: item.weight for item in self.searches if item.helps}

    def as_record(self, found_on: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record that an index stores: weights, gains, and data (`found_on`), such as names of files."""
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
    """Search the weights of a retriever on questions with known answers.

    The search begins with the two fusions. The weights of re-ranking are then searched with the weights that were found.

    Questions without a relevant passage in the index are left out. `folds` (at least 2) and `seed` are those of the
    cross-validation. `progress` is called with the number of questions done for a weight.

    Raises
    ------
    InputError
        If fewer questions than folds have a relevant passage in the index.
    """
    index, weights = retriever.local_index, dict(retriever.weights)
    rows = {name: index.find(list(dataset.relevance[name])) for name in dataset.questions}
    answers = {name: np.sort(places[places >= 0]) for name, places in rows.items() if places.max() >= 0}
    fold = fold_of(len(answers), folds, seed)
    texts = [dataset.questions[name] for name in answers]
    queries, searches = retriever.encode(texts), []
    for name, method in searches_of(retriever).items():
        grid, ranks = ALPHA_GRID if name == "alpha" else GRID, []
        tried = np.append(grid, weights[name])
        for text, query, (question, places) in zip(texts, queries, answers.items(), strict=True):
            if name in FUSIONS:
                line = _fusion_line(retriever, query, places, method)
            else:
                line = _reranking_line(retriever, text, dataset.relevance[question], method, {**weights, name: 1.0})
            ranks.append(ranks_along(*line, tried))
            progress(1)
        searches.append(search(name, weights[name], grid, np.stack(ranks), fold))
        if name in FUSIONS:
            weights[name] = searches[-1].weight
    return Tuning(tuple(searches), len(texts), folds, seed)


def searches_of(retriever: HybridRetriever) -> dict[str, str]:
    """Return the methods by the names of the weights that :func:`tune` searches."""
    methods = methods_of(retriever)
    return FUSIONS | {name: method for name, method in RERANKING.items() if method in methods}


def _fusion_line(retriever: HybridRetriever, query: Query, answers: IntArray, method: str) -> Line:
    """Keys of a question in the whole index along the weight of a fusion."""
    index = retriever.local_index
    dense, bm25 = (scores[index.rows] for scores in retriever.scores(query))
    pool = fusion.pool({"dense": dense, "bm25": bm25}) if method == "convex" else np.arange(len(dense))
    signals = {"dense": dense[pool], "bm25": bm25[pool], "sparse": index.sparse_scores(query, index.rows[pool])}
    scoring = METHODS[method].scoring({**retriever.weights, "alpha": 0.5, "bm25": 1.0})
    vectors, *others = scoring.parts(signals, index.statistics, index.terms_of(query)).values()
    words = np.asarray(sum(others))
    base, signal = (vectors, words) if method == "hybrid" else (2 * words, 2 * (vectors - words))
    relevant = np.isin(pool, np.searchsorted(index.rows, answers))
    # all others are behind every relevant passage, whatever the weight
    ahead = (base >= base[relevant].min(initial=np.inf)) | (signal >= signal[relevant].min(initial=np.inf))
    return base[ahead], signal[ahead], relevant[ahead]


def _reranking_line(
    retriever: HybridRetriever, text: str, relevance: Mapping[str, int], method: str, weights: Mapping[str, float]
) -> Line:
    """Keys of a question's candidates along the weight of what re-ranking adds."""
    options = SearchOptions(method=method, explain=True, weights=weights)
    hits = sorted(retriever.search(text, METHODS[method].candidates, options), key=lambda hit: hit.rank_before)
    parts = [hit.explanation.parts for hit in hits if hit.explanation is not None]
    fused = np.array(
        [sum(value for name, value in own.items() if name in ("dense", "bm25", "sparse")) for own in parts]
    )
    added = np.array([sum(own.values()) for own in parts]) - fused
    return fused, added, np.array([hit.id in relevance for hit in hits])


def ranks_along(base: DoubleArray, signal: DoubleArray, relevant: Flags, weights: DoubleArray) -> DoubleArray:
    """Return the reciprocal rank of the best relevant of n candidates by base + weight * signal, of shape (w,).

    Ties keep their order. A rank behind `CUTOFF` counts 0.
    """
    if not relevant.any():
        return np.zeros(len(weights))
    keys = base + weights[:, None] * signal
    best = np.where(relevant, keys, -np.inf).argmax(axis=1)[:, None]  # the first of the best
    top = np.take_along_axis(keys, best, axis=1)
    rank = 1 + ((keys > top) | ((keys == top) & (np.arange(len(base)) < best))).sum(axis=1)
    return np.where(rank <= CUTOFF, 1 / rank, 0.0)


def fold_of(n: int, folds: int, seed: int) -> IntArray:
    """Assign n questions to folds of about equal size by chance, of shape (n,)."""
    if folds < 2 or n < folds:
        raise InputError(
            f"there are {counted(n, 'question')} with a relevant passage in the index, and {folds} folds; give at least "
            f"{max(folds, 2)} questions, and at least 2 folds"
        )
    return np.random.default_rng(seed).permutation(np.arange(n) % folds)


def search(name: str, default: float, grid: DoubleArray, ranks: DoubleArray, fold: IntArray) -> WeightSearch:
    """Choose a weight by the reciprocal ranks of q questions with the w weights of a grid and, last, with the default.

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
