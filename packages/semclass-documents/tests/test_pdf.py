"""PDF as programs write it: leaning, sideways, printed over, in forms and in tables of several pages."""

from __future__ import annotations

import math

import pytest
from made_documents import shown, written

from semclass.documents.readers import read_passages

WORDS = ["The pump of dock four", "was replaced in spring"]


SOFT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [173 /uni00AD] >> >>"


def texts(folder, *contents, **options):
    (folder / "a.pdf").write_bytes(written(contents, **options))
    return [one.text for one in read_passages(folder / "a.pdf")]


def placed(text, a, b, c, d, x, y):
    return f"BT /F 10 Tf {a:.5f} {b:.5f} {c:.5f} {d:.5f} {x:.3f} {y:.3f} Tm ({text}) Tj ET "


def turned(degrees, x, y, lines=WORDS, lean=0.0):
    """Write lines below one another, in a direction."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    places = [(x + 14 * place * sin, y - 14 * place * cos) for place in range(len(lines))]
    return "".join(
        placed(line, cos, sin, lean * cos - sin, lean * sin + cos, *at) for line, at in zip(lines, places, strict=True)
    )


@pytest.mark.parametrize("degrees", [-5, -1.5, 0.5, 1.5, 3, 30, 45, 90, 91.5, 135, 180, 225, 270, 268, 315])
def test_text_in_any_direction_is_read(tmp_path, degrees):
    assert texts(tmp_path, turned(degrees, 300, 400)) == [" ".join(WORDS)]


@pytest.mark.parametrize("lean", [-0.2, 0.2, 0.35])
def test_letters_that_lean_are_words(tmp_path, lean):
    assert texts(tmp_path, turned(0, 100, 400, lean=lean)) == [" ".join(WORDS)]
    apart = "".join(placed(word, 1, 0, lean, 1, 100 + 60 * place, 400) for place, word in enumerate(WORDS[0].split()))
    assert texts(tmp_path, apart) == [WORDS[0]]
    assert texts(tmp_path, f"BT /F 10 Tf 3 Tc 100 700 Td ({WORDS[0]}) Tj ET ") == [WORDS[0]]  # letters set apart


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_rotated_pages_are_read_in_their_order(tmp_path, rotation):
    pages = [turned(degrees, 300, 400) for degrees in (rotation, 0)]
    assert texts(tmp_path, *pages, fields=f"/Rotate {rotation}") == [" ".join(WORDS)] * 2


def test_sideways_text_is_read_and_stamps_are_not(tmp_path):
    page = turned(0, 100, 700, ["The report begins here and ends at the foot of the page."])
    table = turned(90, 300, 100, ["Berth Fee in crowns", "North quay 40"])
    assert texts(tmp_path, page + table) == [
        "The report begins here and ends at the foot of the page.\n\nBerth Fee in crowns North quay 40"
    ]
    assert texts(tmp_path, page + turned(90, 20, 300, ["Draft of June"])) == [
        "The report begins here and ends at the foot of the page."
    ]
    narrow = turned(0, 30, 700, ["The report begins."]) + turned(90, 40, 300, ["Draft of June"])
    assert texts(tmp_path, narrow) == ["The report begins.\n\nDraft of June"]


def test_a_sideways_table_has_rows(tmp_path):
    rows = [["Berth", "Fee"], ["North", "40"], ["South", "55"]]
    lines = "0 1 -1 0 500 100 cm " + grid(rows, 300)
    assert texts(tmp_path, lines) == ["Berth: North; Fee: 40\nBerth: South; Fee: 55"]


@pytest.mark.parametrize("shift", [0, 0.3, 0.8])
def test_what_is_printed_over_itself_is_read_once(tmp_path, shift):
    twice = "".join(shown(10, "Hall of wool", 700, left) for left in (100, 100 + shift))
    letters = "".join(shown(10, "o", 600, 100 + shift * place) for place in range(2))
    assert texts(tmp_path, twice + letters) == ["Hall of wool\n\no"]


def grid(rows, top, left=70):
    """Draw a table with lines."""
    cells = [
        (left + 100 * column, top - 20 * row, cell) for row, line in enumerate(rows) for column, cell in enumerate(line)
    ]
    lines = "".join(f"{x} {y - 20} 100 20 re S " for x, y, _ in cells)
    return lines + "".join(shown(10, cell, y - 14, x + 5) for x, y, cell in cells)


HEAD, FIRST, MORE = ["Berth", "Fee"], [["North", "40"], ["East", "45"]], [["South", "55"], ["West", "70"]]


def table_texts(folder, *pages):
    return [line for text in texts(folder, *pages) for line in text.split("\n")]


@pytest.mark.parametrize("more", [MORE, MORE[:1]])
@pytest.mark.parametrize("number", ["", "Page 7 of 9"])
def test_a_table_that_goes_on_keeps_its_names(tmp_path, more, number):
    foot = shown(10, number, 30) if number else ""
    pages = [grid([HEAD, *FIRST], 120) + foot, grid(more, 800) + foot, grid(FIRST, 800)]
    rows = [*FIRST, *more, *FIRST]
    assert [line for line in table_texts(tmp_path, *pages) if line != number] == [
        f"Berth: {berth}; Fee: {fee}" for berth, fee in rows
    ]


def test_another_table_on_the_next_page_has_names_of_its_own(tmp_path):
    first = grid([HEAD, *FIRST], 120)
    again = table_texts(tmp_path, first, grid([HEAD, *MORE], 800))
    assert again == [f"Berth: {berth}; Fee: {fee}" for berth, fee in [*FIRST, *MORE]]
    for other, at in ((["Town", "Height"], 70), (["Town", "9"], 90)):
        assert "Berth: South" not in "".join(table_texts(tmp_path, first, grid([other, *MORE], 800, at)))
    below = shown(16, "Of towns", 820) + grid(MORE, 800)
    assert "South: West; 55: 70" in table_texts(tmp_path, first, below)


@pytest.mark.parametrize("hyphen", ["\xad", "-"])
def test_words_that_a_line_divides_are_joined(tmp_path, hyphen):
    lines = turned(0, 100, 700, [f"The society owns immo{hyphen}", "bilia in town"])
    assert texts(tmp_path, lines, font=SOFT) == ["The society owns immobilia in town"]


def test_soft_hyphens_inside_a_word_are_dropped(tmp_path):
    assert texts(tmp_path, shown(10, "The co\xadoperative of the town", 700), font=SOFT) == [
        "The cooperative of the town"
    ]
    # as browsers write one that is not seen
    assert texts(tmp_path, "BT /F 10 Tf 100 700 Td [(The co ) 278 (operative of the town)] TJ ET ") == [
        "The cooperative of the town"
    ]


def field(value, kind="Tx", name="boat", more="", top=705, left=250):
    rect = f"/Rect [{left} {top - 15} {left + 200} {top + 5}]"
    return f"<< /Type /Annot /Subtype /Widget /FT /{kind} /T ({name}) {value} {rect} {more} >>"


def test_values_of_a_form_stand_beside_their_labels(tmp_path):
    labels = shown(10, "Name of the boat:", 700, 100) + shown(10, "Length:", 680, 100)
    fields = [
        field("/V (Heron of Holm)"), field("/V <FEFF0039>", top=685), field("/AS /Yes", "Btn", "Insured", top=600),
        field("/AS /Off", "Btn", "Sold", top=580), field("/V [(red) (blue)]", "Ch", "Colours", top=560),
        field("/V (secret)", more="/Ff 8192"), field("/V (unseen)", more="/F 2"), field("", top=300),
    ]  # fmt: skip
    found = texts(tmp_path, labels, fields=f"/Annots [{' '.join(fields)}]")
    text = "Name of the boat: Heron of Holm Length: 9 Insured: Yes Colours: red, blue"
    assert " ".join(" ".join(found).split()) == text
    assert texts(tmp_path, "", fields=f"/Annots [{field('/V (Heron)')}]") == ["boat: Heron"]


def test_a_value_that_is_printed_too_is_read_once(tmp_path):
    printed = shown(10, "Boat:", 700, 100) + shown(10, "Heron", 700, 255)
    assert texts(tmp_path, printed, fields=f"/Annots [{field('/V (Heron)')}]") == ["Boat: Heron"]
