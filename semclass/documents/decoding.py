"""From the bytes of a file to its text: encodings, divided words, directives, and repeated lines of pages."""

from __future__ import annotations

import codecs
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from semclass.core.errors import InputError, SemclassError

MAX_FILE = 400_000_000
"""Maximum bytes of a document, because it is read into memory. A larger document can be split."""

MAX_LINE = 64_000_000
"""Maximum bytes of a line in a file that is read line by line."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_size(path: Path) -> None:
    """Refuse a file that is too large to be read into memory."""
    size = path.stat().st_size
    if size > MAX_FILE:
        raise InputError(
            f"{path} has {size / 1e6:.0f} MB; at most {MAX_FILE / 1e6:.0f} MB are allowed: split it into smaller files"
        )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error of a reader, except for a MemoryError, into an InputError that names the file."""
    try:
        yield
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"{path}: {error}") from error
    except (SemclassError, MemoryError):
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from error
    except Exception as error:  # libraries raise classes of their own for damaged files
        if isinstance(error.__context__, MemoryError):
            raise error.__context__ from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read as {path.suffix}: {reason}; is it damaged or encrypted?") from error


def check_encoding(encoding: str | None) -> None:
    """Refuse the name of an encoding that Python does not know."""
    try:
        "".encode(encoding or "utf-8")
    except LookupError as error:
        raise InputError(
            f"encoding {encoding!r} is unknown; give an encoding of Python, e.g. cp1252 or shift_jis"
        ) from error


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file in UTF-8, in UTF-16 with a byte order mark, or in `encoding`. All lines end in one character."""
    check_encoding(encoding)
    with reading(path):
        check_size(path)
        data = path.read_bytes()
    wrong, place = None, 0
    for codec in filter(None, ("utf-16" if data.startswith(_UTF16) else "utf-8-sig", encoding)):
        try:
            return data.decode(codec).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:  # noqa: PERF203 - two at most
            wrong, place = error, data.count(b"\n", 0, error.start) + 1
    if encoding is None:
        remedy = "not UTF-8; name its encoding (--encoding, e.g. cp1252), or convert it to UTF-8"
    else:
        remedy = f"neither UTF-8 nor {encoding}; name another encoding"
    raise InputError(f"{path}, line {place} is {remedy}") from wrong


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file in UTF-8 without their ends, each with its number from 1."""
    with reading(path), path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise InputError(f"{path}, line {number} has more than {MAX_LINE / 1e6:.0f} MB; split the line")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                command = f"iconv -f {'UTF-16' if line.startswith(_UTF16) else 'WINDOWS-1252'} -t UTF-8"
                raise InputError(
                    f"{path}, line {number} is not UTF-8; convert the file first, e.g. with `{command}`"
                ) from error
            yield number, text.rstrip("\r\n")


# -- words that ends of lines divide ------------------------------------------------------------------------------------

PART = 4
"""Minimum letters of each part of a compound at a line end, if only the parts are words elsewhere in the text."""

_FIRST_PARTS = frozenset(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "well"])
"""Words that begin compounds, and are not parts of other divided words."""

SOFT, FIRM = "\xad", "\u2011"
"""Hyphens at the end of a line: inside a divided word, and inside a compound such as well-known."""

