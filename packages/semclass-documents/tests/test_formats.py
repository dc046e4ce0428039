from __future__ import annotations

import gzip
import importlib
import json
import pickle
import re
from contextlib import suppress
from pathlib import Path

import pytest
from made_documents import BOILER, PUMP, WRITERS, odt, shown, written
from semclass.documents.formats import FORMATS, read_content
from world import ROOT

from semclass import InputError
from semclass.core.errors import MissingExtraError
from semclass.documents.readers import read_passages

PAGE = (ROOT / "docs" / "howto" / "documents.md").read_text(encoding="utf-8")
KEPT = {
    ending: [cell.strip() == "yes" for cell in row[2:5]]
    for row in (line.split("|") for line in PAGE.splitlines() if re.match(r"\| `\.\w+`", line))
    for ending in re.findall(r"`(\.\w+)`", row[1])
}
"""By ending, as the page says: whether headings, tables and pages are kept."""


ANY_TEXT = {ending for ending, found in FORMATS.items() if found.module in ("markup", "outlines", "rst")} - {".epub"}
"""Formats in which no text is wrong."""


@pytest.mark.parametrize("ending", sorted(FORMATS))
def test_headings_tables_and_pages_are_kept_as_the_page_says(ending, tmp_path):
    path = tmp_path / f"manual{ending}"
    WRITERS[ending](path)
    found = read_passages(tmp_path)
    headings, tables, pages = KEPT[ending]
    (rows,) = (passage for passage in found if "valve" in passage.text)
    as_rows = rows.text == "part: valve; years: 5\npart: tank <old>; years: 2"
    assert as_rows == tables == rows.metadata.get("table", False)
    assert ("Boiler" in rows.metadata.get("headings", [])) == headings
    texts = [passage for passage in found if passage is not rows]
    if texts:
        boiler, pump = (
            next(passage for passage in texts if text in " ".join(passage.text.split())) for text in (BOILER, PUMP)
        )
        assert (boiler.metadata["headings"][-1], pump.metadata["headings"][-1]) == ("Boiler", "Pump")
        assert ([one.metadata.get("page") for one in (boiler, rows, pump)] == [1, 1, 2]) == pages
    assert not any(
        word in passage.text for passage in found for word in ("var x", "Imprint", "Shop", "Home", "¶", "Works")
    )


def test_every_format_is_in_the_table_of_the_page():
    assert sorted(KEPT) == sorted(FORMATS)


def test_rst_of_sphinx_and_what_html_hides(tmp_path):
    path = tmp_path / "a.rst"
    path.write_text(
        ":orphan:\n\nUse\n===\n\nSee :func:`~os.path.join` and :doc:`the guide <guide>`.\n\n.. toctree::\n\n   other\n\n"
        ".. py:function:: run(speed)\n\n   Starts the pump.\n\n.. code-block:: python\n   :caption: x.py\n\n   run(5)\n\n"
        ".. include:: /etc/hostname\n\n.. raw:: html\n\n   <b>x</b>\n"
    )
    assert read_content(path).markdown == (
        "# Use\n\nSee join and the guide.\n\nrun(speed): Starts the pump.\n\n```\nrun(5)\n```"
    )


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<title>Tea</title><p>Leaves", "# Tea\n\nLeaves"),
        ("<ul><li>a<ol><li>b</ol><li><p>c<pre>d\n e</pre></ul>", "- a\n  1. b\n- c\n\n  ```\n  d\n   e\n  ```"),
        ("<dl><dt>Tea<dd>Leaves.<p>More.<dt>Oil<dd><ul><li>x</ul></dl>", "Tea: Leaves.\nMore.\n\nOil:\n\n- x"),
        ("<p># no heading<br>&lt;b&gt;", "\\# no heading\n\\<b>"),
        ("<table><tr><td rowspan=2>a<td>b<tr><td>c|d</table>", "|  |  |\n| --- | --- |\n| a | b |\n| a | c\\|d |"),
        ("<table><tr><th colspan=2>a<th>b<tr><td>1<td>2<td>3</table>", "| a |  | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |"),
        ("<table><tr><td><h1>A</h1><p>b</table>", "# A\n\nb"),
    ],
)  # fmt: skip
def test_html_as_markdown(tmp_path, html, markdown):
    (tmp_path / "a.html").write_text(html)
    assert read_content(tmp_path / "a.html").markdown == markdown


@pytest.mark.parametrize(
    "beside",
    [
        '<div class="contents topic"><p>Contents</p><ul><li><a href="#a">A pump</a></ul></div>',
        '<ul><li><a href="a.html">A pump</a> 1.<ul><li><a href="#b">B</a></ul></ul>',
        '<p><a href="/">Home</a> » <a href="../guide/">Guide</a> » 3</p>',
        '<div role="navigation" class="related"><p>You are here</div>',
        '<div class="sphinxsidebar">Donate</div>',
    ],
)
def test_what_stands_beside_the_text_of_a_page_is_left_out(tmp_path, beside):
    (tmp_path / "a.html").write_text(f"<h1>Tea<a href='#tea'>\uf0c1</a></h1>{beside}<p>Leaves.")
    assert read_content(tmp_path / "a.html").markdown == "# Tea\n\nLeaves."


