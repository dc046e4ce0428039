"""The command that lets a language model label texts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, show
from semclass.cli.output import echo
from semclass.cli.progress import progress
from semclass.core import artifacts
from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass_llm.commands.options import cost_options, endpoint_options, open_endpoint


@click.command()
@click.argument("texts", type=options.InputPath())
@click.option(
    "--labels",
    type=options.InputPath(),
    required=True,
    help="JSON or YAML file: a list of labels, or a description for each label.",
)
@click.option(
    "--ask",
    type=click.Choice(["one", "several", "yes-no"]),
    default="one",
    show_default=True,
    help="Question to the model: the one best label, all labels that apply, or yes/no for each label.",
)
@click.option(
    "--out", type=any_path, required=True, metavar="FILE", help="Output file for the labelled texts (JSON lines)."
)
@endpoint_options
@cost_options
@options.json_output
def label(
    texts: Path,
    labels: Path,
    ask: str,
    out: Path,
    prices: tuple[float, float] | None,
    cache: Path | None,
    *,
    only_estimate: bool,
    as_json: bool,
    **service: Any,
) -> None:
    """Label TEXTS with a language model.

    TEXTS is a text file with one text per line, or TSV, CSV or JSON lines with a column `text`. Every reply is stored, so
    an interrupted run can continue. OUT.problems.jsonl lists each text without a label and the reason; the next run repeats
    failed calls. OUT.report.json contains the cost.
    """
    from semclass.documents.labelled import read_texts
    from semclass_llm.endpoint.bill import FAILED, NONSENSE, REFUSED
    from semclass_llm.labelling import teacher
    from semclass_llm.labelling.tasks import Task

    given = list(dict.fromkeys(read_texts(texts)))
    if not given:
        raise InputError(f"{texts} contains no texts")
    task = Task(semclass.read_descriptions(labels), ask)
    endpoint = open_endpoint(**service, cache=cache or beside(out, "replies.jsonl"))
    expected = teacher.estimate(given, task, endpoint, prices)
    echo(f"about {cost_line(expected)}", err=True)
    if only_estimate:
        if as_json:
            show(expected, "", as_json=True)
        return
    bill, found = teacher.Bill(task, prices), []
    with progress("labelling", len(given), "texts") as step:
        for one in teacher.teach(given, task, endpoint, bill):
            found.append(one)
            step(1)
    taught = ((one.text, one.labels) for one in found if one.labels is not None)
    write(out, (teacher.labelled_record({"text": text}, given, task.multi_label) for text, given in taught))
    problems = [{"text": one.text, "why": one.why, "said": one.said} for one in found if one.labels is None]
    write(beside(out, "problems.jsonl"), problems)
    told = teacher.report(found, bill, endpoint)
    artifacts.write_atomic(beside(out, "report.json"), artifacts.dump_json(told))
    lines = [f"{out}: {counted(told['labelled'], 'text')} labelled; {cost_line(told['cost'])}"]
    if problems:
        counts = ", ".join(f"{told[why]} {why}" for why in (FAILED, REFUSED, NONSENSE))
        lines.append(f"{beside(out, 'problems.jsonl')}: {counted(len(problems), 'text')} without a label: {counts}")
    show(told, "\n".join(lines), as_json=as_json)


def beside(out: Path, name: str) -> Path:
    """A file that belongs to another one."""
    return out.with_name(f"{out.stem}.{name}")


def write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write JSON lines."""
    artifacts.write_atomic(path, artifacts.dump_json_lines(records))


def cost_line(cost: dict[str, Any]) -> str:
    """What texts cost, in one line."""
    money = f", {cost['usd']:.2f} USD" if "usd" in cost else ""
    return (
        f"{counted(cost['calls'], 'call')}, {cost['prompt_tokens']} tokens of prompts and {cost['answer_tokens']} of "
        f"answers (by {cost['tokens_counted_by']}), {cost['seconds']:.0f} s{money}"
    )
