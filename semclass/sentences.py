"""Sentences of a passage, each with a vector of its own.

The pooled vector of a passage is a mean, in which the one sentence that answers a question is diluted by its neighbours.
Sentences that are encoded by themselves keep it apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from semclass.bulk import encode_quietly
from semclass.types import Encoder, FloatArray, Ragged

SHORTEST = 25
"""Characters below which a piece is no sentence of its own, but part of its neighbour: a heading, "(Fig.", an item."""

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
    return sentences or [stripped]


def sentence_vectors(encoder: Encoder, texts: Sequence[str], pooled: FloatArray) -> Ragged:
    """Encode the sentences of texts.

    Parameters
    ----------
    encoder
        The encoder.
    texts
        n non-empty texts.
    pooled
        Their own pooled vectors, float32 of shape (n, dim): the vector of a text of one sentence.

    Returns
    -------
    Ragged
        float32 vectors of item shape (dim,), as the view ``pooled`` has them; at least one for each text.
    """
    rows = [split_sentences(text) for text in texts]
    counts = np.array([len(row) for row in rows], np.int64)
    values = np.repeat(pooled, counts, axis=0)
    several = [sentence for row in rows if len(row) > 1 for sentence in row]
    if several:
        # what is too long is said of the passage, not again of its sentence
        encoding, _ = encode_quietly(encoder, several, ("pooled",))
        values[np.repeat(counts > 1, counts)] = encoding.rows("pooled")
    return Ragged(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))
