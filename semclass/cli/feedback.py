"""The commands about judgements: to store and export them, and to choose a threshold by them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, show
from semclass.cli.output import echo
from semclass.core.checks import counted
from semclass.core.errors import InputError

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


def _line(right: bool | None, passage: str, question: str) -> str:
    return f"{'right' if right else 'wrong'}  {options.shorten(passage, 40):<40}  {options.shorten(question)}"
