"""The documentation: its code blocks run, its tables are the measured ones, and it names what there is."""

from __future__ import annotations

from collections import Counter

import blocks
import pytest
from conftest import ROOT

DOCS = ROOT / "docs"
PAGES = blocks.pages(DOCS)

NOT_RUN = {
    "installs from a package index": 12,
}
"""Why blocks do not run, and how many at most; more of them must be said here."""


def name_of(page):
    return page.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if not blocks.extras_of(page)], ids=name_of)
def test_the_code_of_a_page_does_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks.run_page(page, tmp_path)


def test_a_block_that_does_not_run_has_a_reason_and_there_are_few():
    found = Counter(block.not_run for page in PAGES for block in blocks.read(page) if block.not_run is not None)
    assert found.keys() <= NOT_RUN.keys()
    assert all(number <= NOT_RUN[reason] for reason, number in found.items())
