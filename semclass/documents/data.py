"""Tables, JSON and notebooks as Markdown."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from io import StringIO
from itertools import chain
from typing import Any

from semclass.core.errors import InputError
from semclass.documents.markup import fenced, paragraph, table
from semclass.documents.records import Columns, Content, Record, named_rows, records_of

_SEPARATORS = ",;\t|"
_SNIFFED = 65_536
"""Characters of a table that show its separator."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
"""A number as JSON writes it; a longer one, or one that begins with 0, is a code."""

_BOOLEANS = {"true": True, "false": False}

_ENTRY = re.compile(
    r"^(?=\S).{0,60}?(?:(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d:\d\d)?"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)",
    re.MULTILINE,
)
"""The time at the beginning of an entry of a log: ISO 8601, or as web servers and syslog write it."""

DEEPEST = 6
"""Levels of headings that Markdown has."""


def read_csv(text: str, columns: Columns) -> Content:
    """Read separated values as records, or else as a table, whose first row names the columns."""
    csv.field_size_limit(2**31 - 1)
    rows = [row for row in csv.reader(StringIO(text), delimiter=separator_of(text)) if any(row)]
    found = records_of(enumerate(_typed(named_rows(rows, columns)), 1), columns)
    return Content(table(rows)) if found is None else Content(records=list(found))


def separator_of(text: str) -> str:
    """Give the separator that gives most lines as many cells as the first, and more than one."""
    best, most = _SEPARATORS[0], 0
    for separator in _SEPARATORS:
        rows = csv.reader(StringIO(text[:_SNIFFED]), delimiter=separator)
        lengths = [len(cells) for cells in rows if cells]
        alike = lengths.count(lengths[0]) if lengths and lengths[0] > 1 else 0
        best, most = (separator, alike) if alike > most else (best, most)
    return best


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


def read_json(text: str, columns: Columns) -> Content:
    """Read an array of objects, or JSON lines, as records; the text of an object is its ``text``, if all have one.

    Of other JSON, names are headings of what is inside, flat objects are rows of a table, and other values are written
    as "name: value".
    """
    try:
        return _content(json.loads(text, parse_constant=_none), columns)
    except ValueError:
        return read_jsonl(text, columns)


def read_jsonl(text: str, columns: Columns) -> Content:
    """Read JSON lines as :func:`read_json` reads an array."""
    return _content([json.loads(line, parse_constant=_none) for line in text.split("\n") if line.strip()], columns)


def _content(value: Any, columns: Columns) -> Content:
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        if not any(columns) and value and all(isinstance(one.get("text"), str) for one in value):
            columns = Columns(text="text")
        found = records_of(enumerate(value, 1), columns)
        if found is not None:
            return Content(records=list(found))
    return Content("\n\n".join(_value(value, 1)))


def _none(_: str) -> None:
    """Read NaN and infinity, which JSON does not know, as null."""


def _value(value: Any, level: int) -> Iterator[str]:
    if isinstance(value, dict):
        flat = {name: one for name, one in value.items() if not isinstance(one, (dict, list))}
        if flat:
            yield paragraph("; ".join(f"{name}: {_scalar(one)}" for name, one in flat.items() if one is not None))
        for name, one in value.items():
            if isinstance(one, (dict, list)) and one:
                yield f"{'#' * min(level, DEEPEST)} {' '.join(name.split())}"
                yield from _value(one, level + 1)
    elif not isinstance(value, list):
        yield paragraph(_scalar(value))
    elif all(isinstance(one, dict) and not any(isinstance(v, (dict, list)) for v in one.values()) for one in value):
        columns = list(dict.fromkeys(name for one in value for name in one))
        yield table(chain([columns], ([_scalar(one.get(name)) for name in columns] for one in value)))
    elif any(isinstance(one, (dict, list)) for one in value):
        for one in value:
            yield from _value(one, level)
    else:
        yield "\n".join(f"- {' '.join(_scalar(one).split())}" for one in value)


def _scalar(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def read_log(text: str) -> Content:
    """Read each entry of a log as a record, with the lines below it that have no time. Other logs are plain text."""
    entries = list(_ENTRY.finditer(text))
    if not entries or text[: entries[0].start()].strip():
        return Content(records=[Record("", text, {}, is_row=False)] if text.strip() else [])
    ends = [entry.start() for entry in entries[1:]] + [len(text)]
    records = []
    for number, (entry, end) in enumerate(zip(entries, ends, strict=True), 1):
        dated = {"date": f"{entry['date']}T{entry['time']}{entry['zone'] or ''}"} if entry["date"] else {}
        records.append(Record(f"#{number}", text[entry.start() : end].strip(), {"row": number, **dated}))
    return Content(records=records)


def notebook_to_markdown(text: str) -> str:
    """Write the cells of a notebook: Markdown as it is, code and what it printed as code."""
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise InputError(
            "the notebook has no `cells`: its version is below 4; convert it with `jupyter nbconvert --to notebook`"
        )
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "")
    parts = []
    for cell in notebook["cells"]:
        source = _source(cell.get("source", ""))
        if cell.get("cell_type") == "code":
            parts += [fenced(source, language)] if source.strip() else []
            parts += [fenced(printed) for printed in map(_printed, cell.get("outputs", [])) if printed.strip()]
        else:
            parts.append(source)
    return "\n\n".join(parts)


def _source(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def _printed(output: dict[str, Any]) -> str:
    shown = _source(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
    return "" if shown.startswith("<") else shown  # the name of an object, such as a picture
