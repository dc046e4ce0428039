"""What ``semclass tune`` brings on questions that it did not see, and how many questions it needs.

The questions of each data set are cut in two halves by chance. Weights are found on one half and measured on the other, by
MRR@10 of the plain hybrid and of re-ranking. Then w of BM25 is searched on small samples, 200 of each size: how often does
the rule (store only what is better by a standard error in cross-validation) store something, what does that bring on all
other questions, and how often is it worse than the default? Needs the extra ``eval``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bench.steps import Bench
from semclass import HybridRetriever, Ranker, evaluation, tuning

FOLDERS = ("squad4", "pubmedqa")

SIZES = (50, 100, 200, 400)
"""Questions of a sample."""

DRAWS = 200
"""Samples of each size."""


def half(dataset: evaluation.Dataset, seed: int, which: int) -> evaluation.Dataset:
    """One half of the questions, drawn by chance."""
    side = tuning.fold_of(len(dataset.questions), 2, seed)
    names = [name for name, place in zip(dataset.questions, side, strict=True) if place == which]
    return replace(
        dataset,
        questions={name: dataset.questions[name] for name in names},
        relevance={name: dataset.relevance[name] for name in names},
    )


def on_the_other_half(retriever: HybridRetriever, dataset: evaluation.Dataset) -> dict[str, Any]:
    """Weights of one half, measured on the other."""
    found = tuning.tune(retriever, half(dataset, 0, 0))
    other = half(dataset, 0, 1)
    tuned = replace(retriever, index=replace(retriever.index, tuned={"weights": found.weights}))
    results = {name: evaluation.evaluate(other, used) for name, used in (("default", retriever), ("tuned", tuned))}
    figures = {
        method: {name: measured[method].mrr for name, measured in results.items()}
        for method in ("hybrid", "entail-integrated", "learned")
    }
    return {
        "weights": found.weights,
        "found_on": found.questions,
        "measured_on": len(other.questions),
        "mrr@10": figures,
    }


def by_size(
    retriever: HybridRetriever, dataset: evaluation.Dataset, sizes: Sequence[int]
) -> dict[str, dict[str, float]]:
    """What searching w on few questions brings on the others."""
    texts, places = tuning.answered_questions(retriever, dataset)
    default = retriever.weights["bm25"]
    ranks, current = tuning.ranks_in_index(retriever, retriever.encode(texts), places, tuning.BM25_GRID, default)
    values = np.where(ranks <= evaluation.DEPTH, 1 / ranks, 0.0)
    rng = np.random.default_rng(0)
    found = {}
    for size in sizes:
        gains = []
        for _ in range(DRAWS):
            order = rng.permutation(len(current))
            seen, unseen = order[:size], order[size:]
            fold = tuning.fold_of(size, 5, 0)
            item = tuning.search("bm25", default, tuning.BM25_GRID, ranks[seen], current[seen], fold)
            column = int(np.searchsorted(tuning.BM25_GRID, item.weight))
            gains.append(values[unseen, column].mean() - current[unseen].mean() if item.helps else 0.0)
        found[str(size)] = {
            "stored": float(np.mean(np.array(gains) != 0)),
            "gain": round(float(np.mean(gains)), 4),
            "worst": round(float(np.min(gains)), 4),
            "worse_than_default": float(np.mean(np.array(gains) < 0)),
        }
    return found


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set."""
    sizes = SIZES[:1] if bench.quick else SIZES
    return {
        name: bench.step(
            f"tune/{name}", "bench.tune:measure", folder=bench.beir(name), indices=bench.indices, sizes=sizes
        )
        for name in FOLDERS
    }


def measure(folder: str, indices: str, sizes: list[int]) -> dict[str, Any]:
    """What tuning brings on one set."""
    ranker = Ranker.load()
    dataset = evaluation.load_dataset(folder)
    retriever = HybridRetriever(evaluation.cached_index(folder, indices, ranker.reader), ranker)
    return {
        "other_half": on_the_other_half(retriever, dataset),
        "bm25_by_sample_size": by_size(retriever, dataset, sizes),
    }
