"""JSON lines: an object a line, of which each may be a passage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from semclass.core.checks import check_depth, short
from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.documents.chunking import Columns, Record
from semclass.documents.decoding import read_lines, reading
from semclass.documents.records import load_json, records_of

TEXT = "text"
"""Name of the field, or the column of a table, that holds a text."""


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, each with its line number from 1; blank lines are skipped."""
    return parse_json_lines(path, read_lines(path))


def parse_json_lines(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of some lines of a file, each with its line number."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = load_json(line)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from error
        except ValueError as error:
            remedy = (
                "" if path.suffix.lower() in ("", ".jsonl") else "; a document needs an ending of its format, e.g. .txt"
            )
            raise InputError(f"{path}, line {number}: broken JSON ({error}){remedy}") from error
        except RecursionError as error:
            raise InputError(f"{path}, line {number}: the JSON is nested too deeply; flatten it") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number} must be a JSON object, not {short(record)}")
        yield number, record


def begins_with_text(path: Path) -> bool:
    """Whether the first line of a file is a JSON object that holds a text; other JSON is a document."""
    line = next((line for _, line in read_lines(path) if line.strip()), "")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get(TEXT), str)


def text_of(record: dict[str, Any], where: str, field: str = TEXT) -> str:
    """Return the text of an object. An InputError says `where` one is missing."""
    text = record.get(field)
    if not isinstance(text, str):
        problem = "is missing" if text is None else f"must be a string, not {short(text)}"
        raise InputError(f"{where}: {field} {problem}")
    if not text.strip():
        raise InputError(f"{where}: {field} is empty")
    return text


def iter_records(path: Path, columns: Columns = Columns()) -> Iterator[Passage | Record]:  # noqa: B008
    """Yield the passages of a file of JSON lines, or records if the first line has no ``text`` or columns are named."""
    lines = read_json_lines(path)
    first = next(lines, None)
    if first is None:
        return
    number, record = first
    if TEXT in record and not any(columns):
        yield from _passages(path, chain([first], lines))
        return
    with reading(path):
        rows = records_of(chain([first], lines), columns)
        if rows is None:
            raise InputError(
                f"{path}, line {number}: {columns.text or TEXT} is missing; name the field that holds the text with "
                f"--text-column; fields of this line are {', '.join(map(repr, record)) or 'none'}"
            )
        yield from rows


def _passages(path: Path, lines: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[Passage]:
    """Yield each line as a passage; line numbers are ids where no line has an ``_id``."""
    seen: set[int] = set()  # hashes of 64 bits take less memory than ids
    with_id: bool | None = None
    for number, record in lines:
        where = f"{path}, line {number}"
        text = record.get(TEXT)
        if not isinstance(text, str):
            text = text_of(record, where)
        if with_id is None:
            with_id = "_id" in record
        if ("_id" in record) != with_id:
            raise InputError(
                f"{where}: _id is {'missing' if with_id else 'given'}; give an _id to all lines, or to none"
            )
        name = record.get("_id", number)
        if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
            raise InputError(f"{where}: _id must be a non-empty string or a whole number, not {short(name)}")
        name = str(name)
        if with_id and hash(name) in seen:
            raise InputError(f"{where}: an earlier line has the same _id {name!r}; ids must be unique")
        seen.add(hash(name))
        metadata = _metadata(record)
        check_depth(metadata, f"{where}: metadata")
        yield Passage(name, text, metadata)


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    nested = record.get("metadata")
    metadata = {key: value for key, value in record.items() if key not in ("_id", TEXT, "metadata")}
    if isinstance(nested, dict):
        metadata.update(nested)
    elif nested is not None:
        metadata["metadata"] = nested
    if metadata.get("title") == "":
        del metadata["title"]  # BEIR writes an empty title where there is none
    return metadata
