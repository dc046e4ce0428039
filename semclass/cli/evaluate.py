"""The command that measures rankings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, progress, show, table
from semclass.core.checks import counted, short
from semclass.core.errors import InputError
from semclass.ranking.methods import METHODS, method_for

if TYPE_CHECKING:
    from semclass.evaluation.measure import Verdict

QUICK = ("hybrid", "convex", "default")
"""Methods of ``evaluate --quick``, besides that of the index."""

SWEEP_MEASURES = ("RR@10", "nDCG@10", "R@10")
"""Measures of ``evaluate --sweep``."""

COLUMNS = {
    "method": "",
    **dict.fromkeys(["mrr@10", "top1", "recall@10", "ndcg@10", "cond mrr", "cond top1"], ".4f"),
    **dict.fromkeys(["removed", "from", "to"], ".1%"),
    "p": ".4f",
}
"""Columns of the figures of every method, with their formats."""

FIGURES = ("mrr", "top1", "recall", "ndcg", "cond_mrr", "cond_top1", "error_removed")


@click.command()
@click.argument("folder", type=any_path, metavar="DATA")
@click.option("--split", default="test", show_default=True, help="Relevance judgments to use: qrels/SPLIT.tsv.")
@click.option("--limit", type=options.positive, help="Maximum number of questions; the first ones are used.")
@click.option("--index", "place", help="Index of the passages; its tuned weights are used.")
@click.option("--runs", type=any_path, help="Write each ranking to this folder as a TREC run file.")
@click.option("--quick", is_flag=True, help=f"Measure only {', '.join(QUICK)}, and the method of the index.")
@click.option("--sweep", is_flag=True, help="Compare cosine, inner product and l2 distance of plain vectors instead.")
@options.json_output
@options.models
@options.encoder
@options.threads
def evaluate(
    folder: Path,
    split: str,
    limit: int | None,
    place: str | None,
    runs: Path | None,
    *,
    quick: bool,
    sweep: bool,
    as_json: bool,
    **loading: Any,
) -> None:
    """Measure every ranking method on questions with known answers, and say which is best.

    DATA is a folder in BEIR format (corpus.jsonl, queries.jsonl and qrels), or a file of judgements as `tune` reads it.
    Other tools, such as ir-measures, read the rankings that --runs writes.
    """
    from semclass.evaluation import evaluate
    from semclass.evaluation.dataset import SUFFIX, judged_dataset, load_dataset, write_run
    from semclass.evaluation.measure import BASELINE, compare, measure

    if sweep and (place or runs or quick):
        raise InputError("--sweep compares plain vectors; remove --index, --runs and --quick")
    if not (sweep or place):
        raise InputError(f"give --index INDEX; build one with `semclass index build {folder} --out INDEX`")
    if folder.is_file() and (sweep or runs or limit or split != "test"):
        raise InputError(f"{folder} is a file; --split, --limit, --runs and --sweep need a folder in BEIR format")
    dataset = None if folder.is_file() else load_dataset(folder, split=split, limit=limit, corpus=sweep)
    loaded = options.load_models(**loading)
    if sweep:
        _sweep(dataset, folder, loaded, as_json=as_json)
        return
    retriever = options.open_retriever(str(place), loaded)
    passages = retriever.local_index
    dataset = judged_dataset(folder, passages) if dataset is None else dataset
    judged = sorted({passage for relevant in dataset.relevance.values() for passage in relevant})
    if (passages.find(judged) < 0).all():
        raise InputError(
            f"{place} has none of the passages that {folder} judges, such as {short(judged[0])}; "
            "compare its ids with those that `semclass search --json` prints"
        )
    methods = [one for one in evaluate.methods_of(retriever) if not quick or one in (*QUICK, retriever.method)]
    with progress("searching", len(methods) * len(dataset.questions), "rankings") as step:
        rankings = evaluate.rank(dataset, retriever, methods, progress=step)
    if runs is not None:
        for name, ranking in rankings.items():
            write_run(runs / f"{name}{SUFFIX}", dataset.questions, ranking, name)
    results = measure(dataset, rankings)
    used = method_for(loaded, retriever.method).name
    verdict = compare(dataset, rankings, used)
    answered = round(results[BASELINE].top_k[-1] * len(dataset.questions))
    rows = [
        [name, *(getattr(r, figure) for figure in FIGURES), *r.error_removed_ci, r.p_value]
        for name, r in results.items()
    ]
    lines = [
        f"{counted(len(dataset.questions), 'question')}, {counted(len(passages), 'passage')}; "
        f"cond: {counted(answered, 'question')} with the answer",
        f"in the {BASELINE} top 10; removed: share of 1 - cond MRR, with its 95 % interval from .. to; p: paired",
        f"randomisation test against {BASELINE}\n",
        *table(COLUMNS, rows),
    ]
    lines += ["", *_verdict(verdict, used, str(place))]
    records = {name: result.as_json() for name, result in results.items()}
    for name in rankings:
        records[name] = {"weights": {w: retriever.weights[w] for w in METHODS[name].weights}, **records[name]}
    records[verdict.best]["best"] = {"over": retriever.method, "gain": verdict.gain, "p_value": verdict.p_value}
    show(records, "\n".join(lines), as_json=as_json)


def _verdict(verdict: Verdict, used: str, place: str) -> Iterator[str]:
    """Say which method is best, whether that is more than chance, and how to make it the default of the index."""
    if verdict.best == used:
        yield f"best on these questions: {used}, nDCG@10 {verdict.ndcg:.4f}; it is the method of this index"
        return
    clear = "more than chance" if verdict.is_clear else "which may be chance"
    yield f"best on these questions: {verdict.best}, nDCG@10 {verdict.ndcg:.4f}, {verdict.gain:.4f} above {used}, {clear}"
    yield f"(p {verdict.p_value:.4f}, corrected for the number of methods). Make it the method of searches that name none:"
    yield f"semclass tune {place} --method {verdict.best}"


def _sweep(dataset: Any, folder: Path, models: semclass.Models, *, as_json: bool) -> None:
    """Compare similarities of plain vectors, without an index."""
    from semclass.documents.readers import read_passages
    from semclass.evaluation.evaluate import sweep

    passages = read_passages(folder / "corpus.jsonl")
    with progress("encoding", len(passages) + len(dataset.questions), "texts") as step:
        results = sweep(dataset, passages, models.encoder, SWEEP_MEASURES, progress=step)
    rows = (
        [name, *(figure["value"] for figure in r["measures"].values()), r["p_value"]] for name, r in results.items()
    )
    lines = [
        f"{counted(len(dataset.questions), 'question')}, {counted(len(passages), 'passage')}; plain vectors, no re-ranking",
        f"p: paired randomisation test of {SWEEP_MEASURES[0]} against cosine\n",
        *table({"similarity": "", **dict.fromkeys([*SWEEP_MEASURES, "p"], ".4f")}, rows),
    ]
    show(results, "\n".join(lines), as_json=as_json)
