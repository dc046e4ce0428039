"""Converts PDF to Markdown. Larger letters mark headings, and ruled lines mark tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import pdfplumber
from pdfminer.pdftypes import stream_value

from semclass import Chunking
from semclass.plugins import Document, join_divided, mark_divided, paragraph, table, words_of
from semclass_documents.limits import MAX_PAGE, PAGES_SHARE, SPLIT, is_large, seconds_for
from semclass_documents.pdf_letters import upright_pages

LARGER = 1.12
"""Least factor by which letters of a heading are larger than letters of the text."""

SPACE = 0.15
"""Least width of a space between words, as a share of the size of letters. Narrow spaces have 0.25."""

HEADING_WORDS = 20
LEVELS = 4
"""Most levels of headings. The most frequent sizes of larger letters are the levels."""

MARGIN, STAMP_LINES = 0.08, 2
"""Share of a page at its edge where text in another direction is a stamp, and the most lines of a stamp."""

SAME_EDGES = 3
"""Most points between the column edges of a table and of its continuation on the next page."""

EDGE_LINES = 3
"""Most lines, such as footers and headers, below a table and above its continuation on the next page."""
PAGE_FIELDS = ("Contents", "Resources", "Annots", "MediaBox", "CropBox", "Rotate")
"""Fields of a page that determine what it shows."""

_BULLET = re.compile(r"^[•‣▪●◦■–∙·\uf0b7*-]\s+(?=\S)")
_LEADER = re.compile(r"(?:\s?\.){4,}")
_CAPTION = re.compile(r"(?:fig(?:ure|\.)|table|listing|chart|plate|diagram)\s+[A-Z]?\d", re.IGNORECASE)
_ENDED = re.compile(r"[.!?:;]['\")”’]?$")


@dataclass
class _Line:
    text: str
    size: float
    left: float
    right: float
    top: float
    bottom: float
    rows: list[list[str]] = field(default_factory=list)  # of a table, instead of text
    edges: tuple[float, ...] = ()  # of its columns
    letters: float = 0.0  # size of the letters in it


@dataclass
class _Letters:
    """The typical sizes and distances in a document, and its words."""

    text: float  # size of the letters of most text
    gap: float  # between lines of a paragraph
    headings: list[float]  # sizes of most headings
    words: frozenset[str]  # those at ends of lines aside, which may be divided


def read_pdf(path: Path, _: Chunking) -> Document:
    """Read a PDF as Markdown, with a form feed between pages. Pages that would take too long are missing."""
    seconds = PAGES_SHARE * seconds_for(path.stat().st_size)
    end = process_time() + seconds
    pages, missing = list[list[_Line]](), list[str]()
    seen, again, large = set[str](), 0, list[str]()
    with pdfplumber.open(path) as file:
        for page in file.pages:
            shown = repr([page.page_obj.attrs.get(name) for name in PAGE_FIELDS])
            if shown in seen:
                again += 1
                pages.append([])
            elif is_large(map(stream_value, page.page_obj.contents)):
                large.append(str(page.page_number))
                pages.append([])
            else:
                pages.append(list(_lines(page, _last_table(pages))))
            seen.add(shown)
            page.close()  # what it holds would stay in memory
            if process_time() > end and len(pages) < len(file.pages):
                part = f"up to page {len(pages)} of {len(file.pages)}"
                missing.append(f"{path}: read {part}: more than {seconds:.0f} seconds of CPU time; {SPLIT}")
                break
    if again:
        missing.append(f"{path}: {again} pages that show the same as an earlier page are left out")
    if large:
        missing.append(f"{path}: more than {MAX_PAGE / 1e6:.0f} MB of content on page {', '.join(large[:3])}, left out")
    letters = _letters(pages)
    return Document("\f".join("\n\n".join(_blocks(page, letters)) for page in pages), missing="; ".join(missing))


def _last_table(pages: Sequence[Sequence[_Line]]) -> _Line | None:
    """Return the table at the end of the last page."""
    lines = pages[-1][-EDGE_LINES - 1 :] if pages else []
    return next((line for line in reversed(lines) if line.rows), None)


def _lines(page: Any, before: _Line | None) -> Iterator[_Line]:
    """Yield the lines of a page, one text direction after another. The table `before` may continue on this page."""
    for view, is_beside in upright_pages(page):
        lines = list(_lines_of(view, before))
        edge = MARGIN * view.height
        if (
            is_beside
            and len(lines) <= STAMP_LINES
            and all(line.bottom < edge or line.top > view.height - edge for line in lines)
        ):
            continue
        place = next((place for place, line in enumerate(lines[: EDGE_LINES + 1]) if line.rows), None)
        if before is not None and place is not None and _goes_on(before, lines[: place + 1]):
            lines[place].rows.insert(0, before.rows[0])
        yield from lines
        before = None


def _goes_on(table: _Line, lines: Sequence[_Line]) -> bool:
    """Whether the last line continues a table: no heading is above it, and its first row has no column names."""
    *above, following = lines
    head, *rows = following.rows
    numbers = [all(row[place][:1].isdigit() for row in rows) for place in range(len(head))] if rows else []
    named = any(number and not any(map(str.isdigit, cell)) for number, cell in zip(numbers, head, strict=False))
    headed = any(line.size > LARGER * following.letters for line in above)
    return _same_edges(table.edges, following.edges) and not (named or headed or head == table.rows[0])


def _same_edges(edges: Sequence[float], others: Sequence[float]) -> bool:
    return len(edges) == len(others) and all(
        abs(one - other) <= SAME_EDGES for one, other in zip(edges, others, strict=True)
    )


def _lines_of(page: Any, before: _Line | None) -> Iterator[_Line]:
    """Yield lines in the order in which they were written, each table at the place of its first word."""
    grids = page.find_tables() if page.rects or page.lines or page.curves else []
    tables = []
    for grid in grids:
        rows = [[cell or "" for cell in row] for row in grid.extract(x_tolerance_ratio=SPACE)]
        edges = tuple(sorted({round(place, 1) for cell in grid.cells for place in (cell[0], cell[2])}))
        if len(rows[0]) > 1 and (len(rows) > 1 or (before is not None and _same_edges(before.edges, edges))):
            tables.append((grid.bbox, rows, edges))
    line: _Line | None = None
    for word in page.extract_words(x_tolerance_ratio=SPACE, use_text_flow=True, extra_attrs=["size", "upright"]):
        x, y = (word["x0"] + word["x1"]) / 2, (word["top"] + word["bottom"]) / 2
        inside = (at for at, (box, *_) in enumerate(tables) if box[0] <= x <= box[2] and box[1] <= y <= box[3])
        place, size = next(inside, None), max(line.size if line else 0.0, word["size"])
        if place is not None:
            box, rows, edges = tables[place]
            if rows:
                yield from [line] if line else []
                yield _Line("", 0, box[0], box[2], box[1], box[3], rows, edges, word["size"])
                line, tables[place] = None, (box, [], edges)
        elif line and abs(word["bottom"] - line.bottom) < 0.5 * size and word["x0"] > line.right - size:
            line.text += f" {word['text']}"
            line.right, line.bottom = word["x1"], max(line.bottom, word["bottom"])
            line.size = size
        else:
            yield from [line] if line else []
            line = _Line(word["text"], word["size"], word["x0"], word["x1"], word["top"], word["bottom"])
    yield from [line] if line else []


def _letters(pages: Sequence[Sequence[_Line]]) -> _Letters:
    sizes: Counter[float] = Counter()
    gaps = []
    before: _Line | None = None
    for line in (line for page in pages for line in page):
        sizes[round(line.size, 1)] += len(line.text)
        if before and before.size == line.size and 0 <= line.top - before.bottom < line.size:
            gaps.append(line.top - before.bottom)
        before = line
    text = max(sizes, key=lambda size: (sizes[size], size), default=0.0)
    larger = Counter(round(line.size, 1) for page in pages for line in page if line.size > LARGER * text)
    headings = [size for size, _ in larger.most_common(LEVELS)]
    words = words_of("\n".join(line.text for page in pages for line in page))
    return _Letters(text, median(gaps) if gaps else 0.2 * text, headings, words)


def _blocks(page: Iterable[_Line], letters: _Letters) -> Iterator[str]:
    held: list[_Line] = []
    for line in page:
        if held and not _belongs(held, line, letters):
            yield from _block(held, letters)
            held = []
        held.append(line)
    if held:
        yield from _block(held, letters)


def _belongs(held: Sequence[_Line], line: _Line, letters: _Letters) -> bool:
    """Whether a line belongs to the paragraph before it."""
    before = held[-1]
    if before.rows or line.rows or abs(before.size - line.size) > 0.05 * letters.text:
        return False
    if line.top < before.top:  # the next column
        return not _ENDED.search(before.text) and line.text[:1].islower()
    gap = line.top - before.bottom
    indented = line.left > min(one.left for one in held) + 0.8 * line.size and bool(_ENDED.search(before.text))
    return gap < letters.gap + 0.35 * line.size and (not indented or bool(_BULLET.match(line.text)))


def _block(held: Sequence[_Line], letters: _Letters) -> Iterator[str]:
    """Yield a table, a heading, a paragraph, or a list if lines begin with a bullet."""
    if held[0].rows:
        yield table(held[0].rows)
        return
    size = round(held[0].size, 1)
    text = "\n".join(" ".join(_LEADER.sub(" ", line.text).split()) for line in held)
    text = join_divided(mark_divided(text, letters.words))
    may_be = len(text.split()) <= HEADING_WORDS and any(map(str.isalpha, text)) and not _CAPTION.match(text)
    if size > LARGER * letters.text and may_be:
        level = 1 + sum(size < other for other in letters.headings)
        yield f"{'#' * level} {' '.join(text.split())}"
        return
    lines = text.split("\n")
    if any(map(_BULLET.match, lines)):
        first = next(place for place, line in enumerate(lines) if _BULLET.match(line))
        yield from [paragraph("\n".join(lines[:first]))] if first else []
        items = (_BULLET.sub("- ", line) if _BULLET.match(line) else f"  {line}" for line in lines[first:])
        yield "\n".join(items)
    elif any(lines):
        yield paragraph("\n".join(lines))
