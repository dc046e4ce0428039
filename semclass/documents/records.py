"""Rows of a table as records: a row is a passage, and its columns are metadata."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from semclass.core.checks import check_depth, short
from semclass.core.errors import InputError

Row: TypeAlias = Mapping[str, Any]
"""The values of a row by the names of their columns."""

SAMPLE = 1000
"""Rows that show which column holds what."""

PROSE = 8
"""Words that the texts of a column of prose have on average, at least; names, titles and labels of figures have fewer."""

TITLES = ("title", "subject", "headline", "summary")
"""Names of columns that hold titles, the most usual first."""

NAME = 60
"""Characters of the name of a column, at most; a longer first line is the first row of a table without names."""

MOST = 0.9
"""Share of the rows that have an id of their own in a column of ids, at least; the others are named by their numbers."""

_IDS = ("_id", "id", "uuid", "key")
_ENDS_IN_ID = re.compile(r"(?:.*[\W_](?i:id|key|no|number)|.*[a-z]I[Dd])")
_NO_NAME = re.compile(r"\s*(?:[-+]?[0-9][0-9.,%]*|[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}|(?i:true|false))\s*")


class Columns(NamedTuple):
    """Names of the columns that hold the texts, ids and titles of records. What is None is found."""

    text: str | None = None
    id: str | None = None
    title: str | None = None


class Record(NamedTuple):
    """A row of a table, or a message.

    A message is cut like a document. A row is cut only if it is said how.
    """

    id: str  #: what follows the name of the file in the passage's id
    text: str
    metadata: Mapping[str, Any]
    is_row: bool = True
    markdown: bool = False
    links: Sequence[str] | None = None  #: of a message: its own id, or "", and the ids that it names


class Content(NamedTuple):
    """What a file holds: Markdown, records, or both, such as a workbook of several sheets."""

    markdown: str = ""
    records: Sequence[Record] = ()

    @property
    def length(self) -> int:
        """Count the characters of all texts."""
        texts = (text for record in self.records for text in (record.text, *record.metadata.values()))
        return len(self.markdown) + sum(len(text) for text in texts if isinstance(text, str))


def named_rows(rows: Sequence[Sequence[Any]], columns: Columns) -> list[dict[str, Any]]:
    """Give the rows below the names of their columns, without empty cells. A table without such names gives none.

    Names may be long, such as questions of a survey, if one of them is given.
    """
    if len(rows) < 2:
        return []
    names = [" ".join(cell.split()) if isinstance(cell, str) else cell for cell in rows[0]]
    while names and names[-1] in ("", None):
        names.pop()
    usual = Counter(len(row) for row in rows[1 : SAMPLE + 1]).most_common(1)[0][0]
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
    """Give a record for each row, or None if the rows are no records, such as those of a table of figures.

    Parameters
    ----------
    rows
        The rows with their numbers.
    columns
        Names of columns, which are otherwise found, see :func:`semclass.documents.readers.iter_passages`.
    place
        Where the table stands in its file, as part of the ids.
    more
        Metadata of all rows.

    Raises
    ------
    InputError
        If the rows lack a column that is named, or a named id is missing or comes twice.
    """
    stream = iter(rows)
    sample = list(islice(stream, SAMPLE))
    found = _found([row for _, row in sample], columns)
    return None if found is None else _records(chain(sample, stream), found, columns.id is not None, place, more or {})


class _Found(NamedTuple):
    texts: tuple[str, ...]
    id: str | None
    title: str | None


def _is_name(cell: object) -> bool:
    is_short = isinstance(cell, str) and len(cell) <= NAME and len(cell.split()) < PROSE
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
    """Give the columns of prose, the one with the most words first; most rows have a text in it."""
    words, filled = Counter[str](), Counter[str]()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str) and value.strip():
                words[name] += len(value.split())
                filled[name] += 1
    prose = sorted((name for name in names if words[name] >= PROSE * max(filled[name], 1)), key=lambda n: -words[n])
    return prose if prose and 2 * filled[prose[0]] >= len(rows) else []


def _has_prose_inside(rows: Sequence[Row]) -> bool:
    """Tell whether lists or objects within rows hold prose, which no search would find as metadata."""
    inside: list[Any] = [value for row in rows for value in row.values() if isinstance(value, (list, dict))]
    while inside:
        value = inside.pop()
        if isinstance(value, str) and len(value.split()) >= PROSE:
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
        if name not in texts and len(ids) >= MOST * len(rows):
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
        metadata = {"row": number, **more}
        metadata |= {
            key: value for key, value in row.items() if key not in (*found.texts[:1], "_id") and not _is_empty(value)
        }
        if found.title and not _is_empty(title := row.get(found.title)):
            metadata["title"] = " ".join(_written(title).split())
        check_depth(metadata, f"row {number}: metadata")
        yield Record(end, text, metadata)


def _text(row: Row, texts: Sequence[str]) -> str:
    """Give the text of a row: its prose, or all its values if it has none."""
    parts = [
        (name, _written(row[name]).replace("\r\n", "\n").replace("\r", "\n").strip())
        for name in texts
        if not _is_empty(row.get(name))
    ]
    if not parts:
        return "; ".join(
            f"{name}: {' '.join(_written(value).split())}" for name, value in row.items() if not _is_empty(value)
        )
    return "\n\n".join(text if name == texts[0] else f"{name}: {text}" for name, text in parts)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
