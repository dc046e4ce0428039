"""Sixty tickets of a help desk, and the same in every form that lists records."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from pathlib import Path

from datasets_io import read_tsv

HELD = Path(__file__).parent.parent / "bench" / "documents"


def made():
    """The tickets, with the columns id, date, customer, priority, open, subject and description."""
    with (HELD / "tickets.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{**row, "priority": int(row["priority"]), "open": row["open"] == "True"} for row in rows]


def questions():
    """A question for each ticket, which no other ticket answers."""
    return [row["question"] for row in read_tsv(HELD / "questions.tsv") if row["source"] == "tickets"]


def as_csv(path, tickets):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, tickets[0])
        writer.writeheader()
        writer.writerows(tickets)


def as_json(path, tickets):
    path.write_text(json.dumps(tickets))


def as_json_lines(path, tickets):
    path.write_text("".join(json.dumps(ticket) + "\n" for ticket in tickets))


def as_xlsx(path, tickets):
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(list(tickets[0]))
    for ticket in tickets:
        book.active.append([*{**ticket, "date": datetime.fromisoformat(ticket["date"])}.values()])
    book.save(path)


FORMS = {".csv": as_csv, ".json": as_json, ".jsonl": as_json_lines, ".xlsx": as_xlsx}