@pytest.mark.parametrize(
    "text",
    ["<ul><li><a href='a.html'>A</a><li>b</ul>", "<p>See <a href='#a'>a</a>, <a href='#b'>b</a>.",
     "<ul><li><a href='https://a.org'>A</a><li><a href='https://b.org'>B</a></ul>", "<p><a href='a.html'>The guide</a>",
     "<section id='toc'><p>Contents lists are hard.</section>"],
)  # fmt: skip
def test_links_in_text_and_to_other_sites_are_kept(tmp_path, text):
    (tmp_path / "a.html").write_text(f"<h1>Tea</h1>{text}")
    assert read_content(tmp_path / "a.html").markdown != "# Tea"


def test_what_rst_says_for_links_alone_is_no_text(tmp_path):
    (tmp_path / "a.rst").write_text(
        "Use\n===\n\n:Release: |version|\n:Author: Ann\n\n.. automodule:: a\n\n   .. autofunction:: b\n\n"
        ".. setting:: speed\n\n``speed``\n---------\n\nRounds in a second.\n\n.. py:function:: run()\n"
    )
    assert (
        read_content(tmp_path / "a.rst").markdown == "# Use\n\nAuthor: Ann\n\n## speed\n\nRounds in a second.\n\nrun()"
    )


@pytest.mark.parametrize("ending", [ending for ending, found in FORMATS.items() if found.text])
def test_formats_that_are_text_are_read_in_the_encoding_that_is_named(tmp_path, ending):
    cell = '{"cells": [{"cell_type": "markdown", "source": "Tür"}]}'
    held = {".json": '["Tür", 1]', ".jsonl": '"Tür"', ".ipynb": cell}.get(ending, "Tür\n===\n\nTür")
    (tmp_path / f"a{ending}").write_text(held, encoding="cp1252")
    content = read_content(tmp_path / f"a{ending}", "cp1252")
    assert "Tür" in " ".join([content.markdown, *(record.text for record in content.records)])
    with pytest.raises(InputError, match="is not UTF-8; name its encoding"):
        read_content(tmp_path / f"a{ending}")


@pytest.mark.parametrize(
    ("says", "read"), [("", "Tür"), ("<meta name=charset>", "Tür"), ('<meta charset="cp1251">', "Tьr")]
)
def test_html_is_read_in_the_encoding_that_is_named_unless_it_says_one(tmp_path, says, read):
    (tmp_path / "a.html").write_text(f"{says}<p>Tür", encoding="cp1252")
    assert read_content(tmp_path / "a.html", "cp1252").markdown == read
    (tmp_path / "a.html").write_text("<p>Tür", encoding="utf-8")
    assert read_content(tmp_path / "a.html", "cp1252").markdown == "Tür"


def test_names_of_json_are_headings(tmp_path):
    (tmp_path / "a.json").write_text(
        '{"tea": {"kinds": ["green", "black"], "old": null, "cups": 2, "by": {"Ann": [[1]]}}}'
    )
    assert (
        read_content(tmp_path / "a.json").markdown
        == "# tea\n\ncups: 2\n\n## kinds\n\n- green\n- black\n\n## by\n\n### Ann\n\n- 1"
    )
    (tmp_path / "b.json").write_text('{"a": 1}\n{"a": 2}\n')
    assert [passage.text for passage in read_passages(tmp_path / "b.json")] == ["a: 1\na: 2"]


def test_every_row_of_a_long_table_is_read_once_with_its_columns(tmp_path):
    rows = [f"place {number},{number} metres above the sea" for number in range(2500)]
    (tmp_path / "a.csv").write_text("\n".join(["name,height", *rows]))
    found = [line for passage in read_passages(tmp_path) for line in passage.text.split("\n")]
    assert found == ["name: " + row.replace(",", "; height: ") for row in rows]


@pytest.mark.parametrize("ending", sorted(set(FORMATS) - {".csv", ".log", ".tsv", *ANY_TEXT}))
def test_a_damaged_file_is_named(tmp_path, ending):
    (tmp_path / f"a{ending}").write_bytes(b"PK\x03\x04 no such thing")
    with pytest.raises(InputError, match=rf"a\{ending} cannot be read as \{ending}"):
        read_passages(tmp_path)


