"""Cutting passages into sentences."""

from __future__ import annotations

import re
from itertools import pairwise

Span = tuple[int, int]
"""First character and the one after the last."""

SHORTEST = 25
"""Characters below which a piece is no sentence of its own, but part of its neighbour: a heading, "(Fig.", an item."""

LONGEST = 100
"""Words from which a stretch without a full stop, such as a table, is cut: an encoder reads only so much at a time."""

# white space is looked at from its beginning only, as otherwise a long run of it would be read once for each character
_END = re.compile(r"(?<=[.?!])[\"')\]”’]*\s+|(?<=[。！？])[”’」』）]*\s*|(?<!\s)\s*\n\s*")

_WORD = re.compile(r"\S+")

_ABBREVIATION = re.compile(
    # single letters (initials, "E. coli"), and what is written with a full stop in running text
    r"(?:^|[\s(\[\"'])(?:[a-z]|[a-z]\.[a-z]|al|approx|c?f|ca|cf|co|corp|dr|ed|eds|eq|esp|etc|ex|fig|figs|gen|gov|inc|jr|lt|ltd|"
    r"mr|mrs|ms|mt|no|nos|nr|op|p|pp|prof|ref|refs|rep|resp|rev|sen|sgt|sp|spp|sr|st|subsp|var|viz|vol|vs)\.$",
    re.IGNORECASE,
)


def split_sentences(text: str) -> list[str]:
    """Cut a text after full stops, question marks, exclamation marks and lines.

    Those of Chinese and Japanese need no space after them.

    Parameters
    ----------
    text
        A non-empty text, of any case.

    Returns
    -------
    list of str
        At least one; joined with single spaces they are the text again, but for its white space.
    """
    return [part for pieces in _sentences(text) for part in _cut(" ".join(text[start:end] for start, end in pieces))]


def sentence_spans(text: str) -> list[Span]:
    """Tell where the sentences of a text are: those of :func:`split_sentences`.

    Parameters
    ----------
    text
        A non-empty text, of any case.

    Returns
    -------
    list of (int, int)
        First character of each sentence and the one after its last. Between two sentences there is at most white space.
    """
    spans: list[Span] = []
    for pieces in _sentences(text):
        start, end = pieces[0][0], pieces[-1][1]
        words = [(start + found.start(), start + found.end()) for found in _WORD.finditer(text[start:end])]
        spans += [(words[first][0], words[after - 1][1]) for first, after in _stretches(len(words))]
    return spans


def _sentences(text: str) -> list[list[Span]]:
    """Sentences, each as the pieces that it was put together from."""
    sentences: list[list[Span]] = []
    stripped = text.rstrip()
    start = first = len(text) - len(text.lstrip())
    ends = [(found.start(), found.end()) for found in _END.finditer(stripped, first)]
    for end, following in [*ends, (len(stripped), len(stripped))]:
        # closing quotation marks and brackets stay with their sentence
        # no abbreviation is longer than this
        last = stripped[max(start, end - 12) : following].rstrip()
        if following < len(stripped) and "\n" not in stripped[end:following] and _ABBREVIATION.search(last):
            continue
        span = (start, max(start, end - 12) + len(last))
        if sentences and (span[1] - start < SHORTEST or _length(sentences[-1]) < SHORTEST):
            sentences[-1].append(span)
        else:
            sentences.append([span])
        start = following
    return sentences


def _length(pieces: list[Span]) -> int:
    """Characters of pieces that are joined with single spaces."""
    return sum(end - start for start, end in pieces) + len(pieces) - 1


def _cut(sentence: str) -> list[str]:
    """Cut what is far too long for a sentence into stretches of like length."""
    words = sentence.split()
    if len(words) <= LONGEST:
        return [sentence]
    return [" ".join(words[start:end]) for start, end in _stretches(len(words))]


def _stretches(words: int) -> list[Span]:
    """Cut so many words into as few stretches of like length as LONGEST allows."""
    count = -(-words // LONGEST)
    return list(pairwise(words * place // count for place in range(count + 1)))
