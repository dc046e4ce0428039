"""The command that measures written answers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from semclass.cli import options
from semclass.cli.options import show
from semclass.cli.output import echo
from semclass.cli.progress import progress
from semclass.core.errors import InputError
from semclass_llm.commands.options import endpoint_options, open_endpoint


@click.command("evaluate-answers")
@click.argument("answers", type=options.InputPath(), metavar="FILE")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the confidence intervals.")
@endpoint_options
@options.json_output
@options.encoder
def evaluate_answers(answers: Path, seed: int, encoder: str | None, *, as_json: bool, **service: Any) -> None:
    """Measure the answers in FILE against right answers, and let a language model judge them.

    FILE contains JSON lines with `question`, `answer`, `references` (a list of right answers) and, for the judge,
    `contexts` (a list of the texts that the answer comes from). The references give exact match, token F1, ROUGE-L and
    BLEU. With --endpoint and --model, a language model measures faithfulness and answer relevance, in three calls per
    answer.
    """
    from semclass_llm.answers import measure_answers, read_answers

    given = read_answers(answers)
    found = measure_answers(given, seed=seed)
    if service["endpoint"] or service["model"]:
        from semclass.heads.texts import open_encoder
        from semclass_llm.answer_judge import judge_answers

        endpoint = open_endpoint(**service)
        with progress("judging", len(given), "answers") as step:
            figures, bill = judge_answers(given, endpoint, open_encoder(encoder), seed=seed, progress=step)
        missing = f"; {bill.failed} failed, {bill.refused} refused, {bill.nonsense} could not be read"
        echo(f"judge: {bill}{missing}", err=True)
        found |= figures
    elif not found:
        raise InputError(
            f"{answers} holds no references; add them, or let a judge read the answers (--endpoint, --model)"
        )
    lines = [
        f"{name.replace('_', ' '):<18} {one.value:.4f} ({one.interval[0]:.4f} to {one.interval[1]:.4f}) {one.questions:8}"
        for name, one in found.items()
    ]
    head = f"{'measure':<18} value (95 % from, to)       answers"
    show({name: asdict(one) for name, one in found.items()}, "\n".join([head, *lines]), as_json=as_json)
