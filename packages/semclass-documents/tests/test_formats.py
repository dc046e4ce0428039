from __future__ import annotations

import gzip
import pickle
import re
from contextlib import suppress
from pathlib import Path

import pytest
from made_documents import BOILER, PUMP, WRITERS, shown, written

from semclass import Chunking, InputError
from semclass.documents.readers import read_passages
from semclass_documents.reader import FORMATS, convert

PAGES = {".docx", ".pdf", ".pptx"}


def markdown(path, encoding=None):
    return convert(path, Chunking(encoding=encoding)).text


def test_every_format_is_written():
    assert WRITERS.keys() == FORMATS.keys() - {".eml", ".log", ".mbox"}, "which have tests of their own"


@pytest.mark.parametrize("ending", WRITERS)
def test_headings_tables_and_pages_are_kept(ending, tmp_path):
    WRITERS[ending](tmp_path / f"manual{ending}")
    found = read_passages(tmp_path)
    (rows,) = (passage for passage in found if "valve" in passage.text)
    assert rows.text == "part: valve; years: 5\npart: tank <old>; years: 2"
    assert "Boiler" in rows.metadata["headings"]
    texts = [passage for passage in found if passage is not rows]
    if texts:
        boiler, pump = (
            next(passage for passage in texts if text in " ".join(passage.text.split())) for text in (BOILER, PUMP)
        )
        assert (boiler.metadata["headings"][-1], pump.metadata["headings"][-1]) == ("Boiler", "Pump")
        pages = [one.metadata.get("page") for one in (boiler, rows, pump)]
        assert pages == ([1, 1, 2] if ending in PAGES else [None] * 3)
    assert not any(
        word in passage.text for passage in found for word in ("var x", "Imprint", "Shop", "Home", "¶", "Works")
    )


@pytest.mark.parametrize(
    ("html", "written"),
    [
        ("<title>Tea</title><p>Leaves", "# Tea\n\nLeaves"),
        ("<ul><li>a<ol><li>b</ol><li><p>c<pre>d\n e</pre></ul>", "- a\n  1. b\n- c\n\n  ```\n  d\n   e\n  ```"),
        ("<dl><dt>Tea<dd>Leaves.<p>More.<dt>Oil<dd><ul><li>x</ul></dl>", "Tea: Leaves.\n\nMore.\n\nOil: \n\n- x"),
        ("<p># no heading<br>&lt;b&gt;", "\\# no heading  \n\\<b>"),
        ("<table><tr><td rowspan=2>a<td>b<tr><td>c|d</table>", "|  |  |\n| --- | --- |\n| a | b |\n| a | c\\|d |"),
        ("<table><tr><th colspan=2>a<th>b<tr><td>1<td>2<td>3</table>", "| a |  | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |"),
        ("<table><tr><td><h1>A</h1><p>b</table>", "# A\n\nb"),
    ],
)  # fmt: skip
def test_html_as_markdown(tmp_path, html, written):
    (tmp_path / "a.html").write_text(html)
    assert markdown(tmp_path / "a.html") == written


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
    assert markdown(tmp_path / "a.html") == "# Tea\n\nLeaves."


@pytest.mark.parametrize(
    "text",
    ["<ul><li><a href='a.html'>A</a><li>b</ul>", "<p>See <a href='#a'>a</a>, <a href='#b'>b</a>.",
     "<ul><li><a href='https://a.org'>A</a><li><a href='https://b.org'>B</a></ul>", "<p><a href='a.html'>The guide</a>",
     "<section id='toc'><p>Contents lists are hard.</section>"],
)  # fmt: skip
def test_links_in_text_and_to_other_sites_are_kept(tmp_path, text):
    (tmp_path / "a.html").write_text(f"<h1>Tea</h1>{text}")
    assert markdown(tmp_path / "a.html") != "# Tea"


@pytest.mark.parametrize(
    ("says", "read"), [("", "Tür"), ("<meta name=charset>", "Tür"), ('<meta charset="cp1251">', "Tьr")]
)
def test_html_is_read_in_its_own_encoding_or_the_named_one(tmp_path, says, read):
    (tmp_path / "a.html").write_text(f"{says}<p>Tür", encoding="cp1252")
    assert markdown(tmp_path / "a.html", "cp1252") == read
    (tmp_path / "a.html").write_text("<p>Tür", encoding="utf-8")
    assert markdown(tmp_path / "a.html", "cp1252") == "Tür"


@pytest.mark.parametrize("ending", [".docx", ".eml", ".epub", ".ipynb", ".mbox", ".pdf", ".pptx", ".xlsx"])
def test_a_damaged_file_is_named(tmp_path, ending):
    (tmp_path / f"a{ending}").write_bytes(b"PK\x03\x04 no such thing")
    with pytest.raises(InputError, match=rf"a\{ending} cannot be read as \{ending}"):
        read_passages(tmp_path)


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


class Touch:
    """An object that makes a file when it is unpickled."""

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
        markdown(tmp_path / "a.pdf")
    assert not (tmp_path / "ran").exists()


def test_captions_of_a_pdf_are_no_headings(tmp_path):
    pytest.importorskip("pdfplumber")
    page = [(18, "Lamps", 700), (10, "The lamp is a well-known matter, and no lens was bought for it.", 670)]
    page += [(14, "Figure 3: The lens", 560), (14, "Table 2.1 Costs", 520), (14, "Tables of the keeper", 480)]
    (tmp_path / "a.pdf").write_bytes(written(["".join(shown(*line) for line in page)]))
    text = markdown(tmp_path / "a.pdf")
    assert re.findall("^#+ .*", text, re.MULTILINE) == ["# Lamps", "## Tables of the keeper"]
