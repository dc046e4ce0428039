"""The command that measures rankings."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, show
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.ranking.methods import METHODS

if TYPE_CHECKING:
    from semclass.evaluation.measure import MethodResult

CACHE_VARIABLE = "SEMCLASS_CACHE"
"""Environment variable that names the folder for indices that ``evaluate`` builds."""

SWEEP_MEASURES = ("RR@10", "nDCG@10", "R@10")
"""Default measures of ``evaluate --sweep``."""


@click.command()
@click.argument("folder", type=any_path, metavar="BEIR_DIR")
@click.option("--split", default="test", show_default=True, help="Relevance judgments to use: qrels/SPLIT.tsv.")
@options.limit
@click.option("--measures", help="More measures, by their ir-measures names: 'nDCG@10 P@5 AP@100 SetF'.")
@click.option(
    "--index",
    "place",
    type=any_path,
    help="Existing index of the passages; its tuned weights are used. Default: build an index.",
)
@click.option("--runs", type=any_path, help="Write each ranking to this folder as a TREC run file.")
@click.option(
    "--run",
    "foreign",
    type=any_path,
    multiple=True,
    help="TREC run file of another system to compare with. Repeatable.",
)
@click.option("--sweep", is_flag=True, help="Compare cosine, inner product and l2 distance of plain vectors instead.")
@options.json_output
@options.models
@options.encoder
@options.threads
def evaluate(
    folder: Path,
    split: str,
    limit: int | None,
    measures: str | None,
    place: Path | None,
    runs: Path | None,
    foreign: Sequence[Path],
    *,
    sweep: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Measure every ranking method on the data set in BEIR_DIR.

    BEIR_DIR is a folder in BEIR format: corpus.jsonl, queries.jsonl and qrels. With --run, it also measures the rankings
    of other systems.
    """
    from semclass.core.cpu import available_threads
    from semclass.documents.sources import find_files
    from semclass.evaluation import evaluate
    from semclass.evaluation.dataset import load_dataset
    from semclass.evaluation.measure import MEASURES, check_measures, measure
    from semclass.evaluation.trec import SUFFIX, read_run, write_run

    if sweep and (place or runs or foreign):
        raise InputError("--sweep compares plain vectors; remove --index, --runs and --run")
    names = (SWEEP_MEASURES if sweep else MEASURES) if measures is None else tuple(measures.replace(",", " ").split())
    check_measures(names)
    dataset = load_dataset(folder, split=split, limit=limit, corpus=place is None)
    others = {_run_name(path, foreign): read_run(path, dataset) for path in foreign}
    loaded = semclass.Models.load(models, encoder=encoder, threads=threads or available_threads())
    if sweep:
        _sweep(dataset, folder, loaded, names, as_json=as_json)
        return
    if place is None:
        total = find_files(folder).count_records() if sys.stderr.isatty() else None
        with progress("indexing", total) as step:
            passages = evaluate.cached_index(folder, cache_folder(), loaded.passage_encoder, step)
    else:
        passages = _open_index(place, loaded, folder / "qrels" / f"{split}.tsv")
    retriever = semclass.HybridRetriever(passages, loaded)
    methods = evaluate.methods_of(retriever)
    with progress("searching", len(methods) * len(dataset.questions), "rankings") as step:
        rankings = evaluate.rank(dataset, retriever, methods, progress=step)
    if runs is not None:
        for name, ranking in rankings.items():
            write_run(runs / f"{name}{SUFFIX}", dataset.questions, ranking, name)
    results = measure(dataset, {**rankings, **others}, measures=names)
    answered = round(results["hybrid"].top_k[-1] * len(dataset.questions))
    lines = [
        f"{counted(len(dataset.questions), 'question')}, {counted(len(passages), 'passage')}; "
        f"cond: {counted(answered, 'question')} with the answer",
        "in the hybrid top 10; removed: share of 1 - cond MRR; p: paired randomisation test against hybrid\n",
        *_lines(results),
    ]
    if measures is not None:
        rows = {name: [result.measures[one] for one in names] for name, result in results.items()}
        lines += _table("\nmethod", names, rows)
    records = {name: {**_settings(name, retriever.weights), **result.as_json()} for name, result in results.items()}
    show(records, "\n".join(lines), as_json=as_json)


def _sweep(dataset: Any, folder: Path, models: semclass.Models, names: Sequence[str], *, as_json: bool) -> None:
    """Compare similarities of plain vectors, without an index."""
    from semclass.documents.readers import read_passages
    from semclass.evaluation.sweep import sweep

    passages = read_passages(folder / "corpus.jsonl")
    with progress("encoding", len(passages) + len(dataset.questions), "texts") as step:
        results = sweep(dataset, passages, models.encoder, names, progress=step)
    rows = {name: [*(one.value for one in r.measures.values()), r.p_value] for name, r in results.items()}
    lines = [
        f"{counted(len(dataset.questions), 'question')}, {counted(len(passages), 'passage')}; plain vectors, no re-ranking",
        f"p: paired randomisation test of {names[0]} against cosine\n",
        *_table("similarity", [*names, "p"], rows),
    ]
    show({name: asdict(result) for name, result in results.items()}, "\n".join(lines), as_json=as_json)


def _settings(name: str, weights: Mapping[str, float]) -> dict[str, Any]:
    """Weights of a method of semclass; nothing of the run of another system."""
    return {"weights": {one: weights[one] for one in METHODS[name].weights}} if name in METHODS else {}


def _open_index(place: Path, models: semclass.Models, qrels: Path) -> semclass.PassageIndex:
    """Open an index, and warn if its weights were tuned on the questions that will be measured."""
    from semclass.core.artifacts import sha256_of

    index = semclass.PassageIndex.load(place, encoder_fingerprint=models.encoder.fingerprint)
    found_on = index.tuned.get("found_on", {}).get("qrels", {})
    if found_on.get("sha256") == sha256_of(qrels):
        warnings.warn(
            f"the weights of this index were tuned on {qrels}, the same questions; the results are too optimistic",
            stacklevel=2,
        )
    return index


def _run_name(path: Path, all_paths: Sequence[Path]) -> str:
    """Name of another system's run: that of its file, or the whole path where the name is taken."""
    taken = path.stem in METHODS or [other.stem for other in all_paths].count(path.stem) > 1
    return str(path) if taken else path.stem


def _lines(results: Mapping[str, MethodResult]) -> Iterator[str]:
    """One line for each method."""
    width = max(18, *map(len, results))
    yield f"{'method':<{width}} mrr@10   top1  recall@10 ndcg@10  cond mrr  cond top1  removed (95 % from, to)      p"
    for name, r in results.items():
        low, high = r.error_removed_ci
        yield (
            f"{name:<{width}} {r.mrr:.4f} {r.top1:.4f}     {r.recall:.4f}  {r.ndcg:.4f}    {r.cond_mrr:.4f}     "
            f"{r.cond_top1:.4f}   {r.error_removed:6.1%} {low:8.1%} {high:7.1%}  {r.p_value:7.4f}"
        )


def _table(corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Figures by row and column."""
    width = max(18, *map(len, rows))
    yield f"{corner:<{width}} " + " ".join(f"{name:>8}" for name in columns)
    for name, values in rows.items():
        figures = (f"{value:>{max(8, len(column))}.4f}" for column, value in zip(columns, values, strict=True))
        yield f"{name:<{width}} " + " ".join(figures)


def cache_folder() -> Path:
    """Folder of indices for evaluation: as the environment says, or in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(CACHE_VARIABLE) or Path(base, "semclass", "indices"))
