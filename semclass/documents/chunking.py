"""Cutting documents into passages: paragraphs, sentences, windows with overlap, sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, TypeAlias

from semclass.core.checks import check_choice, check_positive, check_text
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Passage
from semclass.documents.blocks import Block, Unit, read_blocks
from semclass.documents.sentences import sentence_spans

CUTS = ("paragraph", "sentence", "window", "section")
"""Ways to cut a document."""

WINDOW = 100
"""Words of a window by default, as in Karpukhin et al. 2020 (Dense Passage Retrieval), who cut Wikipedia so."""

ROWS = 100
"""Words of a passage of table rows: a long table as one passage would match everything and answer nothing."""

WRAPPED = 0.8
"""A line was wrapped if it, with the next line's first word, exceeds this share of the paragraph's longest line."""

_WORD = re.compile(r"\S+")
_SOFT_BREAK = re.compile(r"(?<!  )(?<!\\)\n")
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")


def count_words(text: str) -> int:
    """Count the words of a text: what white space separates."""
    return len(text.split())


def cut(
    text: str,
    document: str,
    *,
    by: str = "paragraph",
    size: int | None = None,
    overlap: int = 0,
    count: Callable[[str], int] = count_words,
    markdown: bool = False,
) -> Iterator[Passage]:
    """Cut a document into passages.

    Parameters
    ----------
    text
        The document. A form feed starts a new page, as in the output of ``pdftotext``; a passage is never of two pages.
    document
        Its name, from which the ids are made.
    by
        ``"paragraph"``: at blank lines; in Markdown, lists and fenced code stay whole. ``"sentence"``: at the ends of
        sentences, list items and rows of tables. ``"section"``: all that stands under one heading. ``"window"``: a
        section in stretches of whole sentences, as many as `size` allows.
    size
        The most that a passage may hold, as `count` counts; what is longer is cut between sentences, and a longer sentence
        between words. A single word and a row of a table may be longer. None: 100 words for windows, no limit for the
        others.
    overlap
        How much of the passage before is repeated where `size` cuts, less than `size`: the last whole sentences that fit.
    count
        Counts a sentence; a passage holds the sum. ``lambda text: encoder.tokenize([text]).lengths()[0]`` counts the word
        pieces of an :class:`semclass.OnnxEncoder`, ``lambda text: 1`` sentences.
    markdown
        Whether the text is Markdown: CommonMark with GitHub's tables. Then headings, front matter, rules, link
        definitions, and paragraphs of HTML tags and comments alone are no passages. A table reads "column: value; column:
        value", one row a line, about 100 words to a passage.

    Returns
    -------
    iterator of Passage
        In the order of the document, with the ids ``document#number``, from 1. Metadata: ``document``; the number under
        the name of `by`; ``start`` and ``end``, characters of `text`, which hold the passage unless ``table`` is there;
        ``heading`` (the nearest) and ``headings`` (outermost first); ``page`` from 1, if there are form feeds; ``table``
        (true) for text that was made of rows of a table.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or the text is not a string.
    """
    if not isinstance(text, str):
        raise InputTypeError(f"text must be a string, not {type(text).__name__}")
    check_text(document, "document")
    size = check_cut(by, size, overlap)
    return _passages(text, document, by, _Limit(size, overlap, count, markdown))


def check_cut(by: str, size: int | None, overlap: int) -> int | None:
    """Check how to cut, and give the size that applies."""
    check_choice(by, CUTS, "by")
    size = check_positive(size, "size") if size is not None else WINDOW if by == "window" else None
    if overlap != 0:
        check_positive(overlap, "overlap")
        if size is None:
            raise InputError(f"overlap is {overlap}, but without a size nothing overlaps; give size, or by='window'")
        if overlap >= size:
            raise InputError(f"overlap is {overlap}; it must be less than size, which is {size}")
    return size


@dataclass(frozen=True)
class _Limit:
    size: int | None
    overlap: int
    count: Callable[[str], int]
    markdown: bool


_Piece: TypeAlias = tuple[Block, list[Unit], dict[str, Any]]
"""The units of a passage, its first block, and metadata that only some cuts have."""


def _passages(text: str, document: str, by: str, limit: _Limit) -> Iterator[Passage]:
    blocks = read_blocks(text, markdown=limit.markdown)
    for number, (block, units, more) in enumerate(_CUTTERS[by](text, blocks, limit), 1):
        start, end = units[0].start, units[-1].end
        table = any(unit.text is not None for unit in units)
        metadata: dict[str, Any] = {"document": document, by: number, **more, "start": start, "end": end}
        if block.page is not None:
            metadata["page"] = block.page
        if block.headings:
            metadata["heading"] = block.headings[-1]
            metadata["headings"] = list(block.headings)
        if table:
            metadata["table"] = True
        yield Passage(f"{document}#{number}", _written(text, units) if table else text[start:end], metadata)


def _by_paragraph(text: str, blocks: Iterable[Block], limit: _Limit) -> Iterator[_Piece]:
    for block in blocks:
        units = _paragraphs(text, block) if limit.size is None else _pack(text, _sentences(text, block, limit), limit)
        yield from ((block, group, {}) for group in units)


def _by_sentence(text: str, blocks: Iterable[Block], limit: _Limit) -> Iterator[_Piece]:
    paragraph = 0
    for block in blocks:
        for group in _paragraphs(text, block):
            paragraph += 1
            for unit in group if block.kind == "table" else _sentences(text, block, limit):
                marker = _MARKER.match(text, unit.start, unit.end) if block.kind == "list" else None
                sentence = Unit(marker.end(), unit.end) if marker else unit
                yield from ((block, part, {"paragraph": paragraph}) for part in _pack(text, [sentence], limit))


def _by_section(text: str, blocks: Iterable[Block], limit: _Limit) -> Iterator[_Piece]:
    for _, grouped in groupby(blocks, key=lambda block: block.section):
        section = list(grouped)
        if limit.size is None:
            groups = iter([[unit for block in section for unit in _rows(block)]])
        else:
            groups = _pack(text, (unit for block in section for unit in _sentences(text, block, limit)), limit)
        yield from ((section[0], group, {}) for group in groups)


_CUTTERS: dict[str, Callable[[str, Iterable[Block], _Limit], Iterator[_Piece]]] = {
    "paragraph": _by_paragraph,
    "sentence": _by_sentence,
    "window": _by_section,
    "section": _by_section,
}


def _rows(block: Block) -> Sequence[Unit]:
    """Give the rows of a table, and any other block whole."""
    return block.units if block.kind == "table" else [Unit(block.start, block.end)]


def _paragraphs(text: str, block: Block) -> Iterator[list[Unit]]:
    """Give a table by groups of rows, and any other block whole."""
    limit = _Limit(ROWS if block.kind == "table" else None, 0, count_words, markdown=False)
    return _pack(text, _rows(block), limit)


def _sentences(text: str, block: Block, limit: _Limit) -> Iterator[Unit]:
    """Give the rows of a table, the lines of code that is too long, or the sentences of text and lists."""
    if block.kind == "table":
        yield from block.units
    elif block.kind == "code":
        fits = limit.size is None or limit.count(text[block.start : block.end]) <= limit.size
        yield from [Unit(block.start, block.end)] if fits else block.units
    else:
        for unit in block.units or (Unit(block.start, block.end),):
            spans = sentence_spans(_unwrapped(text[unit.start : unit.end], markdown=limit.markdown))
            yield from (Unit(unit.start + start, unit.start + end) for start, end in spans)


def _unwrapped(paragraph: str, *, markdown: bool) -> str:
    """Put a space for each line end that ends no sentence, so that no character moves: in Markdown all but hard breaks."""
    if "\n" not in paragraph:
        return paragraph
    if markdown:
        return _SOFT_BREAK.sub(" ", paragraph)
    lines = paragraph.split("\n")
    full = WRAPPED * max(len(line.strip()) for line in lines)
    joined = [lines[0]]
    for line, following in pairwise(lines):
        words = following.split(maxsplit=1)
        wrapped = bool(words) and len(line.strip()) + 1 + len(words[0]) > full
        joined += [" " if wrapped else "\n", following]
    return "".join(joined)


def _pack(text: str, units: Iterable[Unit], limit: _Limit) -> Iterator[list[Unit]]:
    """Group as many units as the limit allows; each group begins with the last units of the one before, as overlap."""
    group: list[tuple[Unit, int]] = []
    total = 0
    for unit, held in _fitting(text, units, limit):
        if group and limit.size is not None and total + held > limit.size:
            yield [one for one, _ in group]
            group = group[1:]  # a group is never repeated whole
            total = sum(counted for _, counted in group)
            while group and total > min(limit.overlap, limit.size - held):
                total -= group.pop(0)[1]
        group.append((unit, held))
        total += held
    if group:
        yield [one for one, _ in group]


def _fitting(text: str, units: Iterable[Unit], limit: _Limit) -> Iterator[tuple[Unit, int]]:
    """Give each unit with its count; what is too long is cut between words, except a row of a table."""
    for unit in units:
        held = 0 if limit.size is None else limit.count(text[unit.start : unit.end] if unit.text is None else unit.text)
        if limit.size is None or held <= limit.size or unit.text is not None:
            yield unit, held
        else:
            yield from _words(text, unit, limit.size, limit.count)


def _words(text: str, unit: Unit, size: int, count: Callable[[str], int]) -> Iterator[tuple[Unit, int]]:
    """Cut a unit between words into parts, each with its count."""
    start = end = unit.start
    total = 0
    for word in _WORD.finditer(text, unit.start, unit.end):
        held = count(word[0])
        if end > start and total + held > size:
            yield Unit(start, end), total
            start, total = word.start(), 0
        end = word.end()
        total += held
    yield Unit(start, end), total


def _written(text: str, units: list[Unit]) -> str:
    """Write units out: rows of tables with their columns, all between them as it stands."""
    parts: list[str] = []
    for table, run in groupby(units, key=lambda unit: unit.text is not None):
        group = list(run)
        parts += [unit.text or "" for unit in group] if table else [text[group[0].start : group[-1].end]]
    return "\n".join(parts)
