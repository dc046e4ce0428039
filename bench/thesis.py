"""The reference thesis's methods on public data, by its own protocol.

Only questions whose answer is among the hybrid's first ten count. The weight of integrated re-ranking is searched on
the questions that it is reported on (as the thesis did; too good), by cross-validation, and on the other data set.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import readme, reference
from bench.steps import Bench
from semclass import HybridRetriever, Models
from semclass.evaluation import evaluate, figures, tune
from semclass.evaluation.candidate_scores import Components, collect, reciprocal_ranks
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.measure import BASELINE, DEPTH, MethodResult
from semclass.evaluation.measure import measure as evaluate_measure
from semclass.evaluation.weight_search import WeightSearch, fold_of
from semclass.ranking.methods import METHODS

FOLDERS = {"squad4": "SQuAD dev, passages of 4 sentences", "pubmedqa": "PubMedQA, sections of abstracts"}
"""BEIR folders that are measured, and what they are."""

REFERENCE_CURVES = {"class": "trec", "entailment": "qnli"}
"""Its searches over the weight of a 0/1 label by flan-ul2 on its Wikipedia set, by file."""

ALPHA = 0.01  # differences of a larger p-value are marked as not significant
FOLDS = 5
POINTS = 120  # of a curve over the weights


@dataclass(frozen=True)
class Measured:
    """One data set by the thesis's protocol."""

    questions: int
    methods: dict[str, MethodResult]
    components: Components
    relevant: npt.NDArray[np.bool_]
    searches: dict[str, WeightSearch]
    seconds: float


def search_set(folder: Path, cache: Path, models: Models) -> Measured:
    """Every method, and every search over a weight, on the questions that the hybrid answers."""
    dataset = load_dataset(folder)
    retriever = HybridRetriever(evaluate.cached_index(folder, cache, models.passage_encoder), models)
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
    components = collect(retriever, retriever.encode(list(answered.questions.values())), DEPTH, METHODS["hybrid"])
    relevant = np.array(
        [
            [retriever.index.passage(row).id in answered.relevance[name] for row in rows]
            for name, rows in zip(answered.questions, components.rows.tolist(), strict=True)
        ]
    )
    fold = fold_of(len(components), FOLDS, 0)
    started = time.perf_counter()
    searches = [
        tune.search_integrated(components, relevant, fold, method, default=retriever.weights[method.signal_weight])
        for method in tune.INTEGRATED
    ]
    seconds = time.perf_counter() - started
    results = evaluate_measure(answered, kept)
    return Measured(len(dataset.questions), results, components, relevant, {s.name: s for s in searches}, seconds)


def with_weight(data: Measured, name: str, weight: float) -> float:
    """MRR of integrated re-ranking with a weight."""
    (method,) = (method for method in tune.INTEGRATED if method.signal_weight == name)
    keys = data.components.keys(method, weight)
    return float(reciprocal_ranks(keys, data.relevant).mean())


def curve(item: WeightSearch) -> dict[str, list[float]]:
    """MRR over the weights, at `POINTS` of them that are about as far from each other on a logarithmic scale, and at 0."""
    wanted = np.geomspace(item.grid[1], item.grid[-1], POINTS)
    places = np.unique([0, *np.searchsorted(item.grid, wanted - 1e-9)])
    return {"weights": item.grid[places].round(4).tolist(), "mrr": item.mrr[places].round(5).tolist()}


def report(data: Measured, other: Measured) -> dict[str, Any]:
    """What is written about one data set; `other` is where the third kind of weight was found."""
    methods = {name: result.as_json() for name, result in data.methods.items()}
    for record in methods.values():
        for key in ("cond_mrr", "cond_top1"):  # the same as mrr@10 and top1, for all questions here are answered
            del record[key]
    weights = {}
    for name, item in data.searches.items():
        elsewhere = other.searches[name].best
        weights[name] = {
            **item.as_json(),
            "curve": curve(item),
            "weight_of_the_other_set": elsewhere,
            "mrr_weight_of_the_other_set": with_weight(data, name, elsewhere),
        }
    return {
        "questions": data.questions,
        "answered": len(data.components),
        "methods": methods,
        "weights": weights,
        "searching_seconds": round(data.seconds, 3),
    }


def reference_curves(folder: Path) -> dict[str, tuple[list[float], list[float]]]:
    """The thesis's curves: weights and MRR, by signal."""
    curves = {}
    for signal, name in REFERENCE_CURVES.items():
        rows = np.loadtxt(folder / f"weight_search_{name}_wikipedia.csv", delimiter=",", skiprows=1)
        curves[signal] = (rows[:, 0].tolist(), rows[:, 1].tolist())
    return curves


