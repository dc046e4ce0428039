"""Rows of sheets as records."""

from __future__ import annotations

from datetime import date

import made_tickets
import pytest

import semclass
from semclass.documents.readers import iter_passages, read_passages

LONG = "The pump under the roof runs at night, and nobody knows why."
OTHER = "The valve of the boiler drips since it was cleaned on Monday."


def test_columns_of_a_sheet_are_typed_metadata(tmp_path):
    ticket = made_tickets.made()[0]
    made_tickets.FORMS[".xlsx"](tmp_path / "a.xlsx", [ticket])
    (passage,) = read_passages(tmp_path / "a.xlsx")
    assert (passage.id, passage.text) == ("a.xlsx:Sheet:T-100", ticket.pop("description"))
    place = {"document": passage.id, "file": "a.xlsx", "row": 1, "sheet": "Sheet"}
    assert passage.metadata == {**place, **ticket, "title": ticket["subject"]}


def test_a_workbook_may_hold_lists_and_figures(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    book.active.title = "Faults"
    for row in (["Faults of March"], [], ["by", "note"], ["Ann", LONG], ["Bo", OTHER]):
        book.active.append(row)
    figures = book.create_sheet("Figures")
    for row in (["part", "years"], ["valve", 5]):
        figures.append(row)
    book.save(tmp_path / "a.xlsx")
    found = {one.id: one.text for one in read_passages(tmp_path / "a.xlsx")}
    assert found == {
        "a.xlsx#1": "Faults\n\nFaults of March",
        "a.xlsx#2": "Figures\npart: valve; years: 5",
        "a.xlsx#Faults:1": LONG,
        "a.xlsx#Faults:2": OTHER,
    }


def read(folder, cells, merged=(), formats=()):
    from openpyxl import Workbook

    book = Workbook()
    for place, value in cells.items():
        book.active[place] = value
    for places in merged:
        book.active.merge_cells(places)
    for place, written in formats:
        book.active[place].number_format = written
    book.save(folder / "a.xlsx")
    return "\n".join(one.text for one in read_passages(folder / "a.xlsx")).split("\n")


def row(number, *values, first="A"):
    return {f"{chr(ord(first) + place)}{number}": value for place, value in enumerate(values)}


def test_tables_of_a_sheet_have_their_own_names(tmp_path):
    boats = row(2, "Boat", "Berth") | row(3, "Heron", 17) | row(4, "Kite", 23)
    goods = row(2, "Product", "Price", "Sold", first="D") | row(3, "Rope", 4.5, 2, first="D")
    beside = read(tmp_path, row(1, "Boats") | row(1, "Goods", first="D") | boats | goods)
    assert {"Boat: Heron; Berth: 17", "Product: Rope; Price: 4.5; Sold: 2", "Goods"} <= {*beside}
    below = read(tmp_path, boats | row(6, "Product", "Price") | row(7, "Rope", 4.5) | row(9, "Oil", 5))
    assert below[-2:] == ["Product: Rope; Price: 4.5", "Product: Oil; Price: 5"]


def test_merged_cells_repeat_their_value_and_titles_do_not(tmp_path):
    cells = row(1, "Fees") | row(2, "Quay", "Boat", "Fee") | row(3, "North", "Heron", 40) | row(4, None, "Kite", 55)
    found = read(tmp_path, cells, merged=["A1:C1", "A3:A4"])
    assert found[-2:] == ["Quay: North; Boat: Heron; Fee: 40", "Quay: North; Boat: Kite; Fee: 55"]
    assert " ".join(found).count("Fees") == 1


def test_names_of_columns_below_a_common_one_are_joined(tmp_path):
    cells = row(1, "Boat", "Fee", None) | row(2, None, "winter", "summer") | row(3, "Heron", 40, 55)
    assert read(tmp_path, cells, merged=["A1:A2", "B1:C1"])[-1] == "Boat: Heron; Fee winter: 40; Fee summer: 55"


def test_values_are_read_as_they_are_shown(tmp_path):
    cells = row(1, "share", "rate", "sum", "day") | row(2, 0.25, 0.0712, 0.1 + 0.2, date(2026, 3, 4)) | row(3, 1, 2, 3)
    formats = [("A2", "0%"), ("B2", "0.0 %"), ("C2", "#,##0.00"), ("A3", '0"%"')]
    found = read(tmp_path, cells, formats=formats)
    assert found[-2:] == ["share: 25%; rate: 7.1%; sum: 0.3; day: 2026-03-04", "share: 1; rate: 2; sum: 3"]


def test_formulas_without_a_value_are_told_and_written(tmp_path):
    cells = row(1, "item", "cost") | row(2, "oil", 5) | row(3, "all", "=SUM(B2:B2)")
    with pytest.warns(semclass.SkippedWarning, match=r"a\.xlsx: .* Sheet!B3"):
        assert read(tmp_path, cells)[-1] == "item: all; cost: =SUM(B2:B2)"
    skipped = []
    list(iter_passages(tmp_path, skipped=skipped.append))
    assert [(one.document, one.kind) for one in skipped] == [("a.xlsx", "cut")]
