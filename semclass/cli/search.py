"""The commands that search and re-rank. They print hits with place and best sentence, and matching words in bold."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import echo, open_retriever, plain, read_heads, read_weights, shorten, show
from semclass.core.types import WordMatch
from semclass.ranking.boost import BOOST
from semclass.ranking.explain import WORD, folded
from semclass.ranking.methods import DEFAULT, METHODS, RERANKING

MIN_LINES, MAX_LINES = 3, 8  # lines of a passage that are shown: more than the least only for a longer best sentence

INDENT = " " * 4

SIMILAR_COSINE = 0.5  # cosine from which a word counts as similar to a word of the question
WEIGHT_SHARE = 0.4  # share of the mean weight from which a word of the question counts: "on" and "the" do not
MIN_ASKED = 0.1  # probability from which a class of the question is shown

_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")


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


def print_result(
    question: str, result: semclass.SearchResult, models: semclass.Models, *, explain: bool, as_json: bool
) -> None:
    """Print a ranking. If `explain`, show the explanations, which all hits have, and the question's class."""
    label = models.questions.classify([question])[0] if explain and models.has_classes else None
    if as_json:
        record = {name: value for name, value in vars(result).items() if value is not None}
        record["hits"] = [asdict(hit) for hit in result]
        for fields in record["hits"]:
            explanation = fields.pop("explanation")
            fields |= {"sentence": explanation["sentence"], **({"explanation": explanation} if explain else {})}
        if label is not None:
            record["question"] = {"label": label.label, "probabilities": dict(label.probabilities)}
        show(record, "", as_json=True)
        return
    if label is not None:
        echo(f"answer type of the question: {label.label} ({label.probability:.3f})\n")
    if not result:
        echo("no matching passages", err=True)
    if result.query_used not in (question, ""):
        echo(f"question used for the search: {shorten(result.query_used)}", err=True)
    width = max(shutil.get_terminal_size().columns, 40)
    for hit in result:
        certainty = result.certainty if hit.rank == 1 else None
        lines = [*lines_of(hit, width, certainty), *(_explained(hit, width) if explain else ())]
        echo("\n".join([*([""] if hit.rank > 1 else []), *lines]), styled=True)


def lines_of(hit: semclass.Hit, width: int, certainty: str | None = None) -> Iterator[str]:
    """Yield the lines of a hit: document, page and headings with the score, then the text around the best sentence."""
    words = frozenset(folded(word.word if word.exact else word.match) for word in _matching(hit.explanation))
    score = " ".join(filter(None, (certainty, f"{hit.score:.3f}")))
    room = width - len(INDENT) - len(score)
    place = place_of(hit.id, hit.metadata, room - 2)
    yield f"{hit.rank:>2}  {_bold(place, words)}{' ' * (room - len(place))}{score}"
    sentence = None if hit.explanation is None else hit.explanation.sentence
    for line in snippet(hit.text, sentence, width - len(INDENT), rows=bool(hit.metadata.get("table"))):
        yield f"{INDENT}{_bold(line, words)}"


def place_of(passage: str, metadata: Mapping[str, Any], room: int) -> str:
    """Return the place of a passage: document, page, and as many headings as fit. Without a document, return id and title.

    For a message, return the file, the number of the message in the file, the sender and the date.
    """

    def text(*names: str) -> str:
        return next((clean(value) for name in names if isinstance(value := metadata.get(name), str) and value), "")

    sender = text("sender_name", "sender")
    numbers = [f"{name} {metadata[name]}" for name in ("page", "message") if isinstance(metadata.get(name), int)]
    name = (text("file") if sender else "") or text("document") or clean(passage)
    start = " · ".join(filter(None, [name, *numbers, sender and f"{sender} {text('date')[:10]}".rstrip()]))
    headings = metadata.get("headings") or [metadata.get("heading") or metadata.get("title")]
    headings = [clean(heading) for heading in headings if isinstance(heading, str) and heading.strip()]
    paths = [" › ".join(["…"] * (first > 0) + headings[first:]) for first in range(len(headings))]
    places = [f"{start} · {path}" for path in paths] or [start]
    return _cut(next((place for place in places if len(place) <= room), places[-1]), room)


