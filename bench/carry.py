"""Does re-ranking carry over? The default beside plain fusion, on collections that no model learnt from.

    python -m bench carry --data DATA           # the three that settings may be chosen on
    python -m bench.carry --data DATA           # those that confirm; every look is written down

Queries are headings that are questions, or other headings; what answers stands below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import provenance, readme
from bench.measures import Array, gain
from bench.retrieval_systems import open_retriever
from bench.steps import Bench
from section_sets import CONFIRM, CONFIRM_QA, read_domain, read_groups
from semclass import HybridRetriever, Models, Reranker, SearchResult
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import per_question
from semclass.ranking.methods import CERTAINTIES, DEFAULT

SETS = {
    "handbook": "handbooks of organisations",
    "government": "guides of administrations",
    "hobby": "technical hobbies",
}
METHODS = ("bm25", "dense", "rrf", "convex", DEFAULT)
MEASURE = "nDCG@10"
DEPTH = 10


def run(bench: Bench) -> dict[str, Any]:
    measured, used = partial(bench.step, function="bench.carry:measure"), list(SETS)[: 1 if bench.quick else None]
    jobs = {name: partial(measured, f"carry, {name}", folder=bench.beir(name), cache=bench.indices) for name in used}
    found = {name: {**row, "what": SETS[name]} for name, row in bench.side_by_side(jobs).items()}
    what = "does re-ranking carry over to collections that no model learnt from?"
    return {"task": {"what": what}, "collections": found}


def measure(folder: str, cache: str) -> dict[str, Any]:
    """Figures of every method on a BEIR folder."""
    return figures(open_retriever(folder, cache, Models.load(threads=1)), load_dataset(folder))


def figures(retriever: HybridRetriever, dataset: Dataset) -> dict[str, Any]:
    """NDCG@10 of each method, what the default is above plain fusion, and how often a word of certainty is right."""
    questions = [*dataset.questions.values()]
    found = {name: retriever.search_many(questions, DEPTH, method=name) for name in METHODS}
    row = _row({name: _values(dataset, results) for name, results in found.items()})
    return {"passages": len(retriever.index), **row, "words": _words(dataset, found[DEFAULT])}


def _words(dataset: Dataset, results: Sequence[SearchResult]) -> dict[str, list[int]]:
    """How many first hits are right, and how many there are, of each word of certainty."""
    words: dict[str, list[int]] = {word: [0, 0] for word in CERTAINTIES}
    for result, relevant in zip(results, map(dataset.relevance.__getitem__, dataset.questions), strict=True):
        if result.certainty:
            words[result.certainty][0] += relevant.get(result[0].id, 0) > 0
            words[result.certainty][1] += 1
    return words


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


def words_table(found: Mapping[str, Any]) -> str:
    rows = found["carry"]["collections"]
    shown = [(name, *("{} of {}".format(*row["words"][word]) for word in CERTAINTIES)) for name, row in rows.items()]
    return readme.markdown(("first hits that are right", *CERTAINTIES), shown)


TABLES = {"": table, "words": words_table}


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
def main(data: Path) -> None:
    """Print a table, and write the look down."""
    found = confirm(data, Models.load(threads=1))
    for name, row in found.items():
        click.echo(f"{name}: {' '.join(_cells(row))}")
    gains = [row["gain"] for row in found.values()]
    click.echo(f"default above convex: mean {np.mean(gains):+.4f}, worst {min(gains):+.4f}")
    provenance.log("carry", {name: {"methods": row["methods"], "gain": row["gain"]} for name, row in found.items()})


if __name__ == "__main__":
    main(prog_name="python -m bench.carry")
