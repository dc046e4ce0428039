"""Finds near-duplicates: passages with nearly the same words as an earlier passage."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import rensa

from semclass import InputError, Passage
from semclass.plugins import check_probability

THRESHOLD = 0.9
"""Least resemblance of near-duplicates. At 0.9, about one word in sixty is changed. A lower threshold would also match
passages that differ in a name, and questions often ask for a name.
"""

SHINGLE_WORDS = 3
"""Number of words of a shingle."""

HASHES = 128
BANDS = 16
"""Number of bands of 8 hashes. A pair of resemblance r is compared with probability 1 - (1 - r^8)^16, which is 0.9999
at 0.9.
"""

CANDIDATES = 100
"""Most earlier passages that a passage is compared with, so that thousands of similar pages do not take quadratic time.
"""

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Shingles:
    """The runs of consecutive words of a text, and its words that contain a digit."""

    runs: frozenset[str]
    numbers: frozenset[str]


def shingles(text: str) -> Shingles:
    """Cut a text into runs of three words, regardless of case. A shorter text is one run."""
    words = _WORD.findall(text.casefold()) or [text.strip()]
    runs = zip(*(words[start:] for start in range(min(SHINGLE_WORDS, len(words)))), strict=False)
    return Shingles(frozenset(map(" ".join, runs)), frozenset(filter(_DIGIT.search, words)))


def mark_duplicates(passages: Iterable[Passage], *, threshold: float = THRESHOLD) -> Iterator[Passage]:
    """Mark near-duplicates: ``metadata["duplicate_of"]`` gets the id of the earlier passage.

    The resemblance of two texts is the Jaccard index of their shingles (three consecutive words, in any case), ``|A &
    B| / |A | B|`` (Broder 1997, "On the resemblance and containment of documents"). It is computed for pairs that MinHash
    and locality-sensitive hashing find. Passages with different numbers (words with a digit) are never duplicates, because
    reports of two years often differ only in numbers.

    Parameters
    ----------
    passages
        Any number of passages. A million distinct passages of 113 words take 2 GB of memory.
    threshold
        Least resemblance of duplicates, in (0, 1]. At 0.8, about 5 % of the pairs with this resemblance are missed; at
        0.6, three quarters.

    Raises
    ------
    InputError
        If the threshold is not in (0, 1].
    """
    if check_probability(threshold, "threshold") == 0:
        raise InputError("threshold is 0; it must be above 0, such as 0.9")
    return _marked(passages, _Seen(threshold))


def _marked(passages: Iterable[Passage], seen: _Seen) -> Iterator[Passage]:
    for passage in passages:
        original = seen.original(passage)
        if original is None:
            yield passage
        else:
            yield replace(passage, metadata={**passage.metadata, "duplicate_of": original})


class _Seen:
    """The ids and shingles of the passages that are not duplicates, and an index of their MinHashes."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.index: Any = rensa.RMinHashLSH(threshold=threshold, num_perm=HASHES, num_bands=BANDS)
        self.ids: list[str] = []
        self.shingles: list[bytes] = []  # half of what arrays would take

    def original(self, passage: Passage) -> str | None:
        """Return the id of the earliest passage that a passage nearly repeats. If there is none, remember the passage."""
        own = shingles(passage.text)
        numbers = " ".join(sorted(own.numbers))  # texts with other numbers have no shingle in common
        tokens = [f"{numbers}\n{run}".encode(errors="surrogatepass") for run in own.runs]
        hashed = np.unique(np.array([zlib.crc32(token) for token in tokens], np.uint32))
        sketch = rensa.RMinHash(num_perm=HASHES, seed=0)
        sketch.update(tokens)
        candidates: list[int] = sorted(self.index.query(sketch))[:CANDIDATES]
        for place in candidates:
            other = np.frombuffer(self.shingles[place], np.uint32)
            common = len(np.intersect1d(hashed, other, assume_unique=True))
            if common / (len(hashed) + len(other) - common) >= self.threshold:
                return self.ids[place]
        self.index.insert(len(self.ids), sketch)
        self.ids.append(passage.id)
        self.shingles.append(hashed.tobytes())
        return None
