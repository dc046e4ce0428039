"""Pairs of letters of scripts without spaces, as more terms of BM25.

Word pieces of Chinese, Japanese and Thai text depend on what stands beside them, so a word may be cut in one way in the
question and in another way in the passage. Pairs of neighbouring letters do not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from semclass.core.types import Encoder, Ragged

LETTERS = (
    (0x0E01, 0x0E4E),  # Thai
    (0x3005, 0x3007),  # marks that stand for Han
    (0x3041, 0x3096),  # hiragana
    (0x30A1, 0x30FA),  # katakana
    (0x30FC, 0x30FF),
    (0x3400, 0x4DBF),  # Han, as are the next
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3134F),
)
"""First and last letters of the scripts, ascending."""

_BOUNDS = np.array([bound for first, last in LETTERS for bound in (first, last + 1)], np.uint32)
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd, with bits that look random


def bigrams(encoder: Encoder, texts: Sequence[str]) -> Ragged:
    """Return a term for each pair of neighbouring letters, int32. None if the encoder does not ask for them.

    Terms are ids of word pieces, found by hashing. Hardly any of them occurs in the same texts.
    """
    if not getattr(encoder, "bigrams", False):
        return Ragged(np.zeros(0, np.int32), np.zeros(len(texts) + 1, np.int64))
    codes = np.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    letter = np.searchsorted(_BOUNDS, codes, side="right") % 2 == 1
    places = np.flatnonzero(letter[:-1] & letter[1:])
    starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
    hashes = codes[places] * _FACTORS[0] ^ codes[places + 1] * _FACTORS[1]
    ids = np.flatnonzero(encoder.is_term).astype(np.int32)
    return Ragged(ids[(hashes >> np.uint64(32)) % np.uint64(len(ids))], np.searchsorted(places, starts))


def terms_of(encoder: Encoder, pieces: Ragged, texts: Sequence[str]) -> Ragged:
    """Return the terms of texts for BM25: their word pieces, and behind them their pairs of letters."""
    pairs = bigrams(encoder, texts)
    if not len(pairs.values):
        return pieces
    offsets = pieces.offsets + pairs.offsets
    values = np.empty(offsets[-1], pieces.values.dtype)
    _fill(values, pieces, pairs.offsets[:-1])
    _fill(values, pairs, pieces.offsets[1:])
    return Ragged(values, offsets)


def _fill(values: npt.NDArray[np.int32], rows: Ragged, shifts: npt.NDArray[np.int64]) -> None:
    """Copy rows to their places, which are shifted by the other rows before them."""
    values[np.arange(len(rows.values)) + np.repeat(shifts, rows.lengths())] = rows.values
