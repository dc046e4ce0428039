"""The commands that measure rankings and tune their weights."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, positive, show, show_weights
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.ranking.methods import METHODS

if TYPE_CHECKING:
    from semclass.evaluation.tune import Tuning

CACHE_VARIABLE = "SEMCLASS_CACHE"
"""Environment variable that names the folder for indices that ``evaluate`` and ``sweep`` build."""

split_option = click.option(
    "--split", default="test", show_default=True, help="Relevance judgments to use: qrels/SPLIT.tsv."
)
limit_option = click.option("--limit", type=positive, help="Maximum number of questions; the first ones are used.")


@click.command()
@click.argument("folder", type=any_path, metavar="INDEX")
@options.queries
@options.qrels
@limit_option
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Number of cross-validation folds.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the cross-validation.")
@click.option("--out-figure", type=any_path, help="Also write the curves as PNG. Needs the extra `plot`.")
@click.option("--dry-run", is_flag=True, help="Print the report, but do not store any weights.")
@click.option("--reset", is_flag=True, help="Remove the tuned weights from the index and exit.")
@options.json_output
@options.models
@options.encoder
@options.threads
def tune(
    folder: Path,
    queries: Path | None,
    qrels: Path | None,
    limit: int | None,
    folds: int,
    seed: int,
    out_figure: Path | None,
    *,
    dry_run: bool,
    reset: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Tune the search weights on questions with known answers, and store them in INDEX.

    The questions are those of --queries and --qrels, or those with a hit that was judged right (`semclass feedback`).

    Each weight is searched from 0 to 10 (alpha of convex fusion: from 0 to 1). Cross-validation compares the best value
    with the default. A tuned weight is stored only if its gain exceeds one standard error, or 1.645 standard errors with
    fewer than 100 questions. `search` and `evaluate --index` then use the stored weights unless you give --weight.
    """
    from semclass.core import artifacts
    from semclass.core.cpu import available_threads
    from semclass.evaluation import figures, tune
    from semclass.evaluation.dataset import read_dataset
    from semclass.evaluation.judgements import judged_dataset
    from semclass.index.commit import store_tuned
    from semclass.index.feedback import FEEDBACK

    if reset:
        if queries or qrels:
            raise InputError("--reset only removes weights; remove --queries and --qrels")
        store_tuned(folder, None)
        show({"index": str(folder), "weights": {}}, f"{folder} uses the default weights", as_json=as_json)
        return
    if queries is not None and qrels is not None:
        dataset, files = read_dataset(queries, qrels, limit=limit), {"queries": queries, "qrels": qrels}
    elif queries is None and qrels is None:
        dataset, files = judged_dataset(folder, limit=limit), {"judgements": folder / FEEDBACK}
    else:
        raise InputError(
            "give both --queries FILE and --qrels FILE, or none of them to use the judgements of the index"
        )
    retriever = semclass.HybridRetriever.load(
        folder, models=models, encoder=encoder, threads=threads or available_threads()
    )
    retriever = retriever.untuned()
    with progress("searching", 4 * len(dataset.questions), "searches") as step:
        found = tune.tune(retriever, dataset, folds=folds, seed=seed, progress=step)
    hashes = {name: {"file": path.name, "sha256": artifacts.sha256_of(path)} for name, path in files.items()}
    record = found.as_record(hashes)
    if out_figure is not None:
        artifacts.write_atomic(out_figure, figures.weight_curves(found.searches))
    if not dry_run:
        store_tuned(folder, record if found.weights else None)
    stored = (
        f"stored in {folder}: {show_weights(found.weights)}" if found.weights and not dry_run else "nothing was stored"
    )
    show({"index": str(folder), "stored": not dry_run, **record}, "\n".join([*_tuning(found), stored]), as_json=as_json)


def _tuning(found: Tuning) -> Iterator[str]:
    """A line for each weight, and whether it helps."""
    questions = counted(found.questions, "question")
    yield f"{questions}, MRR@10; cv: cross-validated, each fold ranked with the best weight of the other folds;"
    yield "best*: chosen and measured on the same questions, so too optimistic\n"
    yield f"{'weight':<16} default   best  without default    cv   gain +- error   best*"
    for s in found.searches:
        verdict = f"better: {s.weight:g}" if s.helps else "default kept"
        yield (
            f"{s.name:<16} {s.default:7g} {s.best:6g}   {s.mrr[0]:.4f}  {s.mrr_default:.4f} {s.mrr_cross_validated:.4f} "
            f"{s.gain:+.4f} {s.standard_error:.4f}  {s.mrr_searched:.4f}  {verdict}"
        )
    learned = found.searches[0].learned
    if learned is not None:
        yield (
            f"\nlearned re-ranking of the hits of each bm25 weight: default {learned.before:.4f}, cv {learned.after:.4f} "
            f"({learned.gain:+.4f} +- {learned.standard_error:.4f})"
        )
        if learned.after <= found.searches[0].mrr_cross_validated:
            yield "with that weight, re-ranking does not improve the order; --method hybrid is cheaper"
    if not found.weights:
        margin = found.searches[0].margin
        yield f"no weight beats its default by {margin:g} standard errors; the default weights stay"


