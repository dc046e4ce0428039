"""Passages as their sentences: each is read with the title before it, and views of sentences become those of passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semclass.core.types import Encoder, Encoding, FloatArray, IntArray, Ragged, offsets_of
from semclass.documents.sentences import split_sentences
from semclass.scoring.dense import shares_of


@dataclass(frozen=True)
class Sentences:
    """The sentences of n passages, m in all, those of a passage one after another."""

    texts: list[str]  # what is read: sentences with their titles, each text once
    which: IntArray  # the text of each sentence, int64 of shape (m,)
    offsets: IntArray  # where the sentences of each passage begin, int64 of shape (n + 1,)
    words: FloatArray  # how many words each sentence has without the title, float32 of shape (m,)
    titles: list[str]  # title of each passage; empty for none

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.titles)

    @classmethod
    def of(cls, texts: Sequence[str], titles: Sequence[str] | None = None) -> Sentences:
        """Split n texts; one that is empty is read as its title."""
        places: dict[str, int] = {}
        which, words, counts, known = [], [], [], []
        for text, given in zip(texts, titles or [""] * len(texts), strict=True):
            title = " ".join(given.split())
            sentences, title = (split_sentences(text), title) if text.strip() else ([title], "")
            which += [
                places.setdefault(f"{title} {sentence}" if title else sentence, len(places)) for sentence in sentences
            ]
            words += [sentence.count(" ") + 1 for sentence in sentences]
            counts.append(len(sentences))
            known.append(title)
        offsets = offsets_of(np.array(counts, np.int64))
        return cls(list(places), np.array(which, np.int64), offsets, np.array(words, np.float32), known)

    def passages(self, rows: Sequence[int]) -> tuple[int, ...]:
        """The passages that some of the texts are in."""
        found = np.flatnonzero(np.isin(self.which, rows))
        return tuple(np.unique(np.searchsorted(self.offsets, found, side="right") - 1).tolist())

    def view(self, name: str, rows: FloatArray) -> FloatArray:
        """A view of the passages from that of the texts: the maximum for ``entities``, else the mean by words."""
        rows, starts = rows[self.which], self.offsets[:-1]
        if name == "entities":
            return np.asarray(np.maximum.reduceat(rows, starts, axis=0))
        if name == "pooled":
            weights = shares_of(rows, self.words, self.offsets)
        else:
            weights = np.sqrt(self.words)
            weights /= np.repeat(np.add.reduceat(weights, starts), np.diff(self.offsets))
        return np.asarray(np.add.reduceat(rows * weights[:, None], starts, axis=0))

    def pieces(self, encoder: Encoder, terms: Ragged, vectors: Ragged | None = None) -> tuple[Ragged, Ragged | None]:
        """Word pieces of the passages from those of the texts, and vectors for them: their titles' once, first.

        Pieces beyond what the encoder read of a sentence have the vector of the last one that it read.
        """
        begin = self._beginnings(encoder)
        ends = terms.offsets[self.which + 1]
        starts = np.minimum(terms.offsets[self.which] + begin, ends)
        places = offsets_of(ends - starts)
        within = np.arange(places[-1]) - np.repeat(places[:-1] - starts, ends - starts)
        offsets = places[self.offsets]
        found = Ragged(terms.values[within], offsets)
        if vectors is None:
            return found, None
        if not np.array_equal(vectors.offsets, terms.offsets):
            owner = np.repeat(self.which, ends - starts)
            within = vectors.offsets[owner] + np.minimum(within - terms.offsets[owner], vectors.lengths()[owner] - 1)
        return found, Ragged(vectors.values[within], offsets)

    def _beginnings(self, encoder: Encoder) -> IntArray:
        """Word pieces of its title before each sentence but the first of a passage, int64 of shape (m,)."""
        numbers = {title: place for place, title in enumerate(dict.fromkeys(filter(None, self.titles)))}
        begin = np.zeros(len(self.which), np.int64)
        if numbers:
            lengths = np.append(encoder.encode(list(numbers), views=()).terms.lengths(), 0)
            begin = np.repeat(lengths[[numbers.get(title, -1) for title in self.titles]], np.diff(self.offsets))
            begin[self.offsets[:-1]] = 0
        return begin


def encode_passages(encoder: Encoder, texts: Sequence[str], views: Sequence[str]) -> tuple[Encoding, tuple[int, ...]]:
    """Views of passages that have one row for each, and which have a sentence that is longer than the encoder reads."""
    items = Sentences.of(texts)
    found = encoder.encode(items.texts, views=views)
    given: dict[str, Any] = {name: items.view(name, found.rows(name)) for name in views}
    return Encoding(items.pieces(encoder, found.terms)[0], **given), items.passages(found.truncated)
