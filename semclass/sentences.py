"""Cutting passages into sentences."""

from __future__ import annotations

import re
from itertools import pairwise

SHORTEST = 25
"""Characters below which a piece is no sentence of its own, but part of its neighbour: a heading, "(Fig.", an item."""

LONGEST = 100
"""Words from which a stretch without a full stop, such as a table, is cut: an encoder reads only so much at a time."""

_END = re.compile(r"(?<=[.?!])[\"')\]”’]*\s+|\s*\n\s*")

_ABBREVIATION = re.compile(
    # single letters (initials, "E. coli"), and what is written with a full stop in running text
    r"(?:^|[\s(\[\"'])(?:[a-z]|[a-z]\.[a-z]|al|approx|c?f|ca|cf|co|corp|dr|ed|eds|eq|esp|etc|ex|fig|figs|gen|gov|inc|jr|lt|ltd|"
    r"mr|mrs|ms|mt|no|nos|nr|op|p|pp|prof|ref|refs|rep|resp|rev|sen|sgt|sp|spp|sr|st|subsp|var|viz|vol|vs)\.$",
    re.IGNORECASE,
)


def split_sentences(text: str) -> list[str]:
    """Cut a text after full stops, question marks, exclamation marks and lines.

    Parameters
    ----------
    text
        A non-empty text, of any case.

    Returns
    -------
    list of str
        At least one; joined with single spaces they are the text again, but for its white space.
    """
    sentences: list[str] = []
    start, stripped = 0, text.strip()
    ends = [(found.start(), found.end()) for found in _END.finditer(stripped)]
    for end, following in [*ends, (len(stripped), len(stripped))]:
        # closing quotation marks and brackets stay with their sentence
        piece = stripped[start:following].strip()
        if following < len(stripped) and "\n" not in stripped[end:following] and _ABBREVIATION.search(piece):
            continue
        if sentences and min(len(piece), len(sentences[-1])) < SHORTEST:
            sentences[-1] += f" {piece}"
        elif piece:
            sentences.append(piece)
        start = following
    return [part for sentence in sentences or [stripped] for part in _cut(sentence)]


def _cut(sentence: str) -> list[str]:
    """Cut what is far too long for a sentence into stretches of like length."""
    words = sentence.split()
    if len(words) <= LONGEST:
        return [sentence]
    count = -(-len(words) // LONGEST)
    ends = [len(words) * place // count for place in range(count + 1)]
    return [" ".join(words[start:end]) for start, end in pairwise(ends)]
