"""Searches a retriever's weights on questions with known answers.

A weight looks better than it is on the questions on which it was searched. So the report has two results for each
search: on all questions, and by cross-validation, where the questions of a fold are ranked with the weight that is best
on the other folds. A weight is worth storing if its cross-validated gain over the current weight exceeds a standard
error. With fewer than 100 questions the gain must exceed 1.645 standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, IntArray
from semclass.evaluation.candidate_scores import CUTOFF, Components, collect, reciprocal_ranks
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.measure import DEPTH
from semclass.evaluation.weight_search import (
    GRID,
    Comparison,
    WeightSearch,
    compared,
    fold_of,
    ranks_along,
    search,
    search_weights,
)
from semclass.index.records import Query
from semclass.ranking.methods import DEFAULT, METHODS, Method, bm25_top_of
from semclass.ranking.retriever import HybridRetriever
from semclass.scoring.topk import class_match

INTEGRATED = tuple(
    METHODS[name]
    for name in ("entail-integrated", "entail-integrated-hard", "class-integrated", "class-integrated-hard")
)
"""The methods of the reference thesis whose signal has a weight."""


@dataclass(frozen=True)
class Tuning:
    """Tuned weights of an index.

    Attributes
    ----------
    searches
        One search for each weight. Signals whose heads the models lack have no search.
    questions
        Number of questions with a relevant passage in the index. Only these questions were used.
    folds, seed
        Folds and seed of the cross-validation.
    """

    searches: tuple[WeightSearch, ...]
    questions: int
    folds: int
    seed: int

    @property
    def weights(self) -> dict[str, float]:
        """The weights that are worth storing, by name."""
        return {item.name: item.weight for item in self.searches if item.helps}

    def as_record(self, found_on: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record that an index stores.

        It holds the weights, their gains, and their data (`found_on`), such as names of files.
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
    progress: Callable[[int], object] = lambda _: None,
) -> Tuning:
    """Search the weights of a retriever on questions with known answers.

    The search begins with w of BM25 and alpha of convex fusion, in the ranking of the whole index. With this alpha, it
    then searches the weight of the evidence over the candidates of a search without options. With the found w, it
    finally searches lambda of the class match (soft and hard) in the ranking of the whole index, and the weight of each
    signal in integrated re-ranking of the first ten by the linear sum.

    Parameters
    ----------
    retriever
        The retriever. New weights are compared with its current weights.
    dataset
        Questions and judgements. Questions without a relevant passage in the index are left out.
    folds, seed
        Folds (at least 2) and seed of the cross-validation.
    progress
        Function that is called with the number of questions done in each of the four rankings of the whole index.

    Raises
    ------
    InputError
        If fewer questions than folds have a relevant passage in the index.
    """
    texts, places = answered_questions(retriever, dataset)
    fold = fold_of(len(texts), folds, seed)
    queries = retriever.encode(texts)
    before = retriever.weights
    tops = [bm25_top_of(before, retriever.index.idf, query.bm25_terms) for query in queries]
    live = [np.searchsorted(retriever.local_index.rows, place) for place in places]

    def in_index(name: str, kind: str | None = None, w: float = 0.0) -> WeightSearch:
        scores = _scores(retriever, queries, kind, w, progress)
        method = "convex" if name == "alpha" else "linear"
        found = search_weights(scores, live, method, bm25_tops=tops, default=before[name], folds=folds, seed=seed)
        return replace(found, name=name)

    def over(parts: Components, method: Method) -> WeightSearch:
        return search_integrated(parts, _relevant(parts, places), fold, method, default=before[method.weight])

    bm25, alpha = in_index("bm25"), in_index("alpha")
    if retriever.models.pair_heads is None:
        return Tuning((bm25, alpha), len(texts), folds, seed)
    best = METHODS[DEFAULT]
    evidence = over(collect(retriever, queries, best.candidates, best, weights={"alpha": alpha.weight}), best)
    bm25 = replace(bm25, learned=_learned(retriever, queries, places, bm25, fold))
    classes = retriever.models.has_classes
    matches = [in_index(f"match_{kind}", kind, bm25.weight) for kind in (("soft", "hard") if classes else ())]
    parts = collect(retriever, queries, DEPTH, METHODS["hybrid"], weights={"bm25": bm25.weight})
    integrated = [over(parts, method) for method in INTEGRATED if classes or not method.uses_classes]
    return Tuning((bm25, alpha, evidence, *matches, *integrated), len(texts), folds, seed)


def search_integrated(
    components: Components, relevant: npt.NDArray[np.bool_], fold: IntArray, method: Method, *, default: float
) -> WeightSearch:
    """Search the weight of a method's signal.

    `relevant` has the shape of the components, and `fold` one place a question.
    """
    ranks = ranks_along(components.score, components.signal(method), relevant, np.append(GRID, default))
    return search(method.weight, default, GRID, ranks, fold)


def answered_questions(retriever: HybridRetriever, dataset: Dataset) -> tuple[list[str], list[IntArray]]:
    """Return the questions with a relevant passage in the index, in the data set's order.

    Also returns the places of these passages.
    """
    found = {name: retriever.local_index.find(list(dataset.relevance[name])) for name in dataset.questions}
    places = {name: np.sort(rows[rows >= 0]) for name, rows in found.items() if rows.max() >= 0}
    return [dataset.questions[name] for name in places], list(places.values())


def _scores(
    retriever: HybridRetriever, queries: Sequence[Query], kind: str | None, w: float, progress: Callable[[int], object]
) -> Iterator[tuple[DoubleArray, DoubleArray]]:
    """Scores by vectors and by BM25 of the passages that are there; with a kind, their sum and the class match."""
    index = retriever.local_index
    for query in queries:
        base, signal = retriever.scores(query)
        if kind is not None:
            base = base + w * signal
            signal = class_match(query.probabilities, index.probabilities, index.thresholds, kind)
        yield base[index.rows], signal[index.rows]
        progress(1)


def _relevant(components: Components, places: Sequence[IntArray]) -> npt.NDArray[np.bool_]:
    """Which candidates are among the relevant places of their question, of shape (q, d)."""
    return np.stack([np.isin(row, place) for row, place in zip(components.rows, places, strict=True)])


def _learned(
    retriever: HybridRetriever,
    queries: Sequence[Query],
    places: Sequence[IntArray],
    found: WeightSearch,
    fold: IntArray,
) -> Comparison:
    """Learned re-ranking of what the default w finds, and of what each fold's w finds."""
    before, after = np.zeros(len(queries)), np.zeros(len(queries))
    for part, weight in enumerate(found.fold_weights):
        rows = np.flatnonzero(fold == part).tolist()
        answers = [places[row] for row in rows]
        for values, w in ((before, found.default), (after, weight)):
            parts = collect(retriever, [queries[row] for row in rows], DEPTH, METHODS["hybrid"], weights={"bm25": w})
            values[rows] = reciprocal_ranks(parts.signals["learned"], _relevant(parts, answers))
    return compared(before, after)
