"""Does re-ranking carry over? The default beside plain fusion, on collections that no model learnt from.

    python -m bench carry --data DATA           # the three that settings may be chosen on
    python -m bench.carry --data DATA           # those that confirm; every look is written down
    python -m bench.carry --data DATA --full    # the three again, without what saves time and room

Queries are headings that are questions, or other headings; what answers stands below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import provenance, readme
from bench.measures import Array, gain
from bench.retrieval_systems import open_retriever
from bench.steps import Bench
from section_sets import CONFIRM, CONFIRM_QA, read_domain, read_groups
from semclass import HybridRetriever, Models, PassageIndex, Reranker, SearchResult
from semclass.documents.readers import read_passages
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import per_question
from semclass.ranking.methods import DEFAULT

SETS = {
    "handbook": "handbooks of organisations",
    "government": "guides of administrations",
    "hobby": "technical hobbies",
}
METHODS = ("bm25", "dense", "rrf", "convex", DEFAULT, "deep")
MEASURE = "nDCG@10"
DEPTH = 10


def run(bench: Bench) -> dict[str, Any]:
    steps = {
        name: bench.step(f"carry, {name}", "bench.carry:measure", folder=bench.beir(name), cache=bench.indices)
        for name in SETS
    }
    found = {
        "task": {"what": "does re-ranking carry over to collections that no model learnt from?"},
        "collections": {name: {**row, "what": SETS[name]} for name, row in steps.items()},
    }
    bench.say(table({"carry": found}))
    return found


def measure(folder: str, cache: str) -> dict[str, Any]:
    """Figures of every method on a BEIR folder."""
    return figures(open_retriever(folder, cache, Models.load(threads=1)), load_dataset(folder))


def figures(retriever: HybridRetriever, dataset: Dataset) -> dict[str, Any]:
    """NDCG@10 of each method, and what the default is above plain fusion, with the standard error of the mean."""
    values = {}
    for name in METHODS:
        values[name] = _values(dataset, retriever.search_many([*dataset.questions.values()], DEPTH, method=name))
    return {"passages": len(retriever.index), **_row(values)}


def _values(dataset: Dataset, results: Sequence[SearchResult]) -> Array:
    """NDCG@10 of each question."""
    return per_question(dataset, [[hit.id for hit in result] for result in results], (MEASURE,))[MEASURE]


def _row(values: Mapping[str, Array]) -> dict[str, Any]:
    """Figures of all questions from those of each, by method."""
    means = {name: float(found.mean()) for name, found in values.items()}
    return {"questions": len(values[DEFAULT]), "methods": means, **gain(values[DEFAULT], values["convex"])}


def table(found: Mapping[str, Any]) -> str:
    rows = found["carry"]["collections"]
    head = (f"{MEASURE}, all questions", "questions", *METHODS, "default above convex, 95 %")
    return readme.markdown(head, [(f"{name} ({row['what']})", *_cells(row)) for name, row in rows.items()])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    shown = (readme.cell(row["methods"], name, ".3f") for name in METHODS)
    return str(row["questions"]), *shown, readme.with_error(row)


TABLES = {"": table}


# -- what saves time and room ---------------------------------------------------------------------------------------------


def switched_off(data: Path, models: Models) -> dict[str, dict[str, dict[str, float]]]:
    """NDCG@10 of each of SETS as shipped, with vectors stored in full, and with every word piece of passages read."""
    shipped = models.passage_encoder
    encoder = OnnxEncoder.load(threads=2)
    everything = replace(encoder, kept=np.ones(len(encoder.vocabulary), np.bool_))
    ways = {
        "as shipped": (shipped, None),
        "vectors in full": (shipped, "exact"),
        "every word piece of passages": (
            replace(shipped, classifier=replace(shipped.classifier, encoder=everything)),
            None,
        ),
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in SETS:
        dataset = load_dataset(data / "beir" / name)
        passages, questions = list(read_passages(data / "beir" / name / "corpus.jsonl")), [*dataset.questions.values()]
        for way, (used, storage) in ways.items():
            index = PassageIndex.build(passages, passage_encoder=used, storage=storage)
            retriever = HybridRetriever(index, models)
            found.setdefault(name, {})[way] = {
                method: float(_values(dataset, retriever.search_many(questions, DEPTH, method=method)).mean())
                for method in ("convex", DEFAULT)
            }
    return found


# -- what confirms --------------------------------------------------------------------------------------------------------


def confirm(data: Path, models: Models) -> dict[str, dict[str, Any]]:
    """Figures of the collections that confirm, by name and kind of query."""
    found: dict[str, dict[str, Any]] = {}
    for domain in CONFIRM:
        collection = read_domain(data, domain)
        retriever = HybridRetriever.from_passages(collection.passages, models=models)
        for kind, queries in collection.queries.items():
            questions = {str(place): text for place, (text, _) in enumerate(queries)}
            relevance = {str(place): dict.fromkeys(answers, 1) for place, (_, answers) in enumerate(queries)}
            found[f"{domain}, {kind}s"] = figures(retriever, Dataset(data, questions, relevance))
    for name in CONFIRM_QA:
        found[name] = _groups(data, name, Reranker(models))
    return found


def _groups(data: Path, name: str, reranker: Reranker) -> dict[str, Any]:
    """The same where each question has its own passages, which are re-ranked."""
    rows = list(read_groups(data, name))
    questions = {str(place): question for place, (question, _, _) in enumerate(rows)}
    relevance = {str(place): {str(row): 1 for row, is_right in enumerate(right) if is_right}
                 for place, (_, _, right) in enumerate(rows)}  # fmt: skip
    dataset, values = Dataset(data, questions, relevance), {}
    for method, weights in (("convex", {"evidence": 0.0}), (DEFAULT, None)):
        results = reranker.rerank_many([*questions.values()], [texts for _, texts, _ in rows], k=DEPTH, weights=weights)
        values[method] = _values(dataset, results)
    return _row(values)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--full", is_flag=True, help="Switch off what saves time and room, one at a time.")
def main(data: Path, full: bool) -> None:
    """Print a table, and write the look down."""
    if full:
        for name, ways in switched_off(data, Models.load(threads=2)).items():
            for way, means in ways.items():
                click.echo(f"{name}, {way}: {' '.join(f'{method} {value:.3f}' for method, value in means.items())}")
        return
    found = confirm(data, Models.load(threads=1))
    rows = [(name, *_cells(row)) for name, row in found.items()]
    for name, *cells in rows:
        click.echo(f"{name}: {' '.join(cells)}")
    gains = [row["gain"] for row in found.values()]
    click.echo(f"default above convex: mean {np.mean(gains):+.4f}, worst {min(gains):+.4f}")
    provenance.log("carry", {name: {"methods": row["methods"], "gain": row["gain"]} for name, row in found.items()})


if __name__ == "__main__":
    main(prog_name="python -m bench.carry")