_BROKEN = re.compile(
    r"(?<![^\W\d_])(?<!-)([^\W\d_]+(?:-[^\W\d_]+)*)(?<=[a-zß-ÿ])[-‐]"
    r"(?=\n[ \t]*((?!(?:and|or|und|oder)\b)[a-zß-ÿ][^\W\d_]*))"
)
_DIVISION = re.compile(rf"{_BROKEN.pattern}\n[ \t]*[^\W\d_]+")
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MARKED_ENDS = re.compile(f"{SOFT}(?:\\n[ \\t]*)?|{FIRM}\\n[ \\t]*")


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, without words that may be divided at a line end."""
    return frozenset(_COMPOUND.findall(_DIVISION.sub(" ", text.casefold())))


def mark_divided(text: str, words: Collection[str] | None = None) -> str:
    """Put a soft hyphen at line ends that divide a word, and a non-breaking hyphen at line ends that divide a compound."""
    if not _BROKEN.search(text):
        return text
    return _BROKEN.sub(partial(_marked, words=words_of(text) if words is None else words), text)


def _marked(broken: re.Match[str], words: Collection[str]) -> str:
    first, last = broken[1].casefold(), broken[2].casefold()
    apart = min(len(first), len(last)) >= PART and first in words and last in words
    compound = "-" in first or first in _FIRST_PARTS or f"{first}-{last}" in words or apart
    return broken[1] + (FIRM if compound and first + last not in words else SOFT)


def join_divided(text: str) -> str:
    """Join words at marked line ends, and remove soft hyphens inside words."""
    return _MARKED_ENDS.sub(lambda mark: "" if mark[0].startswith(SOFT) else "-", text)


# -- marks for generators of sites, such as MyST: labels, directives and colon fences -----------------------------------

_FENCE = re.compile(r"([ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?)(`{3,}|~{3,}|:{3,})[ \t]*(?:\{([\w:-]+)\})?[ \t]*(.*)")
_LABEL = re.compile(r"[ \t]*\([^()\s]+\)=[ \t]*")
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?")
_CODE = re.compile(r"code(-block|-cell)?|console|math|mermaid|parsed-literal|raw|sourcecode")
_VERSION = re.compile(r"version\w+|deprecated")
_UNSEEN = re.compile(r"contents|eval-rst|figure|figure-md|image|include|index|literalinclude|toctree")


def without_directives(text: str) -> str:
    """Blank out labels, fences around prose, and directives without prose. All other lines keep their offsets."""
    lines: list[str] = []
    fences: list[tuple[str, str]] = []  # of each open fence: its mark, and "code", "prose" or "unseen"
    begins = False  # whether the line above opened a directive, so that an option may follow
    for line in text.split("\n"):
        mark, kind = fences[-1] if fences else ("", "prose")
        fence = _FENCE.fullmatch(line)
        if mark and fence and fence[2].startswith(mark) and not (fence[3] or fence[4]):
            line = line if fences.pop()[1] == "code" else " " * len(line)
        elif fence and kind == "prose":
            kind, begins = _fence_kind(fence[2], fence[3]), True
            fences.append((fence[2], kind))
            title = fence[4] if fence[3] else fence[4].partition(" ")[2]
            title = f"{fence[3]} {title}" if _VERSION.fullmatch(fence[3] or "") else title
            line = line if kind == "code" else (fence[1] + title * (kind == "prose")).ljust(len(line))
        elif kind == "unseen" or (kind == "prose" and (_OPTION if begins else _LABEL).fullmatch(line)):
            line = " " * len(line)
        else:
            begins = False
        lines.append(line)
    return "\n".join(lines)


def _fence_kind(mark: str, name: str | None) -> str:
    if name is None:
        return "prose" if mark.startswith(":") else "code"
    return "code" if _CODE.fullmatch(name) else "unseen" if _UNSEEN.fullmatch(name) else "prose"


# -- running headers and footers of pages -------------------------------------------------------------------------------

EDGE_LINES = 3
"""Number of lines at the top and at the bottom of a page that may be running headers or footers."""

MIN_PAGES = 3
"""Minimum number of pages with the same running line."""

_NUMBER = re.compile(r"\d+|^[ivxlc]+$")
_NUMBERED = re.compile(r"(?:^|\s)(\d{1,5})$|^(\d{1,5})(?:\s|$)")
_TABLE = "|"
_TITLE = re.compile(r"(?=.*[^\W\d_])[^\W_].*[^:.,;]")  # no label above a list, no row, no heading, no sentence
_EDGE_LINE = re.compile(r"[^\n]+")


class _EdgeLine(NamedTuple):
    start: int
    end: int
    words: str
    key: str  # numbers aside
    number: int | None  # that it begins or ends with


def page_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of the pages of a text, which form feeds separate, without their running headers and footers.

    A running line is among the first or last three lines of its page, and meets one of three conditions: (1) It is at the
    same place of most pages, or of most left or right pages, if numbers are ignored. (2) It is the same, word for word, on
    three pages in a row, or on three left or right pages, such as the title of a chapter. (3) It begins or ends with the
    page's number. Headings and rows of tables never count.
    """
    spans, start = [], 0
    for page in text.split("\f"):
        spans.append((start, start + len(page)))
        start += len(page) + 1
    if len(spans) < MIN_PAGES:
        return spans
    tops = _running([_edge_lines(text, _EDGE_LINE.finditer(text, *span)) for span in spans])
    bottoms = _running([_edge_lines(text, reversed(list(_EDGE_LINE.finditer(text, *span)))) for span in spans])
    bounds = []
    for (first, after), top, bottom in zip(spans, tops, bottoms, strict=True):
        begin = top[-1].end if top else first
        bounds.append((begin, max(begin, bottom[-1].start if bottom else after)))
    return bounds


def _edge_lines(text: str, matches: Iterable[re.Match[str]]) -> list[_EdgeLine]:
    """Return the first lines of a page, from its top or its bottom."""
    lines = []
    for line in islice((match for match in matches if not match[0].isspace()), EDGE_LINES):
        words = " ".join(line[0].split())
        numbered = _NUMBERED.search(words)
        number = int(numbered[1] or numbered[2]) if numbered else None
        lines.append(_EdgeLine(*line.span(), words, _NUMBER.sub("0", words), number))
    return lines


def _running(pages: Sequence[Sequence[_EdgeLine]]) -> list[list[_EdgeLine]]:
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

    def runs(line: _EdgeLine, place: int, number: int) -> bool:
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


def _usual(pages: Sequence[Sequence[_EdgeLine]], place: int) -> str | None:
    """Return what most pages have at a place."""
    keys = Counter(lines[place].key for lines in pages if len(lines) > place)
    key, often = keys.most_common(1)[0] if keys else (None, 0)
    return key if often >= MIN_PAGES and 2 * often > sum(map(bool, pages)) else None


def _in_a_row(pages: Sequence[Sequence[_EdgeLine]], place: int) -> set[int]:
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
