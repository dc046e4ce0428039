"""Finding the weights of a retriever on questions with known answers: exhaustive, on MRR, and reported honestly.

A weight that was searched on the questions it is reported on looks better than it is. So every search is told twice:
on all questions, and by cross-validation, where the questions of a fold are ranked with the weight that is best on the
other folds. Only a weight whose cross-validated gain over the one in use exceeds a standard error is worth storing.
From few questions less is believed: see `FEW`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.candidate_scores import CUTOFF, Components, collect, ranks_along, reciprocal_ranks
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.fusion_weights import _ranks_on_line, search_weights
from semclass.evaluation.measure import DEPTH
from semclass.evaluation.weight_search import (
    BM25_GRID,
    GRID,
    Comparison,
    WeightSearch,
    _check_grid,
    fold_of,
    search,
)
from semclass.index.records import Query
from semclass.ranking.methods import DEFAULT as BEST
from semclass.ranking.methods import METHODS, Method
from semclass.ranking.retriever import HybridRetriever
from semclass.scoring.topk import class_match

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
    if retriever.models.pair_heads is None:
        return Tuning((first, alpha), len(texts), folds, seed)
    best = METHODS[BEST]
    parts = collect(retriever, queries, best.candidates, best, weights={"alpha": alpha.weight})
    default = before[best.signal_weight]
    answers = search_integrated(parts, _relevant(parts, places), fold, best, default=default, grid=grid)
    searches = [replace(first, learned=_learned(retriever, queries, places, first, fold, depth)), alpha, answers]
    w = searches[0].weight
    classes = retriever.models.has_classes
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
        Fold of each question, int64 of shape (q,), see :func:`semclass.evaluation.weight_search.fold_of`.
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
