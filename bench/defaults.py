"""How a search ranks by default, and how that was chosen: over sets of all kinds, with each set left out.

Weight and number of candidates are the least, the weight first, whose nDCG@10 over the sets is within `TOLERANCE` of
the best. A choice flatters the sets that it was made on, so each set also shows the setting that all other sets choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench import readme
from bench.steps import Bench
from semclass import HybridRetriever, Models
from semclass.core.types import DoubleArray
from semclass.evaluation import evaluate
from semclass.evaluation.candidate_scores import Components, collect
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import DEPTH, per_question
from semclass.ranking.methods import DEFAULT, METHODS

FOLDERS = {
    "squad4": "encyclopaedia",
    "pubmedqa": "abstracts, biomedical",
    "vaswani": "abstracts, physics",
    "cacm": "abstracts, computing",
    "cranfield": "abstracts, aerodynamics",
    "codebase": "source code",
    "docs": "documentation",
}
"""BEIR folders, and what they hold."""

DEPTHS = (10, 20, 30, 50, 100)
WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)  # candidates and weights that are tried
TOLERANCE = 0.001  # nDCG@10 that less re-ranking may cost
MEASURE = "nDCG@10"

PLAIN = ("bm25", "dense", "hybrid", "convex", "rrf")
SHOWN = (*PLAIN, "learned", "default")  # methods of :data:`semclass.ranking.methods.METHODS` in the table


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set, then the choice."""
    found = {
        name: bench.step(
            f"defaults/{name}",
            "bench.defaults:measure",
            folder=bench.beir(name),
            indices=bench.indices,
            limit=100 if bench.quick else None,
        )
        for name in list(FOLDERS)[: 2 if bench.quick else None]
    }
    tried = {name: np.array(item["tried"]) for name, item in found.items()}
    return {"depths": DEPTHS, "weights": WEIGHTS, "sets": found, "chosen": choice(tried), "left_out": left_out(tried)}


def measure(folder: str, indices: str, limit: int | None) -> dict[str, Any]:
    """All methods on one set, and nDCG@10 of every setting that is tried, of shape (depths, weights)."""
    models = Models.load()
    dataset = load_dataset(folder, limit=limit)
    retriever = HybridRetriever(evaluate.cached_index(folder, indices, models.passage_encoder), models)
    results = evaluate.evaluate(dataset, retriever, measures=())
    parts = collect(retriever, retriever.encode(list(dataset.questions.values())), max(DEPTHS))
    return {
        "questions": len(dataset.questions),
        "passages": len(retriever.index),
        "methods": {name: result.as_json() for name, result in results.items()},
        "tried": settings(dataset, retriever, parts).round(5).tolist(),
    }


def settings(dataset: Dataset, retriever: HybridRetriever, parts: Components) -> DoubleArray:
    """nDCG@10 of every number of candidates and every weight, of shape (depths, weights)."""
    places = np.unique(parts.rows)
    ids = {row: item.id for row, item in zip(places.tolist(), retriever.index.passages(places), strict=True)}
    found = np.zeros((len(DEPTHS), len(WEIGHTS)))
    for i, depth in enumerate(DEPTHS):
        for j, weight in enumerate(WEIGHTS):
            keys = parts.score + weight * parts.entailment
            keys[:, depth:] = -np.inf  # what is not re-ranked stays behind, in its order
            rows = np.take_along_axis(parts.rows, np.argsort(-keys, axis=1, kind="stable")[:, :DEPTH], axis=1)
            ranking = [[ids[row] for row in some] for some in rows.tolist()]
            found[i, j] = per_question(dataset, ranking, [MEASURE])[MEASURE].mean()
    return found


def choice(tried: Mapping[str, DoubleArray]) -> dict[str, float]:
    """The setting with the least weight, then the least candidates, whose mean over the sets is nearly the best."""
    mean = np.mean(list(tried.values()), axis=0)
    j, i = next(iter(np.argwhere(mean.max() - TOLERANCE <= mean.T).tolist()))
    return {"candidates": DEPTHS[i], "weight": WEIGHTS[j], "ndcg@10": round(float(mean[i, j]), 4)}


def left_out(tried: Mapping[str, DoubleArray]) -> dict[str, dict[str, float]]:
    """By set: the setting that the others choose, and what it gives here."""
    found = {}
    for name, values in tried.items():
        chosen = choice({other: table for other, table in tried.items() if other != name})
        i, j = DEPTHS.index(int(chosen["candidates"])), WEIGHTS.index(chosen["weight"])
        found[name] = {**chosen, "ndcg@10": round(float(values[i, j]), 4)}
    return found


def table(results: dict[str, Any]) -> str:
    """nDCG@10 of the plain rankings, of `learned`, of the default, and of what the other sets choose."""
    rows = []
    for name, what in ((name, what) for name, what in FOLDERS.items() if name in results["sets"]):
        methods = {key: f"{item['ndcg@10']:.3f}" for key, item in results["sets"][name]["methods"].items()}
        rows.append(
            (f"{name} ({what})", *(methods[key] for key in SHOWN), f"{results['left_out'][name]['ndcg@10']:.3f}")
        )
    default = f"default, {METHODS[DEFAULT].candidates}"
    head = ("BM25", "dense", "dense + 0.1 BM25", "convex", "RRF", "`learned`, 10", default)
    return readme.markdown(("nDCG@10, all questions", *head, "chosen on the other sets"), rows)
