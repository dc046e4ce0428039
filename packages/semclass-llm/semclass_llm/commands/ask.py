"""The command that answers a question by sentences."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.hits import INDENT, clean, place_of
from semclass.cli.options import open_retriever, show
from semclass.cli.output import echo
from semclass_llm.commands.options import endpoint_options, open_endpoint

if TYPE_CHECKING:
    from semclass.ranking.ask import Answer


@click.command()
@click.argument("place", metavar="INDEX")
@click.argument("question")
@click.option("-k", type=options.positive, default=5, show_default=True, help="Number of sentences to print.")
@options.where
@endpoint_options
@options.json_output
@options.models
@options.encoder
def ask(
    place: str,
    question: str,
    k: int,
    where: Sequence[str],
    *,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    **service: Any,
) -> None:
    """Print the sentences of INDEX that best answer QUESTION, with their places.

    No language model is needed. With --endpoint and --model, a language model writes a short answer from these sentences,
    in one call, and cites them by number.
    """
    from semclass.index.filters import read_terms
    from semclass_llm.ask import AnswerWriter

    writer = None
    if service["endpoint"] or service["model"]:
        writer = AnswerWriter(open_endpoint(**service, retries=1))
    retriever = open_retriever(place, semclass.Models.load(models, encoder=encoder))
    known = retriever.index.fields if isinstance(retriever.index, semclass.PassageIndex) else None
    answer = retriever.ask(question, k, where=read_terms(where, known) if where else None)
    if writer is not None:
        answer = writer.write(answer)
        echo(f"answer: {writer.chat.bill}", err=True)
        if answer.why:
            echo(f"the language model gave no answer ({answer.why})", err=True)
    if as_json:
        show(asdict(answer), "", as_json=True)
        return
    if not answer.sentences:
        echo("no matching passages", err=True)
    elif not answer.answered:
        echo(_why(answer, by_model=writer is not None and not answer.why), err=True)
    width = max(shutil.get_terminal_size().columns, 40)
    lines = [*(textwrap.wrap(clean(answer.text), width)), *([""] if answer.text else [])]
    for number, one in enumerate(answer.sentences, 1):
        lines += textwrap.wrap(f"{number:>2}  {clean(one.text)}", width, subsequent_indent=INDENT)
        lines.append(f"{INDENT}{place_of(one.id, one.metadata, width - len(INDENT))}")
    if lines:
        echo("\n".join(lines))


def _why(answer: Answer, *, by_model: bool) -> str:
    """Say that nothing answers."""
    if by_model:
        return "the language model finds no answer in these sentences"
    known = "" if answer.answerable is None else f" (answerable: {answer.answerable:.2f})"
    return f"nothing here seems to answer this question{known}; the nearest sentences:"
