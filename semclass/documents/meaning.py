"""Cuts a text where the meaning changes: where neighbouring sentences differ most, as the reference work does."""

from __future__ import annotations

import numpy as np

from semclass.core.checks import check_positive, check_text
from semclass.core.types import Encoder, FloatArray
from semclass.documents.chunking import WINDOW_WORDS
from semclass.documents.sentences import split_sentences
from semclass.scoring.vectors import unit

NEIGHBOURS = 2
"""Number of sentences on either side of a place that are compared. On articles of SQuAD, 1, 2 and 3 worked equally well."""


def cut_by_meaning(text: str, encoder: Encoder, size: int = WINDOW_WORDS) -> list[str]:
    """Cut a text into runs of sentences that end where the meaning changes. A run of several has at most `size` words.

    A run ends at a place where the two sentences before it differ from the two sentences after it more than at most
    places: their cosine is more than a standard deviation below the mean, as in TextTiling (Hearst 1997). A search finds
    as much with windows, so `index build` does not offer this cut. Raises an InputError if the text is empty, or `size` is
    not positive.
    """
    sentences, size = split_sentences(check_text(text, "text")), check_positive(size, "size")
    words = [len(sentence.split()) for sentence in sentences]
    ends = set(_changes(encoder.encode(sentences).rows("pooled")))
    passages, begin = [], 0
    for place in range(1, len(sentences)):
        if place in ends or sum(words[begin : place + 1]) > size:
            passages.append(" ".join(sentences[begin:place]))
            begin = place
    return [*passages, " ".join(sentences[begin:])]


def _changes(vectors: FloatArray) -> list[int]:
    """Return the sentences with which another meaning begins."""
    places = range(1, len(vectors))
    if not places:
        return []
    vectors = unit(vectors)
    before = unit(np.stack([vectors[max(place - NEIGHBOURS, 0) : place].sum(axis=0) for place in places]))
    after = unit(np.stack([vectors[place : place + NEIGHBOURS].sum(axis=0) for place in places]))
    alike = (before * after).sum(axis=1)
    return [int(place) + 1 for place in np.flatnonzero(alike < alike.mean() - alike.std())]
