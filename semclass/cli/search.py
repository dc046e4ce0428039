"""The commands that search and re-rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.hits import print_result
from semclass.cli.options import open_retriever, read_heads, read_weights, show
from semclass.cli.output import echo
from semclass.core.errors import InputError
from semclass.ranking.boost import BOOST
from semclass.ranking.methods import DEFAULT, METHODS, PROMPTED, RERANKING
from semclass.rewriting import WAYS

if TYPE_CHECKING:
    from semclass.endpoint.client import Endpoint
    from semclass.rewriting.transform import QueryTransform, Rewritten


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
@click.option("--context", "as_context", is_flag=True, help="Print one text with numbered sources, for a prompt.")
@click.option("--budget", type=options.positive, help="With --context: maximum number of words.")
@click.option(
    "--window", type=options.positive, help="With --context: number of passages to add before and after each hit."
)
@click.option(
    "--rewrite",
    type=click.Choice(WAYS),
    help="Let a language model rewrite the question first. Needs --endpoint and --model.",
)
@click.option(
    "--said",
    "history",
    multiple=True,
    metavar="TEXT",
    help="With --rewrite: an earlier question or answer of the conversation. Repeatable, oldest first.",
)
@click.option(
    "--send-below",
    type=float,
    metavar="LEAD",
    help="Let a language model re-rank the first 5 passages if the score of the first is less than LEAD above that of the "
    "second. `semclass evaluate --send` finds LEAD. Needs --endpoint and --model.",
)
@options.prompt
@options.endpoint_options
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
    as_context: bool,
    budget: int | None,
    window: int | None,
    rewrite: str | None,
    history: Sequence[str],
    send_below: float | None,
    way: str | None,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    **service: Any,
) -> None:
    """Find the passages of INDEX that answer QUESTION.

    INDEX is a folder, or the address of a collection on a Qdrant server, e.g. http://localhost:6333/passages.
    """
    from semclass.context.build import build_context
    from semclass.index.filter_command_line import read_terms
    from semclass.ranking.prompted import FIRST, PromptedReranker

    if not as_context and (budget or window):
        raise InputError("--budget and --window need --context; add --context, or remove them")
    if as_context and explain:
        raise InputError("--context prints no scores, so --explain has no effect; give only one of them")
    if rewrite is None and (history or (service["endpoint"] and send_below is None)):
        ways = ", ".join(WAYS)
        raise InputError(f"--said and --endpoint need --rewrite; add it with one of: {ways}; or send by --send-below")
    if way and send_below is None:
        raise InputError("--prompt needs --send-below; add it, or remove --prompt")
    judge = None
    if send_below is not None:
        judge = PromptedReranker(options.open_endpoint(**service, retries=1), way or PROMPTED[0])
    transform = None if rewrite is None else _telling(rewrite, options.open_endpoint(**service, retries=1))
    loaded = semclass.Models.load(models, encoder=encoder, heads=read_heads(heads))
    retriever = open_retriever(place, loaded)
    known = retriever.index.fields if isinstance(retriever.index, semclass.PassageIndex) else None
    chosen = semclass.SearchOptions(
        method=method,
        weights=read_weights(weights),
        candidates=candidates,
        where=read_terms(where, known) if where else None,
        boost=read_weights([text if "=" in text else f"{text}={BOOST}" for text in boosts], "--boost"),
        explain=not as_context,
    )
    n = max(k, FIRST) if judge is not None and k > 0 else k  # a wrong k is refused below
    if transform is None:
        result = retriever.search(question, n, chosen)
    else:
        result = semclass.RewritingRetriever(retriever, transform).search(question, n, chosen, history=history)
    if judge is not None and send_below is not None:
        (result,) = judge.rerank_unsure([result], send_below)
        echo(f"{judge.way}: {judge.chat.bill}", err=True)
        result = replace(result, hits=result.hits[:k])
    answerable, least = result.answerable, retriever.answerable_from
    if result and answerable is not None and least is not None and answerable < least:
        echo(f"probably no passage answers this question (answerable: {answerable:.2f})", err=True)
    if as_context:
        documents = None if window is None else retriever.local_index.by_documents
        made = build_context(result, documents=documents, budget=budget, before=window or 0, after=window or 0)
        record = {"text": made.text, "count": made.count, "sources": [asdict(source) for source in made.sources]}
        record |= {} if answerable is None else {"answerable": answerable}
        show(record, made.text, as_json=as_json)
    else:
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
@click.option("--method", type=click.Choice(RERANKING), help=f"Ranking method.  [default: {DEFAULT}]")
@options.weight
@click.option("--explain", is_flag=True, help="Show how each score is computed.")
@options.prompt
@options.endpoint_options
@options.json_output
@options.models
@options.encoder
@options.threads
def rerank(
    question: str,
    file: Path,
    text_column: str | None,
    id_column: str | None,
    title_column: str | None,
    k: int | None,
    method: str | None,
    weights: Sequence[str],
    *,
    explain: bool,
    way: str | None,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
    **service: Any,
) -> None:
    """Re-rank the passages of a file for QUESTION.

    The shipped models rank the passages. With --endpoint and --model, a language model ranks them.
    """
    from semclass.documents.readers import read_passages
    from semclass.ranking.prompted import PromptedReranker

    prompted = bool(way or service["endpoint"] or service["model"])
    if prompted and (method or weights or explain):
        raise InputError(
            "--method, --weight and --explain do not apply to a language model; remove them, or remove --endpoint"
        )
    passages = read_passages(file, text_column=text_column, id_column=id_column, title_column=title_column)
    if prompted:
        judge = PromptedReranker(options.open_endpoint(**service), way or PROMPTED[0])
        result = judge.rerank(question, passages, k=k)
        echo(f"{judge.way}: {judge.chat.bill}", err=True)
        print_result(question, result, None, explain=False, as_json=as_json)
        return
    reranker = semclass.Reranker.load(models, encoder=encoder, threads=threads or 1)
    given = read_weights(weights)
    result = reranker.rerank(question, passages, k=k, method=method or DEFAULT, weights=given, explain=True)
    label = _class_of(reranker.models, question) if explain else None
    print_result(question, result, label, explain=explain, as_json=as_json)


def _telling(way: str, endpoint: Endpoint) -> QueryTransform:
    """What rewrites a question, and says on standard error what it became and what that cost."""
    from semclass.rewriting.rewriter import Rewriter

    rewriter = Rewriter(way, endpoint)

    def told(question: str, history: Sequence[str] = ()) -> Rewritten:
        found = rewriter(question, history)
        for text in (*found.questions, *found.passages):
            if text != question:
                echo(f"{way}: {text}", err=True)
        echo(f"{way}: {found.cost}", err=True)
        return found

    return told


def _class_of(models: semclass.Models, question: str) -> semclass.QuestionLabel | None:
    """Class of a question; None without class heads."""
    return models.questions.classify([question])[0] if models.has_classes else None
