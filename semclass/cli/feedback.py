"""The commands about judgements: to store and export them, and to choose a threshold by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, show
from semclass.cli.output import echo
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.evaluation.calibrate import Calibration, Share

VERDICTS = {"right": True, "wrong": False, "withdraw": None}


@click.command()
@click.argument("folder", type=any_path, metavar="INDEX")
@click.option("--question", help="Judge a passage for this question. Needs --passage and a verdict.")
@click.option("--passage", help="Id of the passage, as `semclass search --json` prints it.")
@click.option("--right", "verdict", flag_value="right", help="The passage answers the question.")
@click.option("--wrong", "verdict", flag_value="wrong", help="The passage does not answer the question.")
@click.option("--withdraw", "verdict", flag_value="withdraw", help="Remove the judgement of the question and passage.")
@click.option("--out", type=any_path, help="Also export the judgements and all passages as a folder in BEIR format.")
@options.json_output
def feedback(
    folder: Path, question: str | None, passage: str | None, verdict: str | None, out: Path | None, *, as_json: bool
) -> None:
    """Store whether a passage of INDEX answers a question, or list and export the stored judgements.

    The judgements stand in the folder of the index. `semclass tune` and `semclass calibrate` use them.
    """
    from semclass.evaluation.judgements import write_judgements
    from semclass.index.feedback import add_judgement, read_judgements

    index = semclass.PassageIndex.load(folder, verify=False)
    given = (question, passage, verdict)
    if any(part is not None for part in given):
        if question is None or passage is None or verdict is None or out is not None:
            raise InputError(
                "to judge a passage, give --question, --passage and one of --right, --wrong, --withdraw; to list or export "
                "judgements, give none of them"
            )
        made = add_judgement(index, question, passage, VERDICTS[verdict])
        show(asdict(made), f"{verdict}: {passage} in {folder}", as_json=as_json)
        return
    found = read_judgements(folder)
    for judgement in found:
        show(asdict(judgement), _line(judgement.right, judgement.passage, judgement.question), as_json=as_json)
    if out is not None:
        written = write_judgements(out, index, found)
        left = len(found) - written
        gone = f"; {left} left out, as the index no longer has their passages" if left else ""
        echo(f"{counted(written, 'judgement')} in {out}{gone}", err=True)
    elif not found:
        echo("no judgements yet; add one with --question, --passage and --right or --wrong", err=True)


@click.command()
@click.argument("folder", type=any_path, metavar="INDEX")
@options.queries
@options.qrels
@click.option("--dry-run", is_flag=True, help="Print the report, but do not store the threshold.")
@click.option("--reset", is_flag=True, help="Remove the threshold from the index and exit.")
@options.json_output
@options.models
@options.encoder
@options.threads
def calibrate(
    folder: Path,
    queries: Path | None,
    qrels: Path | None,
    *,
    dry_run: bool,
    reset: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Choose from which `answerable` INDEX seems to answer a question, and store this threshold in INDEX.

    Below it, a question is more often unanswered than answered, and `search` and `ask` say that nothing seems to answer.
    The questions are those with judged hits (`semclass feedback`), or those of --queries and --qrels. Without any,
    questions are made of headings, and the threshold is printed, but not stored.
    """
    from semclass.core.cpu import available_threads
    from semclass.evaluation.calibrate import calibrate as choose
    from semclass.index.commit import store_answerable

    if reset:
        if queries or qrels:
            raise InputError("--reset only removes the threshold; remove --queries and --qrels")
        store_answerable(folder, None)
        show({"index": str(folder), "from": None}, f"{folder} uses the threshold of the models", as_json=as_json)
        return
    if (queries is None) is not (qrels is None):
        raise InputError("give both --queries FILE and --qrels FILE, or none of them")
    retriever = semclass.HybridRetriever.load(
        folder, models=models, encoder=encoder, threads=threads or available_threads()
    )
    found_on, pairs = _questions(retriever, folder, queries, qrels)
    found = choose([value for value, _ in pairs], [answered for _, answered in pairs])
    stored = found.threshold is not None and not dry_run and found_on["questions"] != MADE
    record = found.as_record(found_on)
    if stored:
        store_answerable(folder, record)
    lines = _calibration(found, found_on["questions"], retriever.models.answerable_from)
    where = f"stored in {folder}" if stored else "nothing was stored"
    show({"index": str(folder), "stored": stored, **record}, "\n".join([*lines, where]), as_json=as_json)


MADE = "questions made of headings"
"""What a threshold was chosen on where nothing was judged."""

SAMPLED = 400
"""Passages that are drawn to make questions of their headings."""


def _questions(
    retriever: semclass.HybridRetriever, folder: Path, queries: Path | None, qrels: Path | None
) -> tuple[dict[str, str], list[tuple[float, bool]]]:
    """What questions were used, and of each one `answerable` and whether a hit is right."""
    from semclass.evaluation import calibrate
    from semclass.evaluation.dataset import read_dataset
    from semclass.evaluation.question_headings import sample_passages
    from semclass.index.feedback import by_question, read_judgements

    if queries is not None and qrels is not None:
        data = read_dataset(queries, qrels)
        judged = {data.questions[name]: dict.fromkeys(data.relevance[name], True) for name in data.questions}
        used = str(qrels)
    else:
        judged, used = by_question(read_judgements(folder)), "judgements"
    if not judged:
        passages = sample_passages(retriever, SAMPLED)
        with progress("searching", len(passages), "questions") as step:
            return {"questions": MADE}, list(calibrate.made_questions(retriever, passages, progress=step))
    with progress("searching", len(judged), "questions") as step:
        found = calibrate.judged_questions(retriever, judged, complete=qrels is not None, progress=step)
        return {"questions": used}, list(found)


def _calibration(found: Calibration, used: str, before: float | None) -> Iterator[str]:
    """The figures of a calibration, for people."""
    yield f"{counted(found.questions, 'question')} ({used}), {found.answered} of them answered"
    if found.threshold is None:
        yield f"no clean separation with these {counted(found.questions, 'question')}: in {found.separation:.0%} of pairs,"
        yield "the answered one has the larger value; judge the first hits of more questions, right and wrong ones"
        return
    yield f"nothing seems to answer below answerable {found.threshold:.2f} (models: {before or 0:.2f})"
    yield f"of the shown questions, answered: {_share(found.precision)}"
    yield f"of the answered questions, shown: {_share(found.recall)}"
    yield f"of all questions, withheld: {_share(found.withheld)}"


def _share(share: Share) -> str:
    return f"{share.value:.0%} (95 % interval {share.low:.0%} to {share.high:.0%})"


def _line(right: bool | None, passage: str, question: str) -> str:
    return f"{'right' if right else 'wrong'}  {options.shorten(passage, 40):<40}  {options.shorten(question)}"
