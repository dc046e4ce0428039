"""Blocks of a document: its paragraphs, lists, tables and code, each with its headings and its page.

The reader knows of CommonMark and GitHub's tables what tells blocks apart, and no more: a full parser would be a
dependency of every index that is built from a folder, and it gives lines where passages need characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+\S|$)")
_FIRST_ITEM = re.compile(r"[ \t]*(?:[-*+]|1[.)])[ \t]+\S")
_LINK = re.compile(r" {0,3}\[(?!\^)[^\]]+\]:[ \t]*\S+")
_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_BAR = re.compile(r"(?<!\\)\|")
_MARKS = re.compile(r"`(?P<code>[^`]+)`|\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")
_LINKED = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAGS = re.compile(r"[ \t]*(?:</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>[ \t]*)+$")

_COMMENT = 1000
"""Lines of a comment at most: an end is not looked for in the whole document wherever a comment is never closed."""


@dataclass(frozen=True)
class Unit:
    """A stretch of a document.

    Attributes
    ----------
    start, end
        Its first character and the one after its last.
    text
        What it reads as, where that is not what stands there: a row of a table.
    """

    start: int
    end: int
    text: str | None = None


@dataclass(frozen=True)
class Block:
    """A paragraph, a list, a table or a stretch of code.

    Attributes
    ----------
    kind
        ``"text"``, ``"list"``, ``"table"`` or ``"code"``.
    start, end
        Its first character and the one after its last.
    section
        Number of its section, from 0: the blocks below one heading on one page.
    headings
        The headings above it, outermost first.
    page
        Its page from 1, or None where the document has no form feeds.
    units
        What it may be cut into: rows of a table, items of a list, lines of code; empty for text.
    """

    kind: str
    start: int
    end: int
    section: int
    headings: tuple[str, ...] = ()
    page: int | None = None
    units: tuple[Unit, ...] = ()


@dataclass(frozen=True)
class _Line:
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def blank(self) -> bool:
        return not self.text.strip()


_Part: TypeAlias = tuple[int, str, "tuple[Unit, ...]"]
"""The line after a part, its kind (empty for what is no passage) and what it may be cut into."""


def read_blocks(text: str, *, markdown: bool) -> Iterator[Block]:
    """Give the blocks of a document.

    Parameters
    ----------
    text
        The document. A form feed ends a page, and with it every block and section.
    markdown
        Whether headings, tables, lists and fenced code are looked for. Otherwise all blocks are text, which blank lines
        separate.

    Yields
    ------
    Block
        In the order of the document. Headings, front matter, rules, comments, definitions of links and lines that begin a
        block with nothing but HTML tags are no blocks.
    """
    headings: list[tuple[int, str]] = []
    section = 0
    start = 0
    pages = text.split("\f")
    for number, content in enumerate(pages, 1):
        page = number if len(pages) > 1 else None
        lines = _lines(content, start)
        parts = _markdown_parts(lines, front=number == 1) if markdown else _plain_parts(lines)
        place = 0
        for after, kind, units in parts:
            if kind.startswith("#"):
                section += 1
                headings = _under(headings, kind)
            elif kind:
                first, last = _trimmed(text, lines[place].start, lines[after - 1].end)
                yield Block(kind, first, last, section, tuple(name for _, name in headings), page, units)
            place = after
        section += 1
        start += len(content) + 1


def _lines(text: str, start: int) -> list[_Line]:
    lines = []
    for line in text.split("\n"):
        lines.append(_Line(start, line))
        start += len(line) + 1
    return lines


def _under(headings: list[tuple[int, str]], heading: str) -> list[tuple[int, str]]:
    """Put a heading, marks and name, below those of higher level; one without a name only ends the others."""
    marks, _, name = heading.partition(" ")
    above = [(level, other) for level, other in headings if level < len(marks)]
    return [*above, (len(marks), name)] if name else above


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space at both ends."""
    stretch = text[start:end]
    return start + len(stretch) - len(stretch.lstrip()), start + len(stretch.rstrip())


