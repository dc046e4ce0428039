"""Finding the weights of a retriever on questions with known answers: exhaustive, on MRR, and reported honestly.

A weight that was searched on the questions it is reported on looks better than it is. So every search is told twice:
on all questions, and by cross-validation, where the questions of a fold are ranked with the weight that is best on the
other folds. Only a weight whose cross-validated gain over the one in use exceeds a standard error is worth storing.
From few questions less is believed: see `FEW`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.candidate_scores import CUTOFF, Components, collect, ranks_along, reciprocal_ranks
from semclass.evaluation.evaluate import DEPTH, Dataset
from semclass.index.records import Query
from semclass.ranking.methods import DEFAULT as BEST
from semclass.ranking.methods import METHODS, Method
from semclass.ranking.retriever import HybridRetriever
from semclass.scoring import fusion
from semclass.scoring.topk import class_match

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

INTEGRATED = tuple(
    METHODS[name]
    for name in ("entail-integrated", "entail-integrated-hard", "class-integrated", "class-integrated-hard")
)
"""The methods of the reference thesis whose signal has a weight."""

TUNED = (
    *("bm25", "alpha", "entailment_convex", "match_soft", "match_hard"),
    *(method.signal_weight for method in INTEGRATED),
)
"""Names of the weights, in the order in which they are searched."""


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


@dataclass(frozen=True)
class Tuning:
    """What was found for an index.

    Attributes
    ----------
    searches
        One for each weight that was searched, in the order of `TUNED`; none for classes, if there are no class heads.
    questions
        How many questions took part: those with a relevant passage in the index.
    folds, seed
        Of the cross-validation.
    """

    searches: tuple[WeightSearch, ...]
    questions: int
    folds: int
    seed: int

    @property
    def weights(self) -> dict[str, float]:
        """The weights that help, by name; those that do not are left as they were."""
        return {item.name: item.weight for item in self.searches if item.helps}

    def as_record(self, found_on: Mapping[str, Any]) -> dict[str, Any]:
        """What an index stores: weights, what they were found on, and what they brought.

        Parameters
        ----------
        found_on
            More about the questions, such as names and hashes of files.
        """
        return {
            "weights": self.weights,
            "found_on": {
                **found_on,
                "questions": self.questions,
                "folds": self.folds,
                "seed": self.seed,
                "measure": f"MRR@{CUTOFF}",
                "date": datetime.now(timezone.utc).date().isoformat(),
            },
            "searches": {item.name: item.as_json() for item in self.searches},
        }


def tune(
    retriever: HybridRetriever,
    dataset: Dataset,
    *,
    folds: int = 5,
    seed: int = 0,
    grid: DoubleArray = GRID,
    bm25_grid: DoubleArray = BM25_GRID,
    depth: int = DEPTH,
    progress: Callable[[int], object] | None = None,
) -> Tuning:
    """Search the weights of a retriever on questions with known answers.

    First w of BM25, in the ranking of the whole index, and alpha of convex fusion; with this alpha, the weight of
    P(passage answers question) over the candidates of a search without options. Then, with the w that came out: lambda of
    the class match in the ranking of the whole index, soft and hard, and the weight of each signal in integrated re-ranking
    of the first `depth` by the linear sum. Ranks in the whole index are exact, whatever the weight. What the models have no
    heads for is left out.

    Parameters
    ----------
    retriever
        Its weights are what the found ones are compared with.
    dataset
        Questions and judgements. Questions without a relevant passage in the index are left out.
    folds
        At least 2.
    seed
        Of the assignment of questions to folds.
    grid, bm25_grid
        Weights to try, those of BM25 apart: ascending from 0.
    depth
        Candidates that are re-ranked, with linear fusion.
    progress
        Called with the number of questions done in each of the four rankings of the whole index.

    Returns
    -------
    Tuning
        Curves, the best weights, and whether they help.

    Raises
    ------
    InputError
        If fewer questions than folds have a relevant passage in the index, or the grid is not ascending from 0.
    """
    for weights in (grid, bm25_grid):
        _check_grid(weights)
    texts, places = answered_questions(retriever, dataset)
    if folds < 2 or len(texts) < folds:
        raise InputError(
            f"{len(texts)} of {len(dataset.questions)} questions have a relevant passage in the index; {folds} folds need "
            f"at least {max(folds, 2)} questions, and at least 2 folds"
        )
    fold = fold_of(len(texts), folds, seed)
    queries = retriever.encode(texts)
    step = progress or (lambda _: None)
    before = retriever.weights

    ranks, current = ranks_in_index(retriever, queries, places, bm25_grid, before["bm25"], step=step)
    first = search("bm25", before["bm25"], bm25_grid, ranks, current, fold)
    alpha = search_weights(
        _scores(retriever, queries, step),
        [np.searchsorted(retriever.embedded.rows, place) for place in places],
        default=before["alpha"],
        folds=folds,
        seed=seed,
    )
    if retriever.ranker.pair_heads is None:
        return Tuning((first, alpha), len(texts), folds, seed)
    best = METHODS[BEST]
    parts = collect(retriever, queries, best.candidates, best, weights={"alpha": alpha.weight})
    default = before[best.signal_weight]
    answers = search_integrated(parts, _relevant(parts, places), fold, best, default=default, grid=grid)
    searches = [replace(first, learned=_learned(retriever, queries, places, first, fold, depth)), alpha, answers]
    w = searches[0].weight
    classes = retriever.ranker.has_classes
    for kind in ("soft", "hard") if classes else ():
        name = f"match_{kind}"
        ranks, current = ranks_in_index(
            retriever, queries, places, grid, before[name], kind=kind, bm25_weight=w, step=step
        )
        searches.append(search(name, before[name], grid, ranks, current, fold))
    parts = collect(retriever, queries, depth, METHODS["hybrid"], weights={"bm25": w})
    relevant = _relevant(parts, places)
    for method in [method for method in INTEGRATED if classes or not method.uses_classes]:
        default = before[method.signal_weight]
        searches.append(search_integrated(parts, relevant, fold, method, default=default, grid=grid))
    return Tuning(tuple(searches), len(texts), folds, seed)


def search_integrated(
    components: Components,
    relevant: npt.NDArray[np.bool_],
    fold: IntArray,
    method: Method,
    *,
    default: float,
    grid: DoubleArray = GRID,
) -> WeightSearch:
    """Search the weight of a signal in integrated re-ranking, over stored components.

    Parameters
    ----------
    components
        Of q questions, d candidates each.
    relevant
        Which candidates are, bool of shape (q, d).
    fold
        Fold of each question, int64 of shape (q,), see :func:`fold_of`.
    method
        The integrated method whose weight is searched.
    default
        The weight to compare with.
    grid
        Weights to try, ascending from 0.

    Returns
    -------
    WeightSearch
        The curve and what it says.
    """
    signal = components.signal(method)
    ranks = ranks_along(components.score, signal, relevant, grid)
    at_default = reciprocal_ranks(components.score + default * signal, relevant)
    return search(method.signal_weight, default, grid, ranks, at_default, fold)


def search(
    name: str,
    default: float,
    grid: DoubleArray,
    ranks: npt.NDArray[np.integer[Any]],
    at_default: DoubleArray,
    fold: IntArray,
) -> WeightSearch:
    """Find the best weight from the ranks that every weight gives.

    Parameters
    ----------
    name, default
        As in :class:`WeightSearch`.
    grid
        The weights, float64 of shape (w,).
    ranks
        Rank of the first relevant passage, from 1, of shape (q, w).
    at_default
        Reciprocal ranks with the default, float64 of shape (q,).
    fold
        Fold of each question, int64 of shape (q,).

    Returns
    -------
    WeightSearch
        The curve and what it says.
    """
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


def search_weights(
    scores: Iterable[tuple[DoubleArray, DoubleArray]],
    places: Sequence[IntArray],
    method: str = "convex",
    *,
    default: float = fusion.ALPHA,
    kind: str | None = None,
    depth: int | None = fusion.DEPTH,
    grid: DoubleArray | None = None,
    folds: int = 5,
    seed: int = 0,
) -> WeightSearch:
    """Search alpha of a convex combination, or w of the linear one, on the scores of questions with known answers.

    Ten to fifty questions are enough to find out that a default is far off; where it is about right, they leave it.
    Bruch, Gai and Ingber (2023) report that few examples are enough for alpha; see `FEW` for what guards against chance.

    Parameters
    ----------
    scores
        Of each of q questions: scores of all n passages by vectors and by BM25, each float64 of shape (n,); NaN where not
        known.
    places
        Relevant passages of each question, int64 of shape (at least 1,), from 0 to n - 1.
    method
        ``"convex"`` or ``"linear"``, see :mod:`semclass.scoring.fusion`.
    default
        The weight to compare with and to keep.
    kind, depth
        As for :func:`semclass.scoring.fusion.fused`; without a kind, as a search has it, see
        :func:`semclass.scoring.fusion.kind_for`.
    grid
        Weights to try, ascending from 0; `ALPHA_GRID` or `BM25_GRID` if None.
    folds, seed
        Of the cross-validation; at least 2 folds, and as many as questions leaves one out at a time.

    Returns
    -------
    WeightSearch
        Named ``alpha`` or ``bm25``; its ``weight`` is the one to use.

    Raises
    ------
    InputError
        If there are fewer questions than folds, or the grid is not ascending from 0.
    """
    weights = grid if grid is not None else ALPHA_GRID if method == "convex" else BM25_GRID
    _check_grid(weights)
    if folds < 2 or len(places) < folds:
        raise InputError(
            f"{folds} folds need at least {max(folds, 2)} questions, and at least 2 folds; there are {len(places)}"
        )
    found = [
        ranks_fused(pair, place, weights, default, method=method, kind=kind, depth=depth)
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
    kind: str | None = None,
    depth: int | None = None,
) -> tuple[npt.NDArray[np.int8], float]:
    """Rank passages for one question along the weight of a fusion.

    Parameters
    ----------
    scores, method, kind, depth
        As for :func:`search_weights`.
    place
        Relevant passages.
    weights
        Ascending from 0, float64 of shape (w,).
    default
        Another weight.

    Returns
    -------
    ranks, reciprocal
        Rank of the first relevant passage with each weight, from 1, int8 of shape (w,); 11 behind place 10, and where no
        relevant passage is in the lists. And its reciprocal with the default, 0 behind place 10.
    """
    dense, bm25 = scores
    rows = np.arange(len(dense)) if depth is None else fusion.pool(dense, bm25, depth)
    base, signal = fusion.line(dense[rows], bm25[rows], method, kind=kind)
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


def _check_grid(weights: DoubleArray) -> None:
    if len(weights) < 2 or weights[0] != 0 or not (np.diff(weights) > 0).all():
        raise InputError("a grid of weights must begin with 0 and ascend, as semclass.evaluation.tune.GRID does")


def fold_of(n: int, folds: int, seed: int) -> IntArray:
    """Assign n questions to folds of about equal size by chance, int64 of shape (n,)."""
    return np.random.default_rng(seed).permutation(np.arange(n) % folds)


def answered_questions(retriever: HybridRetriever, dataset: Dataset) -> tuple[list[str], list[IntArray]]:
    """Find the questions that an index can answer.

    Parameters
    ----------
    retriever
        Holds the index.
    dataset
        Questions and judgements.

    Returns
    -------
    texts, places
        The questions with a relevant passage in the index, in the data set's order, and the places of these passages in the
        index, ascending, int64 of shape (at least 1,).
    """
    wanted = {passage for relevant in dataset.relevance.values() for passage in relevant}
    rows = {name: row for row, name in _ids(retriever) if name in wanted}
    texts, places = [], []
    for question, text in dataset.questions.items():
        found = [rows[passage] for passage in dataset.relevance[question] if passage in rows]
        if found:
            texts.append(text)
            places.append(np.array(sorted(found), np.int64))
    return texts, places


def _ids(retriever: HybridRetriever) -> Iterator[tuple[int, str]]:
    index = retriever.embedded
    for row in index.rows.tolist():
        yield row, index.passage(row).id


def _relevant(components: Components, places: Sequence[IntArray]) -> npt.NDArray[np.bool_]:
    """Which candidates are among the relevant places of their question, bool of shape (q, d)."""
    return np.stack([np.isin(row, place) for row, place in zip(components.rows, places, strict=True)])


def _learned(
    retriever: HybridRetriever,
    queries: Sequence[Query],
    places: Sequence[IntArray],
    found: WeightSearch,
    fold: IntArray,
    depth: int,
) -> Comparison:
    """Learned re-ranking of what the default w finds, and of what each fold's w finds."""
    before, after = np.zeros(len(queries)), np.zeros(len(queries))
    for part, weight in enumerate(found.fold_weights):
        rows = np.flatnonzero(fold == part).tolist()
        answers = [places[row] for row in rows]
        for values, w in ((before, found.default), (after, weight)):
            parts = collect(retriever, [queries[row] for row in rows], depth, METHODS["hybrid"], weights={"bm25": w})
            values[rows] = reciprocal_ranks(parts.learned, _relevant(parts, answers))
    error = float((after - before).std(ddof=1) / np.sqrt(len(fold)))
    return Comparison(float(before.mean()), float(after.mean()), error)


