"""What the head that reads a question and a passage together, see :mod:`semclass.heads.joint`, adds to a ranking.

The head reads only the sentences of a passage that are most like an answer, and only the first few passages of a
ranking, because each passage takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semclass.core.types import DoubleArray, FloatArray, Passage, Ragged
from semclass.documents.sentences import split_sentences
from semclass.heads.joint import JointHead
from semclass.index.passage_encoder import parts_of
from semclass.index.records import Query
from semclass.scoring.topk import unit

WORDS = 45
"""Most words of a passage that the head reads, in whole sentences. The head reads at least one sentence."""

WORD_BYTES = 12
"""Bytes that count as a word at most: some languages are written without spaces."""

WEIGHT = 0.1
"""The amount that a unit of the head's log-odds adds to the score of the default method."""

UNLIKELY = -2.0
"""Log-odds below which each unit counts twice. Passages that are hardly an answer fall behind, and other evidence
decides among likely answers. See ``bench/results/deep.md``.
"""


def joint_log_odds(head: JointHead, query: Query, sentences: Ragged, passages: Sequence[Passage]) -> DoubleArray:
    """Return calibrated log-odds that n passages answer, float64 (n,).

    `sentences` are the unit vectors of the passages' sentences.
    """
    worth = Ragged(np.einsum("ij,j->i", sentences.values, unit(query.pooled)), sentences.offsets)
    chosen = [chosen_sentences(passage, worth.row(row)) for row, passage in enumerate(passages)]
    return head.read([query.query_used] * len(chosen), chosen)


def gain_of(log_odds: DoubleArray) -> DoubleArray:
    """Return the gain of log-odds, see :data:`UNLIKELY`."""
    return log_odds + np.minimum(log_odds - UNLIKELY, 0)


def chosen_sentences(passage: Passage, worth: FloatArray) -> list[str]:
    """Return the most valuable sentences of a passage, of at most `WORDS` words, in their order.

    The passage's title stands before the first sentence.
    """
    title, body, _ = parts_of(passage)
    title = " ".join(title.split())
    sentences = split_sentences(body) if body.strip() else [title]
    words, kept = 0, list[int]()
    for place in np.argsort(-worth[: len(sentences)], kind="stable").tolist():
        text = sentences[place]
        words += max(text.count(" ") + 1, len(text.encode()) // WORD_BYTES)
        if kept and words > WORDS:
            break
        kept.append(place)
    first, *others = sorted(kept)
    named = f"{title} {sentences[first]}" if title and passage.text.strip() else sentences[first]
    return [named, *(sentences[place] for place in others)]
