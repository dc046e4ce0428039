"""Sixty tickets of a help desk, and the same in every form that lists records."""

from __future__ import annotations

import csv
import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

with (Path(__file__).parent / "tickets.tsv").open(encoding="utf-8") as _file:
    FAULTS = list(csv.DictReader(_file, delimiter="\t"))
    """Subject and fault of each ticket, and a question that no other ticket answers."""

QUESTIONS = [row["question"] for row in FAULTS]
CUSTOMERS = ["Acme", "Acorn Books", "Bright & Sons", "Harbour Clinic", "Lindt Ltd"]

CONTEXT = [
    "It began on Monday morning.", "A restart did not help.", "Two other people see the same.", "It worked last week.",
    "Nobody has changed anything as far as I know.", "We can live with it until Thursday.", "Please call before you come.",
    "I am in the office from nine to four.", "The cable was exchanged already.", "This is the second time this year.",
]  # fmt: skip


def made():
    """The tickets, with the columns id, date, customer, priority, open, subject and description."""
    rng = random.Random(60)
    tickets = []
    for place, row in enumerate(FAULTS):
        date = datetime(2025, 11, 1, tzinfo=timezone.utc) + timedelta(days=2 * place)
        tickets.append(
            {
                "id": f"T-{place + 100}",
                "date": date.date().isoformat(),
                "customer": CUSTOMERS[place % len(CUSTOMERS)],
                "priority": rng.randint(1, 4),
                "open": rng.random() < 0.5,
                "subject": row["subject"],
                "description": " ".join([row["fault"], *rng.sample(CONTEXT, 2)]),
            }
        )
    return tickets


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
