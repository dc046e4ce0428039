"""Tables and JSON: rows that are records, each a passage with its columns as metadata, or a table in Markdown."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from semclass.core.checks import check_depth, short
from semclass.core.errors import InputError
from semclass.documents.blocks import SEPARATOR
from semclass.documents.chunking import Columns

Row: TypeAlias = Mapping[str, Any]
"""The values of a row by the names of their columns."""

SAMPLED_ROWS = 1000
"""Rows that show which column holds what."""

PROSE_WORDS = 8
"""Words that the texts of a column of prose have on average, at least; names, titles and labels of figures have fewer."""

TITLES = ("title", "subject", "headline", "summary")
"""Names of columns that hold titles, the most usual first."""

NAME_LENGTH = 60
"""Characters of the name of a column, at most; a longer first line is the first row of a table without names."""

UNIQUE_IDS = 0.9
"""Share of the rows that have an id of their own in a column of ids, at least; the others are named by their numbers."""

_IDS = ("_id", "id", "uuid", "key")
_ENDS_IN_ID = re.compile(r"(?:.*[\W_](?i:id|key|no|number)|.*[a-z]I[Dd])")
_NO_NAME = re.compile(r"\s*(?:[-+]?[0-9][0-9.,%]*|[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}|(?i:true|false))\s*")


class Record(NamedTuple):
    """A row of a table, or a part of a file that is a document of its own, such as a message.

    A row is cut only if the chunking says how; other records are cut like documents.
    """

    id: str  #: what follows the name of the file in the passage's id
    text: str
    metadata: Mapping[str, Any]
    is_row: bool = True
    markdown: bool = False
    links: Sequence[str] | None = None  #: of a message: its own id, or "", and the ids that it names


class Document(NamedTuple):
    """The text of a file, its records, or both, as of a workbook of several sheets."""

    text: str = ""
    markdown: bool = True
    records: Sequence[Record] = ()
    missing: str = ""  #: why the rest of the file was not read, if it was not
    joined: bool = False  #: the records are cut one after another, as one document

    @property
    def length(self) -> int:
        """Characters of all texts."""
        texts = (text for record in self.records for text in (record.text, *record.metadata.values()))
        return len(self.text) + sum(len(text) for text in texts if isinstance(text, str))


def named_rows(rows: Sequence[Sequence[Any]], columns: Columns) -> list[dict[str, Any]]:
    """Return the rows below the names of their columns, without empty cells. A table without such names gives none.

    Names may be long, such as questions of a survey, if one of them is given.
    """
    if len(rows) < 2:
        return []
    names = [" ".join(cell.split()) if isinstance(cell, str) else cell for cell in rows[0]]
    while names and names[-1] in ("", None):
        names.pop()
    usual = Counter(len(row) for row in rows[1 : SAMPLED_ROWS + 1]).most_common(1)[0][0]
    known = [name for name in names if name not in ("", None)]
    are_names = bool(set(known) & set(filter(None, columns))) or all(map(_is_name, known))
    if not are_names or len(set(known)) < max(len(known), 1) or len(rows[0]) < usual:
        return []
    width = max(map(len, rows))
    names = [name or f"column_{place}" for place, name in enumerate([*names, *[""] * (width - len(names))], 1)]
    return [{name: cell for name, cell in zip(names, row, strict=False) if not _is_empty(cell)} for row in rows[1:]]


def records_of(
    rows: Iterable[tuple[int, Row]], columns: Columns, place: str = "", more: Row | None = None
) -> Iterator[Record] | None:
    """Return a record for each numbered row, or None if the rows are no records, such as those of a table of figures.

    `place` says where the table stands in its file, and begins the ids; `more` are metadata of all rows. Raises an
    InputError if the rows lack a column that is named, or a named id is missing or comes twice.
    """
    stream = iter(rows)
    sample = list(islice(stream, SAMPLED_ROWS))
    found = _found([row for _, row in sample], columns)
    return None if found is None else _records(chain(sample, stream), found, columns.id is not None, place, more or {})


class _Found(NamedTuple):
    texts: tuple[str, ...]
    id: str | None
    title: str | None


def _is_name(cell: object) -> bool:
    is_short = isinstance(cell, str) and len(cell) <= NAME_LENGTH and len(cell.split()) < PROSE_WORDS
    return is_short and _NO_NAME.fullmatch(str(cell)) is None


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _found(rows: Sequence[Row], columns: Columns) -> _Found | None:
    """Find which columns hold texts, ids and titles."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    prose = _prose(rows, names)
    missing = [name for name in columns if name is not None and name not in names]
    if missing and prose:
        raise InputError(
            f"there is no column {missing[0]!r}; the columns are {', '.join(map(repr, names[:20]))}. Name others with "
            "--text-column, --id-column and --title-column"
        )
    if missing or (columns.text is None and (not prose or _has_prose_inside(rows))):
        return None
    title = columns.title or _title(names, prose[:1] if columns.text is None else [columns.text])
    texts = [columns.text] if columns.text else [name for name in prose if name != title]
    return _Found(tuple(texts), columns.id or _id(rows, names, texts), title) if texts else None


