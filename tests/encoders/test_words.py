"""Words made of word pieces."""

from __future__ import annotations

import numpy as np
import pytest

from semclass.core.types import ragged
from semclass.encoders.words import CONTINUES, ENDING, WordTable, words_of

PIECES = ("run", "running", "mit", "##och", "##ond", "##ria", "##s", "1", "och")
TABLE = np.array([[0, 0, 2, CONTINUES, CONTINUES, CONTINUES, ENDING, 7, 8], [0, 0, 0, 0, 0, 0, 0, 1, 0]], np.int32)


def words(*texts):
    """Words of texts of pieces, as lists of numbers."""
    terms = ragged(
        [np.array([PIECES.index(piece) for piece in text.split()], np.int64) for text in texts], np.zeros(0, np.int64)
    )
    words, starts = words_of(terms, WordTable.of(TABLE))
    return [words.row(place).tolist() for place in range(len(texts))], starts.tolist()


def test_pieces_of_a_word_are_one_word():
    (first, second), starts = words("mit ##och ##ond ##ria run", "run")
    assert len(first) == 2
    assert first[1:] == second
    assert starts == [0, 4, 5]


def test_forms_of_a_word_are_equal():
    (run, running, runs), _ = words("run", "running", "run ##s")
    assert run == running == runs


@pytest.mark.parametrize("other", ["mit ##ond ##och ##ria", "mit ##och ##ond ##ria ##ria", "mit och ##ond ##ria"])
def test_other_words_are_not(other):
    (first, second), _ = words("mit ##och ##ond ##ria", other)
    assert first != second


def test_the_first_piece_of_a_text_begins_a_word():
    (first, second, third), starts = words("run", "##och run", "")
    assert (len(first), len(second), len(third)) == (1, 2, 0)
    assert first[0] == second[1]
    assert starts == [0, 1, 2]