def clean(text: str) -> str:
    """Return a text in one line, without control characters."""
    return " ".join(plain(text).split())


def snippet(text: str, sentence: tuple[int, int] | None, width: int, *, rows: bool = False) -> list[str]:
    """Wrap a short text, or the part of a text from its best sentence on. Items and rows begin on lines of their own."""
    whole = _wrapped(text, width, rows=rows)
    if len(whole) <= MIN_LINES or not text.strip():
        return whole
    start, end = sentence or (0, 0)
    before = "… " if text[:start].strip() else ""
    lines = _wrapped(before + text[start:].lstrip(), width, rows=rows)
    needed = len(_wrapped(before + text[start:end], width, rows=rows))
    shown = lines[: min(max(MIN_LINES, needed), MAX_LINES)]
    return shown if len(shown) == len(lines) else [*shown[:-1], f"{_cut(shown[-1] + ' ', width - 1).rstrip('… ')} …"]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _wrapped(text: str, width: int, *, rows: bool) -> list[str]:
    """Wrap a text; each row of a table, item of a list and paragraph begins on a new line."""
    parts: list[str] = []
    joins = False
    for line in text.split("\n"):
        shown = clean(line).lstrip("#").lstrip()
        if shown and joins and not (rows or _ITEM.match(line)):
            parts.append(f"{parts.pop()} {shown}")
        elif shown:
            parts.append(shown)
        joins = bool(shown)
    return [line for part in parts for line in textwrap.wrap(part, width, break_on_hyphens=False)]


def _matching(explanation: semclass.Explanation | None) -> list[WordMatch]:
    """Words of the question that a passage has, or has a similar word for."""
    words = () if explanation is None else explanation.words
    least = WEIGHT_SHARE * sum(word.weight for word in words) / max(len(words), 1)
    near = (len(word.match) > 3 or any(map(str.isdigit, word.match)) for word in words)
    return [
        word
        for word, telling in zip(words, near, strict=True)
        if word.weight >= least and (word.exact or (word.cosine >= SIMILAR_COSINE and telling))
    ]


def _bold(line: str, words: frozenset[str]) -> str:
    """Print some words in bold. Where the output is no terminal, click removes the codes."""
    return WORD.sub(lambda match: click.style(match[0], bold=True) if folded(match[0]) in words else match[0], line)


def _explained(hit: semclass.Hit, width: int) -> Iterator[str]:
    explanation = hit.explanation
    if explanation is None:
        return

    def terms(values: Mapping[str, float], sign: str) -> str:
        return ", ".join(f"{name} {value:{sign}.3f}" for name, value in values.items())

    moved = "" if hit.rank == hit.rank_before else f"; place {hit.rank_before} before re-ranking"
    lines = [f"score {explanation.total:.3f} = {terms(explanation.parts, '+')}{moved}", terms(hit.components, "")]
    words = _matching(explanation)
    if same := [word.word for word in words if word.exact]:
        lines.append(f"the same words: {', '.join(same)}")
    if near := [f"{word.word} ~ {word.match} {word.cosine:.2f}" for word in words if not word.exact]:
        lines.append(f"similar words: {', '.join(near)}")
    if explanation.classes:
        classes = [c for c in explanation.classes if c.asked >= MIN_ASKED]
        shown = ", ".join(f"{c.name} asked {c.asked:.2f} provided {c.provided:.2f}" for c in classes)
        lines.append(f"classes: {shown}; provides {' '.join(hit.labels) or '-'}")
    for line in lines:
        yield from textwrap.wrap(clean(line), width, initial_indent=f"{INDENT}- ", subsequent_indent=f"{INDENT}  ")
