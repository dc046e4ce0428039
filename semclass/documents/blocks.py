"""Blocks of a document: its paragraphs, lists, tables and code, each with its headings and its page."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from html import unescape
from itertools import accumulate, chain, pairwise, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from semclass.documents.decoding import page_spans
from semclass.documents.sentences import bounded_spans, sentence_spans, trimmed

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

SEPARATOR = "\x1d"
"""Character between the parts of a long table. Each part names the columns."""

MAX_NAME = 60
"""Maximum characters of a column's name. A longer name is a text, which no row repeats."""

MAX_HEADING = 200
"""Maximum characters of a heading. A longer line is a text."""

_BLANK_LINES = re.compile(r"\n\s*\n")
_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\n(?=[\w\"'-]+[ \t]*[:=]|#|\[)(?:.*\n)*?(?:\1|\.\.\.)[ \t]*$", re.MULTILINE
)
_TAGS = re.compile(r"<!--(?:(?!<!--).)*?-->|</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>", re.DOTALL)
_SCRIPTS = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_PARTS = re.compile(r"\n[ \t]*\n|\n[ \t]*(?:`{3}|~{3}|[|>])")  # of an item of a list
_INLINE_MARKS = re.compile(r"[*_`\[<&\\]")
_LISTS = ("bullet_list", "ordered_list")
_KINDS = {"table": "table", "html_block": "html", "fence": "code", "code_block": "code"}
COLON = re.compile(r":[*_`]*$")
MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_SET_APART = re.compile(r"[|>#=~_*+-]|\d+[.)]\s")  # begins a line that is no prose: an item, a row, code

HEADING_LENGTH = 100
"""Maximum characters of an underlined heading of plain text."""

_UNDERLINED = re.compile(
    r"(?:^|(?<=\f))(?P<name>[ \t]*[^\W_][^\n\f]*)\n(?P<rule>(?P<mark>[=-])(?P=mark){2,})[ \t]*$", re.MULTILINE
)
_COLUMNS = re.compile(r"\t|\s{3}|\|")
_ELSEWHERE = re.compile(r"\w+:|//")
_LETTER = re.compile(r"[^\W\d_]")
_LINK = re.compile(r"!?\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\](?:\((?=([^()\s]*))[^()]*\)|\[[^\[\]]*\])?")
"""A link or a picture, whose text may hold brackets once, and its target."""


NOTES = frozenset(["caution", "important", "note", "tip", "warning"])
"""Headings that begin no section of their own, because they are about the text above them."""

WRAPPED_WIDTH = range(60, 81)
"""Number of characters of the longest line of a wrapped paragraph in plain text."""

FULL_LINE = 0.8
"""A line was wrapped if it, with the next line's first word, exceeds this share of the paragraph's longest line."""


_ENTRY = re.compile(
    r"^[ \t]*(?P<name>[^\W\d_]{1,20}(?:[ \t._-]{1,2}[^\W\d_]{1,20})?)[ \t.#_-]{0,3}(?P<number>\d[\w-]*)(?P<colon>:?)",
    re.MULTILINE,
)
"""Begins an entry of a list in plain text, such as "Error 101" or "E-7"."""


@dataclass(frozen=True)
class Unit:
    """A part of a block: ``text[start:end]``, or `text` if it differs from this, as for a row of a table."""

    start: int
    end: int
    text: str | None = None
    row: bool = False  # of a table
    wrapped: bool = False  # its line ends are those of an editor, hard breaks aside

    def written(self, text: str) -> str:
        """Return the text of the unit. `text` is that of the document."""
        return text[self.start : self.end] if self.text is None else self.text


@dataclass(frozen=True)
class Block:
    """A paragraph, a list, a table, code or raw HTML."""

    kind: str  # "text", "table", "code" or "html"
    units: tuple[Unit, ...]  # rows of a table, items of a list, lines of code, sentences of HTML, or text whole
    section: int = 0  # counts headings and pages
    headings: tuple[str, ...] = ()  # outermost first
    heading: Unit | None = None  # the innermost of them, if it stands on this page
    page: int | None = None  # from 1; None without form feeds
    markdown: bool = False
    entry: str = ""  # what it is one of, such as "error"; each is about another thing


class Heading(NamedTuple):
    """A heading. The heading and its rules are ``text[begin:after]``."""

    level: int
    name: str
    place: Unit
    begin: int
    after: int


def plain_headings(text: str) -> list[Heading]:
    """Return the lines with === or --- below, and perhaps above. The first kind of heading in a text ranks highest."""
    levels: dict[tuple[str, bool], int] = {}
    headings = []
    for match in _UNDERLINED.finditer(text):
        name, rule = match["name"].strip(), match["rule"]
        before = max(match.start() - 1, 0)
        above = text[text.rfind("\n", 0, before) + 1 : before].rpartition("\f")[2].strip(" \t")
        above = "" if text[before] == "\f" else above
        over = above == match["mark"] * len(above) and len(above) > 2
        alone = not above and match["name"][0] not in " \t"
        fits = len(name) <= min(2 * len(rule), HEADING_LENGTH) and 2 * len(rule) <= 4 * max(len(name), 3)
        if not (over or alone) or not fits or name.endswith((".", ",", ";")) or _COLUMNS.search(name):
            continue
        level = levels.setdefault((match["mark"], over), len(levels) + 1)
        start = match.start("name") + match["name"].index(name)
        begin = text.rindex(above, 0, match.start()) if over else match.start()
        headings.append(Heading(level, name, Unit(start, start + len(name)), begin, match.end()))
    return headings


def is_contents(markdown: str) -> bool:
    """Return whether a list in Markdown consists of at least two links within the site, and nothing else."""
    return len(_LINK.findall(markdown)) > 1 and not _LETTER.search(without_links(markdown))


def without_links(markdown: str) -> str:
    """Remove all links, if all of them stay within the site."""
    targets = _LINK.findall(markdown)
    inside = all(target and not _ELSEWHERE.match(target) for target in targets)
    return _LINK.sub("", markdown) if inside else markdown


def read_blocks(text: str, *, markdown: bool) -> Iterator[Block]:
    """Yield the blocks of a text, which blank lines separate, or of Markdown: CommonMark with GitHub's tables.

    A form feed ends a page, and with it every block and section. Headings, running headers and footers, front matter,
    rules, link definitions, and HTML without text are left out.
    """
    headings: list[Heading] = []
    section = 0
    pages = page_spans(text)
    read = _markdown_parts if markdown else partial(_plain_parts, headings=plain_headings(text))
    for number, (start, end) in enumerate(pages, 1):
        page = number if len(pages) > 1 else None
        heading = None
        for part in _parts(text, start, end, read, markdown=markdown):
            if isinstance(part, Heading):
                is_note = bool(headings) and part.name.rstrip(" :!.").casefold() in NOTES
                if is_note or len(part.name) > MAX_HEADING:  # begins no section
                    part = Block("text", (_named(text, part.place),))
            if isinstance(part, Heading):
                section += 1
                headings = [above for above in headings if above.level < part.level]
                headings += [part] if part.name else []
                heading = _named(text, part.place) if part.name else None
            else:
                names = tuple(above.name for above in headings)
                yield replace(part, section=section, headings=names, heading=heading, page=page, markdown=markdown)
        section += 1


def _named(text: str, heading: Unit) -> Unit:
    """Return a heading without what marks it as one in Markdown."""
    name = text[heading.start : heading.end]
    above, _, rule = name.rpartition("\n")
    name = name if rule.strip("=- \t") else above
    bare = name.strip("# \t\n")
    start = heading.start + name.index(bare)
    return replace(heading, start=start, end=start + len(bare))


def _parts(
    text: str, start: int, end: int, read: Callable[[str, int, int], Iterator[Block | Heading]], *, markdown: bool
) -> Iterator[Block | Heading]:
    """Read a page in spans of bounded length, and at group separators, so that memory is bounded."""
    while start <= end:
        stop = text.find(SEPARATOR, start, end) if markdown else -1
        stop = end if stop < 0 else stop
        for first, after in bounded_spans(text, start, stop):
            yield from read(text, first, after)
        start = stop + 1


def _trimmed(text: str, start: int, end: int) -> Unit:
    return Unit(*trimmed(text, start, end))


def _plain_parts(text: str, start: int, end: int, headings: Sequence[Heading]) -> Iterator[Block | Heading]:
    begin = attrgetter("begin")
    for place in range(bisect_left(headings, start, key=begin), bisect_left(headings, end, key=begin)):
        heading = headings[place]
        if heading.after <= end:
            yield from _paragraphs(text, start, heading.begin)
            yield heading
            start = heading.after
    yield from _paragraphs(text, start, end)


def _paragraphs(text: str, start: int, end: int) -> Iterator[Block]:
    gaps = [gap.span() for gap in _BLANK_LINES.finditer(text, start, end)]
    units = (_trimmed(text, first, after) for (_, first), (after, _) in pairwise([(start, start), *gaps, (end, end)]))
    group: list[Unit] = []
    name = ""
    for unit, entry in chain.from_iterable(_entries(text, unit) for unit in units if unit.start < unit.end):
        if group and not introduces(text, group[-1], unit):
            yield Block("text", tuple(group), entry=name)
            group = []
        name = name if group else entry
        group.append(replace(unit, wrapped=_is_wrapped(text[unit.start : unit.end].split("\n"))))
    if group:
        yield Block("text", tuple(group), entry=name)


def _entries(text: str, unit: Unit) -> list[tuple[Unit, str]]:
    """Return the entries of a list that stand right below one another, each with what it is one of, or the paragraph."""
    found = [one for one in _ENTRY.finditer(text[unit.start : unit.end]) if one["name"][0].isupper() or one["colon"]]
    names = Counter(one["name"].casefold() for one in found).most_common(1)
    own = [one for one in found if one["name"].casefold() == names[0][0]]
    firsts = [one.start() for at, one in enumerate(own) if not at or own[at - 1]["number"] != one["number"]]
    at_start = bool(found) and not found[0].start()
    if len(firsts) < 2:
        return [(unit, found[0]["name"].casefold() if at_start else "")]
    places = [unit.start + first for first in sorted({0, *firsts})]
    parts = [_trimmed(text, *span) for span in pairwise([*places, unit.end])]
    return [(part, names[0][0] if number or not firsts[0] else "") for number, part in enumerate(parts)]


def introduces(text: str, unit: Unit, following: Unit) -> bool:
    """Return whether a unit ends in a colon and is followed by an item of a list."""
    ends = COLON.search(text, max(unit.start, unit.end - 4), unit.end)
    return bool(ends and MARKER.match(text, following.start, following.end))


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Whether an editor wrapped all lines of a paragraph of prose, in plain text; all but the first begin alike."""
    begin = {len(line) - len(line.lstrip()) for line in lines[1:]}
    if len(begin) != 1 or max(map(len, lines)) not in WRAPPED_WIDTH:
        return False
    others = [line.lstrip() for line in lines[1:]]
    prose = any(line[0].islower() for line in others if line) and not any(map(_SET_APART.match, others))
    return prose and all(wrapped_lines(lines))


def wrapped_lines(lines: Sequence[str]) -> list[bool]:
    """Return for each line but the last whether an editor wrapped it, as the next word did not fit."""
    full = FULL_LINE * max(len(line.strip()) for line in lines)
    firsts = (line.split(maxsplit=1) for line in lines[1:])
    return [
        bool(words) and len(line.strip()) + 1 + len(words[0]) > full for line, words in zip(lines, firsts, strict=False)
    ]


def _markdown_parts(text: str, start: int, end: int) -> Iterator[Block | Heading]:
    from markdown_it.tree import SyntaxTreeNode

    source = text[start:end].replace("\r", " ")  # of the same length, so that places stay
    if start == 0 and (front_matter := _FRONT_MATTER.match(source)):
        source = source[front_matter.end() :]
        start += front_matter.end()
    lines = list(accumulate((len(line) + 1 for line in source.split("\n")), initial=start))
    parser, tokens, references = _parser(), list[Any](), dict[str, Any]()
    parser.block.parse(source, parser, references, tokens)
    nodes = SyntaxTreeNode(tokens).children
    first: int | None = None  # line of a paragraph that belongs to the list below it
    for node, following in zip_longest(nodes, nodes[1:]):
        begin = _line(node) if first is None else first
        first = begin if following is not None and _belongs(text, lines, node, following) else None
        if node.type == "heading":
            place = _trimmed(text, lines[begin], lines[_end(node)] - 1)
            name = _plain(node.children[0].content, references)
            yield Heading(int(node.tag[1:]), name, place, place.start, place.end)
        elif first is None and (units := tuple(_units(text, lines, begin, node, references))):
            yield Block(_KINDS.get(node.type, "text"), units)


def _belongs(text: str, lines: Sequence[int], node: SyntaxTreeNode, following: SyntaxTreeNode) -> bool:
    """Whether a paragraph stands right above a list, or ends in a colon."""
    if node.type != "paragraph" or following.type not in _LISTS:
        return False
    unit, items = (_trimmed(text, lines[_line(one)], lines[_end(one)] - 1) for one in (node, following))
    above = _line(following) == _end(node)
    return above or (introduces(text, unit, items) and not is_contents(text[items.start : items.end]))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _line(node: SyntaxTreeNode) -> int:
    return node.map[0] if node.map else 0


def _end(node: SyntaxTreeNode) -> int:
    return max(part.map[1] for part in node.walk() if part.map)


def _units(
    text: str, lines: Sequence[int], first: int, node: SyntaxTreeNode, references: dict[str, Any]
) -> Iterator[Unit]:
    """Yield the units of an element that begins in a line; rules, lists of links, and HTML tags alone have none."""
    after, bounds = _end(node), set[int]()
    whole = _trimmed(text, lines[first], lines[after] - 1)
    shown = whole.written(text)
    if node.type == "table":
        yield from _rows(text, lines, node, references)
    elif node.type == "html_block":
        yield from _sentences(text, whole)
    elif node.type in _LISTS:
        bounds = set() if is_contents(shown) else {_line(one) for one in node.walk() if one.type == "list_item"}
    elif node.type in _KINDS:
        bounds = set(range(first, after))
    elif node.type != "hr" and _TAGS.sub("", shown).strip():
        bounds = {first}
    for one, other in pairwise(sorted({first, *bounds, after}) if bounds else ()):
        unit = _trimmed(text, lines[one], lines[other] - 1)
        wrapped = node.type in ("paragraph", *_LISTS) and not _PARTS.search(text, unit.start, unit.end)
        if unit.start < unit.end:
            yield replace(unit, wrapped=wrapped)


def _rows(text: str, lines: Sequence[int], table: SyntaxTreeNode, references: dict[str, Any]) -> Iterator[Unit]:
    """Write rows as "column: value; column: value" without empty cells; a table of columns alone names these."""
    rows = [
        (_line(row), [_plain(cell.children[0].content, references) for cell in row.children])
        for part in table.children
        for row in part.children
    ]
    (head, columns), *body = rows
    names = [name if len(name) <= MAX_NAME else "" for name in columns]
    written = [
        (line, "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=True) if cell))
        for line, cells in body
        if any(cells)
    ]
    for line, row in [(head, "; ".join(filter(None, columns)))] * (names != columns or not written) + written:
        place = _trimmed(text, lines[line], lines[line + 1] - 1)
        if row:
            yield replace(place, text=row, row=True)


def _sentences(text: str, whole: Unit) -> Iterator[Unit]:
    """Yield the sentences of raw HTML without its tags, comments, scripts and styles."""
    shown = text[whole.start : whole.end]
    for unseen in (_SCRIPTS, _TAGS):
        shown = unseen.sub(lambda match: " " * len(match[0]), shown)  # of the same length, so that places stay
    for start, end in sentence_spans(shown.replace("\n", " ")) if shown.strip() else ():
        yield Unit(whole.start + start, whole.start + end, unescape(" ".join(shown[start:end].split())))


def _plain(cell: str, references: dict[str, Any]) -> str:
    """Take emphasis, code marks and links off a cell; line breaks become commas."""
    if _INLINE_MARKS.search(cell):
        cell = "".join(_content(token) for token in _parser().parseInline(cell, references))
    return " ".join(cell.split())


def _content(token: Token) -> str:
    if token.type == "html_inline" and _LINE_BREAK.fullmatch(token.content):
        return ", "
    return "".join(map(_content, token.children)) if token.children else token.content
