"""Words of texts as numbers: terms for BM25, and words that are joined from word pieces.

Terms are stems of words, codes (whole and in parts), and pairs of letters of scripts without spaces. Texts are normalised
by NFKC. Terms are hashed to 32 bits, so that an index needs no vocabulary. A text costs one pass of a regular expression,
and one look-up for each word in a table that grows with new words.

A rare word is split into many rare pieces. Counted by pieces, it would outweigh the rest of the question, and one of its
pieces in another word would count as a match. So all pieces of a word become one number. Forms of a word get the same
number if a stemmer gives them the same stem. The stemmer runs over the vocabulary when heads are trained, and its table
has a column for each piece.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import Stemmer

from semclass.core.types import IntArray, Ragged, offsets_of

MAX_WORDS = 1 << 18
"""Maximum number of words in a table. A full table is emptied."""

MAX_LENGTH = 64
"""Length in characters from which a word, such as a sentence of Chinese, is not stored in a table."""

MIN_SHARE = 0.6
"""Share of the texts with a known language that a language needs to be the language of all texts."""

# vowel signs, accents and joiners within words, which are no letters for `re`
_MARKS = (
    r"[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0963\u0966-\u0dff"
    r"\u0e31-\u0e4e\u0eb1-\u0ece\u0f71-\u0fbc\u102b-\u103e\u17b4-\u17d3\u200c\u200d]"
)
_WORD = rf"[^\W_]+(?:{_MARKS}[^\W_]*)*"
_TOKEN = re.compile(
    r"\d+(?: \d+)+(?![-.,:/]?\w)|"  # a number with spaces
    # a sign before a number, an option of a command, a name such as .NET
    rf"(?:(?<![\w+-])(?:-(?=\d)|--(?=[^\W\d_])|\.(?=[^\W\d_])))?"
    # words with what joins them to a code, a number or a path
    rf"{_WORD}(?:[-./\\_@:&=]{_WORD}|,\d+)*"
    # a sign behind them, as in C++ and A-
    r"(?:(?:\+\+?|#|(?<=\b\w)-)(?![\w+#-]))?"
    r"|[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
)
_SEGMENT = re.compile(r"[^/\\@:&=]+")
_PART = re.compile(rf"[A-Z]+(?=[A-Z][^\W\d_A-Z])|[A-Z]?(?:[^\W\d_A-Z]|{_MARKS})+|[A-Z]+|\d+")
_NUMBER = re.compile(r"(?<!\d)\d+(?:[-.,:/]\d+)+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_JOINT = re.compile(r"(?<=[^\W\d_])[-._](?=\w)|(?<=\w)[-._](?=[^\W\d_])| ")  # digits stay apart
_UNSPACED = re.compile(
    r"[\u0e01-\u0e4e\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003134f]+"
)
_SPELLINGS = {0x2010: "-", 0x2011: "-", 0x2212: "-", 0x2019: "'", 0xAD: None}


@cache
def stop_words() -> Mapping[str, frozenset[str]]:
    """Return the function words of each language. They have no weight, because nearly every text has them."""
    lines = Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").splitlines()
    return {language: frozenset(words.split()) for language, _, words in (line.partition(": ") for line in lines)}


LANGUAGES = ("", *Stemmer.algorithms())
"""Languages with a stemmer, by Snowball's names. "" leaves words unstemmed."""


