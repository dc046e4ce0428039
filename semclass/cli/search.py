"""The commands that search and re-rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.hits import print_result
from semclass.cli.options import open_retriever, read_heads, read_weights
from semclass.cli.output import echo
from semclass.ranking.boost import BOOST
from semclass.ranking.methods import DEFAULT, METHODS, RERANKING


@click.command()
@click.argument("place", metavar="INDEX")
@click.argument("question")
@click.option("-k", type=int, default=10, show_default=True, help="Number of passages to return.")
@click.option("--method", type=click.Choice(list(METHODS)), default=DEFAULT, show_default=True, help="Ranking method.")
@options.weight
@click.option("--candidates", type=int, help="Number of passages to re-rank. Default: depends on the method.")
@options.where
@options.heads
@click.option(
    "--boost",
    "boosts",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    help="Head that the index was built with. Passages with the same label as the question get a higher score.",
)
@click.option("--explain", is_flag=True, help="Show how each score is computed.")
@options.json_output
@options.models
@options.encoder
def search(
    place: str,
    question: str,
    k: int,
    method: str,
    weights: Sequence[str],
    candidates: int | None,
    where: Sequence[str],
    heads: Sequence[str],
    boosts: Sequence[str],
    *,
    explain: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
) -> None:
    """Find the passages of INDEX that answer QUESTION.

    INDEX is a folder, or the address of a collection on a Qdrant server, e.g. http://localhost:6333/passages.
    """
    from semclass.index.filters import read_terms

    boost = read_weights([text if "=" in text else f"{text}={BOOST}" for text in boosts], "--boost")
    loaded = semclass.Models.load(models, encoder=encoder, heads=read_heads(heads))
    retriever = open_retriever(place, loaded)
    known = retriever.index.fields if isinstance(retriever.index, semclass.PassageIndex) else None
    chosen = semclass.SearchOptions(
        method=method,
        weights=read_weights(weights),
        candidates=candidates,
        where=read_terms(where, known) if where else None,
        boost=boost,
        explain=True,
    )
    result = retriever.search(question, k, chosen)
    answerable, least = result.answerable, retriever.answerable_from
    if result and answerable is not None and least is not None and answerable < least:
        echo(f"probably no passage answers this question (answerable: {answerable:.2f})", err=True)
    label = _class_of(retriever.models, question) if explain else None
    print_result(question, result, label, explain=explain, as_json=as_json)


@click.command()
@click.argument("question")
@click.option(
    "--passages",
    "file",
    type=options.InputPath(),
    required=True,
    help="JSON lines with `text`, or a document, such as a table. Use - for standard input.",
)
@options.columns
@click.option("-k", type=int, help="Number of passages to return. Default: all.")
@click.option("--method", type=click.Choice(RERANKING), default=DEFAULT, show_default=True, help="Ranking method.")
@options.weight
@click.option("--explain", is_flag=True, help="Show how each score is computed.")
@options.json_output
@options.models
@options.encoder
@options.threads
def rerank(
    question: str,
    file: Path,
    k: int | None,
    method: str,
    weights: Sequence[str],
    *,
    explain: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
    **columns: Any,
) -> None:
    """Re-rank the passages of a file for QUESTION."""
    from semclass.documents.readers import read_passages

    passages = read_passages(file, semclass.Chunking(**columns))
    reranker = semclass.Reranker.load(models, encoder=encoder, threads=threads or 1)
    result = reranker.rerank(question, passages, k=k, method=method, weights=read_weights(weights), explain=True)
    label = _class_of(reranker.models, question) if explain else None
    print_result(question, result, label, explain=explain, as_json=as_json)


def _class_of(models: semclass.Models, question: str) -> semclass.QuestionLabel | None:
    """Class of a question; None without class heads."""
    return models.questions.classify([question])[0] if models.has_classes else None
