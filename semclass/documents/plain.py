"""Headings of plain text: underlined lines, and the sections of a manual page as a terminal shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 100
"""Characters of a heading, at most."""

NO_LEVEL = 9
"""Level of a line that is left out like a heading but is none."""

_UNDERLINED = re.compile(
    r"(?:^|(?<=\f))(?P<name>[ \t]*[^\W_][^\n\f]*)\n(?P<rule>(?P<mark>[=-])(?P=mark){2,})[ \t]*$", re.MULTILINE
)
_COLUMNS = re.compile(r"\t|\s{3}|\|")
_ENDED = (".", ",", ";")
_MANUAL = re.compile(r"^NAME\n[ \t]+\S[^\n]*[ \t](?:-|--|—|–)[ \t]", re.MULTILINE)
_TOP = re.compile(r"\s*(?P<name>\S+\(\d\w*\))[ \t]{2,}\S[^\n]*\n")
_BOTTOM = re.compile(r"\n(?P<name>\S[^\n]* {3,}\S[^\n]*)\s*\Z")
_SECTION = re.compile(r"(?<=\n)(?P<indent>(?: {3})?)(?P<name>[A-Z]\S*(?: \S+)*)[ \t]*\n{1,2}(?=(?P=indent) {3,}\S)")


class PlainHeading(NamedTuple):
    """A heading whose name is ``text[start:end]``; with what marks it, it takes ``text[begin:after]``."""

    level: int
    name: str
    start: int
    end: int
    begin: int
    after: int


def plain_headings(text: str) -> list[PlainHeading]:
    """Give the headings of a plain text, in its order. A nameless one is left out, too, and begins no section."""
    found = _manual(text) if _MANUAL.search(text) else _underlined(text)
    return sorted(found, key=lambda heading: heading.begin)


def _underlined(text: str) -> Iterator[PlainHeading]:
    """Give lines with a line of === or --- below, and perhaps above; the first kind in the text is the highest level."""
    levels: dict[tuple[str, bool], int] = {}
    for match in _UNDERLINED.finditer(text):
        name, rule = match["name"].strip(), match["rule"]
        before = max(match.start() - 1, 0)
        above = text[text.rfind("\n", 0, before) + 1 : before].rpartition("\f")[2].strip(" \t")
        above = "" if text[before] == "\f" else above
        over = above == match["mark"] * len(above) and len(above) > 2
        if (above and not over) or len(name) > LONGEST or not len(name) <= 2 * len(rule) <= 4 * max(len(name), 3):
            continue
        if name.endswith(_ENDED) or _COLUMNS.search(name) or (match["name"][:1] in " \t" and not over):
            continue
        level = levels.setdefault((match["mark"], over), len(levels) + 1)
        start = match.start("name") + match["name"].index(name)
        begin = text.rindex(above, 0, match.start()) if over else match.start()
        yield PlainHeading(level, name, start, start + len(name), begin, match.end())


def _manual(text: str) -> Iterator[PlainHeading]:
    """Give the sections of a manual page under its name, and nameless its last line, which repeats name and date."""
    if top := _TOP.match(text):
        yield PlainHeading(1, top["name"], *top.span("name"), *top.span())
    for match in _SECTION.finditer(text):
        if len(match["name"]) <= LONGEST and not match["name"].endswith(_ENDED):
            yield PlainHeading(
                3 if match["indent"] else 2, match["name"], *match.span("name"), match.start(), match.end()
            )
    if bottom := _BOTTOM.search(text, max(len(text) - 2 * LONGEST, 0)):
        yield PlainHeading(NO_LEVEL, "", *bottom.span("name"), *bottom.span("name"))
