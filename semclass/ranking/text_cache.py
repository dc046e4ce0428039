"""Texts that were encoded before, so that re-ranking them for another question costs little."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.types import FloatArray, Passage, Ragged, chained
from semclass.encoders.stems import terms_of
from semclass.index.encode_rows import IndexConfig
from semclass.index.passage_encoder import PassageEncoder, searchable
from semclass.scoring.sparse import pack

Text: TypeAlias = tuple[str, str]
"""Title and text of a passage."""

Key: TypeAlias = tuple[Text, bool, str]
"""A text, whether its classes are needed, and the language of its stems."""

ENTRY_BYTES = 3_000
"""Bytes that an entry takes besides its values, about."""


@dataclass(frozen=True)
class EncodedTexts:
    """n texts, encoded as an index stores them."""

    stored: Mapping[str, Ragged]  #: arrays of :meth:`semclass.index.encode_rows.IndexConfig.store`
    terms: Ragged  #: terms for BM25
    sparse: Ragged  #: learnt words, see :mod:`semclass.scoring.sparse`
    probabilities: FloatArray  #: P(class | text), (n, n_classes)
    truncated: npt.NDArray[np.bool_]  #: whether a text is longer than the encoder reads, (n,)

    @classmethod
    def of(
        cls, passage_encoder: PassageEncoder, texts: Sequence[Text], *, classes: bool, language: str
    ) -> EncodedTexts:
        """Encode texts."""
        passages = [Passage("", text, {"title": title}) for title, text in texts]
        features, truncated = passage_encoder.read(passages, classes=classes)
        stored = IndexConfig(passage_encoder, small=False).store(features)
        terms = terms_of([searchable(passage) for passage in passages], language)
        learnt = pack(features.sparse.terms, features.sparse.weights)
        return cls(stored, terms, learnt, features.probabilities, np.isin(np.arange(len(texts)), truncated))

    def row(self, row: int) -> EncodedTexts:
        """Copy one text."""
        places = np.array([row])
        stored = {name: rows.take(places) for name, rows in self.stored.items()}
        words, learnt = self.terms.take(places), self.sparse.take(places)
        return EncodedTexts(stored, words, learnt, self.probabilities[places], self.truncated[places])

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        arrays = [self.terms, self.sparse, *self.stored.values()]
        return int(sum(rows.values.nbytes for rows in arrays)) + self.probabilities.nbytes + ENTRY_BYTES


def joined(parts: Sequence[EncodedTexts]) -> EncodedTexts:
    """Join texts, at least one part; without classes if one part has none."""
    columns = min(part.probabilities.shape[1] for part in parts)
    return EncodedTexts(
        {name: chained([part.stored[name] for part in parts]) for name in parts[0].stored},
        chained([part.terms for part in parts]),
        chained([part.sparse for part in parts]),
        np.concatenate([part.probabilities[:, :columns] for part in parts]),
        np.concatenate([part.truncated for part in parts]),
    )


class Usage(NamedTuple):
    """Use of a cache since it was made."""

    hits: int  #: texts that were not encoded again
    misses: int  #: texts that were encoded
    bytes: int  #: bytes that are in use


class TextCache:
    """Keeps the last encoded texts, up to a number of bytes. Threads may share one instance."""

    def __init__(self, megabytes: float) -> None:
        self.limit = round(megabytes * 1e6)
        self._kept: OrderedDict[Key, EncodedTexts] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._bytes = 0

    @property
    def usage(self) -> Usage:
        """Hits, misses and bytes so far."""
        return Usage(self._hits, self._misses, self._bytes)

    def read(
        self, passage_encoder: PassageEncoder, texts: Sequence[Text], *, classes: bool, language: str
    ) -> tuple[EncodedTexts, npt.NDArray[np.bool_]]:
        """Return at least one distinct text, encoded now or before, and whether each was encoded before, (n,)."""
        keys = [(text, classes, language) for text in texts]
        with self._lock:
            kept = [self._find(key) for key in keys]
        missing = [row for row, entry in enumerate(kept) if entry is None]
        if missing:
            encoded = EncodedTexts.of(
                passage_encoder, [texts[row] for row in missing], classes=classes, language=language
            )
            for place, row in enumerate(missing):
                kept[row] = encoded.row(place)
        known = np.isin(np.arange(len(texts)), missing, invert=True)
        with self._lock:
            self._hits += len(texts) - len(missing)
            self._misses += len(missing)
            for row in missing:
                self._keep(keys[row], kept[row])
        return joined([entry for entry in kept if entry is not None]), known

    def _find(self, key: Key) -> EncodedTexts | None:
        key = key if key in self._kept else (key[0], True, key[2])
        entry = self._kept.get(key)
        if entry is not None:
            self._kept.move_to_end(key)
        return entry

    def _keep(self, key: Key, entry: Any) -> None:
        if key not in self._kept and (size := _size(key, entry)) <= self.limit:
            self._kept[key] = entry
            self._bytes += size
            while self._bytes > self.limit:
                self._bytes -= _size(*self._kept.popitem(last=False))


def _size(key: Key, entry: EncodedTexts) -> int:
    return entry.nbytes + 4 * sum(map(len, key[0]))
