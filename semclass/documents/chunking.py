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
"""Words of a window unless told otherwise, as in Karpukhin et al. 2020 (Dense Passage Retrieval), who cut Wikipedia so."""

ROWS = 100
"""Words up to which rows of a table stay together: a long table as one text would say everything and answer nothing."""

WRAPPED = 0.8
"""Share of a paragraph's longest line that a line, with the next one's first word, must exceed to count as wrapped."""

_SOFT_BREAK = re.compile(r"(?<!  )(?<!\\)\n")
_WORD = re.compile(r"\S+")
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
        section in stretches of whole sentences, as many as `size` allows, each beginning with the last sentences of
        the one before.
    size
        The most that a passage may hold, as `count` counts; what is longer is cut between sentences, and a sentence that
        is longer between words. None: 100 words for windows, no limit for the others. A single word and a row of
        a table may be longer, as half of one says nothing.
    overlap
        How much of the passage before is repeated where `size` cuts: the last whole sentences that together hold at
        most this much, less than `size`. A passage starts at a sentence, so that it can be read and classified.
    count
        Counts a sentence; a passage holds the sum. Words by default. ``lambda text: encoder.tokenize([text]).lengths()[0]``
        counts the word pieces of an :class:`semclass.OnnxEncoder`, ``lambda text: 1`` sentences.
    markdown
        Whether the text is Markdown. Then headings, front matter, rules, comments, link definitions and lines of HTML
        tags alone are no passages, and a table reads "column: value; column: value", one row a line, about 100 words to
        a passage.

    Returns
    -------
    iterator of Passage
        In the order of the document, with the ids ``document#number``, from 1. Metadata: ``document``; the number under
        the name of `by`; ``start`` and ``end``, characters of `text`, which hold the passage unless ``table`` is there;
        ``heading`` (the nearest) and ``headings`` (outermost first), if it has any; ``page`` from 1, if there are form
        feeds; ``table`` (true) for text that was made of rows of a table.

    Raises
    ------
    InputError
        If `by` is not one of these, or a size is out of range.
    InputTypeError
        If something is of the wrong kind.
    """
    if not isinstance(text, str):
        raise InputTypeError(f"text must be a string, not {type(text).__name__}")
    check_text(document, "document")
    size = check_cut(by, size, overlap)
    return _passages(text, document, by, _Limit(size, overlap, count), markdown=markdown)


def check_cut(by: str, size: int | None, overlap: int) -> int | None:
    """Refuse a way of cutting that cannot be; give the size that applies."""
    check_choice(by, CUTS, "by")
    size = check_positive(size, "size") if size is not None else WINDOW if by == "window" else None
    if overlap != 0:
        check_positive(overlap, "overlap")
        if size is None:
            raise InputError(f"overlap is {overlap}, but without a size nothing is repeated; give size, or by='window'")
        if overlap >= size:
            raise InputError(f"overlap is {overlap}; it must be less than size, which is {size}")
    return size


@dataclass(frozen=True)
class _Limit:
    """How much a passage may hold, and how that is counted."""

    size: int | None
    overlap: int
    count: Callable[[str], int]


_Stretch: TypeAlias = "tuple[Block, list[Unit], dict[str, Any]]"
"""The units that make a passage, the first block of theirs, and metadata that only some cuts have."""


def _passages(text: str, document: str, by: str, limit: _Limit, *, markdown: bool) -> Iterator[Passage]:
    blocks = read_blocks(text, markdown=markdown)
    for number, (block, units, more) in enumerate(_CUTTERS[by](text, blocks, limit, markdown), 1):
        start, end = units[0].start, units[-1].end
        made = any(unit.text is not None for unit in units)
        metadata: dict[str, Any] = {"document": document, by: number, **more, "start": start, "end": end}
        if block.page is not None:
            metadata["page"] = block.page
        if block.headings:
            metadata["heading"] = block.headings[-1]
            metadata["headings"] = list(block.headings)
        if made:
            metadata["table"] = True
        yield Passage(f"{document}#{number}", _read(text, units) if made else text[start:end], metadata)


def _by_paragraph(text: str, blocks: Iterable[Block], limit: _Limit, markdown: bool) -> Iterator[_Stretch]:
    for block in blocks:
        if limit.size is None:
            found: Iterable[list[Unit]] = _paragraphs(text, block)
        else:
            found = _filled(text, _sentences(text, block, limit, markdown), limit)
        yield from ((block, units, {}) for units in found)


def _by_sentence(text: str, blocks: Iterable[Block], limit: _Limit, markdown: bool) -> Iterator[_Stretch]:
    paragraph = 0
    for block in blocks:
        for together in _paragraphs(text, block):
            paragraph += 1
            units = together if block.kind == "table" else _sentences(text, block, limit, markdown)
            for unit in units:
                marker = _MARKER.match(text, unit.start, unit.end) if block.kind == "list" else None
                sentence = Unit(marker.end(), unit.end) if marker else unit
                yield from ((block, cut, {"paragraph": paragraph}) for cut in _filled(text, [sentence], limit))


def _by_section(text: str, blocks: Iterable[Block], limit: _Limit, markdown: bool) -> Iterator[_Stretch]:
    for _, together in groupby(blocks, key=lambda block: block.section):
        section = list(together)
        if limit.size is None:
            yield section[0], [unit for block in section for unit in _rows(block)], {}
        else:
            units = (unit for block in section for unit in _sentences(text, block, limit, markdown))
            yield from ((section[0], group, {}) for group in _filled(text, units, limit))


_CUTTERS: dict[str, Callable[[str, Iterable[Block], _Limit, bool], Iterator[_Stretch]]] = {
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
    return _filled(text, _rows(block), _Limit(ROWS if block.kind == "table" else None, 0, count_words))


def _sentences(text: str, block: Block, limit: _Limit, markdown: bool) -> Iterator[Unit]:
    """Give what a block may be cut into."""
    if block.kind == "table":
        yield from block.units
    elif block.kind == "code":
        fits = limit.size is None or limit.count(text[block.start : block.end]) <= limit.size
        yield from [Unit(block.start, block.end)] if fits else block.units
    else:
        for unit in block.units or (Unit(block.start, block.end),):
            spans = sentence_spans(_unwrapped(text[unit.start : unit.end], markdown=markdown))
            yield from (Unit(unit.start + start, unit.start + end) for start, end in spans)


def _unwrapped(paragraph: str, *, markdown: bool) -> str:
    """Put a space for each end of a line that ends nothing but the line, so that no character moves.

    In Markdown these are all but hard breaks. Elsewhere a line was wrapped where the first word of the next would not
    have fitted; one fifth of the longest line is allowed for, as lines of printed pages are not equally full.
    """
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


def _filled(text: str, units: Iterable[Unit], limit: _Limit) -> Iterator[list[Unit]]:
    """Put units together, as many as the limit allows, each group beginning with the last of the one before."""
    group: list[tuple[Unit, int]] = []
    total = 0
    for unit, held in _fitting(text, units, limit):
        if group and limit.size is not None and total + held > limit.size:
            yield [one for one, _ in group]
            group = _repeated(group, min(limit.overlap, limit.size - held))
            total = sum(counted for _, counted in group)
        group.append((unit, held))
        total += held
    if group:
        yield [one for one, _ in group]


def _repeated(group: list[tuple[Unit, int]], room: int) -> list[tuple[Unit, int]]:
    """Give the last units that fit into the room, never all of them."""
    first = len(group)
    while first > 1 and group[first - 1][1] <= room:
        first -= 1
        room -= group[first][1]
    return group[first:]


def _fitting(text: str, units: Iterable[Unit], limit: _Limit) -> Iterator[tuple[Unit, int]]:
    """Give units with their counts; one that is too long in stretches of whole words, but a row of a table as it is."""
    if limit.size is None:
        yield from ((unit, 0) for unit in units)
        return
    for unit in units:
        held = limit.count(text[unit.start : unit.end] if unit.text is None else unit.text)
        if held <= limit.size or unit.text is not None:
            yield unit, held
        else:
            yield from _words(text, unit, limit.size, limit.count)


def _words(text: str, unit: Unit, size: int, count: Callable[[str], int]) -> Iterator[tuple[Unit, int]]:
    """Cut a unit into stretches of whole words, each with its count."""
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


def _read(text: str, units: list[Unit]) -> str:
    """Write units out: rows of tables as they read, all between them as it stands."""
    parts: list[str] = []
    for made, run in groupby(units, key=lambda unit: unit.text is not None):
        together = list(run)
        if made:
            parts += [unit.text or "" for unit in together]
        else:
            parts.append(text[together[0].start : together[-1].end])
    return "\n".join(parts)
