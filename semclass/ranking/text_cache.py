"""Texts that were encoded before, so that re-ranking them for another question costs little."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.types import Passage, Ragged, chained
from semclass.index.encode_rows import IndexConfig
from semclass.index.passage_encoder import PassageEncoder

Text: TypeAlias = tuple[str, str]
"""Title and text of a passage."""

Key: TypeAlias = tuple[Text, bool, str]
"""A text, whether its classes are needed, and the language of its stems."""

ENTRY_BYTES = 3_000
"""Bytes that an entry takes besides its values, about."""


Entry: TypeAlias = tuple[dict[str, Ragged], bool]
"""Arrays of a text, see :func:`semclass.index.encode_rows.segment_of`, and whether it is longer than the encoder reads."""


class Usage(NamedTuple):
    """Use of a cache since it was made."""

    hits: int  #: texts that were not encoded again
    misses: int  #: texts that were encoded
    bytes: int  #: bytes that are in use


class TextCache:
    """Keeps the last encoded texts, up to a number of bytes. Threads may share one instance."""

    def __init__(self, megabytes: float) -> None:
        self.limit = round(megabytes * 1e6)
        self._kept: OrderedDict[Key, Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._bytes = 0

    @property
    def usage(self) -> Usage:
        """Hits, misses and bytes so far."""
        return Usage(self._hits, self._misses, self._bytes)

    def read(
        self, passage_encoder: PassageEncoder, texts: Sequence[Text], *, classes: bool, language: str
    ) -> tuple[dict[str, Ragged], npt.NDArray[np.bool_]]:
        """Return the arrays of at least one distinct text, encoded now or before, and whether each is too long, (n,)."""
        keys = [(text, classes, language) for text in texts]
        with self._lock:
            kept = [self._find(key) for key in keys]
        missing = [row for row, entry in enumerate(kept) if entry is None]
        if missing:
            passages = [Passage("", texts[row][1], {"title": texts[row][0]}) for row in missing]
            config = IndexConfig(passage_encoder, small=False, language=language)
            arrays, truncated = config.arrays(passages, classes=classes)
            for place, row in enumerate(missing):
                mine = {name: rows.take(np.array([place])) for name, rows in arrays.items()}
                kept[row] = mine, place in truncated
        with self._lock:
            self._hits += len(texts) - len(missing)
            self._misses += len(missing)
            for row in missing:
                self._keep(keys[row], kept[row])
        entries = [entry for entry in kept if entry is not None]
        joined = {name: chained([rows[name] for rows, _ in entries]) for name in entries[0][0]}
        return joined, np.array([too_long for _, too_long in entries])

    def _find(self, key: Key) -> Entry | None:
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


def _size(key: Key, entry: Entry) -> int:
    return ENTRY_BYTES + sum(rows.values.nbytes for rows in entry[0].values()) + 4 * sum(map(len, key[0]))
