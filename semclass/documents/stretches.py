"""Long texts in stretches, so that memory is bounded whatever comes."""

from __future__ import annotations

from collections.abc import Iterator

from semclass.documents.sentences import Span

STRETCH = 1 << 20
"""Characters of a document that are parsed at a time: a longer one has an end of a block where one must be."""

PASSAGE = 50_000
"""Characters of a passage that is cut from a document, at most: twenty pages."""

_ENDS = ("\n\n", "\n", " ")
"""Where a stretch ends, the first that it has."""


def stretches(text: str, start: int, end: int, size: int = STRETCH) -> Iterator[Span]:
    """Cut ``text[start:end]`` into stretches of at most `size` characters: at blank lines, else lines, else words."""
    while end - start > size:
        places = (text.rfind(mark, start + 1, start + size) for mark in _ENDS)
        after = next((place for place in places if place >= 0), start + size)
        yield start, after
        start = after
    yield start, end


def trimmed(text: str, start: int, end: int) -> Span:
    """Leave out white space at both ends."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())