def _prose(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Return the columns of prose, the one with the most words first; most rows have a text in it."""
    words, filled = Counter[str](), Counter[str]()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str) and value.strip():
                words[name] += len(value.split())
                filled[name] += 1
    prose = sorted(
        (name for name in names if words[name] >= PROSE_WORDS * max(filled[name], 1)), key=lambda n: -words[n]
    )
    return prose if prose and 2 * filled[prose[0]] >= len(rows) else []


def _has_prose_inside(rows: Sequence[Row]) -> bool:
    """Whether lists or objects within rows hold prose, which no search would find as metadata."""
    inside: list[Any] = [value for row in rows for value in row.values() if isinstance(value, (list, dict))]
    while inside:
        value = inside.pop()
        if isinstance(value, str) and len(value.split()) >= PROSE_WORDS:
            return True
        inside += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return False


def _title(names: Iterable[str], texts: Sequence[str]) -> str | None:
    others = {name.casefold(): name for name in names if name not in texts}
    return next((others[name] for name in TITLES if name in others), None)


def _id(rows: Sequence[Row], names: Sequence[str], texts: Sequence[str]) -> str | None:
    usual = sorted((name for name in names if name.casefold() in _IDS), key=lambda name: _IDS.index(name.casefold()))
    for name in [*usual, *filter(_ENDS_IN_ID.fullmatch, names)]:
        ids = {_id_text(row.get(name)) for row in rows} - {""}
        if name not in texts and len(ids) >= UNIQUE_IDS * len(rows):
            return name
    return None


def _id_text(value: object) -> str:
    """Write an id; what is none is empty."""
    return "" if isinstance(value, bool) or not isinstance(value, (str, int)) else str(value).strip()


def _records(rows: Iterable[tuple[int, Row]], found: _Found, is_named: bool, place: str, more: Row) -> Iterator[Record]:
    seen = set[int]()  # hashes take less memory than ids
    for number, row in rows:
        if not (text := _text(row, found.texts)):
            continue
        name = _id_text(row.get(found.id)) if found.id else ""
        if is_named and (not name or hash(name) in seen):
            problem = f"{short(name)} comes twice" if name else f"is {short(row.get(found.id or ''))}"
            raise InputError(
                f"row {number}: the id in the column {found.id!r} {problem}; ids must be unique, and strings or whole "
                "numbers"
            )
        # a row whose id is missing or known is named by its number
        end = f"#{place}{number}" if not name or hash(name) in seen else f":{place}{name}"
        seen.add(hash(name))
        own = {name: value for name, value in row.items() if not _is_empty(value)}
        metadata = {"row": number, **more, **{name: own[name] for name in own if name not in (found.texts[0], "_id")}}
        if found.title is not None and found.title in own:
            metadata["title"] = " ".join(_written(own[found.title]).split())
        check_depth(metadata, f"row {number}: metadata")
        yield Record(end, text, metadata)


def _text(row: Row, texts: Sequence[str]) -> str:
    """Return the text of a row: its prose, or all its values if it has none."""
    written = {name: _written(value).strip() for name, value in row.items() if not _is_empty(value)}
    parts = [(name, written[name].replace("\r\n", "\n").replace("\r", "\n")) for name in texts if name in written]
    if not parts:
        return "; ".join(f"{name}: {' '.join(text.split())}" for name, text in written.items())
    return "\n\n".join(text if name == texts[0] else f"{name}: {text}" for name, text in parts)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# -- as Markdown -------------------------------------------------------------------------------------------------------

MAX_CELLS = 3_000_000
"""Cells of a table, empty ones between others included."""

PARSED_ROWS = 1000
"""Rows of a table in Markdown that are parsed at a time."""

HEADING_LEVELS = 6
"""Levels of headings that Markdown has."""

_MARKS = re.compile(r"^(?=#{1,6}(?:\s|$)|<|```|~~~|\[[^\]]*\]:|(?:[-*_]\s*){3,}$|[-=]+$)", re.MULTILINE)
_CELL_MARKS = re.compile(r"[*_`\[<&\\|]")


def check_cells(number: int) -> None:
    """Refuse a table with too many cells."""
    if number > MAX_CELLS:
        raise InputError(
            f"a table has more than {MAX_CELLS:,} cells, empty ones included; split it into smaller files, or write its "
            "rows as JSON lines"
        )


def paragraph(text: str) -> str:
    """Write a paragraph, none of whose lines Markdown takes for anything else."""
    return _MARKS.sub(r"\\", text)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Write a table, whose first row names the columns, without empty columns at the right."""
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


# -- CSV and JSON ------------------------------------------------------------------------------------------------------

_SEPARATORS = ",;\t|"
_SNIFFED = 65_536
"""Characters of a table that show its separator."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
"""A number as JSON writes it; a longer one, or one that begins with 0, is a code."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_BOOLEANS = {"true": True, "false": False}


def read_csv(text: str, columns: Columns) -> Document:
    """Read separated values as records, or else as a table, whose first row names the columns."""
    csv.field_size_limit(2**31 - 1)
    rows = [row for row in csv.reader(StringIO(text), delimiter=separator_of(text)) if any(row)]
    found = records_of(enumerate(_typed(named_rows(rows, columns)), 1), columns)
    return Document(table(rows)) if found is None else Document(records=list(found))


def separator_of(text: str) -> str:
    """Return the separator that gives most lines as many cells as the first, and more than one."""
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


def read_json(text: str, columns: Columns) -> Document:
    """Read an array of objects, or JSON lines, as records; the text of an object is its ``text``, if all have one.

    Of other JSON, names are headings of what is inside, flat objects are rows of a table, and other values are written
    as "name: value".
    """
    try:
        return _content(_loaded(text), columns)
    except ValueError:
        return read_jsonl(text, columns)


def read_jsonl(text: str, columns: Columns) -> Document:
    """Read JSON lines as :func:`read_json` reads an array."""
    return _content([_loaded(line) for line in text.split("\n") if line.strip()], columns)


def _content(value: Any, columns: Columns) -> Document:
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        if not any(columns) and value and all(isinstance(one.get("text"), str) for one in value):
            columns = Columns(text="text")
        found = records_of(enumerate(value, 1), columns)
        if found is not None:
            return Document(records=list(found))
    return Document("\n\n".join(_value(value, 1)))


def _loaded(text: str) -> Any:
    """Parse JSON: NaN and infinity, which it does not know, are null, and half a character is a replacement character."""
    value = json.loads(text, parse_constant=lambda _: None)
    if "\\ud" in text.lower() and _SURROGATE.search(written := json.dumps(value, ensure_ascii=False)):
        return json.loads(_SURROGATE.sub("\ufffd", written))
    return value


def _value(value: Any, level: int) -> Iterator[str]:
    if isinstance(value, dict):
        flat = {name: one for name, one in value.items() if not isinstance(one, (dict, list))}
        if flat:
            yield paragraph("; ".join(f"{name}: {_scalar(one)}" for name, one in flat.items() if one is not None))
        for name, one in value.items():
            if isinstance(one, (dict, list)) and one:
                yield f"{'#' * min(level, HEADING_LEVELS)} {' '.join(name.split())}"
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
