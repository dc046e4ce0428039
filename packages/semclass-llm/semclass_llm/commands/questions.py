"""The command that makes questions out of an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import any_path, positive, show
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass_llm.commands.options import endpoint_options, open_endpoint

if TYPE_CHECKING:
    from semclass.evaluation.made_questions import MadeQuestions

SHOWN = 10
"""Questions that are printed to be checked by hand."""


@click.command()
@click.argument("folder", type=any_path, metavar="INDEX")
@click.option(
    "--out", type=any_path, required=True, help="Output folder for queries.jsonl, qrels/test.tsv and made.json."
)
@click.option("--passages", type=positive, default=500, show_default=True, help="Number of passages to draw at random.")
@click.option(
    "--each",
    type=positive,
    default=2,
    show_default=True,
    help="Maximum number of questions that the language model writes per passage.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@endpoint_options
@options.json_output
@options.models
@options.encoder
@options.threads
def questions(
    folder: Path,
    out: Path,
    passages: int,
    each: int,
    seed: int,
    endpoint: str | None,
    model: str | None,
    concurrency: int,
    timeout: float,
    cache: Path | None,
    *,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Generate questions with known answers from the passages of INDEX, to tune or measure a search.

    The questions are headings of passages. With --endpoint and --model, a language model writes the questions. A question
    is kept if its passage is among the top ten search results and the shipped models judge that the passage answers it.
    """
    from semclass.core.cpu import available_threads
    from semclass.evaluation import made_questions
    from semclass.evaluation.question_headings import write_from_headings
    from semclass_llm.question_prompts import write_by_model

    retriever = semclass.HybridRetriever.load(
        folder, models=models, encoder=encoder, threads=threads or available_threads()
    )
    retriever = retriever.untuned()
    drawn = made_questions.sample_passages(retriever, passages, seed=seed)
    about: dict[str, Any] = {"passages": len(drawn), "seed": seed}
    if endpoint is None and model is None:
        drafts = list(write_from_headings(drawn))
    else:
        service = open_endpoint(endpoint, model, concurrency, timeout, cache or out / "replies.jsonl")
        with progress("asking", len(drawn)) as step:
            drafts, calls = write_by_model(drawn, service, each, progress=step)
        about |= {"each": each, "model": model, "calls": calls}
    with progress("checking", len(drafts), "questions") as step:
        made = made_questions.keep_good(retriever, drafts, progress=step)
    made_questions.write_questions(out, made, about)
    record = {"out": str(out), **about, "questions": len(made.kept), "counts": made.counts()}
    show(record, "\n".join(_lines(made, about.get("calls", {}), out)), as_json=as_json)


def _lines(made: MadeQuestions, calls: Mapping[str, int], out: Path) -> Iterator[str]:
    """How many were kept and dropped, and some to be checked by hand."""
    if calls:
        yield "calls: " + ", ".join(f"{name} {number}" for name, number in calls.items())
    yield ", ".join(f"{name} {number}" for name, number in made.counts().items())
    yield "\nexamples to check by hand:"
    for place in range(0, len(made.kept), -(-len(made.kept) // SHOWN)):
        question = made.kept[place]
        yield f"  {question.label:<5} {question.passage}: {options.shorten(question.text)}"
    yield f"\n{counted(len(made.kept), 'question')} in {out}"
