"""Near-duplicates: passages that say nearly the same words as an earlier one, found as they go by."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_probability
from semclass.core.errors import InputError
from semclass.core.types import IntArray, Passage

THRESHOLD = 0.9
"""Resemblance from which passages are near-duplicates: about one word changed in sixty. Less would take passages for the
same that differ in a name, which is often all that a question asks for."""

WORDS = 3
"""Words of a shingle."""

HASHES = 128
"""Hash functions: the standard deviation of an estimated resemblance r is sqrt(r (1 - r) / 128), 0.027 at 0.9."""

MARGIN = 0.15
"""How far below the threshold an estimate may be for the pair to be compared exactly: over four standard deviations."""

BANDS = 16
"""Bands of 8 hashes: a pair of resemblance r is compared with probability 1 - (1 - r^8)^16, 0.9999 at 0.9."""

BLOCK = 1024
"""Passages that are read together."""

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]


def mark_duplicates(
    passages: Iterable[Passage], *, earlier: Iterable[Passage] = (), threshold: float = THRESHOLD, seed: int = 0
) -> Iterator[Passage]:
    """Mark passages that nearly repeat an earlier one.

    The resemblance of two texts is the share of their shingles (three consecutive words, whatever their case) that they
    have in common, ``|A and B| / |A or B|`` (Broder 1997, "On the resemblance and containment of documents"). Pairs
    that may reach the threshold are found by minima of 128 hash functions, of which eight bits each are kept (Li &
    König 2010, "b-bit minwise hashing"), where eight in a row are equal; their resemblance is then computed. Passages
    that do not hold the same numbers (words with a digit) are no duplicates, as in
    :func:`semclass.context.build.drop_duplicates`: reports of two years often differ in nothing else.

    Parameters
    ----------
    passages
        Any number of them; they are read 1,024 at a time. Of each that is no duplicate, four bytes a word and some 700
        more stay in memory: 1.2 GB for a million of 113 words.
    earlier
        Passages that came before, such as those of the index that `passages` are added to; they are read once `passages`
        gave the first 1,024, and not given again. Those whose ``duplicate_of`` is there, and not null, are passed over.
    threshold
        Resemblance, in (0, 1], from which a passage is a duplicate. Pairs below 0.8 are not all found, as they agree in
        no band of hashes: of those at 0.8 about 5 % are missed, of those at 0.6 two thirds.
    seed
        Chooses the hash functions.

    Returns
    -------
    iterator of Passage
        Each in its place; a duplicate's metadata have ``duplicate_of``, the id of the earliest passage that it nearly
        repeats and that is no duplicate itself. All without it are therefore a corpus without near-duplicates.

    Raises
    ------
    InputError
        If the threshold is not in (0, 1].
    """
    if check_probability(threshold, "threshold") == 0:
        raise InputError("threshold is 0, at which all passages are duplicates; it must be above 0, such as 0.9")
    return _marked(iter(passages), iter(earlier), _Seen(threshold), np.random.default_rng(seed))


def resemblance(first: str, second: str) -> float:
    """Compute the resemblance of two texts: the share of their shingles that both have, in [0, 1]."""
    shingles, firsts = _shingles([first, second])
    return _resemblance(shingles[: firsts[1]], shingles[firsts[1] :])


def _resemblance(one: Hashes, other: Hashes) -> float:
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / (len(one) + len(other) - common)


def _marked(
    passages: Iterator[Passage], earlier: Iterator[Passage], seen: _Seen, random: np.random.Generator
) -> Iterator[Passage]:
    factors = random.integers(0, 1 << 32, HASHES, dtype=np.uint32) | np.uint32(1)
    shifts = random.integers(0, 1 << 32, HASHES, dtype=np.uint32)

    def originals(block: list[Passage]) -> list[str | None]:
        shingles, firsts = _shingles([passage.text for passage in block], by_numbers=True)
        signatures = _signatures(shingles, firsts, factors, shifts)
        return seen.add([passage.id for passage in block], np.split(shingles, firsts[1:]), signatures)

    block = list(islice(passages, BLOCK))  # first: what is wrong with them shows before many earlier ones are read
    known = (passage for passage in earlier if passage.metadata.get("duplicate_of") is None)
    while before := list(islice(known, BLOCK)):
        originals(before)
    while block:
        for passage, original in zip(block, originals(block), strict=True):
            if original is None:
                yield passage
            else:
                yield replace(passage, metadata={**passage.metadata, "duplicate_of": original})
        block = list(islice(passages, BLOCK))


def _shingles(texts: list[str], *, by_numbers: bool = False) -> tuple[Hashes, IntArray]:
    """Hash the shingles of texts, each text's sorted and once, and tell where each text's begin.

    A text of fewer words has one, of all its words; one without words has one of its characters. By numbers, texts that
    do not hold the same numbers have no shingle in common.
    """
    words = [_WORD.findall(text.casefold()) or [text.strip()] for text in texts]
    lengths = np.array([len(row) for row in words])
    hashed = np.fromiter(map(_Crc().__getitem__, chain.from_iterable(words)), np.uint64, int(lengths.sum()))
    counts = np.maximum(lengths - WORDS + 1, 1)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    ends = np.repeat(starts + lengths, counts)
    mixed = np.zeros(len(places), np.uint64)
    for offset in range(WORDS):
        place = places + offset
        word = np.where(place < ends, hashed[np.minimum(place, len(hashed) - 1)] + np.uint64(1), np.uint64(0))
        mixed = _mix(mixed + word)
    if by_numbers:
        mixed = _mix(mixed + np.repeat(_numbers(hashed, lengths), counts))
    rows = np.repeat(np.arange(len(texts), dtype=np.uint64), counts)
    once = (rows << np.uint64(32)) | (mixed >> np.uint64(32))
    once.sort()
    once = once[np.append(True, once[1:] != once[:-1])]
    firsts = np.searchsorted(once, np.arange(len(texts), dtype=np.uint64) << np.uint64(32))
    return once.astype(np.uint32), firsts


class _Crc(dict[str, int]):
    """Hashes of words, each computed once: 32 bits, and one above them where the word has a digit."""

    def __missing__(self, word: str) -> int:
        self[word] = code = zlib.crc32(word.encode()) | bool(_DIGIT.search(word)) << 32
        return code


def _numbers(hashed: Words, lengths: IntArray) -> Words:
    """Give one hash of the set of words with a digit for each text, shape (n,)."""
    numbers = np.zeros(len(lengths), np.uint64)
    rows = np.repeat(np.arange(len(lengths), dtype=np.uint64) << np.uint64(33), lengths)
    held = np.unique((rows | hashed)[hashed >> np.uint64(32) > 0])
    np.add.at(numbers, (held >> np.uint64(33)).astype(np.int64), _mix(held & np.uint64((1 << 33) - 1)))
    return numbers


def _mix(values: Words) -> Words:
    """Spread each bit over all others: the finalizer of splitmix64 (Steele, Lea & Flood 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def _signatures(shingles: Hashes, firsts: IntArray, factors: Hashes, shifts: Hashes) -> Bytes:
    """Give eight bits of the least value that each hash function takes on a text's shingles, shape (n, 128)."""
    signatures = np.empty((len(firsts), HASHES), np.uint8)
    values = np.empty_like(shingles)
    for place, (factor, shift) in enumerate(zip(factors, shifts, strict=True)):
        np.multiply(shingles, factor, out=values)
        values += shift
        least = np.minimum.reduceat(values, firsts)
        # a least value is small, so its bits are mixed before eight of them are kept
        signatures[:, place] = (least * np.uint32(0x9E3779B1)) >> np.uint32(24)
    return signatures


class _Seen:
    """Signatures of passages that are no duplicates, and for each band a table that finds those that agree in it.

    A place of a table holds the first passage that came there. Where others come to the same place, they are not found by
    this band: tables are at most half full, so that at most every fifth is lost to a band, and hardly one to all 16.
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        # of hashes with eight bits, one in 256 is equal by chance
        self.equal = ((threshold - MARGIN) * (1 - 1 / 256) + 1 / 256) * HASHES
        self.ids: list[str] = []
        self.shingles: list[bytes] = []  # a tenth of what arrays would take beside their values
        self.signatures = np.empty((BLOCK, HASHES), np.uint8)
        self.tables = self._tables()

    def add(self, ids: list[str], shingles: list[Hashes], signatures: Bytes) -> list[str | None]:
        """Give the id of the earliest that each nearly repeats, and remember those that repeat none."""
        found = self._find(shingles, signatures)
        new = np.array([row for row, original in enumerate(found) if original is None], np.int64)
        alike = _alike(_bands(signatures[new]))
        apart = new[~alike]
        self._remember([ids[row] for row in apart], [shingles[row] for row in apart], signatures[apart])
        for row in new[alike]:  # what may repeat another of the same block waits for its turn
            one = [shingles[row]], signatures[row : row + 1]
            found[row] = self._find(*one)[0]
            if found[row] is None:
                self._remember([ids[row]], *one)
        return found

    def _find(self, shingles: list[Hashes], signatures: Bytes) -> list[str | None]:
        """Give the id of the earliest that each nearly repeats, or None."""
        bands = _bands(signatures)
        candidates = self.tables[np.arange(BANDS), self._slots(bands)].astype(np.int64) - 1
        rows, columns = np.nonzero(candidates >= 0)
        places = candidates[rows, columns]
        agree = _bands(self.signatures)[places, columns] == bands[rows, columns]
        pairs = np.unique(np.stack([rows[agree], places[agree]]), axis=1)
        equal = (signatures[pairs[0]] == self.signatures[pairs[1]]).sum(axis=1)
        found: list[str | None] = [None] * len(shingles)
        for row, place in pairs[:, equal >= self.equal].T.tolist():  # sorted, so the earliest comes first
            if found[row] is None:
                earlier = np.frombuffer(self.shingles[place], np.uint32)
                if _resemblance(shingles[row], earlier) >= self.threshold:
                    found[row] = self.ids[place]
        return found

    def _remember(self, ids: list[str], shingles: list[Hashes], signatures: Bytes) -> None:
        first = len(self.ids)
        self.ids += ids
        self.shingles += [row.tobytes() for row in shingles]
        if len(self.ids) > len(self.signatures):
            grown = np.empty((2 * len(self.signatures), HASHES), np.uint8)
            grown[:first] = self.signatures[:first]
            self.signatures = grown
            self.tables = self._tables()
            for start in range(0, first, BLOCK):
                self._enter(start, grown[start : min(start + BLOCK, first)])
        self.signatures[first : len(self.ids)] = signatures
        self._enter(first, signatures)

    def _enter(self, first: int, signatures: Bytes) -> None:
        slots = self._slots(_bands(signatures))
        for band, table in enumerate(self.tables):
            empty = table[slots[:, band]] == 0
            rows = np.flatnonzero(empty)[::-1]  # the earliest is written last
            table[slots[rows, band]] = first + rows + 1

    def _tables(self) -> npt.NDArray[np.uint32]:
        return np.zeros((BANDS, 2 * len(self.signatures)), np.uint32)

    def _slots(self, bands: Words) -> IntArray:
        slots: IntArray = (_mix(bands) & np.uint64(self.tables.shape[1] - 1)).astype(np.int64)
        return slots


def _bands(signatures: Bytes) -> Words:
    """Read eight hashes of eight bits as one number, shape (n, 16)."""
    return signatures.view(np.uint64)


def _alike(bands: Words) -> npt.NDArray[np.bool_]:
    """Tell which rows agree with another in some band."""
    alike = np.zeros(len(bands), bool)
    for band in bands.T:
        order = np.argsort(band, kind="stable")
        same = band[order][1:] == band[order][:-1]
        alike[order[1:][same]] = True
        alike[order[:-1][same]] = True
    return alike
