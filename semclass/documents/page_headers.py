"""Running headers and footers of pages, found by where they repeat."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from semclass.documents.sentences import Span

EDGE_LINES = 3
"""Lines at the top and at the bottom of a page that may be running ones."""

MIN_PAGES = 3
"""Pages that a running line stands on, at least."""

_NUMBER = re.compile(r"\d+|^[ivxlc]+$")
_NUMBERED = re.compile(r"(?:^|\s)(\d{1,5})$|^(\d{1,5})(?:\s|$)")
_TABLE = "|"
_TITLE = re.compile(r"(?=.*[^\W\d_])[^\W_].*[^:.,;]")  # no label above a list, no row, no heading, no sentence
_LINE = re.compile(r"[^\n]+")


class _Line(NamedTuple):
    start: int
    end: int
    words: str
    key: str  # numbers aside
    number: int | None  # that it begins or ends with


def page_spans(text: str) -> list[Span]:
    """Return the spans of the pages of a text, which form feeds separate, without their running headers and footers.

    A running line is among the first or last three of its page. It stands at the same place of most pages, or of most
    left or right pages, numbers aside; or word for word on three pages in a row, or three left or right ones, such as the
    title of a chapter; or it begins or ends with the page's number. Headings and rows of tables never count.
    """
    spans, start = [], 0
    for page in text.split("\f"):
        spans.append((start, start + len(page)))
        start += len(page) + 1
    if len(spans) < MIN_PAGES:
        return spans
    tops = _running([_lines(text, _LINE.finditer(text, *span)) for span in spans])
    bottoms = _running([_lines(text, reversed(list(_LINE.finditer(text, *span)))) for span in spans])
    bounds = []
    for (first, after), top, bottom in zip(spans, tops, bottoms, strict=True):
        begin = top[-1].end if top else first
        bounds.append((begin, max(begin, bottom[-1].start if bottom else after)))
    return bounds


def _lines(text: str, matches: Iterable[re.Match[str]]) -> list[_Line]:
    """Return the first lines of a page, from its top or its bottom."""
    lines = []
    for line in islice((match for match in matches if not match[0].isspace()), EDGE_LINES):
        words = " ".join(line[0].split())
        numbered = _NUMBERED.search(words)
        number = int(numbered[1] or numbered[2]) if numbered else None
        lines.append(_Line(*line.span(), words, _NUMBER.sub("0", words), number))
    return lines


def _running(pages: Sequence[Sequence[_Line]]) -> list[list[_Line]]:
    """Return the running lines of each page, of those from its top or its bottom."""
    usual = [(_usual(pages[side::2], place), _usual(pages, place)) for place in range(EDGE_LINES) for side in (0, 1)]
    in_a_row = [_in_a_row(pages, place) for place in range(EDGE_LINES)]
    ahead = Counter(
        offset
        for number, lines in enumerate(pages)
        for offset in {line.number - number for line in lines if line.number is not None}
    )
    offset, often = ahead.most_common(1)[0] if ahead else (0, 0)
    numbered = often >= MIN_PAGES and 2 * often > sum(map(bool, pages))

    def runs(line: _Line, place: int, number: int) -> bool:
        of_page = numbered and line.number is not None and line.number - number == offset
        if line.words.startswith(_TABLE):
            return False
        return of_page or line.key in usual[2 * place + number % 2] or number in in_a_row[place]

    running = []
    for number, lines in enumerate(pages):
        count = 0
        while count < len(lines) and runs(lines[count], count, number):
            count += 1
        running.append(list(lines[:count]))
    return running


def _usual(pages: Sequence[Sequence[_Line]], place: int) -> str | None:
    """Return what most pages have at a place."""
    keys = Counter(lines[place].key for lines in pages if len(lines) > place)
    key, often = keys.most_common(1)[0] if keys else (None, 0)
    return key if often >= MIN_PAGES and 2 * often > sum(map(bool, pages)) else None


def _in_a_row(pages: Sequence[Sequence[_Line]], place: int) -> set[int]:
    """Return the pages that have the same line at a place as others, with at most one page between two of them."""
    rows: defaultdict[str, list[list[int]]] = defaultdict(list)
    for number, lines in enumerate(pages):
        line = lines[place] if len(lines) > place else None
        if line is not None and _TITLE.fullmatch(line.words):
            of_line = rows[line.words]
            if of_line and number - of_line[-1][-1] <= 2:
                of_line[-1].append(number)
            else:
                of_line.append([number])
    return {number for of_line in rows.values() for row in of_line if len(row) >= MIN_PAGES for number in row}
