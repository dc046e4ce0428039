"""Reading misspelt words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from world import MODELS

from semclass import OnnxEncoder, QuestionClassifier
from semclass.core import artifacts
from semclass.heads.head import Head
from semclass.heads.spelling import MAX_CHARACTERS, WORD_LIST, Speller, with_mark

KNOWN = ["the", "what", "who", "is", "capital", "have", "he", "country", "wat", "café", "2nd", "##ing", ""]


@pytest.fixture(scope="module")
def speller() -> Speller:
    """A speller that knows nine words."""
    return Speller.of_words(KNOWN)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("waht", "what"),  # two letters swapped
        ("countr", "country"),  # one left out
        ("ccapital", "capital"),  # one too many
        ("capitql", "capital"),  # a wrong one
    ],
)
def test_one_slip_is_undone(speller, typed, meant):
    assert speller(f"{typed}?") == f"{meant}?"


def test_a_letter_left_out_is_likelier_than_a_wrong_one(speller):
    assert speller("wht is it") == "what is it"  # not "who", though it is one wrong letter away
    assert speller("hve") == "have"  # not "he" with a letter too many


KNOWN_TEXTS = ["wat is the capital", "Who is he?", "", "   "]
NOTHING_NEAR = ["th", "wh4t", "cafés", "captal2", "x" * 30, "unlike anything", "w_at"]


@pytest.mark.parametrize("text", KNOWN_TEXTS + NOTHING_NEAR)
def test_known_words_and_words_near_none_are_left_alone(speller, text):
    assert speller(text) == text


def test_the_rest_of_the_text_stays_as_it_is(speller):
    assert speller("Waht's  the CAPITAL\tof X-countryy??") == "what's  the CAPITAL\tof X-country??"


def test_a_long_text_is_read_at_its_beginning_only(speller):
    text = "waht " * 1000
    assert speller(text) == "what " * (MAX_CHARACTERS // 5) + "waht " * (1000 - MAX_CHARACTERS // 5)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("eiffel tower height", "eiffel tower height?"),
        ("who won in 1998 ", "who won in 1998?"),
        ("who is he ?", "who is he ?"),
        ("He is here.", "He is here."),
        ("", ""),
    ],
)
def test_a_question_mark_is_added_where_no_mark_is(typed, read):
    assert with_mark(typed) == read


# -- question heads that read corrected text --------------------------------------------------------------------------


def save_with_words(folder: Path, words: str | None) -> Path:
    """Copy the shipped question head, with a list of known words of its own or none."""
    shipped = artifacts.load_artifact(MODELS / "questions", "head")
    fields = {name: value for name, value in shipped.manifest.items() if name not in ("protocol", "kind", "files")}
    files = {"model.onnx": shipped.path("model.onnx").read_bytes()} | ({WORD_LIST: words.encode()} if words else {})
    artifacts.save(folder, "head", files, fields)
    return folder


@pytest.fixture(scope="module")
def classifier(encoder: OnnxEncoder, tmp_path_factory: pytest.TempPathFactory) -> QuestionClassifier:
    """The shipped head, knowing a few words."""
    folder = save_with_words(tmp_path_factory.mktemp("head"), "the\nwhat\nis\nof\ncapital\nperu\nmany\nhow\n")
    return QuestionClassifier(encoder, Head.load(folder, encoder=encoder.fingerprint))


def test_a_misspelt_question_is_read_as_it_was_meant(classifier):
    typed, meant = "Waht is the captial of Peru?", "what is the capital of Peru?"
    for level in ("coarse", "fine"):
        found = [classifier.predict_proba([text], level=level) for text in (typed, meant, meant.removesuffix("?"))]
        assert np.array_equal(found[0], found[1])
        assert np.array_equal(found[1], found[2])
    assert classifier.classify([typed])[0].text == typed
