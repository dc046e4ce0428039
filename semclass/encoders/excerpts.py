"""Encodes passages by excerpts. The views of a passage combine the views of its excerpts.

An excerpt is a run of whole sentences. It is read after the title of its passage. A sentence alone often lacks its subject.
The vector of a long text is far from questions about a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semclass.core.types import Encoder, Encoding, FloatArray, IntArray, Ragged, offsets_of, spans
from semclass.documents.sentences import split_sentences
from semclass.encoders.onnx_encoder import for_passages
from semclass.scoring.dense import shares_of

MAX_CHARACTERS = 1 << 19
"""Maximum number of characters that are read of a passage, about 80,000 words of English. This bounds memory."""

MEAN_SIZE = 60
"""Maximum mean size of the excerpts of a passage, in words, chosen by ``docs/decisions/excerpts.md``."""

BYTES = 12
"""Number of bytes in UTF-8 that count as a word at most, because some scripts have no spaces."""


@dataclass(frozen=True)
class Excerpts:
    """The m excerpts of n passages, in order."""

    texts: list[str]  # texts to encode: excerpts with their titles, each text once
    which: IntArray  # the text of each excerpt, int64 of shape (m,)
    offsets: IntArray  # start of the excerpts of each passage, int64 of shape (n + 1,)
    words: FloatArray  # number of words of each excerpt without the title, float32 of shape (m,)
    titles: list[str]  # title of each passage; empty for none

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.titles)

    @classmethod
    def of(cls, texts: Sequence[str], titles: Sequence[str] | None = None) -> Excerpts:
        """Split n texts, at most :data:`MAX_CHARACTERS` characters of each. An empty text is read as its title."""
        places: dict[str, int] = {}
        which, words, counts, known = [], [], [], []
        for text, given in zip(texts, titles or [""] * len(texts), strict=True):
            title = " ".join(given.split())
            read, title = (text[:MAX_CHARACTERS], title) if text[:MAX_CHARACTERS].strip() else (title, "")
            excerpts = cut_excerpts(split_sentences(read))
            which += [
                places.setdefault(f"{title} {excerpt}" if title else excerpt, len(places)) for excerpt in excerpts
            ]
            words += [size_of(excerpt) for excerpt in excerpts]
            counts.append(len(excerpts))
            known.append(title)
        offsets = offsets_of(np.array(counts, np.int64))
        return cls(list(places), np.array(which, np.int64), offsets, np.array(words, np.float32), known)

    def passages(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Return the passages that contain one of the given texts."""
        found = np.flatnonzero(np.isin(self.which, rows))
        return tuple(np.unique(np.searchsorted(self.offsets, found, side="right") - 1).tolist())

    def view(self, name: str, rows: FloatArray) -> FloatArray:
        """Compute a view of the passages: the maximum of their texts for ``entities``, else the mean by words."""
        rows, starts = rows[self.which], self.offsets[:-1]
        if name == "entities":
            return np.asarray(np.maximum.reduceat(rows, starts, axis=0))
        if name == "pooled":
            weights = shares_of(rows, self.words, self.offsets)
        else:
            weights = np.sqrt(self.words)
            weights /= np.repeat(np.add.reduceat(weights, starts), np.diff(self.offsets))
        return np.asarray(np.add.reduceat(rows * weights[:, None], starts, axis=0))

    def title_lengths(self, encoder: Encoder) -> tuple[IntArray, IntArray]:
        """Count the word pieces of each passage's title, and the word pieces that are read, int64 of shape (n,)."""
        numbers = {title: place for place, title in enumerate(dict.fromkeys(filter(None, self.titles)))}
        if not numbers:
            return np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        found = encoder.encode(list(numbers), views=())
        rows = np.array([numbers.get(title, -1) for title in self.titles])
        whole, read = (np.append(each.lengths(), 0)[rows] for each in (found.terms, found.kept or found.terms))
        return whole, read

    def joined(self, rows: Ragged, titles: IntArray) -> Ragged:
        """Join the word pieces of texts to rows for passages. The `titles` pieces of a title are kept once."""
        begin = np.repeat(titles, np.diff(self.offsets))
        begin[self.offsets[:-1]] = 0
        ends = rows.offsets[self.which + 1]
        parts = spans(rows.values, np.minimum(rows.offsets[self.which] + begin, ends), ends)
        return Ragged(parts.values, parts.offsets[self.offsets])


def size_of(text: str) -> int:
    """Count the words of a text, by its spaces or by its bytes."""
    return max(text.count(" ") + 1, len(text.encode()) // BYTES)


def cut_excerpts(sentences: Sequence[str]) -> list[str]:
    """Join consecutive sentences to as few excerpts of similar size as :data:`MEAN_SIZE` allows."""
    sizes = [size_of(sentence) for sentence in sentences]
    share = sum(sizes) / -(-sum(sizes) // MEAN_SIZE)
    excerpts: dict[int, list[str]] = {}
    end = 0
    for sentence, size in zip(sentences, sizes, strict=True):
        excerpts.setdefault(int((end + size / 2) / share), []).append(sentence)
        end += size
    return [" ".join(excerpt) for excerpt in excerpts.values()]


def encode_passages(encoder: Encoder, texts: Sequence[str], views: Sequence[str]) -> tuple[Encoding, tuple[int, ...]]:
    """Return views of passages, one row each, and the passages with a sentence longer than the encoder reads."""
    items, reader = Excerpts.of(texts), for_passages(encoder)
    found = reader.encode(items.texts, views=views)
    given: dict[str, Any] = {name: items.view(name, found.rows(name)) for name in views}
    return Encoding(items.joined(found.terms, items.title_lengths(reader)[0]), **given), items.passages(found.truncated)
