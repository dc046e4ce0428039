"""Hits as people read them: where each one stands, its best sentence, and the words that match in bold."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

import semclass
from semclass.cli.options import shorten, show
from semclass.cli.output import echo, plain
from semclass.core.types import WordMatch
from semclass.ranking.explain import WORD, folded

LINES = 3
"""Lines of a passage that are shown, or more if its best sentence is longer."""

MOST = 8
"""The most lines of it."""

INDENT = " " * 4

NEAR = 0.5
"""Cosine from which a word counts as near one of the question."""

COUNTS = 0.4
"""Share of the mean weight from which a word of the question counts: "on" and "the" do not."""

_ASKED = 0.1
"""Probability from which a class of the question is told."""

_PARTS = {
    "dense": "meaning",
    "bm25": "words (BM25)",
    "rrf": "ranks",
    "match": "class match",
    "class": "class match",
    "entailment": "answers the question",
    "entails": "answers the question",
    "retrieval": "first search",
    "sentences": "best sentence",
    "meaning": "similar words",
    "words": "the same words",
    "classes": "classes",
    "answers": "provides the answer type",
    "deep": "read together",
    "average": "average candidate",
}
"""Names of the parts of a score."""

_COMPONENTS = {
    "dense": "similarity of meaning",
    "bm25": "BM25",
    "match": "class match",
    "relevance": "probability that it answers",
    "entails": "judged to answer",
}

_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")
_HEADING = re.compile(r"^#{1,6} ")


def print_result(
    question: str,
    result: semclass.SearchResult,
    label: semclass.QuestionLabel | None,
    *,
    explain: bool,
    as_json: bool,
) -> None:
    """Print a ranking, all hits with an explanation, which is shown if `explain`; and the question's class if given."""
    if as_json:
        record = {name: value for name, value in vars(result).items() if value is not None}
        record["hits"] = [_record(hit, explain=explain) for hit in result]
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


def _record(hit: semclass.Hit, *, explain: bool) -> dict[str, Any]:
    """A hit as JSON has it."""
    record = asdict(hit)
    explanation = record.pop("explanation")
    record["labels"] = list(hit.labels)
    if explanation is not None:
        record["sentence"] = explanation["sentence"]
    if explain:
        record["explanation"] = explanation
    return record


def lines_of(hit: semclass.Hit, width: int, certainty: str | None = None) -> Iterator[str]:
    """The lines of a hit: document, page and headings with the score, then the text around the best sentence."""
    words = frozenset(folded(met.word if met.exact else met.match) for met in _matching(hit.explanation))
    score = " ".join(filter(None, (certainty, f"{hit.score:.3f}")))
    room = width - len(INDENT) - len(score)
    place = place_of(hit.id, hit.metadata, room - 2)
    yield f"{hit.rank:>2}  {_marked(place, words)}{' ' * (room - len(place))}{score}"
    sentence = None if hit.explanation is None else hit.explanation.sentence
    for line in excerpt(hit.text, sentence, width - len(INDENT), rows=bool(hit.metadata.get("table"))):
        yield f"{INDENT}{_marked(line, words)}"


def place_of(passage: str, known: Mapping[str, Any], room: int) -> str:
    """Where a passage stands: document and page, then as many headings as fit; of others, the id and the title."""
    document, page = known.get("document"), known.get("page")
    name = clean(document if isinstance(document, str) and document else passage)
    start = f"{name} · page {page}" if isinstance(page, int) else name
    given = known.get("headings") or [known.get("heading") or known.get("title")]
    headings = [clean(each) for each in given if isinstance(each, str) and each.strip()]
    paths = [" › ".join(["…"] * (first > 0) + headings[first:]) for first in range(len(headings))]
    places = [f"{start} · {path}" for path in paths] or [start]
    found = next((place for place in places if len(place) <= room), places[-1])
    return found if len(found) <= room else f"{found[: room - 1]}…"


def clean(text: str) -> str:
    """One line of a text, without what a terminal takes for commands."""
    return " ".join(plain(text).split())


