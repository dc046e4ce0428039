"""The commands that search and re-rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.hits import print_result
from semclass.cli.options import echo, open_retriever, read_heads, read_weights
from semclass.ranking.boost import BOOST
from semclass.ranking.methods import DEFAULT, METHODS, RERANKING


@click.command()
@click.argument("place", metavar="INDEX")
@click.argument("question")
@click.option("-k", type=int, default=10, show_default=True, help="Number of passages to return.")
@click.option(
    "--method",
    type=click.Choice(list(METHODS)),
    help="Ranking method. Default: that of the index, see `semclass tune`.",
)
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
    where: Sequence[str],
    heads: Sequence[str],
    boosts: Sequence[str],
    weights: Sequence[str],
    *,
    explain: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    **ranking: Any,
) -> None:
    """Find the passages of INDEX that answer QUESTION.

    INDEX is a folder, or the address of a collection on a Qdrant server, e.g. http://localhost:6333/passages.
    """
    from semclass.index.filters import read_terms

    boost = read_weights([text if "=" in text else f"{text}={BOOST}" for text in boosts], "--boost")
    loaded = semclass.Models.load(models, encoder=encoder, heads=read_heads(heads))
    retriever = open_retriever(place, loaded)
    known = retriever.index.fields if isinstance(retriever.index, semclass.PassageIndex) else None
    filters = read_terms(where, known) if where else None
    ranking |= {"weights": read_weights(weights), "where": filters, "boost": boost}
    result = retriever.search(question, k, semclass.SearchOptions(**ranking, explain=True))
    answerable, threshold = result.answerable, retriever.answerable_from
    if result and answerable is not None and threshold is not None and answerable < threshold:
        echo(f"probably no passage answers this question (answerable: {answerable:.2f})", err=True)
    print_result(question, result, retriever.models, explain=explain, as_json=as_json)


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
    print_result(question, result, reranker.models, explain=explain, as_json=as_json)
