"""Words that ends of lines divide."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial

PART = 4
"""Letters of both parts of a compound at an end of a line, at least, if only the parts stand elsewhere as words."""

_FIRST = frozenset(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "well"])
"""First parts of compounds that are no other words divided."""

SOFT, FIRM = "\xad", "\u2011"
"""Hyphens at the end of a line: of a word that it divides, and of a compound such as well-known."""

_BROKEN = re.compile(
    r"(?<![^\W\d_])(?<!-)([^\W\d_]+(?:-[^\W\d_]+)*)(?<=[a-zß-ÿ])[-‐]"
    r"(?=\n[ \t]*((?!(?:and|or|und|oder)\b)[a-zß-ÿ][^\W\d_]*))"
)
_DIVISION = re.compile(rf"{_BROKEN.pattern}\n[ \t]*[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MARKED = re.compile(f"{SOFT}(?:\\n[ \\t]*)?|{FIRM}\\n[ \\t]*")


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, without those that may be divided."""
    return frozenset(_WORD.findall(_DIVISION.sub(" ", text.casefold())))


def mark_divided(text: str, words: Collection[str] | None = None) -> str:
    """Put a soft hyphen at ends of lines that divide a word, and a non-breaking one at those that divide a compound."""
    if not _BROKEN.search(text):
        return text
    return _BROKEN.sub(partial(_marked, words=words_of(text) if words is None else words), text)


def _marked(broken: re.Match[str], words: Collection[str]) -> str:
    first, last = broken[1].casefold(), broken[2].casefold()
    apart = min(len(first), len(last)) >= PART and first in words and last in words
    compound = "-" in first or first in _FIRST or f"{first}-{last}" in words or apart
    return broken[1] + (FIRM if compound and first + last not in words else SOFT)


def join_divided(text: str) -> str:
    """Join words at marked ends of lines, and drop soft hyphens inside of words."""
    return _MARKED.sub(lambda mark: "" if mark[0].startswith(SOFT) else "-", text)
