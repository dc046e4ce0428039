"""Hits as people read them: place, best sentence, and matching words in bold."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

import semclass
from semclass.cli.options import echo, plain, shorten, show
from semclass.core.types import WordMatch
from semclass.ranking.explain import WORD, folded

MIN_LINES, MAX_LINES = 3, 8  # lines of a passage that are shown: more than the least only for a longer best sentence

INDENT = " " * 4

SIMILAR_COSINE = 0.5  # cosine from which a word counts as similar to a word of the question
WEIGHT_SHARE = 0.4  # share of the mean weight from which a word of the question counts: "on" and "the" do not
MIN_ASKED = 0.1  # probability from which a class of the question is shown

_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")


def print_result(
    question: str, result: semclass.SearchResult, models: semclass.Models, *, explain: bool, as_json: bool
) -> None:
    """Print a ranking, whose hits all have an explanation; it and the question's class are shown if `explain`."""
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
        echo(f"asks for {label.label} ({label.probability:.3f})\n")
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
    for line in excerpt(hit.text, sentence, width - len(INDENT), rows=bool(hit.metadata.get("table"))):
        yield f"{INDENT}{_bold(line, words)}"


def place_of(passage: str, metadata: Mapping[str, Any], room: int) -> str:
    """Name the place of a passage: document, page, and as many headings as fit; without a document, id and title.

    Of mail, these are the file, the number of the message in it, who sent it and when.
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


def excerpt(text: str, sentence: tuple[int, int] | None, width: int, *, rows: bool = False) -> list[str]:
    """Wrap a short text, or the text from its best sentence on. Items and rows begin on lines of their own."""
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
