"""The commands that measure rankings, and that fit weights and threshold of an index to questions with known answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, progress, show, show_weights, table
from semclass.core.checks import counted, short
from semclass.core.errors import InputError
from semclass.ranking.methods import METHODS, method_for

if TYPE_CHECKING:
    from semclass.evaluation.calibrate import Calibration, Share
    from semclass.evaluation.measure import Verdict
    from semclass.evaluation.tune import Tuning

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

    DATA is a folder in BEIR format (corpus.jsonl, queries.jsonl and qrels), or a file of judgements, see `tune`.
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


# -- tuning -------------------------------------------------------------------------------------------------------------

_options = options.together(
    click.option(
        "--judgements",
        type=any_path,
        help="File of judged hits: JSON lines with `question`, `passage` (its id) and `right` (true or false).",
    ),
    click.option("--dry-run", is_flag=True, help="Print the report, but store nothing."),
    click.option("--reset", is_flag=True, help="Remove what this command stored in the index, and exit."),
    options.json_output,
    options.models,
    options.encoder,
    options.threads,
)


@click.command()
@click.argument("folder", type=any_path, metavar="INDEX")
@click.option("--method", type=click.Choice(list(METHODS)), help="Make this the default method of INDEX, and exit.")
@_options
def tune(
    folder: Path,
    *,
    judgements: Path | None,
    method: str | None,
    dry_run: bool,
    reset: bool,
    as_json: bool,
    **loading: Any,
) -> None:
    """Tune the search weights on questions with known answers, and store them in INDEX.

    The weights are those of the method of INDEX: alpha, the share of the vectors, from 0 to 1, and the weight of the
    evidence, from 0 to 8. Cross-validation compares the best value of a weight with its default. A tuned weight is stored
    only if its gain exceeds one standard error, or 1.645 standard errors with fewer than 100 questions. `search` and
    `evaluate --index` then use the stored weights unless you give --weight.

    With --method, the command only stores the default method of searches. `evaluate` says which method is best.
    """
    from semclass.evaluation import tune
    from semclass.evaluation.dataset import judged_dataset
    from semclass.index.folder import store

    if [judgements is not None, method is not None, reset].count(True) != 1:
        raise InputError("give exactly one of --judgements FILE, --method NAME and --reset")
    if method is not None:
        store(folder, method=method)
        show({"index": str(folder), "method": method}, f"{folder} uses the method {method}", as_json=as_json)
        return
    if judgements is None:
        store(folder, weights=None, found_on=None, searches=None, method=None)
        show({"index": str(folder), "weights": {}}, f"{folder} uses the default method and weights", as_json=as_json)
        return
    retriever = options.open_retriever(str(folder), options.load_models(**loading))
    dataset = judged_dataset(judgements, retriever.local_index)
    weights = tune.tunable(method_for(retriever.models, retriever.method).name)
    rankings = sum(len(tune.GRIDS[name]) + 1 for name in weights) * len(dataset.questions)
    with progress("searching", rankings, "rankings") as step:
        result = tune.tune(retriever, dataset, progress=step)
    record = result.as_record({"judgements": judgements.name})
    if not dry_run:
        store(folder, **(record if result.weights else dict.fromkeys(record)))
    stored = f"stored in {folder}: {show_weights(result.weights)}"
    lines = [*_tuning(result), stored if result.weights and not dry_run else "nothing was stored"]
    show({"index": str(folder), "stored": not dry_run, **record}, "\n".join(lines), as_json=as_json)


@click.command()
@click.argument("folder", type=any_path, metavar="INDEX")
@_options
def calibrate(
    folder: Path, *, judgements: Path | None, dry_run: bool, reset: bool, as_json: bool, **loading: Any
) -> None:
    """Choose the threshold of `answerable` on questions with known answers, and store it in INDEX.

    Below the threshold, a question is more often unanswered than answered, and `search` says that probably no passage
    answers it. Judge the first hits of your own questions. Some of these questions must have no answer in INDEX.
    """
    from semclass.evaluation.calibrate import calibrate, judged_questions
    from semclass.evaluation.dataset import followed, read_judgements
    from semclass.index.folder import store

    if (judgements is None) != reset:
        raise InputError("give either --judgements FILE or --reset")
    if judgements is None:
        store(folder, answerable=None)
        show({"index": str(folder), "from": None}, f"{folder} has no threshold", as_json=as_json)
        return
    read = read_judgements(judgements)
    retriever = options.open_retriever(str(folder), options.load_models(**loading))
    judged = followed(read, retriever.local_index)
    with progress("searching", len(judged), "questions") as step:
        pairs = list(judged_questions(retriever, judged, progress=step))
    result = calibrate([value for value, _ in pairs], [answered for _, answered in pairs])
    record = result.as_record({"judgements": judgements.name})
    stored = result.threshold is not None and not dry_run
    if stored:
        store(folder, answerable=record)
    lines = _calibration(result)
    where = f"stored in {folder}" if stored else "nothing was stored"
    show({"index": str(folder), "stored": stored, **record}, "\n".join([*lines, where]), as_json=as_json)


def _tuning(result: Tuning) -> Iterator[str]:
    yield f"{counted(result.questions, 'question')}, MRR@10; cv: cross-validated, each fold ranked with the best weight of"
    yield "the other folds; best*: chosen and measured on the same questions, so too optimistic\n"
    columns = {"weight": "", "default": "g", "best": "g", **dict.fromkeys(["without", "with default", "cv"], ".4f")}
    columns |= {"gain": "+.4f", "+-": ".4f", "best*": ".4f", "": ""}
    rows = []
    for s in result.searches:
        mrr = (s.mrr[0], s.mrr_default, s.mrr_cross_validated)
        verdict = f"better: {s.weight:g}" if s.helps else "default kept"
        rows.append([s.name, s.default, s.best, *mrr, s.gain, s.standard_error, s.mrr_searched, verdict])
    yield from table(columns, rows)
    if not result.weights:
        margin = result.searches[0].margin
        yield f"no weight is better than its default by {margin:g} standard errors; the default weights stay"


def _calibration(result: Calibration) -> Iterator[str]:
    from semclass.evaluation.calibrate import MIN_QUESTIONS

    yield f"{counted(result.questions, 'question')}, {result.answered} of them answered"
    if result.threshold is None:
        missing = {"answered": result.answered, "unanswered": result.questions - result.answered}
        if rare := [f"{count} of {MIN_QUESTIONS} {kind}" for kind, count in missing.items() if count < MIN_QUESTIONS]:
            yield f"a threshold needs {MIN_QUESTIONS} answered and {MIN_QUESTIONS} unanswered questions; there are only"
            yield f"{' and '.join(rare)} ones. An unanswered question is one whose first hit is judged wrong"
            return
        yield f"no clear separation: in {result.separation:.0%} of pairs, the answered question has the larger value;"
        yield "judge the first hits of more questions, right and wrong ones"
        return
    yield f"threshold of answerable: {result.threshold:.2f}"
    yield f"precision (share of the questions above the threshold that are answered): {_share(result.precision)}"
    yield f"recall (share of the answered questions that are above the threshold): {_share(result.recall)}"
    yield f"share of questions below the threshold: {_share(result.withheld)}"


def _share(share: Share) -> str:
    return f"{share.value:.0%} (95 % interval {share.low:.0%} to {share.high:.0%})"