def picture(found: Mapping[str, Any]) -> bytes:
    """Share of the error that each weight removes; the thesis's curves beside ours."""
    results = found["thesis"]
    sets, searched = {name: results[name] for name in FOLDERS if name in results}, results["thesis"]
    shape = (len(sets), len(searched))
    size = (4.2 * shape[1], 2.9 * shape[0])
    figure, places = figures.load_pyplot().subplots(*shape, figsize=size, squeeze=False, sharex=True)
    for row, (name, data) in zip(places, sets.items(), strict=True):
        for place, (signal, theirs) in zip(row, searched.items(), strict=True):
            draw_signal(place, signal, data["weights"], theirs["curve"])
            place.set_title(f"{signal}, {FOLDERS[name]}", fontsize=9, color=figures.INK)
            figures.plain(place, "weight", "error removed")
    return figures.png(figure)


def _reference_mrr() -> float:
    """The thesis's hybrid on the set that its curves are of, without re-ranking."""
    return reference.methods("wikipedia")[reference.BASELINE]["mrr"]


def draw_signal(place: Any, signal: str, searches: Mapping[str, Any], theirs: Mapping[str, list[float]]) -> None:
    """One panel: the thesis's curve, and ours of the label and of the probability."""
    base = _reference_mrr()
    removed = (np.array(theirs["mrr"]) - base) / (1 - base)
    label = "thesis: flan-ul2, 0/1, other questions"
    place.plot(theirs["weights"], removed, color=figures.INK, linewidth=0.9, label=label)
    for item, colour in ((signal, figures.BLUE), (f"{signal}_hard", figures.ORANGE)):
        search = searches[item]
        without, grid = search["mrr_without"], search["curve"]["weights"]
        ours = (np.array(search["curve"]["mrr"]) - without) / (1 - without)
        label = f"{signal}, {'0/1 label' if item != signal else 'probability'}"
        place.plot(grid[1:], ours[1:], color=colour, linewidth=1.2, label=label)
        if search["default"] <= grid[-1]:
            at = (search["mrr_default"] - without) / (1 - without)
            place.plot([search["default"]], [at], "o", color=colour, fillstyle="none", markersize=5)
    place.axhline(0, color=figures.INK, linewidth=0.6, linestyle=":")
    place.set_xscale("log")
    place.set_ylim(bottom=max(place.get_ylim()[0], -0.5))
    place.legend(fontsize=6.5, frameon=False, loc="lower left" if signal == "class" else "upper left")


def table(found: Mapping[str, Any]) -> str:
    """MRR and the share of the error removed, of each method, and of all the thesis's."""
    rows = []
    for method in METHODS:
        cells = []
        for name in FOLDERS:
            result = found["thesis"][name]["methods"][method]
            sure = method == BASELINE or result["p_value"] < ALPHA
            removed = "" if method == BASELINE else f" ({result['error_removed']:+.0%}{'' if sure else ', n.s.'})"
            cells.append(f"{result['mrr@10']:.3f}{removed}")
        rows.append((f"`{method}`", *cells, *(reference.shown(name, method) for name in reference.SETS)))
    theirs = (f"flan-ul2, the thesis's {name}" for name in reference.SETS.values())
    return readme.markdown(("MRR where the first 10 hold the answer", *FOLDERS.values(), *theirs), rows)


TABLES = {"": table}
PICTURES = {"thesis_weights.png": picture}


def run(bench: Bench) -> dict[str, Any]:
    """Both sets in one process, for each brings weights to the other."""
    sets = {name: str(bench.beir(name)) for name in FOLDERS}
    return bench.step("thesis", "bench.thesis:measure", sets=sets, curves=bench.data / "thesis", indices=bench.indices)


def measure(sets: dict[str, str], curves: str, indices: str) -> dict[str, Any]:
    """Methods and weights of both sets, and the thesis's curves."""
    models = Models.load()
    found = {name: search_set(Path(folder), Path(indices), models) for name, folder in sets.items()}
    (first, a), (second, b) = found.items()
    searched = {
        signal: {
            "best_weight": weights[int(np.argmax(mrr))],
            "mrr": max(mrr),
            "mrr_without": _reference_mrr(),
            "curve": {"weights": weights, "mrr": mrr},
        }
        for signal, (weights, mrr) in reference_curves(Path(curves)).items()
    }
    return {first: report(a, b), second: report(b, a), "thesis": searched}
