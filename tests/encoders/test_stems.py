"""Terms of BM25: stems, codes whole and by their parts, pairs of letters of scripts without spaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.encoders.words import MAX_LENGTH, Words, language_of, terms_of, words


def shared(first, second, language="english"):
    """Number of terms that two texts share."""
    rows = terms_of([first, second], language)
    return len(np.intersect1d(rows.row(0), rows.row(1)))


@pytest.mark.parametrize(("language", "first", "second"), [
    ("english", "Guarantees for pumps", "guarantee pump"),
    ("german", "Die Häuser der Straßen", "Haus STRASSE"),
    ("french", "Les chevaux nationaux", "cheval national"),
    ("russian", "в больших городах", "большой город"),
    ("english", "ＦＵＬＬ　ｗｉｄｔｈ ２０２４", "full width 2024"),
])  # fmt: skip
def test_forms_of_a_word_are_one_term(language, first, second):
    rows = terms_of([first, second], language)
    assert rows.row(0).tolist() == rows.row(1).tolist() != []


def test_function_words_weigh_nothing_but_names_do():
    assert not len(terms_of(["What is it, and who was that?"]).values)
    assert shared("Is IT covered by the WHO?", "IT and WHO") == 2
    assert shared("Which vitamin A?", "vitamin A") == 2


@pytest.mark.parametrize(("question", "right", "wrong"), [
    ("version 1.2.3", "Fixed in v1.2.3.", "Fixed in v1.3.2."),
    ("CVE-2024-3094", "cve-2024-3094, a back door", "CVE-3094-2024"),
    ("snake_case", "snake_case", "case_snake"),
    ("setTimeout", "setTimeout()", "TimeoutSet()"),
    ("minutes of 2024-03-12", "of 2024-03-12:", "of 2024-12-03:"),
    ("src/main.py", "see src/main.py:12", "main/src.py"),
    ("C++", "C++ and Rust", "C and Rust"),
    ("grade A+", "grade A+.", "grade A-."),
    ("-5 degrees", "-5", "5"),
    ("--force", "git push --force", "by force"),
    (".NET", "with .NET", "the net"),
    ("call 555 0199", "on 555 0199", "on 0199 555"),
    ("R&D", "the R&D team", "R, then D"),
    ("SHA-512", "SHA512", "SHA 256 or 512"),
    ("😀", "so 😀", "so 😢"),
])  # fmt: skip
def test_a_code_matches_whole_before_its_parts(question, right, wrong):
    assert shared(question, right) > shared(question, wrong)


@pytest.mark.parametrize(("first", "second"), [
    ("timeout", "setTimeout"), ("3094", "CVE-2024-3094"), ("main.py", "src/main.py"), ("state", "state-of-the-art"),
    ("1.2.3", "v1.2.3"), ("email", "e-mail"), ("10000", "10,000"), ("parser", "HTMLParser"), ("hat", "l'hat"),
])  # fmt: skip
def test_a_code_matches_by_its_parts(first, second):
    assert shared(first, second)


def test_scripts_without_spaces_match_by_pairs_of_letters():
    assert shared("東京タワーの高さ", "東京タワー", "") == 4
    assert shared("ความสูง", "ความ", "") == 3
    assert shared("東京2020", "2020年", "") == 1


def test_vowel_signs_belong_to_their_words():
    assert len(terms_of(["हिन्दी भाषा"], "hindi").values) == 2
    assert not shared("की", "क", "")


def test_terms_are_the_same_everywhere_and_every_time():
    assert terms_of(["pumps", "C++"]).values.tolist() == [2551689709, 1864149058, 112844655]
    assert words("english") is words("english")


def test_a_table_of_words_stays_small(monkeypatch):
    monkeypatch.setattr("semclass.encoders.words.MAX_WORDS", 8)
    table = Words("english")
    found = [table[f"word{number}"] for number in range(50)]
    assert len(table) <= 8
    assert [table[f"word{number}"] for number in range(50)] == found
    assert table["a" * MAX_LENGTH]
    assert "a" * MAX_LENGTH not in table


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_text_has_terms_of_its_own(texts):
    together = terms_of(texts)
    assert len(together) == len(texts)
    for row, text in enumerate(texts):
        assert together.row(row).tolist() == terms_of([text]).values.tolist()


@pytest.mark.parametrize("piece", ["a-", "1 ", "1,", "1-1 ", "-.", "A", "Aa", "_a", "+", "क्", "1 1.", "京"])
def test_long_runs_come_through(piece):
    assert len(terms_of([piece * 50_000])) == 1


@pytest.mark.parametrize(("language", "texts"), [
    ("english", ["The pump is new."]), ("german", ["Die Pumpe ist neu.", "Pumpe 7", "Wo ist der Filter?"]),
    ("french", ["La pompe est neuve."]), ("russian", ["Где находится насос?"]), ("english", ["7", "a1"]),
    ("", ["Die Pumpe ist neu.", "The pump is new."]),
])  # fmt: skip
def test_function_words_tell_the_language(language, texts):
    assert language_of(texts) == language