def _unit(lines: list[_Line], first: int, after: int) -> Unit:
    """Make a unit of lines, without the white space around them."""
    text = "\n".join(line.text for line in lines[first:after])
    start, end = _trimmed(text, 0, len(text))
    return Unit(lines[first].start + start, lines[first].start + end)


def _blanks(lines: list[_Line], place: int) -> int:
    """Pass over blank lines."""
    while place < len(lines) and lines[place].blank:
        place += 1
    return place


def _plain_parts(lines: list[_Line]) -> Iterator[_Part]:
    place = 0
    while place < len(lines):
        after = _blanks(lines, place)
        if after > place:
            yield after, "", ()
        place = after
        while after < len(lines) and not lines[after].blank:
            after += 1
        if after > place:
            yield after, "text", ()
        place = after


def _markdown_parts(lines: list[_Line], *, front: bool) -> Iterator[_Part]:
    place = _front_matter(lines) if front else 0
    if place:
        yield place, "", ()
    while place < len(lines):
        found: _Part | None = None
        for reader in _READERS:
            found = reader(lines, place)
            if found is not None:
                break
        part = found or _paragraph(lines, place)
        yield part
        place = part[0]


def _front_matter(lines: list[_Line]) -> int:
    """Find the line after front matter: between two lines of three dashes, the first the very first, keys."""
    mark = lines[0].text.rstrip()
    if mark not in ("---", "+++") or len(lines) == 1 or not re.match(r"[\w\"'-]+[ \t]*[:=]|#|\[", lines[1].text):
        return 0
    ends = (place for place, line in enumerate(lines[1:], 1) if line.text.rstrip() in (mark, "..."))
    return next(ends, -1) + 1


def _nothing(lines: list[_Line], place: int) -> _Part | None:
    """Read what is no passage: blank lines, rules, definitions of links, lines of HTML tags alone, comments."""
    text = lines[place].text.rstrip()
    if not text or _RULE.match(text) or _LINK.match(text) or _TAGS.match(text):
        return place + 1, "", ()
    if text.lstrip().startswith("<!--"):
        for after in range(place, min(place + _COMMENT, len(lines))):
            _, closed, rest = lines[after].text.partition("-->")
            if closed:
                return None if rest.strip() else (after + 1, "", ())
    return None


def _heading(lines: list[_Line], place: int) -> _Part | None:
    text = lines[place].text.rstrip()
    found = _HEADING.match(text)
    if found:
        name = text[found.end() :].strip()
        opened = name.rstrip("#")
        closed = opened != name and (not opened or opened[-1] in " \t")  # "C#" keeps its mark
        return place + 1, f"{found[1]} {opened.strip() if closed else name}", ()
    # only one line is a heading by the line below it: dashes below a longer paragraph are mostly meant as a rule
    following = lines[place + 1].text.rstrip() if place + 1 < len(lines) else ""
    under = _UNDERLINE.match(following)
    if under and not text.startswith("    ") and not _ITEM.match(text) and not text.lstrip().startswith(">"):
        return place + 2, f"{'#' if under[1][0] == '=' else '##'} {text.strip()}", ()
    return None


def _code(lines: list[_Line], place: int) -> _Part | None:
    if not _FENCE.match(lines[place].text.rstrip()) or _indented(lines[place].text, 4):
        return None
    after = _fence_end(lines, place)
    return (
        after,
        "code",
        tuple(_unit(lines, number, number + 1) for number in range(place, after) if lines[number].text),
    )


def _fence_end(lines: list[_Line], place: int) -> int:
    """Find the line after fenced code; without a closing fence it goes on to the end."""
    found = _FENCE.match(lines[place].text.rstrip())
    if found is None:
        return place
    for after in range(place + 1, len(lines)):
        text = lines[after].text.strip()
        if len(text) >= len(found[1]) and not text.strip(found[1][0]):
            return after + 1
    return len(lines)


