"""Words made of word pieces, and pairs of letters as terms of BM25."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.core.types import ragged
from semclass.encoders.words import CONTINUES, ENDING, WordTable, bigrams, terms_of, words_of

PIECES = ("run", "running", "mit", "##och", "##ond", "##ria", "##s", "1", "och")
TABLE = np.array([[0, 0, 2, CONTINUES, CONTINUES, CONTINUES, ENDING, 7, 8], [0, 0, 0, 0, 0, 0, 0, 1, 0]], np.int32)


def words(*texts):
    """Words of texts of pieces, as lists of numbers."""
    terms = ragged(
        [np.array([PIECES.index(piece) for piece in text.split()], np.int64) for text in texts], np.zeros(0, np.int64)
    )
    found = words_of(terms, WordTable.of(TABLE))
    return [found.keys.row(place).tolist() for place in range(len(texts))], found.starts.tolist()


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


# -- pairs of letters --------------------------------------------------------------------------------------------------

ENCODER = SimpleNamespace(bigrams=True, is_term=np.arange(10_000) % 5 > 0)


def pairs(text: str) -> list[int]:
    return bigrams(ENCODER, [text]).row(0).tolist()


def test_a_word_has_the_same_pairs_wherever_it_stands():
    bridge = pairs("鉄道橋")
    assert len(bridge) == 2
    assert pairs("この鉄道橋は古い")[2:4] == bridge
    assert pairs("สะพานรถไฟ")[:4] == pairs("สะพาน")


@pytest.mark.parametrize("text", ["Who built the bridge?", "Кто построил мост?", "橋", "橋 と", "다리", "", "1925年"])
def test_other_scripts_and_single_letters_have_none(text):
    assert pairs(text) == []


def test_a_pair_does_not_span_texts_or_marks():
    assert [row.tolist() for row in map(bigrams(ENCODER, ["鉄道", "橋", "は。古い"]).row, range(3))] == [
        pairs("鉄道"),
        [],
        pairs("古い"),
    ]


def test_terms_stand_behind_the_word_pieces_of_their_text():
    pieces = ragged([np.array([1, 2]), np.array([], int), np.array([3])], np.zeros(0, int))
    found = terms_of(ENCODER, pieces, ["鉄道橋 bridge", "bridge", "道橋"])
    bridge = pairs("鉄道橋")
    assert [found.row(row).tolist() for row in range(3)] == [[1, 2, *bridge], [], [3, bridge[1]]]


@given(st.lists(st.text(), max_size=5))
def test_every_term_counts(texts):
    found = bigrams(ENCODER, texts)
    assert len(found) == len(texts)
    assert ENCODER.is_term[found.values].all()
    assert [found.row(row).tolist() for row in range(len(texts))] == [pairs(text) for text in texts]
