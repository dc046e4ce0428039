"""Tables, JSON and JSON lines. Rows become records, each a passage with its columns as metadata, or a table."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

from semclass.core.checks import check_depth, short
from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.documents.blocks import MAX_HEADING, MAX_NAME, SEPARATOR
from semclass.documents.chunking import Columns, Document, Record, joined
from semclass.documents.decoding import read_lines, reading

Row: TypeAlias = Mapping[str, Any]
"""The values of a row by the names of their columns."""

TEXT = "text"
"""Name of the field, or the column of a table, that holds a text."""

TEXTS = (
    "text", "body", "content", "description", "message", "answer", "note", "notes", "comment", "details", "question",
)  # fmt: skip
"""Usual names of the column of texts, in any case, the most usual first."""

TITLES = ("title", "subject", "headline", "summary", "question")
"""Usual names of the column of titles."""

IDS = ("_id", "id", "uuid", "key")
"""Usual names of the column of ids. A first column also holds ids if its name ends in "id"."""

PROSE_WORDS = 8
"""Minimum words of a value that is searched with the text, because such a value is prose and not a label."""

SAMPLED_ROWS = 1000
"""Number of first rows of JSON whose fields are the columns, because fields may differ between rows."""

_ENDS_IN_ID = re.compile(r"[\W_](?i:id|key|no|number)$|[a-z]I[Dd]$")


def named_rows(rows: Sequence[Sequence[Any]], columns: Columns) -> list[dict[str, Any]]:
    """Return the rows below the names of their columns, without empty cells.

    Returns no rows if the first row of a table has neither a column in `columns` nor one with a usual name.
    """
    names = [" ".join(cell.split()) if isinstance(cell, str) else cell for cell in rows[0]] if len(rows) > 1 else []
    while names and names[-1] in ("", None):
        names.pop()
    own = [name for name in names if name not in ("", None)]
    usual = Counter(map(len, rows[1:])).most_common(1)
    if len(set(own)) < len(own) or not _text_column(own, columns) or len(rows[0]) < usual[0][0]:
        return []
    width = max(map(len, rows))
    places = enumerate([*names, *[""] * (width - len(names))], 1)
    names = [str(name) if name else f"column_{place}" for place, name in places]
    return [{name: cell for name, cell in zip(names, row, strict=False) if not _is_empty(cell)} for row in rows[1:]]


def records_of(
    rows: Iterable[tuple[int, Row]], columns: Columns, place: str = "", more: Row | None = None
) -> Iterator[Record] | None:
    """Return a record for each numbered row, or None if no column has the given or a usual name of texts.

    `place` is the place of the table in its file, and begins the ids. `more` holds metadata of all rows. Raises an
    InputError if the rows lack another column in `columns`, or if an id in the column of ids is missing or comes twice.
    """
    stream = iter(rows)
    sample = list(islice(stream, SAMPLED_ROWS))
    names = list(dict.fromkeys(name for _, row in sample for name in row))
    if (text := _text_column(names, columns)) is None:
        return None
    missing = [name for name in columns.values() if name not in names]
    if missing:
        raise InputError(no_column(missing[0], names))
    first = names[0] if _ENDS_IN_ID.search(names[0]) else None
    name = columns.get("id") or _usual(names, IDS) or (first if first != text else None)
    title = columns.get("title") or _usual([name for name in names if name != text], TITLES)
    return _records(chain(sample, stream), (text, name, title), "id" in columns, place, more or {})


def no_column(name: str, names: Sequence[Any]) -> str:
    """Return a message about a missing column."""
    return (
        f"there is no column {name!r}; the columns are {', '.join(map(short, names[:20])) or 'none'}. Name others with "
        "--text-column, --id-column and --title-column"
    )


def _usual(names: Iterable[Any], usual: Sequence[str]) -> str | None:
    """Return the first usual name among `names`, as it is written there."""
    written = {name.casefold(): name for name in names if isinstance(name, str)}
    return next((written[name] for name in usual if name in written), None)


def _text_column(names: Sequence[Any], columns: Columns) -> str | None:
    named = columns.get("text") or _usual(names, TEXTS)
    return named if named in names else None


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _records(
    rows: Iterable[tuple[int, Row]], named: tuple[str, str | None, str | None], is_named: bool, place: str, more: Row
) -> Iterator[Record]:
    text_column, id_column, title_column = named
    seen = set[int]()  # hashes take less memory than ids
    for number, row in rows:
        own = {name: value for name, value in row.items() if not _is_empty(value)}
        title = " ".join(_written(own[title_column]).split()) if title_column in own else ""
        if not (text := _text(own, text_column, title_column if len(title) <= MAX_HEADING else None)):
            continue
        own_id = row.get(id_column) if id_column else None
        name = str(own_id).strip() if isinstance(own_id, (str, int)) and not isinstance(own_id, bool) else ""
        if is_named and (not name or hash(name) in seen):
            problem = f"{short(name)} comes twice" if name else f"is {short(own_id)}"
            raise InputError(
                f"row {number}: the id in the column {id_column!r} {problem}; ids must be unique, and strings or whole "
                "numbers"
            )
        # a row whose id is missing or known is named by its number
        end = f"#{place}{number}" if not name or hash(name) in seen else f":{place}{name}"
        seen.add(hash(name))
        others = {name: value for name, value in own.items() if name not in (text_column, "_id")}
        metadata = joined({"row": number, **more}, others)
        if title:
            metadata["title"] = title[:MAX_HEADING]
        yield Record(end, text, metadata)


def _text(row: Row, text: str, title: str | None) -> str:
    """Return the text of a row and its other prose, or all its values if it has neither."""
    parts = [(name, part) for name, value in row.items() if name != text for part in _strings(value)]
    prose = [f"{name[:MAX_NAME]}: {part}" for name, part in parts if name != title and len(part.split()) >= PROSE_WORDS]
    if text in row:
        prose.insert(0, _written(row[text]).strip())
    if not prose:
        return "; ".join(f"{name[:MAX_NAME]}: {' '.join(_written(value).split())}" for name, value in row.items())
    return "\n\n".join(prose).replace("\r\n", "\n").replace("\r", "\n")


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in a value and in the lists and objects within it."""
    within = [value]
    while within:
        value = within.pop()
        if isinstance(value, str):
            yield value.strip()
        elif isinstance(value, (dict, list)):
            within += reversed([*value.values()] if isinstance(value, dict) else value)


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