@click.command()
@click.argument("folder", type=any_path, metavar="BEIR_DIR")
@split_option
@limit_option
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Random seed of the significance test and confidence intervals.",
)
@click.option("--cache", type=any_path, help=f"Folder that caches the built indices. Default: ${CACHE_VARIABLE}.")
@click.option(
    "--candidates",
    type=click.IntRange(2),
    default=10,
    show_default=True,
    help="Also measure the methods that re-rank 10 candidates with this number of candidates.",
)
@click.option("--measures", help="More measures, by their ir-measures names: 'nDCG@10 P@5 AP@100 SetF F1@5'.")
@click.option(
    "--slices", is_flag=True, help="Also show results by question class and by passage kind (text, list, table)."
)
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
@options.json_output
@options.models
@options.encoder
@options.threads
def evaluate(
    folder: Path,
    split: str,
    limit: int | None,
    seed: int,
    cache: Path | None,
    candidates: int,
    measures: str | None,
    place: Path | None,
    runs: Path | None,
    foreign: Sequence[Path],
    *,
    slices: bool,
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
    from semclass.evaluation.slices import slices_of
    from semclass.evaluation.trec import SUFFIX, read_run, write_run

    names = MEASURES if measures is None else tuple(measures.replace(",", " ").split())
    check_measures(names)
    dataset = load_dataset(folder, split=split, limit=limit, corpus=place is None)
    others = {_run_name(path, foreign): read_run(path, dataset) for path in foreign}
    loaded = semclass.Models.load(models, encoder=encoder, threads=threads or available_threads())
    if place is None:
        total = find_files(folder).count_records() if sys.stderr.isatty() else None
        with progress("indexing", total) as step:
            passages = evaluate.cached_index(folder, cache or cache_folder(), loaded.passage_encoder, step)
    else:
        passages = open_index(place, loaded, folder / "qrels" / f"{split}.tsv")
    retriever = semclass.HybridRetriever(passages, loaded)
    with progress("searching", len(dataset.questions), "questions") as step:
        rankings = evaluate.rank(dataset, retriever, candidates=candidates, progress=step)
    if runs is not None:
        for name, ranking in rankings.items():
            write_run(runs / f"{name}{SUFFIX}", dataset.questions, ranking, name)
    labels = slices_of(dataset, retriever) if slices else None
    results = measure(dataset, {**rankings, **others}, seed=seed, measures=names, slices=labels)
    answered = round(results["hybrid"].top_k[-1] * len(dataset.questions))
    lines = [
        f"{counted(len(dataset.questions), 'question')}, {counted(len(passages), 'passage')}; "
        f"cond: {counted(answered, 'question')} with the answer",
        "in the hybrid top 10; removed: share of 1 - cond MRR; p: paired randomisation test against hybrid\n",
        *_results(results),
    ]
    if measures is not None:
        lines += _table(
            "\nmethod", names, {name: [result.measures[one] for one in names] for name, result in results.items()}
        )
    if slices:
        lines += _slices(results)
    records = {name: {**_settings(name, retriever.weights), **result.as_json()} for name, result in results.items()}
    show(records, "\n".join(lines), as_json=as_json)


def _settings(name: str, weights: Mapping[str, float]) -> dict[str, Any]:
    """What a method was run with: its weights, and how many candidates it re-ranked; nothing of a foreign run."""
    method, _, candidates = name.partition("@")
    if method not in METHODS:
        return {}
    how = METHODS[method]
    reranked = {} if how.kind is None else {"candidates": int(candidates or how.candidates)}
    return {"weights": {one: weights[one] for one in how.weights}, **reranked}


def open_index(place: Path, models: semclass.Models, qrels: Path) -> semclass.PassageIndex:
    """Open an index; say so where its weights were found on the questions that they are to be measured on."""
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
    """What a foreign run is called: its file's name, or the whole path where that is taken."""
    taken = path.stem.partition("@")[0] in METHODS or [other.stem for other in all_paths].count(path.stem) > 1
    return str(path) if taken else path.stem


def _results(results: Mapping[str, Any]) -> Iterator[str]:
    """One line for each method."""
    width = max(18, *map(len, results))
    yield f"{'method':<{width}} mrr@10   top1  recall@10 ndcg@10  cond mrr  cond top1  removed (95 % from, to)      p"
    for name, r in results.items():
        low, high = r.error_removed_ci
        yield (
            f"{name:<{width}} {r.mrr:.4f} {r.top1:.4f}     {r.recall:.4f}  {r.ndcg:.4f}    {r.cond_mrr:.4f}     "
            f"{r.cond_top1:.4f}   {r.error_removed:6.1%} {low:8.1%} {high:7.1%}  {r.p_value:7.4f}"
        )


def _table(
    corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[float]], kind: str = ".4f"
) -> Iterator[str]:
    """Figures by row and column."""
    width = max(18, *map(len, rows))
    yield f"{corner:<{width}} " + " ".join(f"{name:>8}" for name in columns)
    for name, values in rows.items():
        figures = (f"{value:>{max(8, len(column))}{kind}}" for column, value in zip(columns, values, strict=True))
        yield f"{name:<{width}} " + " ".join(figures)


def _slices(results: Mapping[str, Any]) -> Iterator[str]:
    """Tables by kind of slice: its size, the hybrid's conditional MRR, and what each method removes there."""
    for kind, slices in results["hybrid"].slices.items():
        labels = list(slices)
        yield f"\nerror removed by {kind}"
        yield from _table("", labels, {"questions": [slices[label]["questions"] for label in labels]}, ".0f")
        yield from list(_table("", labels, {"hybrid cond mrr": [slices[label]["cond_mrr"] for label in labels]}))[1:]
        removed = {
            name: [result.slices[kind][label]["error_removed"] for label in labels]
            for name, result in results.items()
            if name != "hybrid"
        }
        yield from list(_table("", labels, removed, ".1%"))[1:]


def cache_folder() -> Path:
    """Where indices for evaluation are kept: what the environment says, or the user's cache folder."""
    if CACHE_VARIABLE in os.environ:
        return Path(os.environ[CACHE_VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "semclass" / "indices"