def _table(lines: list[_Line], place: int) -> _Part | None:
    if not _starts_table(lines, place):
        return None
    columns = _cells(lines[place].text)
    rows = []
    after = place + 2
    while after < len(lines) and "|" in lines[after].text and not lines[after].blank:
        row = _row(columns, _cells(lines[after].text))
        if row:
            rows.append(Unit(*_trimmed_line(lines[after]), row))
        after += 1
    if not rows:  # a table of columns alone still says which they are
        rows = [Unit(*_trimmed_line(lines[place]), "; ".join(filter(None, columns)))]
    return after, "table" if any(row.text for row in rows) else "", tuple(rows)


def _starts_table(lines: list[_Line], place: int) -> bool:
    if place + 1 >= len(lines) or "|" not in lines[place].text or "|" not in lines[place + 1].text:
        return False
    below = lines[place + 1].text.rstrip()
    return bool(_DELIMITER.match(below)) and len(_cells(below)) == len(_cells(lines[place].text))


def _cells(row: str) -> list[str]:
    """Cells of a row, as plain text."""
    cells = _BAR.split(row.strip())
    if not cells[0].strip():
        cells = cells[1:]
    if cells and not cells[-1].strip():
        cells = cells[:-1]
    return [_plain(cell) for cell in cells]


def _plain(cell: str) -> str:
    """Take marks of emphasis, code and links off, and breaks of lines out."""
    text = _LINKED.sub(r"\1", _BREAK.sub(", ", cell.replace("\\|", "|")))
    return " ".join(_MARKS.sub(lambda mark: mark["code"] or "", text).split())


def _row(columns: list[str], cells: list[str]) -> str:
    """Write a row as "column: value; column: value"; what is empty is left out."""
    named = [*columns, *[""] * (len(cells) - len(columns))]
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(named, cells, strict=False) if cell)


def _trimmed_line(line: _Line) -> tuple[int, int]:
    start, end = _trimmed(line.text, 0, len(line.text))
    return line.start + start, line.start + end


def _list(lines: list[_Line], place: int) -> _Part | None:
    if not _ITEM.match(lines[place].text):
        return None
    after, starts = _list_end(lines, place)
    return after, "list", _items(lines, [*starts, after])


def _items(lines: list[_Line], bounds: list[int]) -> tuple[Unit, ...]:
    return tuple(_unit(lines, first, after) for first, after in pairwise(bounds))


def _list_end(lines: list[_Line], place: int) -> tuple[int, list[int]]:
    """Find the line after a list, and the lines where its items start: those of lists within it, too."""
    starts = []
    while place < len(lines):
        text = lines[place].text
        if _RULE.match(text.rstrip()) or _HEADING.match(text.rstrip()):
            break
        last = place
        if _FENCE.match(text.rstrip()):
            if not _indented(text, 2):
                break
            last = _fence_end(lines, place) - 1
        elif _ITEM.match(text):
            starts.append(place)
        following = _blanks(lines, last + 1)
        goes_on = following == last + 1 or (
            following < len(lines) and (_ITEM.match(lines[following].text) or _indented(lines[following].text, 2))
        )
        if not goes_on:
            return last + 1, starts
        place = following
    return place, starts


def _indented(text: str, spaces: int) -> bool:
    return text.expandtabs(4).startswith(" " * spaces)


def _paragraph(lines: list[_Line], place: int) -> _Part:
    """Read lines up to a blank one, or to what may follow without one; a list below its first lines is kept with them."""
    after = place + 1
    while after < len(lines):
        text = lines[after].text.rstrip()
        if not text or _HEADING.match(text) or _RULE.match(text) or _FENCE.match(text) or _starts_table(lines, after):
            break
        if _FIRST_ITEM.match(text):
            end, starts = _list_end(lines, after)
            return end, "list", _items(lines, [place, *starts, end])
        after += 1
    return after, "text", ()


_READERS: tuple[Callable[[list[_Line], int], _Part | None], ...] = (_nothing, _code, _heading, _table, _list)
