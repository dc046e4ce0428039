"""Training data of the pair heads: words of a vocabulary, and passages with their questions."""

import numpy as np
import pytest

from semclass.core.types import ragged
from semclass.encoders.words import WordTable, words_of

pytest.importorskip("Stemmer")

from pair_domains import read_domains
from train_pairs import word_table


def words(pieces, *texts):
    table = WordTable.of(word_table(pieces))
    terms = ragged([np.array([pieces.index(piece) for piece in text.split()]) for text in texts], np.zeros(0, np.int64))
    keys, _ = words_of(terms, table)
    return [keys.row(place).tolist() for place in range(len(texts))]


def test_forms_of_a_word_are_one_in_a_wordpiece_vocabulary():
    pieces = ("infection", "infections", "infected", "bio", "##film", "##s", "##ing")
    found = words(pieces, "infection", "infections", "infected", "bio ##film", "bio ##film ##s")
    assert found[0] == found[1] == found[2]
    assert found[3] == found[4] != found[0]


def test_a_vocabulary_that_marks_beginnings():
    pieces = ("\u2581bio", "film", "s", "\u2581film")
    first, second, third = words(pieces, "\u2581bio film", "\u2581bio film s", "\u2581film")
    assert first == second != third
    assert len(first) == len(third) == 1


def test_every_question_has_an_answer_in_its_domain(data_folder):
    for domain in read_domains(data_folder, 0):
        assert len(domain.questions) == len(domain.answers) > 700, domain.name
        assert all(domain.answers), domain.name
        assert frozenset().union(*domain.answers) <= set(range(len(domain.passages))), domain.name
