"""Sections without results yet: what their tables show."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("ir_measures")

from bench import report, small_folders


def test_shares_of_small_folders():
    found = {"certainty": ["strong", "weak"], **{method: [True, False] for method in small_folders.METHODS}}
    shares = small_folders.shares(found)
    assert shares["words"] == {"strong": [1, 1], "likely": [0, 0], "weak": [0, 1]}
    assert "1 of 1" in small_folders.table({"small_folders": {"sizes": {"15": shares}}})


@pytest.mark.parametrize("name", report.SECTIONS)
def test_every_section_has_a_title_and_says_what_it_measures(name):
    assert {f"{name}: title", f"{name}: what"} <= report.words().keys()
