"""Reads sheets and CSV: tables with their names of columns, and lines of text above, between and below tables."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import groupby
from typing import Any, TypeAlias

from semclass.core.errors import InputError
from semclass.documents.chunking import Columns, Document, Record
from semclass.documents.records import named_rows, no_column, paragraph, records_of, table

Cells: TypeAlias = Sequence[Any]
"""The cells of a row. An empty cell is None or blank."""

NAME_LENGTH = 60
"""Maximum characters of a column's name, if the row of names must be guessed."""

NAME_WORDS = 7
"""Maximum words of a column's name, if the row of names must be guessed."""

_VALUE = re.compile(r"\s*(?:[-+]?[0-9][0-9.,]*(?:\s*%)?|[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}.*|(?i:true|false))\s*")
_SEPARATORS = ",;\t|"
_NAMED_SEPARATOR = re.compile(r"""["']?sep=([^\n])["']?[ \t]*\n""", re.IGNORECASE)  # as Excel knows it
_SNIFFED = 65_536
"""Characters of a table that show its separator."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
"""A number as JSON writes it; a longer one, or one that begins with 0, is a code."""

_BOOLEANS = {"true": True, "false": False}


def read_csv(text: str, columns: Columns) -> Document:
    """Read separated values as a sheet. A first line such as "sep=;" names the separator."""
    csv.field_size_limit(2**31 - 1)
    named = _NAMED_SEPARATOR.match(text)
    text = text[named.end() :] if named else text
    rows = list(csv.reader(StringIO(text), delimiter=named[1] if named else separator_of(text)))
    document = read_sheet(rows, columns)
    if "text" in columns and not document.records:
        raise InputError(no_column(columns["text"], rows[0] if rows else ()))
    return document


def separator_of(text: str) -> str:
    """Return the separator that splits most lines into the same number of cells, at least two."""
    best, most = _SEPARATORS[0], 0
    for separator in _SEPARATORS:
        rows = csv.reader(StringIO(text[:_SNIFFED]), delimiter=separator)
        alike = max(Counter(len(cells) for cells in rows if len(cells) > 1).values(), default=0)
        best, most = (separator, alike) if alike > most else (best, most)
    return best


def read_sheet(rows: Sequence[Cells], columns: Columns, name: str | None = None) -> Document:
    """Read the lists of a sheet as records, and other tables and lines of text as Markdown below the sheet's name.

    A sheet without a name is a CSV file, in which all cells are texts.
    """
    parts: list[str] = []
    records: list[Record] = []
    lists = 0
    place, more = ("", {}) if name is None else (f"{name}:", {"sheet": name})
    for part in _parts(rows):
        if isinstance(part, str):
            parts.append(paragraph(part))
            continue
        named = named_rows(part, columns)
        numbered = enumerate(_typed(named) if name is None else named, 1)
        if (found := records_of(numbered, columns, f"{place}{lists + 1}:" if lists else place, more)) is None:
            parts.append(table(["" if cell is None else str(cell) for cell in row] for row in part))
        else:
            records += found
            lists += 1
    return Document("\n\n".join([f"# {name}", *parts] if name and parts else parts), records=records)


def _parts(rows: Sequence[Cells]) -> list[str | list[Cells]]:
    """Part a sheet into tables and lines of text, at blank rows, and at blank columns between tables.

    Rows below a blank one go on with the table above, unless they begin with names of their own.
    """
    parts: list[str | list[Cells]] = []
    above: list[Cells] | None = None
    is_column = all(sum(map(_is_filled, row)) < 2 for row in rows)  # a table of one
    for filled, band in groupby(rows, key=lambda row: any(map(_is_filled, row))):
        blocks = _beside(list(band)) if filled else []
        for block in blocks:
            lead = 0 if is_column else _lead(block)
            body = block[lead:]
            if above and body and len(blocks) == 1 and not _begins(body, above, titled=lead > 0):
                above += block[body[0] == above[0] :]
                continue
            parts += [" ".join(str(cell).strip() for cell in row if _is_filled(cell)) for row in block[:lead]]
            if body:
                parts.append(above := list(body))
        above = None if len(blocks) > 1 else above
    return parts


def _lead(block: Sequence[Cells]) -> int:
    """Count the lines of text above a table: rows of the first cell, and one of fewer cells than the names below it."""
    counts = [sum(map(_is_filled, row)) for row in block]
    left = min(next(place for place, cell in enumerate(row) if _is_filled(cell)) for row in block)
    titles = (count == 1 and _is_filled(row[left]) for count, row in zip(counts, block, strict=True))
    lead = next((place for place, is_title in enumerate(titles) if not is_title), len(block))
    if lead + 2 < len(block) and not _are_names(block[lead]) and _are_names(block[lead + 1]):
        lead += counts[lead] < counts[lead + 1]
    return lead


def _begins(block: Sequence[Cells], above: Sequence[Cells], *, titled: bool) -> bool:
    """Whether a block below a table has names of its own: below a title, of other columns, or above values."""
    if len(block) < 2 or not _are_names(block[0]) or block[0] == above[0]:
        return False
    first, names = ([place for place, cell in enumerate(row) if _is_filled(cell)] for row in (block[0], above[0]))
    below = ([row[place] for row in block[1:] if place < len(row) and _is_filled(row[place])] for place in first)
    return titled or first != names or any(cells and not any(map(_is_name, cells)) for cells in below)


def _beside(band: list[Cells]) -> list[list[Cells]]:
    """Return the tables that stand beside each other, if each has at least two columns, all with names."""
    used = {place for row in band for place, cell in enumerate(row) if _is_filled(cell)}
    starts = sorted(place for place in used if place - 1 not in used)
    if len(starts) < 2:
        return [band]
    blocks = [[row[start:end] for row in band] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    blocks = [[row for row in block if any(map(_is_filled, row))] for block in blocks]
    return blocks if all(map(_is_table, blocks)) else [band]


def _is_table(block: Sequence[Cells]) -> bool:
    lead = _lead(block)
    return len(block) > lead + 1 and sum(map(_is_filled, block[lead])) > 1 and _are_names(block[lead])


def _are_names(row: Cells) -> bool:
    return all(_is_name(cell) for cell in row if _is_filled(cell))


def _is_name(cell: object) -> bool:
    is_short = isinstance(cell, str) and len(cell) <= NAME_LENGTH and len(cell.split()) <= NAME_WORDS
    return is_short and _VALUE.fullmatch(str(cell)) is None


def _is_filled(cell: object) -> bool:
    return cell is not None and (not isinstance(cell, str) or bool(cell.strip()))


def _typed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Read the texts of a column as numbers or booleans if all of them are; dates stay texts, see `instant`."""
    numbers, booleans = ({name for row in rows for name in row} for _ in range(2))
    for row in rows:
        numbers -= {name for name in row if name in numbers and not _NUMBER.fullmatch(row[name].strip())}
        booleans -= {name for name in row if name in booleans and row[name].strip().lower() not in _BOOLEANS}
    for row in rows:
        for name in row.keys() & numbers:
            row[name] = json.loads(row[name])
        for name in row.keys() & booleans:
            row[name] = _BOOLEANS[row[name].strip().lower()]
    return rows
