"""The reference thesis's methods on public data, by its own protocol.

Only questions whose answer is among the hybrid's first ten count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bench import prices, readme
from bench.retrieval_systems import drawn, open_retriever
from bench.steps import Bench
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.measure import BASELINE, DEPTH
from semclass.evaluation.measure import measure as evaluate_measure
from semclass.ranking.methods import METHODS

FOLDERS = {"squad4": "SQuAD dev, passages of 4 sentences", "pubmedqa": "PubMedQA, sections of abstracts"}
"""BEIR folders that are measured, and what they are."""

MOST = 1500  # questions of a set, drawn by chance: the interval of the error removed stays within four points
ALPHA = 0.01  # differences of a larger p-value are marked as not significant


def run(bench: Bench) -> dict[str, Any]:
    measured, used = partial(bench.step, function="bench.thesis:measure"), list(FOLDERS)[: 1 if bench.quick else None]
    jobs = {name: partial(measured, f"thesis/{name}", folder=bench.beir(name), indices=bench.indices) for name in used}
    return bench.side_by_side(jobs)


def measure(folder: str, indices: str) -> dict[str, Any]:
    """Every method on the questions of a set that the hybrid answers."""
    dataset, retriever = drawn(load_dataset(folder), MOST), open_retriever(folder, indices)
    rankings = evaluate.rank(dataset, retriever)
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


def table(found: Mapping[str, Any]) -> str:
    """MRR and the share of the error removed, of each method, and of all the thesis's."""
    rows, sets = [], [name for name in FOLDERS if name in found["thesis"]]
    shown = [method for method in METHODS if all(method in found["thesis"][name]["methods"] for name in sets)]
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