def _scores(
    retriever: HybridRetriever, queries: Iterable[Query], step: Callable[[int], object]
) -> Iterator[tuple[DoubleArray, DoubleArray]]:
    """Scores by vectors and by BM25 of the passages that are there, question by question."""
    rows = retriever.embedded.rows
    for query in queries:
        dense, bm25 = retriever.scores(query)
        yield dense[rows], bm25[rows]
        step(1)


def ranks_in_index(
    retriever: HybridRetriever,
    queries: Sequence[Query],
    places: Sequence[IntArray],
    weights: DoubleArray,
    default: float,
    *,
    kind: str | None = None,
    bm25_weight: float = 0.0,
    step: Callable[[int], object] = lambda _: None,
) -> tuple[IntArray, DoubleArray]:
    """Rank the whole index along one weight: w of BM25, or lambda of the class match.

    Parameters
    ----------
    retriever
        Index and models.
    queries
        q encoded questions.
    places
        Relevant passages of each, see :func:`answered_questions`.
    weights
        Ascending from 0, float64 of shape (w,).
    default
        Another weight.
    kind
        None: the weight is that of BM25. ``"soft"`` or ``"hard"``: of this class match.
    bm25_weight
        w, where the weight is that of the class match.
    step
        Called with the number of questions done.

    Returns
    -------
    ranks, reciprocal
        Rank of the first relevant passage with each weight, from 1, integers of shape (q, w); what is behind place 10 has
        11. And its reciprocal with the default, 0 behind place 10, float64 of shape (q,).
    """
    index = retriever.embedded
    ranks, current = [], []
    for query, place in zip(queries, places, strict=True):
        base, signal = retriever.scores(query)
        if kind is not None:
            base = base + bm25_weight * signal
            signal = class_match(query.probabilities, index.probabilities, index.thresholds, kind)
        relevant = np.isin(index.rows, place)
        found, reciprocal = _ranks_on_line(base[index.rows], signal[index.rows], relevant, weights, default)
        ranks.append(found)
        current.append(reciprocal)
        step(1)
    return np.stack(ranks), np.array(current)
