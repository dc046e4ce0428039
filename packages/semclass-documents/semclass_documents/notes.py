"""Reads notebooks as Markdown, and logs as records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from semclass import Chunking, InputError
from semclass.plugins import Document, Record, read_text

_TICKS = re.compile(r"`{3,}")
_ENTRY = re.compile(
    r"^(?=\S).{0,60}?(?:(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d:\d\d)?"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)",
    re.MULTILINE,
)
"""The time at the beginning of a log entry, in ISO 8601 or in the formats of web servers and syslog."""


def read_log(path: Path, chunking: Chunking) -> Document:
    """Read each entry of a log and the lines without a time below it as a record. A log without times is plain text."""
    text = read_text(path, chunking.encoding)
    entries = list(_ENTRY.finditer(text))
    if not entries or text[: entries[0].start()].strip():
        return Document(text, markdown=False)
    ends = [entry.start() for entry in entries[1:]] + [len(text)]
    records = []
    for number, (entry, end) in enumerate(zip(entries, ends, strict=True), 1):
        dated = {"date": f"{entry['date']}T{entry['time']}{entry['zone'] or ''}"} if entry["date"] else {}
        records.append(Record(f"#{number}", text[entry.start() : end].strip(), {"row": number, **dated}))
    return Document(records=records)


def read_notebook(path: Path, chunking: Chunking) -> Document:
    """Write the cells of a notebook: Markdown unchanged, programs and their output as code blocks."""
    notebook = json.loads(read_text(path, chunking.encoding))
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise InputError(
            "the notebook has no `cells`: its version is below 4; convert it with `jupyter nbconvert --to notebook`"
        )
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "")
    parts = []
    for cell in notebook["cells"]:
        source = _joined(cell.get("source", ""))
        if cell.get("cell_type") == "code":
            parts += [fenced(source, language)] if source.strip() else []
            parts += [fenced(output) for output in map(_output, cell.get("outputs", [])) if output.strip()]
        else:
            parts.append(source)
    return Document("\n\n".join(parts))


def fenced(text: str, language: str = "") -> str:
    """Write code."""
    fence = max(["``", *_TICKS.findall(text)], key=len) + "`"
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def _joined(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def _output(output: dict[str, Any]) -> str:
    text = _joined(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
    return "" if text.startswith("<") else text  # the name of an object, such as a picture