def excerpt(text: str, sentence: tuple[int, int] | None, width: int, *, rows: bool = False) -> list[str]:
    """Lines of a text, whose items, rows and code begin on new ones: all if it is short, else from its best sentence on."""
    whole = _wrapped(text, width, rows=rows)
    if len(whole) <= LINES or not text.strip():
        return whole
    start, end = sentence or (0, 0)
    before = "… " if text[:start].strip() else ""
    code = text.count("```", 0, start) % 2 == 1
    lines = _wrapped(before + text[start:].lstrip(), width, rows=rows, code=code)
    most = min(max(LINES, len(_wrapped(before + text[start:end], width, rows=rows, code=code))), MOST)
    if len(lines) <= most:
        return lines
    shown = lines[:most]
    while len(shown[-1]) + 2 > width:
        shown[-1] = shown[-1].rpartition(" ")[0] or shown[-1][: width - 2]
    return [*shown[:-1], f"{shown[-1]} …"]


def _wrapped(text: str, width: int, *, rows: bool, code: bool = False) -> list[str]:
    """Wrap a text; each row of a table, item of a list, paragraph and line of code begins on a new line."""
    parts: list[str] = []
    before = ""
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            code = not code
        elif code and line.strip():
            indent = " " * (len(line) - len(line.lstrip()))
            parts.append(indent + clean(line))
        elif line.strip():
            starts = rows or not before.strip() or _ITEM.match(line)
            shown = _HEADING.sub("", clean(line))
            parts += [shown] if starts or not parts else [f"{parts.pop()} {shown}"]
        before = "" if code else line
    return [line for part in parts for line in textwrap.wrap(part, width, break_on_hyphens=False)]


def _matching(explanation: semclass.Explanation | None) -> list[WordMatch]:
    """What is told of the question's words: those that a passage has, or has something near."""
    if explanation is None or not explanation.words:
        return []
    least = COUNTS * sum(word.weight for word in explanation.words) / len(explanation.words)
    return [
        word
        for word in explanation.words
        if word.weight >= least and (word.exact or (word.cosine >= NEAR and _tells(word.match)))
    ]


def _tells(word: str) -> bool:
    return len(word) > 3 or any(map(str.isdigit, word))


def _marked(line: str, words: frozenset[str]) -> str:
    """A line with some words in bold, which is left out where the output is no terminal."""
    return WORD.sub(lambda found: click.style(found[0], bold=True) if folded(found[0]) in words else found[0], line)


def _explained(hit: semclass.Hit, width: int) -> Iterator[str]:
    """Lines that say what a score was made of."""
    explanation = hit.explanation
    if explanation is None:
        return
    lines = []
    moved = "" if hit.rank == hit.rank_before else f"; place {hit.rank_before} before re-ranking"
    terms = ", ".join(f"{_PARTS.get(name, name)} {value:+.3f}" for name, value in explanation.parts.items())
    meaning = "score" if explanation.link == "identity" else "log-odds"
    lines.append(f"{meaning} {explanation.total:.3f} = {terms}{moved}")
    lines.append(", ".join(f"{_COMPONENTS.get(name, name)} {value:.3f}" for name, value in hit.components.items()))
    shown = _matching(explanation)
    if same := [word.word for word in shown if word.exact]:
        lines.append(f"the same words: {', '.join(same)}")
    if near := [f"{word.word} ~ {word.match} {word.cosine:.2f}" for word in shown if not word.exact]:
        lines.append(f"similar words: {', '.join(near)}")
    if explanation.classes:
        some = [item for item in explanation.classes if item.asked >= _ASKED]
        classes = ", ".join(f"{item.name} asked {item.asked:.2f} provided {item.provided:.2f}" for item in some)
        lines.append(f"classes: {classes}; provides {' '.join(hit.labels) or '-'}")
    for line in lines:
        wrapped = textwrap.wrap(clean(line), width, initial_indent=f"{INDENT}- ", subsequent_indent=f"{INDENT}  ")
        yield from wrapped