def test_lists_titles_pages_and_merged_cells_of_an_odt(tmp_path):
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>"
    inner = f"<text:list>{item.format('blue', '')}</text:list>"
    cell, covered = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>", "<table:covered-table-cell/>"
    row = "<table:table-row>{}</table:table-row>"
    wide = row.format(cell.format(' table:number-columns-spanned="2"', "d") + covered)
    two = [cell.format(' table:number-rows-spanned="2"', "a") + cell.format("", "b"), covered + cell.format("", "c")]
    body = (
        '<text:p text:style-name="P2">Tea<text:note><text:p>Note</text:p></text:note></text:p>'
        "<text:p>Green<text:s/><text:span>and<text:tab/>black</text:span>.<text:soft-page-break/>Leaves.</text:p>"
        f"<text:section><text:list>{item.format('red', inner)}{item.format('old', '')}</text:list></text:section>"
        f"<table:table><table:table-header-rows>{row.format(two[0])}</table:table-header-rows>{row.format(two[1])}"
        f"{wide}</table:table>"
    )
    odt(tmp_path / "a.odt", '<style:style style:name="P2" style:parent-style-name="Title"/>', body)
    assert read_content(tmp_path / "a.odt").markdown == (
        "# Tea\n\nGreen and black.\fLeaves.\n\n- red\n  - blue\n- old\n\n| a | b |\n| --- | --- |\n| a | c |\n| d |  |"
    )


def test_entries_of_a_log_are_passages_with_their_times(tmp_path):
    (tmp_path / "a.log").write_text(
        "2025-11-03 10:12:00,123 ERROR app: the valve is stuck\nTraceback (most recent call last):\n  File 'a.py'\n"
        "[2025-11-03T10:13:00+01:00] INFO the pump runs\n"
        '10.0.0.7 - - [03/Nov/2025:10:14:00 +0100] "GET / HTTP/1.1" 200\nNov  3 10:15:00 host sshd: closed\n'
    )
    found = read_passages(tmp_path)
    assert [one.id for one in found] == ["a.log#1", "a.log#2", "a.log#3", "a.log#4"]
    assert found[0].text.endswith("File 'a.py'")
    dates = ["2025-11-03T10:12:00", "2025-11-03T10:13:00+01:00", None, None]
    assert [one.metadata.get("date") for one in found] == dates
    (tmp_path / "a.log").write_text("# no heading\n\nNothing happened on 2025-11-03 10:12:00.\n")
    assert [one.text for one in read_passages(tmp_path)] == ["# no heading\n\nNothing happened on 2025-11-03 10:12:00."]


def test_json_lines_in_a_folder_are_records(tmp_path):
    lines = [{"_id": "x", "text": "Tea.", "cups": 2}, {"_id": "y", "text": "Leaves\u2028of tea.", "cups": 3}]
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8"
    )
    found = read_passages(tmp_path)
    assert [(one.id, one.text, one.metadata["cups"]) for one in found] == [
        ("a.jsonl:x", "Tea.", 2), ("a.jsonl:y", "Leaves\u2028of tea.", 3),
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [ending for ending, found in FORMATS.items() if found.needed])
def test_a_missing_extra_is_named_when_a_file_needs_it(tmp_path, monkeypatch, ending):
    def missing(name):
        raise ImportError(name)

    (tmp_path / "a.txt").write_text("Leaves.")
    monkeypatch.setattr(importlib, "import_module", missing)
    assert len(read_passages(tmp_path)) == 1
    with pytest.raises(MissingExtraError, match=r'pip install "semclass\[documents\]"'):
        read_content(tmp_path / f"a{ending}")


class Touch:
    """What makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pdf_that_names_a_pickled_file_does_not_run_it(tmp_path):
    (tmp_path / "evil.pickle.gz").write_bytes(gzip.compress(pickle.dumps(Touch(tmp_path / "ran"))))
    encoding = (tmp_path / "evil").as_posix().replace("/", "#2F")
    inner = "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /A /CIDSystemInfo << /Registry (A) /Ordering (B) >> >>"
    font = f"<< /Type /Font /Subtype /Type0 /BaseFont /A /Encoding /{encoding} /DescendantFonts [{inner}] >>"
    (tmp_path / "a.pdf").write_bytes(written([shown(10, "Tea", 700)], font))
    with suppress(InputError):
        read_content(tmp_path / "a.pdf")
    assert not (tmp_path / "ran").exists()


def test_captions_and_divided_words_of_a_pdf(tmp_path):
    pytest.importorskip("pdfplumber")
    lines = ["The implementation of the lamp is a well-known matter; its implemen-", "tation took years, as is well-"]
    lines += ["known in the tower. No state-of-the-", "art lens was bought, and the light-", "house was built anyway."]
    page = [(18, "Lamps", 700), *((10, line, 670 - 12 * place) for place, line in enumerate(lines))]
    page += [(14, "Figure 3: The lens", 560), (14, "Table 2.1 Costs", 520), (14, "Tables of the keeper", 480)]
    path = tmp_path / "manual.pdf"
    path.write_bytes(written(["".join(shown(*line) for line in page)]))
    text = read_content(path).markdown
    assert "its implementation took years, as is well-known in" in text.replace("\n", " ")
    assert "state-of-the-art lens was bought, and the lighthouse was" in text.replace("\n", " ")
    assert re.findall("^#+ .*", text, re.MULTILINE) == ["# Lamps", "## Tables of the keeper"]
