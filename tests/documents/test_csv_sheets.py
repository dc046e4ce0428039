"""CSV as it is exported and written by hand: lines of text and several tables in one file."""

from __future__ import annotations

import pytest

from semclass.documents.readers import read_passages

LONG = "The pump under the roof runs at night, and nobody knows why."
OTHER = "The valve of the boiler drips since it was cleaned on Monday."


def read(folder, *lines):
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return [(one.text, one.metadata.get("id")) for one in read_passages(folder / "a.csv")]


@pytest.mark.parametrize(
    "above",
    [["Faults of March"], ["Faults of March", ""], ["Faults, by day;2025"], ["Faults;;", "", "of March;;", ";;"]],
)
def test_lines_above_the_names_are_text(tmp_path, above):
    found = read(tmp_path, *above, "id;by;text", f"7;Ann;{LONG}", f"8;Bo;{OTHER}")
    assert found[-2:] == [(LONG, 7), (OTHER, 8)]
    assert "Faults" in found[0][0]
    assert "id" not in found[0][0]


def test_rows_without_ids_stand_beside_text_above_and_below(tmp_path):
    (tmp_path / "a.csv").write_text(f"Faults of March\n\nby;text\nAnn;{LONG}\nBo;{OTHER}\n\nAsk Ann.\n")
    passages = read_passages(tmp_path)
    assert [one.id for one in passages] == ["a.csv#1-text", "a.csv#1", "a.csv#2"]
    assert [one.text for one in passages] == ["Faults of March\n\nAsk Ann.", LONG, OTHER]


@pytest.mark.parametrize(("first", "mark"), [("sep=;", ";"), ('"sep=|"', "|"), ("SEP=^", "^")])
def test_a_first_line_names_the_separator(tmp_path, first, mark):
    assert read(tmp_path, first, mark.join(["id", "text"]), mark.join(["7", LONG])) == [(LONG, 7)]


def test_tables_below_each_other_have_names_of_their_own(tmp_path):
    found = read(tmp_path, "Boat,Berth", "Heron,17", "", "Product,Price", "Rope,4.5", "", "Oil,5", "", "Ask Ann.")
    lines = ["Boat: Heron; Berth: 17", "Product: Rope; Price: 4.5", "Product: Oil; Price: 5", "Ask Ann."]
    assert "\n".join(text for text, _ in found).split("\n") == lines


def test_blank_lines_within_a_list_part_nothing(tmp_path):
    rows = [("Heron", "Ann"), ("Osprey", "Bo"), ("Kite", "Cy")]
    (found,) = read(tmp_path, "boat,by", *(f"{boat},{by}\n" for boat, by in rows))
    assert found[0].split("\n") == [f"boat: {boat}; by: {by}" for boat, by in rows]
    found = read(tmp_path, "id;text", f"7;{LONG}", "", f"8;{OTHER}", "", "x;Oil it.")
    assert [name for _, name in found] == ["7", "8", "x"]
