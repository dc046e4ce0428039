"""Sheets and mailboxes as records."""

from __future__ import annotations

import made_tickets
import pytest

from semclass import HybridRetriever, Models, PassageIndex
from semclass.documents.readers import read_passages

LONG = "The pump under the roof runs at night, and nobody knows why."
OTHER = "The valve of the boiler drips since it was cleaned on Monday."


@pytest.mark.parametrize("ending", [".mbox", ".xlsx"])
def test_each_ticket_is_a_passage_that_answers_its_question(tmp_path, ending):
    made_tickets.FORMS[ending](tmp_path / f"tickets{ending}", made_tickets.made())
    passages = read_passages(tmp_path / f"tickets{ending}")
    models = Models.load()
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    first = [hits[0].id for hits in retriever.search_many(made_tickets.QUESTIONS, k=1)]
    right = sum(passage.id == best for passage, best in zip(passages, first, strict=True))
    assert (len(passages), right >= 54) == (60, True)


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
    for row in (["Faults of March"], [], ["by", "fault"], ["Ann", LONG], ["Bo", OTHER]):
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
