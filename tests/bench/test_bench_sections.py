"""Sections without results yet: what their tables show."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("ir_measures")

from bench import languages, report, small_folders


def test_models_without_a_default_of_their_own_show_the_other_methods():
    both = {"questions": 5, "passages": 9, "bm25": 0.1, "dense": 0.2, "convex": 0.3}
    ours = {**both, "default": 0.4, "other": 1.0, "gain": 0.1, "error": 0.01}
    found = {"languages": {"by_models": {"shipped": {"de": ours}, "multilingual": {"de": both}}}}
    assert "| de (5) | 9 | shipped | 0.100 | 0.200 | 0.300 | 0.400 | - | +0.100 ± 0.020 | 100% |" in languages.table(
        found
    )
    assert "| de (5) | 9 | multilingual | 0.100 | 0.200 | 0.300 | - | - | - | - |" in languages.table(found)


def test_topics_are_shown_in_english_on_average_and_in_the_worst_languages():
    right = {"eng_Latn": 0.9, "deu_Latn": 0.8, "jpn_Jpan": 0.6}
    table = languages.topics_table({"languages": {"topics": {"the names": right}}})
    assert "| the names | 0.900 | 0.700 | jpn_Jpan 0.600, deu_Latn 0.800 |" in table


def test_shares_of_small_folders_are_by_kind_of_question_and_by_word():
    found = {
        "answered": [0.9, 0.1],
        "certainty": ["strong", "weak"],
        "unanswered": [0.1],
        "foreign": [0.1, 0.9],
        **{method: [True, False] for method in small_folders.METHODS},
    }
    shares = small_folders.shares(found, 0.5)
    assert shares["refused"] == {"answered": 0.5, "unanswered": 1.0, "foreign": 0.5}
    assert shares["words"] == {"strong": [1, 1], "likely": [0, 0], "weak": [0, 1]}
    assert "1 of 1" in small_folders.table({"small_folders": {"sizes": {"15": shares}}})


@pytest.mark.parametrize("name", report.SECTIONS)
def test_every_section_has_a_title_and_says_what_it_measures(name):
    assert {f"{name}: title", f"{name}: what"} <= report.words().keys()
