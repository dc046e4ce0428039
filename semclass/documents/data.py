"""Tables, JSON and notebooks as Markdown."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import StringIO
from itertools import chain
from typing import Any

from semclass.core.errors import InputError
from semclass.documents.markup import fenced, paragraph, table

_SNIFFED = 65_536
"""Characters of a table that show its separator."""

DEEPEST = 6
"""Levels of headings that Markdown has."""


def csv_to_markdown(text: str) -> str:
    """Write separated values as a table, whose first row names the columns."""
    csv.field_size_limit(2**31 - 1)
    try:
        dialect: Any = csv.Sniffer().sniff(text[:_SNIFFED], delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel  # one column
    return table(row for row in csv.reader(StringIO(text), dialect) if any(row))


def json_to_markdown(text: str) -> str:
    """Write JSON: names as headings of what is inside, flat objects as rows of a table, other values as "name: value"."""
    try:
        value = json.loads(text)
    except ValueError:  # JSON lines
        value = [json.loads(line) for line in text.splitlines() if line.strip()]
    return "\n\n".join(_value(value, 1))


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