class Words(dict[str, tuple[int, ...]]):
    """Table of the hashed terms of words in a language. It is filled on first use. Threads may share one table."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.stemmer = Stemmer.Stemmer(language, 0) if language else None
        self.stops = stop_words().get(language, frozenset())
        self.lock = Lock()  # a stemmer has a state of its own

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = tuple(zlib.crc32(term.encode("utf-8", "surrogatepass")) for term in dict.fromkeys(self.terms_of(word)))
        if len(word) < MAX_LENGTH:
            if len(self) >= MAX_WORDS:
                self.clear()
            self[word] = found
        return found

    def terms_of(self, word: str) -> list[str]:
        """Return the terms of one match of the pattern."""
        if _UNSPACED.search(word):
            runs = _UNSPACED.findall(word)
            pairs = [run[place : place + 2] for run in runs for place in range(max(len(run) - 1, 1))]
            return pairs + [term for rest in _TOKEN.findall(_UNSPACED.sub(" ", word)) for term in self.terms_of(rest)]
        parts = _PART.findall(word := _THOUSANDS.sub("", word))
        if parts == [word]:
            return self.stems(word)
        terms = [word.casefold()] if len(segments := _SEGMENT.findall(word)) > 1 else []
        for segment in segments:
            whole = _JOINT.sub("", segment)
            terms += self.stems(whole) if whole.isalpha() else [whole.casefold()]
        terms += _NUMBER.findall(word)
        return terms + [term for part in parts for term in self.stems(part)]

    def stems(self, word: str) -> list[str]:
        """Return the stem of a word in a list, which is empty for a function word."""
        folded = word.casefold()
        if folded in self.stops:  # IT, WHO and vitamin A are no function words
            return [word] if word.isupper() and word != "I" else []
        if self.stemmer is None:
            return [folded]
        with self.lock:
            return [self.stemmer.stemWord(folded)]


@cache
def words(language: str) -> Words:
    """Return the table of terms of a language. `language` is a name that Snowball uses, or "" to leave words unstemmed."""
    return Words(language)


def terms_of(texts: Sequence[str], language: str = "english") -> Ragged:
    """Return the terms of texts, uint32, repetitions included."""
    table = words(language)
    rows = [[*chain.from_iterable(map(table.__getitem__, _TOKEN.findall(_folded(text))))] for text in texts]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = np.fromiter(chain.from_iterable(rows), np.uint32, int(lengths.sum()))
    return Ragged(values, offsets_of(lengths))


def _folded(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_SPELLINGS)


def language_of(texts: Sequence[str]) -> str:
    """Return the language of texts by function words: "english" if no text has any, "" if no language prevails."""
    votes: Counter[str] = Counter()
    for text in texts:
        seen = Counter(_TOKEN.findall(_folded(text).casefold()))
        count = {language: sum(seen[word] for word in seen.keys() & stops) for language, stops in stop_words().items()}
        if top := max(count.values()):
            votes[max(count, key=lambda language: (count[language] == top, language == "english", language))] += 1
    if not votes:
        return "english"
    language, most = votes.most_common(1)[0]
    return language if most >= MIN_SHARE * votes.total() else ""


# words of word pieces

CONTINUES, ENDING = -1, -2
"""Values in a table's first row: of a piece that continues a word, and of a piece that is only the ending of a word."""

ORDERED_PIECES = 16
"""Number of pieces of a word beyond which their order does not count."""

# powers of an odd number modulo 2**64: a word's number is a polynomial in it, see Karp & Rabin (1987)
_POWERS = np.cumprod(np.concatenate([[1], np.full(ORDERED_PIECES - 1, 0x9E3779B97F4A7C15)]).astype(np.uint64))


@dataclass(frozen=True)
class WordTable:
    """Role of each word piece in its word; read-only."""

    keys: npt.NDArray[np.uint64]  # uint64 of shape (vocabulary,): equal for pieces of one stem, 0 for endings
    begins: npt.NDArray[np.bool_]  # bool of shape (vocabulary,): whether a piece begins a word
    digits: npt.NDArray[np.bool_]  # bool of shape (vocabulary,): whether it holds a digit

    @classmethod
    def of(cls, table: npt.NDArray[Any]) -> WordTable:
        """Read a table, integers of shape (2, vocabulary).

        First row: for a piece that begins a word, the piece that stands for its stem; for other pieces, :data:`CONTINUES`
        or :data:`ENDING`. Second row: 1 for pieces with a digit, else 0.
        """
        stems, size = table[0].astype(np.int64), table.shape[1]
        # 0 is for endings; pieces that go on have numbers of their own, above those of stems
        keys = np.where(stems >= 0, stems + 1, np.where(stems == ENDING, 0, size + 1 + np.arange(size)))
        return cls(keys.astype(np.uint64), stems >= 0, table[1] != 0)


def words_of(terms: Ragged, table: WordTable) -> tuple[Ragged, IntArray]:
    """Return the words of n texts as uint64 numbers, equal for equal words, and the first piece of each word, int64."""
    pieces = terms.values
    begins = table.begins[pieces]
    begins[terms.offsets[terms.offsets < len(pieces)]] = True
    starts = np.flatnonzero(begins)
    numbers = table.keys[pieces]
    # most words are one piece, so that only what goes on with a word needs its place in it
    others = np.flatnonzero(~begins)
    within = others - starts[np.searchsorted(starts, others) - 1]
    numbers[others] *= _POWERS[np.minimum(within, ORDERED_PIECES - 1)]
    keys = np.add.reduceat(numbers, starts) if len(starts) else numbers
    return Ragged(keys, np.searchsorted(starts, terms.offsets)), starts


def mark_of(pieces: Sequence[str]) -> str:
    """Return the mark at the beginning of words in SentencePiece or byte-level BPE. It is empty for WordPiece."""
    return next((mark for mark in ("\u2581", "\u0120") if any(piece.startswith(mark) for piece in pieces)), "")


def joined_pieces(pieces: Sequence[str], mark: str) -> tuple[list[str], IntArray]:
    """Join the pieces of a text to words. Returns the words, and the word of each piece. A punctuation mark is a word."""
    words: list[str] = []
    owner = np.zeros(len(pieces), np.int64)
    for place, piece in enumerate(pieces):
        text = piece.removeprefix(mark or "##")
        begins = piece.startswith(mark) if mark else text == piece
        if words and not begins and any(map(str.isalnum, text)) and any(map(str.isalnum, words[-1])):
            words[-1] += text
        else:
            words.append(text)
        owner[place] = len(words) - 1
    return words, owner
