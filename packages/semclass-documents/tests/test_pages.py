"""Pages as servers and editors write them: no text of them is lost, doubled or changed."""

from __future__ import annotations

import zipfile

import pytest
from made_documents import epub_parts

import semclass
from semclass.documents.readers import read_passages


def read(folder, page, name="a.html"):
    (folder / name).write_bytes(page if isinstance(page, bytes) else page.encode())
    return read_passages(folder / name)


def texts(folder, page):
    return "\n".join(one.text for one in read(folder, page))


@pytest.mark.parametrize(
    "page",
    [
        "<article><h2>A</h2><p>The ferry leaves.</article><article><h2>B</h2><p>The kiosk opens.</article>",
        "<div><article><p>The ferry leaves.</article></div><div><article><p>The kiosk opens.</article></div>",
        "<article><p>Today.</article><p>The ferry leaves.<article><p>The kiosk opens.</article>",
        "<main><p>The ferry leaves.</main><main><p>The kiosk opens.</main>",
        "<main><article><p>The ferry leaves.</article><article><p>The kiosk opens.</article></main>",
        "<form><h1>A</h1><div><p>The ferry leaves.</div><p>The kiosk opens.<button>Send</button></form>",
        "<title>A</title><p>The ferry leaves.<h1>A</h1><p>The kiosk opens.",
        "<div><p>The ferry leaves.</div><h1>A</h1><p>The kiosk opens.",
        "<h2>Now</h2><table><tr><td>The ferry leaves.</table><h1>A</h1><p>The kiosk opens.",
    ],
)
def test_all_main_parts_of_a_page_are_read(tmp_path, page):
    text = texts(tmp_path, f"<body>{page}</body>")
    assert text.count("The ferry leaves.") == text.count("The kiosk opens.") == 1
    assert "Send" not in text


def test_menus_above_the_title_are_left_out(tmp_path):
    page = "<div>Shop</div><div><a href=a>Boats</a> <a href=b>Ropes</a></div><p>Find us</p><h1>A</h1><p>Leaves."
    assert texts(tmp_path, page) == "A\n\nLeaves."


@pytest.mark.parametrize(
    "entry",
    [
        "<h3><button><span>How long?</span></button></h3><div>Three nights.</div>",
        "<button><h3>How long?</h3></button><div>Three nights.</div>",
        "<button class=accordion>How long?</button><div>Three nights.</div>",
        "<button data-bs-toggle=collapse data-bs-target=#p>How long?</button><div id=p>Three nights.</div>",
        "<div><button aria-controls=p>How long?</button></div><div id=p>Three nights.</div>",
        "<button aria-expanded=false aria-controls=p>How long?</button><div id=p hidden>Three nights.</div>",
        "<h3><button aria-expanded=false>How long?</button></h3><div hidden>Three nights.</div>",
        "<h3><button aria-controls=p>How long?</button></h3><div id=p aria-hidden=true>Three nights.</div>",
        "<details><summary>How long?</summary>Three nights.</details>",
        "<dl><dt><button>How long?</button></dt><dd>Three nights.</dl>",
    ],
)
def test_questions_that_open_their_answers_are_read_with_them(tmp_path, entry):
    (found,) = read(tmp_path, f"<h1>Help</h1>{entry}<button>Send</button>")
    assert "How long?" in found.text
    assert "Three nights." in found.text
    assert "Send" not in found.text


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("10<sup>6</sup> m<sup>2</sup> 10<sup>-3</sup> 2<sup>n</sup>", "10^6 m^2 10^-3 2^n"),
        ("H<sub>2</sub>O x<sub>1</sub> 10<sub>2</sub>", "H2O x1 10_2"),
        ("1<sup>st</sup> 5<sup>th</sup> 2<sup>e</sup> M<sup>me</sup>", "1st 5th 2e Mme"),
        ("<table><tr><th>m<sup>2</sup><tr><td>10<sup>6</sup></table>", "m^2: 10^6"),
        ("<h2>10<sup>6</sup></h2><p>Much.", "10^6"),
    ],
)
def test_raised_numbers_are_no_digits_of_their_base(tmp_path, page, written):
    assert written in texts(tmp_path, f"<p>{page}")


@pytest.mark.parametrize("says", ["", "<meta charset=latin1>", '<?xml version="1.0" encoding="ISO-8859-1"?>'])
def test_latin_1_is_read_as_windows_1252(tmp_path, says):
    assert texts(tmp_path, f"{says}<p>".encode() + b"\x80 40 \x96 \x93T\xfcr\x94 &#128;") == "€ 40 – “Tür” €"


def test_a_heading_that_is_the_title_is_its_only_one(tmp_path):
    page = "<title>LISTEN</title><div class=navheader>Prev</div><h2>LISTEN</h2><p>It waits.</p><h2>Notes</h2><p>None."
    found = read(tmp_path, page)
    assert [one.metadata["headings"] for one in found] == [["LISTEN"], ["LISTEN", "Notes"]]


def book(path, chapters, spine="abc"):
    pages = {f"{name}.xhtml": f"<html><body>{text}</body></html>" for name, text in chapters.items()}
    with zipfile.ZipFile(path, "w") as package:
        for name, text in {**epub_parts({**chapters, **dict.fromkeys(spine)}, spine), **pages}.items():
            package.writestr(name, text)


def test_a_chapter_may_begin_with_the_end_of_the_one_before(tmp_path):
    book(tmp_path / "a.epub", {"a": "<h1>Ropes</h1><p>Hemp.", "b": "<p>Dry.<h1>Sails</h1><p>Cotton."}, "ab")
    found = [(one.metadata["heading"], one.text) for one in read_passages(tmp_path / "a.epub")]
    assert found == [("Ropes", "Ropes\n\nHemp.\n\nDry."), ("Sails", "Sails\n\nCotton.")]


@pytest.mark.parametrize("damage", ["missing", "unlisted", "damaged", "blank"])
def test_a_bad_chapter_costs_only_itself(tmp_path, damage):
    chapters = {"a": "<p>Hemp.", "b": "Sisal. " * 99, "c": "<p>Cotton."}
    if damage in ("missing", "unlisted"):
        del chapters["b"]
    book(tmp_path / "a.epub", chapters, spine="abc" if damage != "unlisted" else ["a", "x y", "c"])
    if damage == "damaged":
        content = (tmp_path / "a.epub").read_bytes()
        (tmp_path / "a.epub").write_bytes(content.replace(b"Sisal. Sisal.", b"Sisal, Sisal,"))
    if damage == "blank":
        book(tmp_path / "a.epub", {**chapters, "b": ""})
        assert len(read_passages(tmp_path / "a.epub")) == 1
        return
    with pytest.warns(semclass.SkippedWarning, match="1 in all"):
        text = "\n".join(one.text for one in read_passages(tmp_path / "a.epub"))
    assert "Hemp." in text
    assert "Cotton." in text
