"""Every figure that is printed comes from a file: tables are generated, model cards are compared with their manifests.

Where one of these tests fails after a measurement, ``python -m bench.report`` writes the tables and the report again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from world import ROOT

pytest.importorskip("ir_measures")
pytest.importorskip("sklearn")

from bench import prices, readme, report

FOUND = report.read(report.RESULTS)
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "models" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("packages/*/docs/*.md"),
    )
    if "examples" not in path.parts
}
CARDS = [path for path in sorted((ROOT / "models").rglob("README.md")) if (path.parent / "manifest.json").is_file()]


# -- tables -----------------------------------------------------------------------------------------------------------


TABLES = {place: text for name in (*FOUND, *report.DERIVED) for place, text in report.tables(name, FOUND).items()}


@pytest.mark.parametrize("page", PAGES)
def test_a_table_of_a_page_is_the_measured_one(page):
    for name in re.findall(r"written by bench/(.+?) -->", PAGES[page]):
        assert readme.block(name.replace(".py", ""), TABLES[name.replace(".py", "")]) in PAGES[page]


KINDS = (r"written by bench/.+\.py(: .+)?", r"compared with .+", r"typed: .+")
"""The source of the figures of a table, as its mark names it."""

TYPED = {"docs/decisions/readers.md": 1}
"""Tables that no file of results has yet: they are to become fewer."""


@pytest.mark.parametrize("page", PAGES)
def test_a_table_of_figures_says_where_they_are_from(page):
    marks = re.findall(r"<!-- table: begin, (.+?) -->", PAGES[page])
    assert [mark for mark in marks if not any(re.fullmatch(kind, mark) for kind in KINDS)] == []
    assert sum(mark.startswith("typed") for mark in marks) == TYPED.get(page, 0)
    text = re.sub(r"<!-- table: begin.*?<!-- table: end -->", "", PAGES[page], flags=re.DOTALL)
    text = re.sub(r"^(```+).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\| 3\.1\d(?= \|)", "| Python", text)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        figures = re.findall(r"\| *\**[-+]?[\d,]*\.?\d+ ?%?\** *(?=\|)", table)
        assert len([figure for figure in figures if "." in figure or "%" in figure]) < 2, table


@pytest.mark.parametrize("name", FOUND)
def test_the_page_of_a_section_is_that_of_its_results(name):
    assert (report.RESULTS / f"{name}.md").read_text(encoding="utf-8") == report.page(name, FOUND)


def test_the_overview_is_that_of_the_results():
    assert (report.RESULTS / "REPORT.md").read_text(encoding="utf-8") == report.overview(FOUND)
    for name in FOUND:
        assert all((report.RESULTS / file).is_file() for file in report.pictures(name))


# -- what others print, and what nobody measured ----------------------------------------------------------------------


def test_every_row_of_the_thesis_is_shown():
    rows = {row.split(" | ")[0].strip("| `"): row for row in TABLES["thesis"].split("\n")}
    for name in prices.THESIS_SETS:
        for method, figures in prices.thesis_methods(name).items():
            assert f"{figures['mrr']:.3f}" in rows[method]
    assert "0.899 (+31.5%)" in rows["entail-stable"]
    assert "0.694 (-108%)" in rows["class-stable"]
    assert "0.874 (+46%)" in rows["entail-stable"]
    assert "0.877 (+47%)" in rows["entail-integrated-hard"]
    assert "0.631 (-59%)" in rows["class-stable"]
    assert "0.769 (+0%)" in rows["class-integrated-hard"]


# -- model cards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.parent.relative_to(ROOT / "models").as_posix())
def test_the_figures_of_a_card_are_those_of_its_manifest(card: Path):
    known = list(_numbers(json.loads((card.parent / "manifest.json").read_text(encoding="utf-8"))))
    text = card.read_text(encoding="utf-8").split("---", 2)[2]
    text = re.sub(r"svm C=[\d.]+", "", text)  # a setting
    text = re.sub(r"\| (class \| precision \| recall \| F1 \| questions|true .*?) \|\n(\|.*\n)+", "", text)
    for figure, percent in re.findall(r"(?<![\w.(])(\d+\.\d+)(%?)(?!\w)", text):
        scale, place = (100 if percent else 1), 0.5001 * 10 ** -len(figure.partition(".")[2])
        assert any(abs(scale * value - float(figure)) <= place for value in known), figure


def _numbers(value):
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
