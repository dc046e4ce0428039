"""Compares settings of a search on questions with known answers: chooses on one half, and reports on the other half."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.evaluate import RUN_DEPTH, reranked_rows
from semclass.evaluation.measure import Estimate, check_measures, estimate, per_question, randomisation_test
from semclass.ranking.methods import METHODS
from semclass.ranking.order import has_heads_for
from semclass.ranking.retriever import HybridRetriever

METHODS_SWEPT = ("default", "convex", "rrf", "hybrid", "dense", "bm25")
"""Methods that are compared: a search without options, the three fusions (``hybrid`` is the linear one), and both lists."""


@dataclass(frozen=True)
class Setting:
    """A setting of a search, and its figures."""

    name: str  #: name of the retriever, such as its encoder and the length of its passages
    method: str  #: method of ranking
    chosen_by: float  #: the figure over the half of the questions that settings are chosen by
    reported: Estimate  #: the figure over the other half


@dataclass(frozen=True)
class Sweep:
    """The result of :func:`sweep`."""

    measure: str  #: measure of all figures
    settings: tuple[Setting, ...]  #: all settings; the first one is the default
    best: int  #: place of the setting that is best on the questions to choose by; the earliest, if several are best
    gain: Estimate  #: what it gains over the default on the other questions
    p_value: float  #: two-sided paired randomisation test of this gain


def sweep(
    dataset: Dataset,
    retrievers: Iterable[tuple[str, HybridRetriever]],
    *,
    measure: str = "nDCG@10",
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> Sweep:
    """Rank by each method with each retriever, choose the best setting on half of the questions, and report on the others.

    Parameters
    ----------
    dataset
        At least four questions with judgements. Of a passage that is not judged itself, the judgement of its ``document``
        counts, so that passages may be cut in several ways.
    retrievers
        Retrievers with their names. Each is used before the next one is taken, so that a generator can load them. The
        first one, with the first of `METHODS_SWEPT` that its models have heads for, is the default.
    measure
        Name of the measure in ir-measures, such as ``"nDCG@10"`` or ``"R@5"``, with a cut-off of at most 50.
    seed
        Seed that halves the questions, and that of intervals and test.
    progress
        Function that is called with the number of questions done with a retriever.

    Raises
    ------
    InputError
        If there are fewer than four questions, or ir-measures cannot compute the measure.
    MissingExtraError
        If ir-measures or scipy is not installed: ``pip install "semclass[eval]"``.
    """
    check_measures([measure])
    if (number := len(dataset.questions)) < 4:
        raise InputError(
            f"there is {counted(number, 'question')}; give at least 4, half of them to choose a setting by"
        )
    values: dict[tuple[str, str], DoubleArray] = {}
    for name, retriever in retrievers:
        for method, ranking in _rankings(dataset, retriever, progress).items():
            values[name, method] = per_question(dataset, ranking, [measure])[measure]
    if not values:
        raise InputError("there is no retriever; give at least one")
    order = np.random.default_rng(seed).permutation(number)
    choose, report = np.sort(order[: number // 2]), np.sort(order[number // 2 :])
    settings = tuple(
        Setting(*key, float(one[choose].mean()), estimate(one[report], seed)) for key, one in values.items()
    )
    best = int(np.argmax([one.chosen_by for one in settings]))
    tables = list(values.values())
    after, before = tables[best][report], tables[0][report]
    return Sweep(measure, settings, best, estimate(after - before, seed), randomisation_test(after, before, seed))


def _rankings(
    dataset: Dataset, retriever: HybridRetriever, progress: Callable[[int], object]
) -> Mapping[str, list[list[str]]]:
    """The ids that each method ranks for each question, by method."""
    judged = {name for relevant in dataset.relevance.values() for name in relevant}
    weights, index = retriever.weights, retriever.index
    methods = {name: METHODS[name] for name in METHODS_SWEPT if has_heads_for(retriever.models, METHODS[name])}
    found: dict[str, list[list[str]]] = {name: [] for name in methods}
    for query in retriever.encode(list(dataset.questions.values())):
        for name, how in methods.items():
            if how.kind is None:
                rows = retriever.retrieve(query, RUN_DEPTH, how, weights=weights)
            else:
                rows = reranked_rows(retriever, query, how.candidates, how, weights)
            ids = (
                one.id if one.id in judged else str(one.metadata.get("document", one.id))
                for one in index.passages(rows)
            )
            found[name].append(list(dict.fromkeys(ids)))
        progress(1)
    return found
