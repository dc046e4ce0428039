"""What ``semclass tune`` brings on questions that it did not see, and how many questions it needs.

Weights found on one half of the questions are measured on the other. Then w of BM25 and alpha are searched on small
samples: how often is a weight stored, what does it bring on all other questions, and how often is it worse than the
default?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.steps import Bench
from semclass import HybridRetriever, Models
from semclass.core.types import DoubleArray
from semclass.evaluation import evaluate, tune
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.fusion_weights import ranks_fused
from semclass.evaluation.measure import DEPTH
from semclass.evaluation.weight_search import ALPHA_GRID, BM25_GRID, fold_of, search
from semclass.scoring import fusion

FAR_OFF = 0.9  # an alpha that is not right for most data
FOLDERS = ("squad4", "pubmedqa")
SIZES = (10, 20, 50, 100, 200, 400)  # questions of a sample
DRAWS = 200  # samples of each size


def half(dataset: Dataset, seed: int, which: int) -> Dataset:
    """One half of the questions, drawn by chance."""
    side = fold_of(len(dataset.questions), 2, seed)
    names = [name for name, place in zip(dataset.questions, side, strict=True) if place == which]
    return replace(
        dataset,
        questions={name: dataset.questions[name] for name in names},
        relevance={name: dataset.relevance[name] for name in names},
    )


def on_the_other_half(retriever: HybridRetriever, dataset: Dataset) -> dict[str, Any]:
    """Weights of one half, measured on the other."""
    found = tune.tune(retriever, half(dataset, 0, 0))
    other = half(dataset, 0, 1)
    tuned = replace(retriever, index=replace(retriever.index, tuned={"weights": found.weights}))
    results = {name: evaluate.evaluate(other, used) for name, used in (("default", retriever), ("tuned", tuned))}
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
    retriever: HybridRetriever, dataset: Dataset, sizes: Sequence[int]
) -> dict[str, dict[str, dict[str, float]]]:
    """What searching w and alpha on few questions brings on the others, by weight and size."""
    texts, places = tune.answered_questions(retriever, dataset)
    scores = [retriever.scores(query) for query in retriever.models.encode(texts, classes=False, tokens=False)]
    found = {}
    for name, method, default, grid, depth in (
        ("bm25", "linear", retriever.weights["bm25"], BM25_GRID, None),
        ("alpha", "convex", fusion.ALPHA, ALPHA_GRID, fusion.DEPTH),
        ("alpha_far_off", "convex", FAR_OFF, ALPHA_GRID, fusion.DEPTH),
    ):
        ranked = [
            ranks_fused(pair, place, grid, default, method=method, depth=depth)
            for pair, place in zip(scores, places, strict=True)
        ]
        ranks, current = np.stack([ranks for ranks, _ in ranked]), np.array([reciprocal for _, reciprocal in ranked])
        found[name] = {str(size): drawn(name, default, grid, ranks, current, size) for size in sizes}
    return found


def drawn(
    name: str, default: float, grid: DoubleArray, ranks: npt.NDArray[np.int8], current: DoubleArray, size: int
) -> dict[str, float]:
    """What samples of one size bring on the other questions."""
    values = np.where(ranks <= DEPTH, 1 / ranks, 0.0)
    rng = np.random.default_rng(0)
    fold = fold_of(size, 5, 0)
    gains, best = [], []
    for _ in range(DRAWS):
        order = rng.permutation(len(current))
        seen, unseen = order[:size], order[size:]
        item = search(name, default, grid, ranks[seen], current[seen], fold)
        mean, before = values[unseen].mean(axis=0), current[unseen].mean()
        gains.append(mean[np.searchsorted(grid, item.weight)] - before if item.helps else 0.0)
        best.append(mean[np.searchsorted(grid, item.best)] - before)
    return {
        "stored": float(np.mean(np.array(gains) != 0)),
        "gain": round(float(np.mean(gains)), 4),
        "worst": round(float(np.min(gains)), 4),
        "worse_than_default": float(np.mean(np.array(gains) < 0)),
        "gain_of_the_best": round(float(np.mean(best)), 4),
        "worst_of_the_best": round(float(np.min(best)), 4),
    }


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
    models = Models.load()
    dataset = load_dataset(folder)
    retriever = HybridRetriever(evaluate.cached_index(folder, indices, models.passage_encoder), models)
    return {
        "other_half": on_the_other_half(retriever, dataset),
        "by_sample_size": by_size(retriever, dataset, sizes),
    }
