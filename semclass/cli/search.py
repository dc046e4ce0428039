"""The commands that search and re-rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

import semclass
from semclass.cli import options
from semclass.cli.options import open_retriever, read_weights, shorten, show
from semclass.core.errors import InputError
from semclass.ranking.methods import DEFAULT, METHODS, RERANKING

_WORDS = 8
"""Words of the question that ``--explain`` shows; with --json all."""

_ASKED = 0.1
"""Probability from which ``--explain`` shows a class of the question."""


@click.command()
@click.argument("place", metavar="INDEX")
@click.argument("question")
@click.option("-k", type=int, default=10, show_default=True, help="Passages to give.")
@click.option("--method", type=click.Choice(list(METHODS)), default=DEFAULT, show_default=True, help="How to rank.")
@options.weight
@click.option("--candidates", type=int, help="Passages that are re-ranked; the method's own number by default.")
@options.where
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@click.option("--context", "as_context", is_flag=True, help="Print one text with numbered sources, for a prompt.")
@click.option("--budget", type=options.positive, help="With --context: words that it may have.")
@click.option("--window", type=options.positive, help="With --context: neighbours before and after each passage.")
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
    *,
    explain: bool,
    as_context: bool,
    budget: int | None,
    window: int | None,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
) -> None:
    """Find the passages of INDEX that answer QUESTION.

    INDEX is a folder, or the address of a collection on a Qdrant server, such as http://localhost:6333/passages.
    """
    from semclass.context.build import build_context
    from semclass.index.filter_command_line import read_terms

    if not as_context and (budget or window):
        raise InputError("--budget and --window need --context; give it too, or neither of them")
    if as_context and explain:
        raise InputError("--context prints no scores for --explain; give one of the two")
    retriever = open_retriever(place, semclass.Models.load(models, encoder=encoder))
    hits = retriever.search(
        question,
        k,
        method=method,
        weights=read_weights(weights),
        candidates=candidates,
        where=read_terms(where) if where else None,
        explain=explain,
    )
    if as_context:
        documents = None if window is None else retriever.embedded.by_documents
        made = build_context(hits, documents=documents, budget=budget, before=window or 0, after=window or 0)
        record = {"text": made.text, "count": made.count, "sources": [asdict(source) for source in made.sources]}
        show(record, made.text, as_json=as_json)
    else:
        _print_hits(hits, _class_of(retriever.models, question) if explain else None, as_json=as_json)


@click.command()
@click.argument("question")
@click.option(
    "--passages", "file", type=options.InputPath(), required=True, help="JSON lines with `text`; - for a pipe."
)
@click.option("-k", type=int, help="Passages to give; all by default.")
@click.option("--method", type=click.Choice(RERANKING), default=DEFAULT, show_default=True, help="How to rank.")
@options.weight
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
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
) -> None:
    """Re-rank passages from a file for QUESTION."""
    from semclass.documents.readers import read_passages

    passages = read_passages(file)
    reranker = semclass.Reranker.load(models, encoder=encoder, threads=threads or 1)
    hits = reranker.rerank(question, passages, k=k, method=method, weights=read_weights(weights), explain=explain)
    _print_hits(hits, _class_of(reranker.models, question) if explain else None, as_json=as_json)


def _class_of(models: semclass.Models, question: str) -> semclass.QuestionLabel | None:
    """Class of a question; None without class heads."""
    return models.questions.predict([question])[0] if models.has_classes else None


def _print_hits(hits: Sequence[semclass.Hit], question: semclass.QuestionLabel | None, *, as_json: bool) -> None:
    """Print a ranking, and the question's class if it is given."""
    if not as_json and question is not None:
        click.echo(f"asks for {question.label} ({question.probability:.3f})")
    if not as_json and not hits:
        click.echo("no passage matches", err=True)
    if not as_json and hits and hits[0].asked is not None:
        click.echo(f"of the question was read: {shorten(hits[0].asked)}", err=True)
    for hit in hits:
        record = asdict(hit)
        record = {"_id": record.pop("id"), **record, "labels": list(hit.labels)}
        if hit.explanation is None:
            del record["explanation"]
        if hit.asked is None:
            del record["asked"]
        if question is not None:
            record["question"] = {"label": question.label, "probabilities": dict(question.probabilities)}
        moved = "" if hit.rank == hit.rank_before else f" (was {hit.rank_before})"
        lines = [f"{hit.rank:>3}{moved:<9} {hit.score:7.3f}  {hit.id}  {shorten(hit.text)}"]
        if hit.explanation is not None:
            lines += [f"{'':13}{line}" for line in _explained(hit, hit.explanation)]
        show(record, "\n".join(lines), as_json=as_json)


def _explained(hit: semclass.Hit, explanation: semclass.Explanation) -> Iterator[str]:
    """Lines that say what a score was made of."""
    terms = " ".join(f"{value:+.3f} {name}" for name, value in explanation.parts.items())
    meaning = "score" if explanation.link == "identity" else "log-odds of the score"
    yield f"{terms} = {explanation.total:.3f}, the {meaning}"
    yield "  ".join(f"{name} {value:.3f}" for name, value in hit.components.items())
    words = [
        f"{word.word} {'=' if word.exact else f'~ {word.match} {word.cosine:.2f}'}"
        for word in explanation.words
        if word.match or word.exact
    ]
    if words:
        yield f"words: {', '.join(words[:_WORDS])}"
    if explanation.classes:
        shown = [item for item in explanation.classes if item.asked >= _ASKED]
        classes = ", ".join(f"{item.name} asked {item.asked:.2f} provided {item.provided:.2f}" for item in shown)
        yield f"classes: {classes}; provides {' '.join(hit.labels) or '-'}"
