"""Blocks of a document: its paragraphs, lists, tables and code, each with its headings and its page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_BLANK_LINES = re.compile(r"\n\s*\n")
_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\n(?=[\w\"'-]+[ \t]*[:=]|#|\[)(?:.*\n)*?(?:\1|\.\.\.)[ \t]*$", re.MULTILINE
)
_TAGS = re.compile(r"<!--(?:(?!<!--).)*?-->|</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>", re.DOTALL)
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_INLINE_MARKS = re.compile(r"[*_`\[<&\\]")
_LISTS = ("bullet_list_close", "ordered_list_close")


@dataclass(frozen=True)
class Unit:
    """A part of a block: ``text[start:end]``, or `text` where it is written differently, such as a row of a table."""

    start: int
    end: int
    text: str | None = None


@dataclass(frozen=True)
class Block:
    """A paragraph, a list, a table or code: ``text[start:end]``."""

    kind: str  # "text", "list", "table" or "code"
    start: int
    end: int
    units: tuple[Unit, ...] = ()  # rows of a table, items of a list, lines of code; none for text
    section: int = 0  # counts headings and pages
    headings: tuple[str, ...] = ()  # outermost first
    page: int | None = None  # from 1; None without form feeds


class _Heading(NamedTuple):
    level: int
    name: str


def read_blocks(text: str, *, markdown: bool) -> Iterator[Block]:
    """Give the blocks of a text, which blank lines separate, or of Markdown: CommonMark with GitHub's tables.

    A form feed ends a page, and with it every block and section. Headings, front matter, rules, link definitions, and
    paragraphs of HTML tags and comments alone are no blocks.
    """
    headings: list[_Heading] = []
    section = start = 0
    pages = text.split("\f")
    for number, content in enumerate(pages, 1):
        end = start + len(content)
        page = number if len(pages) > 1 else None
        parts = _markdown_parts(text, start, end, front=number == 1) if markdown else _paragraphs(text, start, end)
        for part in parts:
            if isinstance(part, _Heading):
                section += 1
                headings = [above for above in headings if above.level < part.level]
                headings += [part] if part.name else []
            else:
                names = tuple(heading.name for heading in headings)
                yield replace(part, section=section, headings=names, page=page)
        section += 1
        start = end + 1


def _trimmed(text: str, start: int, end: int) -> Unit:
    """Leave out white space at both ends."""
    part = text[start:end]
    return Unit(start + len(part) - len(part.lstrip()), start + len(part.rstrip()))


def _paragraphs(text: str, start: int, end: int) -> Iterator[Block]:
    gaps = [found.span() for found in _BLANK_LINES.finditer(text, start, end)]
    for (_, first), (after, _) in pairwise([(start, start), *gaps, (end, end)]):
        unit = _trimmed(text, first, after)
        if unit.start < unit.end:
            yield Block("text", unit.start, unit.end)


def _markdown_parts(text: str, start: int, end: int, *, front: bool) -> Iterator[Block | _Heading]:
    source = text[start:end].replace("\r", " ")  # of the same length, so that places stay
    if front and (found := _FRONT_MATTER.match(source)):
        source = source[found.end() :]
        start += found.end()
    lines = list(accumulate((len(line) + 1 for line in source.split("\n")), initial=start))
    parser, tokens, references = _parser(), list[Any](), dict[str, Any]()
    parser.block.parse(source, parser, references, tokens)
    for group in _groups(tokens):
        if group[0].type == "heading_open":
            yield _Heading(int(group[0].tag[1:]), " ".join(group[1].content.split()))
        else:
            yield from _blocks(text, lines, group, references)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _groups(tokens: Sequence[Token]) -> list[list[Token]]:
    """Collect the tokens of each element; a list belongs to the paragraph right above it."""
    groups: list[list[Token]] = []
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if token.level > 0 or token.nesting > 0:
            continue
        before = groups[-1] if groups else []
        if token.type in _LISTS and before and before[-1].type == "paragraph_close" and _end(before) == _start(group):
            before += group
        else:
            groups.append(group)
        group = []
    return groups


def _start(group: Sequence[Token]) -> int:
    return group[0].map[0] if group[0].map else 0


def _end(group: Sequence[Token]) -> int:
    return max(token.map[1] for token in group if token.map)


def _blocks(text: str, lines: Sequence[int], group: Sequence[Token], references: dict[str, Any]) -> Iterator[Block]:
    """Give the block of an element; rules, and HTML tags alone, are none."""
    first, after = _start(group), _end(group)
    whole = _trimmed(text, lines[first], lines[after] - 1)
    closing = group[-1].type
    kind, bounds = "text", set[int]()
    if closing in _LISTS:
        kind, bounds = "list", {token.map[0] for token in group if token.type == "list_item_open" and token.map}
    elif closing in ("fence", "code_block"):
        kind, bounds = "code", set(range(first, after))
    elif closing == "table_close":
        rows = tuple(_rows(text, lines, group, references))
        if rows:
            yield Block("table", whole.start, whole.end, rows)
        return
    elif closing == "hr" or not _TAGS.sub("", text[whole.start : whole.end]).strip():
        return
    if whole.start >= whole.end:  # white space that Markdown does not know as such
        return
    units = [_trimmed(text, lines[one], lines[other] - 1) for one, other in pairwise(sorted({first, *bounds, after}))]
    yield Block(kind, whole.start, whole.end, tuple(unit for unit in units if unit.start < unit.end) if bounds else ())


def _rows(text: str, lines: Sequence[int], group: Sequence[Token], references: dict[str, Any]) -> Iterator[Unit]:
    """Write rows as "column: value; column: value" without empty cells; a table of columns alone names these."""
    rows: list[tuple[int, list[str]]] = []
    for token in group:
        if token.type == "tr_open" and token.map:
            rows.append((token.map[0], []))
        elif token.type == "inline":
            rows[-1][1].append(_plain(token.content, references))
    (head, columns), *body = rows
    written = [(line, _written(columns, cells)) for line, cells in body if any(cells)]
    for line, row in written or [(head, "; ".join(filter(None, columns)))]:
        place = _trimmed(text, lines[line], lines[line + 1] - 1)
        if row:
            yield replace(place, text=row)


def _written(columns: Sequence[str], cells: Sequence[str]) -> str:
    named = zip(columns, cells, strict=True)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in named if cell)


def _plain(cell: str, references: dict[str, Any]) -> str:
    """Take emphasis, code marks and links off a cell; line breaks become commas."""
    if _INLINE_MARKS.search(cell):
        cell = "".join(_content(token) for token in _parser().parseInline(cell, references))
    return " ".join(cell.split())


def _content(token: Token) -> str:
    if token.type == "html_inline" and _LINE_BREAK.fullmatch(token.content):
        return ", "
    return "".join(map(_content, token.children)) if token.children else token.content
