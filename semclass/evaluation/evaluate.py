"""Ranks the questions of a BEIR folder by every method, or by plain vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from semclass.core.types import Encoder, FloatArray, Passage
from semclass.encoders.onnx_encoder import for_passages
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.measure import interval, per_question, randomisation_test
from semclass.index.passage_encoder import searchable
from semclass.ranking.methods import METHODS
from semclass.ranking.options import SearchOptions
from semclass.ranking.retriever import HybridRetriever
from semclass.scoring.vectors import top_k, unit

RUN_DEPTH = 100
"""Number of passages of a run. Passages that a method does not re-rank follow in their earlier order."""

BATCH = 32
"""Questions that are searched together."""

SIMILARITIES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "cosine": lambda passages, question: unit(passages) @ unit(question[None])[0],
    "ip": lambda passages, question: passages @ question,
    "l2": lambda passages, question: -np.square(passages - question).sum(axis=1),
}
"""Functions for the similarity of n passages, of shape (n, dim), to a question, of shape (dim,). Larger is nearer."""


def methods_of(retriever: HybridRetriever) -> list[str]:
    """Return the names of the methods whose heads the models have, in the order of `METHODS`."""
    return [name for name, method in METHODS.items() if retriever.models.has(method.needs)]


def rank(
    dataset: Dataset,
    retriever: HybridRetriever,
    methods: Iterable[str] | None = None,
    *,
    depth: int = RUN_DEPTH,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, list[list[str]]]:
    """Rank the passages for each question by several methods, with the weights of the retriever.

    Returns for each method the n rankings of the questions: at most `depth` ids of passages, best first. By default, it
    uses every method for which the models have heads. `progress` is called with the number of questions that a method has
    ranked.

    Raises an InputError if the index is on a server, because a server returns only the passages that are re-ranked.
    """
    _ = retriever.local_index
    questions = list(dataset.questions.values())
    rankings: dict[str, list[list[str]]] = {}
    for name in methods_of(retriever) if methods is None else methods:
        options, rankings[name] = SearchOptions(method=name), []
        for start in range(0, len(questions), BATCH):
            results = retriever.search_many(questions[start : start + BATCH], depth, options)
            rankings[name] += [[hit.id for hit in result] for result in results]
            progress(len(results))
    return rankings


def sweep(
    dataset: Dataset,
    passages: Sequence[Passage],
    encoder: Encoder,
    measures: Sequence[str],
    *,
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Rank `passages` for each question by each similarity of vectors, and measure the rankings.

    Returns for each similarity ``measures`` (mean ``value`` and 95 % bootstrap ``interval`` of each) and ``p_value``. The
    p-value is that of a two-sided paired randomisation test of the first measure against cosine.
    """
    ids = [passage.id for passage in passages]
    vectors = _vectors([searchable(passage) for passage in passages], for_passages(encoder), progress)
    questions = _vectors(list(dataset.questions.values()), encoder, progress)
    values = {}
    for name, similarity in SIMILARITIES.items():
        rankings = [[ids[row] for row in top_k(similarity(vectors, question), RUN_DEPTH)] for question in questions]
        values[name] = per_question(dataset, rankings, measures)
    found = {}
    for name, table in values.items():
        p_value = randomisation_test(table[measures[0]], values["cosine"][measures[0]], seed)
        rows = {m: {"value": float(v.mean()), "interval": interval(np.mean, [v], seed)} for m, v in table.items()}
        found[name] = {"measures": rows, "p_value": p_value}
    return found


def _vectors(texts: Sequence[str], encoder: Encoder, progress: Callable[[int], object]) -> FloatArray:
    rows = []
    for start in range(0, len(texts), RUN_DEPTH):
        rows.append(encoder.encode(texts[start : start + RUN_DEPTH]).rows("pooled"))
        progress(len(rows[-1]))
    return np.concatenate(rows)