# -- as Markdown -------------------------------------------------------------------------------------------------------

MAX_CELLS = 3_000_000
"""Maximum cells of a table, including empty cells between others."""

PARSED_ROWS = 1000
"""Number of rows of a Markdown table that are parsed at a time."""

HEADING_LEVELS = 6
"""Number of heading levels in Markdown."""

_MARKS = re.compile(r"^(?=#{1,6}(?:\s|$)|<|```|~~~|\[[^\]\n]*\]:|(?:[-*_][ \t]*){3,}$|[-=]+$)", re.MULTILINE)
_CELL_MARKS = re.compile(r"[*_`\[<&\\|]")


def check_cells(number: int) -> None:
    """Refuse a table with too many cells."""
    if number > MAX_CELLS:
        raise InputError(
            f"a table has more than {MAX_CELLS:,} cells, empty ones included; split it into smaller files, or write its "
            "rows as JSON lines"
        )


def paragraph(text: str) -> str:
    """Write a paragraph so that Markdown reads no line of it as anything else."""
    return _MARKS.sub(r"\\", text)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown, without empty columns at the right. Its first row names the columns."""
    lines, cells = [], 0
    for row in rows:
        cells += len(row)
        check_cells(cells)
        lines.append([_CELL_MARKS.sub(r"\\\g<0>", " ".join(cell.split())) if cell else "" for cell in row])
    width = max((place for line in lines for place, cell in enumerate(line, 1) if cell), default=0)
    if not width:
        return ""
    check_cells(width * len(lines))
    head, *body = (f"| {' | '.join((line + [''] * width)[:width])} |" for line in lines)
    head = "\n".join([head, f"| {' | '.join(['---'] * width)} |"])
    parts = range(0, len(body), PARSED_ROWS) or [0]
    return f"\n\n{SEPARATOR}".join("\n".join([head, *body[start : start + PARSED_ROWS]]) for start in parts)


# -- JSON -------------------------------------------------------------------------------------------------------------

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_json(text: str, columns: Columns) -> Document:
    """Read an array of objects with a column of texts, or JSON lines, as records.

    Other JSON becomes text: names are headings of their content, flat objects are rows of a table, and other values are
    written as "name: value".
    """
    try:
        return _content(load_json(text), columns)
    except InputError:
        raise
    except ValueError:
        return read_jsonl(text, columns)


def read_jsonl(text: str, columns: Columns) -> Document:
    """Read JSON lines as :func:`read_json` reads an array."""
    return _content([load_json(line) for line in text.split("\n") if line.strip()], columns)


def _content(value: Any, columns: Columns) -> Document:
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        found = records_of(enumerate(value, 1), columns)
        if found is not None:
            return Document(records=list(found))
        if "text" in columns:
            raise InputError(no_column(columns["text"], list(value[0])))
    return Document("\n\n".join(_value(value, 1)))


def load_json(text: str) -> Any:
    """Parse JSON. NaN and infinity, which JSON does not allow, become null, and half a character becomes U+FFFD."""
    value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    if "\\ud" in text.lower() and _SURROGATE.search(written := json.dumps(value, ensure_ascii=False)):
        return json.loads(_SURROGATE.sub("\ufffd", written))
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InputError(f"the number {short(text)} is too large for a number in JSON; write it as a string")
    return number


def _value(value: Any, level: int) -> Iterator[str]:
    if isinstance(value, dict):
        flat = {name: one for name, one in value.items() if not isinstance(one, (dict, list))}
        if flat:
            yield paragraph("; ".join(f"{name}: {_written(one)}" for name, one in flat.items() if one is not None))
        for name, one in value.items():
            if isinstance(one, (dict, list)) and one:
                yield f"{'#' * min(level, HEADING_LEVELS)} {' '.join(name.split())}"
                yield from _value(one, level + 1)
    elif not isinstance(value, list):
        yield paragraph(_written(value))
    elif all(isinstance(one, dict) and not any(isinstance(v, (dict, list)) for v in one.values()) for one in value):
        columns = list(dict.fromkeys(name for one in value for name in one))
        yield table(chain([columns], ([_written(one.get(name)) for name in columns] for one in value)))
    elif any(isinstance(one, (dict, list)) for one in value):
        for number, one in enumerate(value, 1):
            if any(isinstance(item, dict) for item in value):  # each below a heading of its own
                yield f"{'#' * min(level, HEADING_LEVELS)} {_label(one) or number}"
            yield from _value(one, level + 1)
    else:
        yield "\n".join(f"- {' '.join(_written(one).split())}" for one in value)


def _label(value: Any) -> str:
    """Return a usual name, title or id of an object, else its first short value."""
    items = value.items() if isinstance(value, dict) else ()
    flat = {name: _written(one) for name, one in items if not isinstance(one, (dict, list))}
    labels = {name: " ".join(one.split()) for name, one in flat.items() if 0 < len(one) <= MAX_NAME}
    return labels.get(_usual(labels, ("name", *TITLES, *IDS)) or next(iter(labels), ""), "")


# -- JSON lines --------------------------------------------------------------------------------------------------------


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines with their line numbers, from 1. Blank lines are skipped."""
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
    """Return whether the first line of a file is a JSON object with a text. Files of other JSON are documents."""
    line = next((line for _, line in read_lines(path) if line.strip()), "")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get(TEXT), str)


def text_of(record: dict[str, Any], where: str, field: str = TEXT) -> str:
    """Return the text of an object. Raises an InputError that names `where` if the text is missing."""
    text = record.get(field)
    if not isinstance(text, str):
        problem = "is missing" if text is None else f"must be a string, not {short(text)}"
        raise InputError(f"{where}: {field} {problem}")
    if not text.strip():
        raise InputError(f"{where}: {field} is empty")
    return text


def iter_records(path: Path, columns: Columns) -> Iterator[Passage | Record]:
    """Yield the passages of JSON lines. Yield records if the first line has no ``text``, or `columns` is not empty."""
    lines = read_json_lines(path)
    first = next(lines, None)
    if first is None:
        return
    number, record = first
    if TEXT in record and not columns:
        yield from _passages(path, chain([first], lines))
        return
    with reading(path):
        rows = records_of(chain([first], lines), columns)
        if rows is None:
            raise InputError(
                f"{path}, line {number}: {columns.get('text', TEXT)} is missing; name the field that holds the text with "
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
