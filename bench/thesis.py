"""The reference thesis's methods on public data, by its own protocol.

Only questions whose answer is among the hybrid's first ten count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench import prices, readme
from bench.retrieval_systems import drawn, open_retriever
from bench.steps import Bench
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.measure import BASELINE, DEPTH
from semclass.evaluation.measure import measure as evaluate_measure
from semclass.ranking.methods import METHODS
from semclass.ranking.retriever import HybridRetriever
from semclass.ranking.thesis import class_match
from semclass.scoring.vectors import top_k

FOLDERS = {"squad4": "SQuAD dev, passages of 4 sentences", "pubmedqa": "PubMedQA, sections of abstracts"}
"""BEIR folders that are measured, and what they are."""

MOST = 1500  # questions of a set, drawn by chance: the interval of the error removed stays within four points
ALPHA = 0.01  # differences of a larger p-value are marked as not significant

MATCHES = {"match-soft": 0.631, "match-hard": 0.355}
"""Weights of the class match in the ranking of the whole index, found on training questions with the pair head."""

HARD = {"class-integrated": {"class": 0.316}, "entail-integrated": {"entailment": 2.512}}
"""Weights of labels of 0 and 1 in place of probabilities, found likewise. The rows are named ``NAME-hard``."""

SHOWN = (
    *(name for name in METHODS if not name.startswith(("class-", "entail-"))),
    *MATCHES,
    *(name + end for name in ("class-stable", "class-integrated") for end in ("", "-hard")),
    *(name + end for name in ("entail-stable", "entail-integrated") for end in ("", "-hard")),
)
"""Order of the rows."""


def run(bench: Bench) -> dict[str, Any]:
    measured, used = partial(bench.step, function="bench.thesis:measure"), list(FOLDERS)[: 1 if bench.quick else None]
    jobs = {name: partial(measured, f"thesis/{name}", folder=bench.beir(name), indices=bench.indices) for name in used}
    return bench.side_by_side(jobs)


def measure(folder: str, indices: str) -> dict[str, Any]:
    """Every method on the questions of a set that the hybrid answers."""
    dataset, retriever = drawn(load_dataset(folder), MOST), open_retriever(folder, indices)
    rankings = {**evaluate.rank(dataset, retriever, depth=DEPTH), **variants(retriever, [*dataset.questions.values()])}
    found = {
        question: not dataset.relevance[question].keys().isdisjoint(passages[:DEPTH])
        for question, passages in zip(dataset.questions, rankings[BASELINE], strict=True)
    }
    answered = replace(
        dataset,
        questions={name: text for name, text in dataset.questions.items() if found[name]},
        relevance={name: relevant for name, relevant in dataset.relevance.items() if found[name]},
    )
    kept = {
        method: [passages for name, passages in zip(dataset.questions, ranking, strict=True) if found[name]]
        for method, ranking in rankings.items()
    }
    methods = {name: result.as_json() for name, result in evaluate_measure(answered, kept).items()}
    return {"questions": len(dataset.questions), "answered": len(answered.questions), "methods": methods}


def variants(retriever: HybridRetriever, questions: list[str]) -> dict[str, list[list[str]]]:
    """First ten passages by `MATCHES` and `HARD`, which the library does not offer: they are no better than plain sums."""
    models, index, weights = retriever.models, retriever.local_index, retriever.weights
    probabilities = np.concatenate([segment.probabilities for segment in index.segments])
    rankings: dict[str, list[list[str]]] = {name: [] for name in (*MATCHES, *(f"{name}-hard" for name in HARD))}
    for query in retriever.models.encode(questions):
        found = retriever.candidates(query, DEPTH, METHODS["hybrid"])
        dense, bm25 = retriever.local_index.scores(query)
        rows = {}
        for name, weight in MATCHES.items():
            kind = name.removeprefix("match-")
            match = class_match(query.probabilities, probabilities, index.thresholds, kind)
            rows[name] = top_k(dense + weights["bm25"] * bm25 + weight * match, DEPTH)
        for name, own in HARD.items():
            method = replace(METHODS[name], hard=True)  # type: ignore[type-var] # a BySignal
            ranked = method.order(models, query, found, {**weights, **own})
            rows[f"{name}-hard"] = found.rows[ranked.order]
        for name, places in rows.items():
            rankings[name].append([passage.id for passage in index.passages(places)])
    return rankings


def table(found: Mapping[str, Any]) -> str:
    """MRR and the share of the error removed, of each method, and of all the thesis's."""
    rows, sets = [], [name for name in FOLDERS if name in found["thesis"]]
    shown = [method for method in SHOWN if all(method in found["thesis"][name]["methods"] for name in sets)]
    for method in shown:
        cells = []
        for name in sets:
            result = found["thesis"][name]["methods"][method]
            sure = method == BASELINE or result["p_value"] < ALPHA
            removed = "" if method == BASELINE else f" ({result['error_removed']:+.0%}{'' if sure else ', n.s.'})"
            cells.append(f"{result['mrr@10']:.3f}{removed}")
        rows.append((f"`{method}`", *cells, *(prices.thesis_shown(name, method) for name in prices.THESIS_SETS)))
    theirs = (f"flan-ul2, the thesis's {name}" for name in prices.THESIS_SETS.values())
    return readme.markdown(("MRR where the first 10 hold the answer", *(FOLDERS[name] for name in sets), *theirs), rows)


TABLES = {"": table}
