"""Rows of sheets as records."""

from __future__ import annotations

import made_tickets

from semclass.documents.readers import read_passages

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
        "a.xlsx#1": "# Faults\n\nFaults of March",
        "a.xlsx#2": "# Figures\npart: valve; years: 5",
        "a.xlsx#Faults:1": LONG,
        "a.xlsx#Faults:2": OTHER,
    }
