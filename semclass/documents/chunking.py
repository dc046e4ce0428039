"""Cuts documents into passages: paragraphs, sentences, windows with overlap, or sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from typing import Any, TypeAlias

from semclass.core.checks import check_choice, check_positive, check_text
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Passage
from semclass.documents.blocks import MARKER, Block, Unit, introduces, read_blocks, wrapped_lines
from semclass.documents.furniture import is_stub
from semclass.documents.myst import without_marks
from semclass.documents.parting import Vectors, parts
from semclass.documents.sentences import sentence_spans
from semclass.documents.stretches import PASSAGE, stretches, trimmed

CUTS = ("paragraph", "sentence", "window", "section", "meaning")
"""Ways to cut a document."""

WINDOW = 100
"""Default number of words of a window, as for Wikipedia in Karpukhin et al. 2020 (Dense Passage Retrieval)."""

ROWS = 100
"""Most words of a passage of table rows. A long table as one passage would match every question and answer none."""

SMALL = 8
"""Words below which a paragraph is joined to its neighbour, such as "Note", a term before its definition, or a line
before code.
"""

FULL = 80
"""Words up to which a passage takes up the next paragraph of its section, unless that makes it twice as long.

Chosen from 8 (no more than small ones), 40, 80 and 120 on four domains of documentation.
"""

TOGETHER = 1024
"""Most sentences of a section that are compared at a time. This bounds memory."""

READ = 2000
"""Most characters of a sentence, a table row or code that are compared."""

_WORD = re.compile(r"\S+")
_SPOKEN = re.compile(r"[^\W_]\S*")
_SOFT_BREAK = re.compile(r"(?<!  )(?<!\\)\n[ \t]*")
_ESCAPED = re.compile(r"^([ \t]*)\\(?=[#<>`~*+=_\[-])", re.MULTILINE)
_SIZED = ("window", "meaning")
_WRITTEN = ("table", "html")


def count_words(text: str) -> int:
    """Count the words of a text, separated by white space."""
    return len(text.split())


def cut(
    text: str,
    document: str,
    *,
    by: str = "paragraph",
    size: int | None = None,
    overlap: int = 0,
    count: Callable[[str], int] = count_words,
    vectors: Vectors | None = None,
    markdown: bool = False,
) -> Iterator[Passage]:
    """Cut a document into passages.

    Parameters
    ----------
    text
        The document. A form feed starts a new page, as in the output of ``pdftotext``. No passage spans two pages. Page
        numbers, and lines at the top or bottom of most pages, are left out.
    document
        Name of the document. The ids of the passages begin with it.
    by
        ``"paragraph"`` cuts at blank lines. In Markdown, lists and fenced code stay whole. Paragraphs of fewer than 8
        words are joined to a neighbour, or to their heading if nothing else follows it. Below a heading, paragraphs are
        joined until they have about 80 words, unless `size` is given. ``"sentence"`` cuts at the ends
        of sentences, list items and table rows. ``"section"`` keeps all text under one heading together. ``"window"``
        makes runs of whole sentences within a section, as many as `size` allows. ``"meaning"`` makes runs of whole
        sentences within a section, and cuts where `vectors` of neighbouring sentences differ most. With every way, text
        that ends in a colon stays with the first item of the list below it, if `size` allows.
    size
        Most units of a passage, as counted by `count`. Longer passages are cut between sentences, and longer sentences
        between words. A single word and a table row may be longer. By default, `size` is 100 words for ``"window"`` and
        ``"meaning"``. Otherwise the only limit is 50,000 characters, which no passage exceeds.
    overlap
        How many units of the previous passage to repeat after a cut by `size`, less than `size`. The last sentences
        that fit are repeated.
    count
        Function that counts the units of a sentence. The length of a passage is the sum over its sentences. ``lambda
        text: encoder.tokenize([text]).lengths()[0]`` counts word pieces of an :class:`semclass.OnnxEncoder`, and
        ``lambda text: 1`` counts sentences.
    vectors
        Function that returns a vector for each of n texts, of shape (n, dim), such as ``lambda texts:
        encoder.encode(texts).pooled``. It is needed for ``by="meaning"``.
    markdown
        Whether the text is Markdown (CommonMark with GitHub's tables). The passages of Markdown leave out headings,
        front matter, rules, link definitions, and HTML tags, comments, scripts and styles. A table row is written as
        "column: value; column: value", one row per line, with about 100 words per passage.

    Returns
    -------
    iterator of Passage
        The passages, in the order of the document, with the ids ``document#number``, from 1. The metadata hold
        ``document``, the number under the name of `by`, ``start`` and ``end`` (the characters of `text` that hold the
        passage and omitted marks), ``heading`` (the nearest heading) and ``headings`` (all headings, outermost first).
        They also hold ``page`` from 1, if the text has form feeds, and ``table`` (true) for text of table rows.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or the text is not a string.
    """
    return cut_document(text, document, Cutting(by, size, overlap, count, vectors), markdown=markdown)


@dataclass(frozen=True)
class Cutting:
    """How to cut documents. The options are the same as in :func:`cut`."""

    by: str = "paragraph"
    size: int | None = None
    overlap: int = 0
    count: Callable[[str], int] = count_words
    vectors: Vectors | None = None

    def __post_init__(self) -> None:
        """Check the options, and set a size where none is given but needed."""
        check_choice(self.by, CUTS, "by")
        if self.by == "meaning" and self.vectors is None:
            raise InputError("by='meaning' needs vectors; give vectors=lambda texts: encoder.encode(texts).pooled")
        if self.size is not None:
            check_positive(self.size, "size")
        elif self.by in _SIZED:
            object.__setattr__(self, "size", WINDOW)
        if self.overlap != 0:
            check_positive(self.overlap, "overlap")
            if self.size is None:
                raise InputError(f"overlap is {self.overlap}, but overlap needs a size; give size, or by='window'")
            if self.overlap >= self.size:
                raise InputError(f"overlap is {self.overlap}; it must be less than size, which is {self.size}")


_Piece: TypeAlias = tuple[Block, list[Unit], dict[str, Any]]
"""The units of a passage, its first block, and metadata that only some cuts have."""


def cut_document(text: str, document: str, cutting: Cutting, *, markdown: bool = False) -> Iterator[Passage]:
    """Cut a document into passages, as :func:`cut` does."""
    if not isinstance(text, str):
        raise InputTypeError(f"text must be a string, not {type(text).__name__}")
    check_text(document, "document")
    return _passages(without_marks(text) if markdown else text, document, cutting, markdown=markdown)


def _passages(text: str, document: str, cutting: Cutting, *, markdown: bool) -> Iterator[Passage]:
    pieces = _CUTTERS[cutting.by](text, read_blocks(text, markdown=markdown), cutting)
    bounded = ((block, part, more) for block, units, more in pieces for part in _bounded(text, units))
    written = ((block, units, more, _written(text, units)) for block, units, more in bounded)
    kept = (one for one in written if not is_stub(one[3], one[0].headings))
    for number, (block, units, more, passage) in enumerate(kept, 1):
        start, end = units[0].start, units[-1].end
        metadata: dict[str, Any] = {"document": document, cutting.by: number, **more, "start": start, "end": end}
        if block.page is not None:
            metadata["page"] = block.page
        if block.headings:
            metadata["heading"] = block.headings[-1]
            metadata["headings"] = list(block.headings)
        if any(unit.row for unit in units):
            metadata["table"] = True
        yield Passage(f"{document}#{number}", passage, metadata)


def _by_paragraph(text: str, blocks: Iterable[Block], cutting: Cutting) -> Iterator[_Piece]:
    for _, grouped in groupby(blocks, key=lambda block: block.section):
        section = list(grouped)
        full = FULL if section[0].headings and not cutting.size else SMALL
        parts = section if cutting.size else [part for block in section for part in _parts(text, block)]
        for group in _joined(text, parts, full):
            if cutting.size is None:
                pieces = iter([[unit for block in group for unit in _rows(block)]])
            else:
                pieces = _pack(text, (unit for block in group for unit in _sentences(text, block, cutting)), cutting)
            yield from ((group[0], piece, {}) for piece in pieces)


def _by_sentence(text: str, blocks: Iterable[Block], cutting: Cutting) -> Iterator[_Piece]:
    for paragraph, part in enumerate((part for block in blocks for part in _parts(text, block)), 1):
        for unit in _sentences(text, part, cutting):
            is_item = part.kind == "list" and unit.text is None
            marker = MARKER.match(text, unit.start, unit.end) if is_item else None
            sentence = replace(unit, start=marker.end()) if marker else unit
            yield from ((part, piece, {"paragraph": paragraph}) for piece in _pack(text, [sentence], cutting))


def _by_section(text: str, blocks: Iterable[Block], cutting: Cutting) -> Iterator[_Piece]:
    for _, grouped in groupby(blocks, key=lambda block: block.section):
        section = list(grouped)
        if cutting.size is None:
            groups = iter([[unit for block in section for unit in _rows(block)]])
        else:
            groups = _pack(text, (unit for block in section for unit in _sentences(text, block, cutting)), cutting)
        yield from ((section[0], group, {}) for group in groups)


def _by_meaning(text: str, blocks: Iterable[Block], cutting: Cutting) -> Iterator[_Piece]:
    for _, grouped in groupby(blocks, key=lambda block: block.section):
        section = list(grouped)
        units = _fitting(text, (unit for block in section for unit in _sentences(text, block, cutting)), cutting)
        while read := list(islice(units, TOGETHER)):
            yield from ((section[0], group, {}) for group in _parted(text, read, cutting))


def _parted(text: str, units: Sequence[tuple[Unit, int]], cutting: Cutting) -> Iterator[list[Unit]]:
    """Group units where their meanings part; each group begins with the last units of the one before, as overlap."""
    if cutting.size is None or cutting.vectors is None or len(units) == 1:
        yield [unit for unit, _ in units]
        return
    counts = [held for _, held in units]
    texts = [" ".join(_written(text, [unit]).split())[:READ] for unit, _ in units]
    words = [count_words(one) for one in texts]
    ends = parts(cutting.vectors(texts), counts, cutting.size, small=words, least=SMALL)
    for start, end in pairwise([0, *ends]):
        first, left = start, min(cutting.overlap, cutting.size - sum(counts[start:end]))
        while first and counts[first - 1] <= left:
            first -= 1
            left -= counts[first]
        yield [unit for unit, _ in units[first:end]]


_CUTTERS: dict[str, Callable[[str, Iterable[Block], Cutting], Iterator[_Piece]]] = {
    "paragraph": _by_paragraph,
    "sentence": _by_sentence,
    "window": _by_section,
    "section": _by_section,
    "meaning": _by_meaning,
}


def _rows(block: Block) -> Sequence[Unit]:
    """Give the rows of a table, the sentences of HTML, the items of a list, and any other block whole."""
    return [Unit(block.start, block.end)] if block.kind == "code" else block.units


def _parts(text: str, block: Block) -> Iterator[Block]:
    """Give a table by groups of rows, and any other block whole."""
    if block.kind == "table":
        for rows in _pack(text, block.units, Cutting(size=ROWS)):
            yield replace(block, start=rows[0].start, end=rows[-1].end, units=tuple(rows))
    else:
        yield block


def _joined(text: str, section: Sequence[Block], full: int) -> Iterator[list[Block]]:
    """Join blocks to the one before while that is not full, and small ones in any case; at the end also to the heading.

    Tables are joined only if they, or what stands before them, are small.
    """
    groups: list[list[Block]] = []
    words, table = full, False
    for block in section:
        held = _up_to(2 * full, text, block)
        fits = words < full and words + held <= 2 * full and not table and block.kind not in _WRITTEN
        if groups and (words < SMALL or fits):
            groups[-1].append(block)
            words += held
        else:
            groups.append([block])
            words = held
        table = block.kind in _WRITTEN
    if words < SMALL and len(groups) > 1:
        small = groups.pop()
        groups[-1] += small
    elif words < SMALL and (heading := groups[0][0].heading):
        groups[0].insert(0, replace(groups[0][0], kind="text", start=heading.start, end=heading.end, units=(heading,)))
    yield from groups


def _up_to(most: int, text: str, block: Block) -> int:
    """Count the words of a block, signs alone aside, up to a number."""
    texts = (text[unit.start : unit.end] if unit.text is None else unit.text for unit in _rows(block))
    return len(list(islice((word for part in texts for word in _SPOKEN.finditer(part)), most)))


def _sentences(text: str, block: Block, cutting: Cutting) -> Iterator[Unit]:
    """Give the rows of a table, the lines of code that is too long, or the sentences of text and lists."""
    if block.kind in _WRITTEN:
        yield from block.units
    elif block.kind == "code":
        fits = cutting.size is None or cutting.count(text[block.start : block.end]) <= cutting.size
        yield from [Unit(block.start, block.end)] if fits else block.units
    else:
        sentences = (
            replace(unit, start=unit.start + start, end=unit.start + end)
            for unit in block.units
            for start, end in sentence_spans(_unwrapped(text[unit.start : unit.end], markdown=block.markdown))
        )
        yield from _introduced(text, sentences, cutting)


def _introduced(text: str, units: Iterator[Unit], cutting: Cutting) -> Iterator[Unit]:
    """Join what ends in a colon to the item of a list that follows it, where the two fit."""
    before = next(units)
    for unit in units:
        if before.text is None and introduces(text, before, unit):
            both = Unit(before.start, unit.end, _written(text, [before, unit]))
            if cutting.size is None or cutting.count(both.text or "") <= cutting.size:
                before = both
                continue
        yield before
        before = unit
    yield before


def _unwrapped(paragraph: str, *, markdown: bool) -> str:
    """Put a space for each line end that ends no sentence, so that no character moves: in Markdown all but hard breaks."""
    if "\n" not in paragraph:
        return paragraph
    if markdown:
        return _SOFT_BREAK.sub(lambda match: " " * len(match[0]), paragraph)
    first, *lines = paragraph.split("\n")
    ends = (" " if wrapped else "\n" for wrapped in wrapped_lines([first, *lines]))
    return first + "".join(end + line for end, line in zip(ends, lines, strict=True))


def _pack(text: str, units: Iterable[Unit], cutting: Cutting) -> Iterator[list[Unit]]:
    """Group as many units as the cutting allows; each group begins with the last units of the one before, as overlap."""
    group: list[tuple[Unit, int]] = []
    total = 0
    for unit, held in _fitting(text, units, cutting):
        if group and cutting.size is not None and total + held > cutting.size:
            yield [one for one, _ in group]
            group = group[1:]  # a group is never repeated whole
            total = sum(counted for _, counted in group)
            while group and total > min(cutting.overlap, cutting.size - held):
                total -= group.pop(0)[1]
        group.append((unit, held))
        total += held
    if group:
        yield [one for one, _ in group]


def _fitting(text: str, units: Iterable[Unit], cutting: Cutting) -> Iterator[tuple[Unit, int]]:
    """Give each unit with its count; what is too long is cut between words, except a row of a table."""
    for unit in units:
        held = (
            0
            if cutting.size is None
            else cutting.count(text[unit.start : unit.end] if unit.text is None else unit.text)
        )
        if cutting.size is None or held <= cutting.size or unit.text is not None:
            yield unit, held
        else:
            yield from _words(text, unit, cutting.size, cutting.count)


def _words(text: str, unit: Unit, size: int, count: Callable[[str], int]) -> Iterator[tuple[Unit, int]]:
    """Cut a unit between words into parts, each with its count."""
    start = end = unit.start
    total = 0
    for word in _WORD.finditer(text, unit.start, unit.end):
        held = count(word[0])
        if end > start and total + held > size:
            yield replace(unit, start=start, end=end), total
            start, total = word.start(), 0
        end = word.end()
        total += held
    yield replace(unit, start=start, end=end), total


def _bounded(text: str, units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Group as many units as a passage may hold in characters; what is longer is cut at lines, else between words."""
    group: list[Unit] = []
    total = 0
    for unit in units:
        written = unit.text
        if written is None:
            places = (trimmed(text, *span) for span in stretches(text, unit.start, unit.end, PASSAGE))
            parts = [replace(unit, start=start, end=end) for start, end in places]
        else:
            spans = stretches(written, 0, len(written), PASSAGE)
            parts = [replace(unit, text=written[start:end].strip()) for start, end in spans]
        for part in parts:
            length = part.end - part.start if part.text is None else len(part.text)
            if group and total + length > PASSAGE:
                yield group
                group, total = [], 0
            group.append(part)
            total += length
    yield group


def _written(text: str, units: Sequence[Unit]) -> str:
    """Write units out, each of `Unit.text` on a line, and what stands between the others unless it belongs to none."""
    before: Unit | None = None
    parts: list[str] = []
    for unit in units:
        if before is not None:
            gap = text[before.end : unit.start]
            parts.append("\n" if unit.text is not None or before.text is not None else "\n\n" if gap.strip() else gap)
        held = text[unit.start : unit.end] if unit.text is None else unit.text
        parts.append(_SOFT_BREAK.sub(" ", _ESCAPED.sub(r"\1", held)) if unit.wrapped else held)
        before = unit
    return "".join(parts)
