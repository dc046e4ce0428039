"""Whole words from word pieces, each as one number.

A rare word falls into many rare pieces: counted by pieces, it outweighs the rest of the question, and one of its pieces in
another word passes for a match. Here all pieces of a word are one number. Forms of a word are equal where a stemmer says
so, which runs over the vocabulary when heads are trained; its table has a column for each piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import IntArray, Ragged

CONTINUES, ENDING = -1, -2
"""In a table's first row: a piece that continues the word before it, and one that is only its ending."""

ORDERED_PIECES = 16
"""Pieces of a word beyond which their order no longer counts."""

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

        First row: the piece that stands for the stem of one that begins a word; for others :data:`CONTINUES` or
        :data:`ENDING`. Second row: 1 for pieces with a digit, else 0.
        """
        stems, size = table[0].astype(np.int64), table.shape[1]
        # 0 is for endings; pieces that go on have numbers of their own, above those of stems
        keys = np.where(stems >= 0, stems + 1, np.where(stems == ENDING, 0, size + 1 + np.arange(size)))
        return cls(keys.astype(np.uint64), stems >= 0, table[1] != 0)


@dataclass(frozen=True)
class Words:
    """The words of n texts."""

    keys: Ragged  # uint64: equal numbers are equal words
    starts: IntArray  # int64 of shape (total words,): the first piece of each, among all texts' pieces


def words_of(terms: Ragged, table: WordTable) -> Words:
    """Words of the word pieces of n texts; a text's first piece begins a word, whatever it is."""
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
    return Words(Ragged(keys, np.searchsorted(starts, terms.offsets)), starts)


def mark_of(pieces: Sequence[str]) -> str:
    """Mark at the beginning of a word: of SentencePiece or byte-level BPE; empty for WordPiece."""
    return next((mark for mark in ("\u2581", "\u0120") if any(piece.startswith(mark) for piece in pieces)), "")


def joined_pieces(pieces: Sequence[str], mark: str) -> tuple[list[str], IntArray]:
    """Whole words of the pieces of a text, and the word of each piece; punctuation is a word of its own."""
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
