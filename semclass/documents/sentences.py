"""Spans of texts: sentences, and pieces of bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

Span = tuple[int, int]
"""Position of the first character, and of the character after the last."""

SHORTEST = 25
"""Number of characters below which a piece is joined to its neighbour, such as a heading, "(Fig." or an item."""

MAX_SENTENCE_WORDS = 100
"""Maximum words of a sentence, because an encoder reads no more. A table, for example, has no full stops."""

PARSED = 1 << 20
"""Number of characters of a document that are parsed at a time."""

_BREAKS = ("\n\n", "\n", " ")
"""Where a text that is too long is broken, the best first."""

_MARKS = "。！？｡।॥؟۔።፧፨։។៕။།"
"""Ends of sentences in other scripts: of Chinese and Japanese, Hindi, Arabic and Urdu, Amharic, Armenian, Khmer, Burmese
and Tibetan. No word or number holds one, so that no white space need follow.
"""

# matched from the first white space only: a long run of it would take quadratic time otherwise
_END = re.compile(rf"(?<=[.?!])[\"')\]”’]*\s+|(?<=[{_MARKS}])[\"')\]”’」』）»]*\s*|(?<!\s)\s*\n\s*")

_WORD = re.compile(r"\S+")
_STOP = re.compile(rf"(?:[.?!:;]['\")\]”’]*|[{_MARKS}][\"')\]”’」』）»]*)$")
_NEW_ITEM = re.compile(r"\s*\n\s*(?:\n|[-*+•|]|\d+[.)]\s)")

_ABBREVIATION = re.compile(
    # single letters (initials, "E. coli"), and what is written with a full stop in running text
    r"(?:^|[\s(\[\"'])(?:[a-z]|[a-z]\.[a-z]|al|approx|c?f|ca|cf|co|corp|dr|ed|eds|eq|esp|etc|ex|fig|figs|gen|gov|inc|jr|lt|ltd|"
    r"mr|mrs|ms|mt|no|nos|nr|op|p|pp|prof|ref|refs|rep|resp|rev|sen|sgt|sp|spp|sr|st|subsp|var|viz|vol|vs)\.$",
    re.IGNORECASE,
)


def split_sentences(text: str) -> list[str]:
    """Split a non-empty text at line ends, and after full stops, question marks and exclamation marks of any script."""
    return [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]


def sentence_spans(text: str, *, shortest: int = SHORTEST) -> list[Span]:
    """Return the spans of sentences with at least `shortest` characters. Only white space may lie between two spans."""
    spans: list[Span] = []
    for start, end, _ in _sentences(text, shortest):
        words = [match.span() for match in _WORD.finditer(text, start, end)]
        count = -(-len(words) // MAX_SENTENCE_WORDS)  # as few equal parts as allowed
        bounds = pairwise(len(words) * place // count for place in range(count + 1)) if words else ()
        spans += [(words[first][0], words[after - 1][1]) for first, after in bounds]
    return spans


def unwrapped_spans(text: str) -> list[Span]:
    """Return the spans of whole sentences, list items and table rows. Wrapped lines are joined, other lines are not."""
    spans = sentence_spans(text)
    stops = [
        place for place, (_, end) in enumerate(spans) if _STOP.search(text, end - 4, end) or _NEW_ITEM.match(text, end)
    ]
    # a text without full stops, such as rows of values, is cut at its lines
    if not stops:
        return spans
    stops = sorted({*stops, len(spans) - 1})
    return [(spans[before + 1][0], spans[last][1]) for before, last in pairwise([-1, *stops])]


def _sentences(text: str, shortest: int) -> list[tuple[int, int, int]]:
    """Return the start and end of each sentence, and its length with one character between the pieces that form it."""
    sentences: list[tuple[int, int, int]] = []
    stripped = text.rstrip()
    start = first = len(text) - len(text.lstrip())
    ends = [(match.start(), match.end()) for match in _END.finditer(stripped, first)]
    for end, following in [*ends, (len(stripped), len(stripped))]:
        # closing quotation marks and brackets stay with their sentence
        # no abbreviation is longer than this
        last = stripped[max(start, end - 12) : following].rstrip()
        if following < len(stripped) and "\n" not in stripped[end:following] and _ABBREVIATION.search(last):
            continue
        stop = max(start, end - 12) + len(last)
        length = stop - start
        if sentences and min(length, sentences[-1][2]) < shortest:
            before = sentences.pop()
            start, length = before[0], before[2] + 1 + length
        sentences.append((start, stop, length))
        start = following
    return sentences


def bounded_spans(text: str, start: int, end: int, size: int = PARSED) -> Iterator[Span]:
    """Break ``text[start:end]`` into spans of at most `size` characters: at blank lines, or else at line ends or spaces."""
    while end - start > size:
        places = (text.rfind(mark, start + 1, start + size) for mark in _BREAKS)
        after = next((place for place in places if place >= 0), start + size)
        yield start, after
        start = after
    yield start, end


def trimmed(text: str, start: int, end: int) -> Span:
    """Shrink a span, so that it has no white space at its ends."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())
