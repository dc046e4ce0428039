"""Reads texts, with or without labels, from JSON lines or from a table with tabs, commas, ... between columns."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

from semclass.core.checks import counted, short
from semclass.core.errors import InputError
from semclass.documents.data import separator_of
from semclass.documents.decoding import check_encoding, read_text
from semclass.documents.json_lines import TEXT, parse_json_lines, text_of

Row: TypeAlias = tuple[int, list[str]]
"""The number of a line, from 1, and the content of its columns."""

LABEL, LABELS = "label", "labels"
"""Names of columns. A column ``labels`` may hold several labels per text."""

TABLES = (".csv", ".tsv")
"""Endings of files that are always read as tables."""

SHOWN = 5
"""Most bad lines that an error lists."""

_SEPARATOR = ","  # between several labels of a text, in a table


@dataclass(frozen=True)
class LabelledTexts:
    """n texts of a file and their labels.

    Attributes
    ----------
    texts
        The texts, none of them empty.
    labels
        The labels of each text. A text has exactly one label, or any number of labels with `multi_label`.
    lines
        Line number of each text in the file, from 1.
    multi_label
        Whether a text may have several labels, or none.
    """

    texts: list[str]
    labels: list[tuple[str, ...]]
    lines: list[int]
    multi_label: bool

    def targets(self) -> list[Any]:
        """Return the labels in the form for :meth:`semclass.TextClassifier.fit`."""
        return list(self.labels) if self.multi_label else [label for (label,) in self.labels]


def read_labelled(
    path: str | Path,
    *,
    text: str | None = None,
    label: str | None = None,
    multi_label: bool = False,
    encoding: str | None = None,
) -> LabelledTexts:
    """Read labelled texts.

    Parameters
    ----------
    path
        A file of JSON lines, or a table. The first line of a table may name its columns.
    text, label
        Names of the columns, or their numbers from 1. By default, the columns are ``text``, and ``label`` or
        ``labels``. In a table of two columns, the column that is not `text` is the label. If a table names no columns,
        the first and the second column are used.
    multi_label
        Whether a text may have several labels or none. In a table, commas separate the labels. Several labels are
        always allowed if the column is called ``labels``, or if JSON holds lists.
    encoding
        Encoding of a file that is not UTF-8.

    Raises
    ------
    InputError
        If the file cannot be read, lacks the columns, or has lines without a text or a label. The message lists the
        first bad lines with their numbers.
    """
    path = Path(path)
    check_encoding(encoding)
    content = read_text(path, encoding)
    if content.lstrip().startswith("["):
        raise InputError(f"{path} is one JSON list; write one object per line, e.g. with `jq -c '.[]' {path}`")
    if content.lstrip().startswith("{"):
        return _collect(path, _of_json(content, text, label), multi_label)
    rows = [row for row in _rows(path, content) if any(cell.strip() for cell in row[1])]
    if not rows:
        raise InputError(f"{path} contains no texts")
    named, (first, second) = _columns(path, rows, text, label)
    multi_label = multi_label or (named and rows[0][1][second].strip().lower() == LABELS)
    given = ((number, _cells(cells, first, second, multi_label)) for number, cells in rows[named:])
    labelled = _collect(path, given, multi_label)
    if not named and label is None and len(set(labelled.texts)) < len(set(labelled.labels)):
        raise InputError(
            f"{path}: the second column has more different values than the first, so it seems to hold the texts; "
            "give --text 2 --label 1, or name the columns in the first line: `text` and `label`"
        )
    return labelled


def read_texts(path: Path, *, text: str | None = None, encoding: str | None = None) -> list[str]:
    """Read texts to classify from a table, from JSON lines, or from a file with one text a line.

    The column `text` is ``text`` by default.
    """
    check_encoding(encoding)
    content = read_text(path, encoding)  # once: the file may be a pipe
    lines = list(enumerate(content.removesuffix("\n").split("\n"), 1)) if content else []
    first = next((line for _, line in lines if line.strip()), "")
    if path.suffix.lower() in (".jsonl", ".json") or re.match(r'\s*\{\s*"', first):
        records = parse_json_lines(path, lines)
        return [text_of(record, f"{path}, line {number}", text or TEXT) for number, record in records]
    if text is not None or _is_table(path, first):
        return _texts_of_table(path, content, text)
    for number, line in lines:
        if not line.strip():
            raise InputError(f"{path}, line {number} is empty; give each line a text, so that output lines match")
    return [line for _, line in lines]


def _is_table(path: Path, first: str) -> bool:
    """Tell whether a file holds a table of texts, by its ending or by a first line that names the column ``text``."""
    names = [_unquoted(cell).strip().lower() for cell in first.split("\t")]
    return path.suffix.lower() in TABLES or (len(names) > 1 and TEXT in names)


def _texts_of_table(path: Path, content: str, text: str | None = None) -> list[str]:
    """Give the texts of a table, whatever its other columns hold; `text` names or numbers their column.

    By default it is the column called ``text``, and the first one where no line names the columns.
    """
    rows = [row for row in _rows(path, content) if any(cell.strip() for cell in row[1])]
    if not rows:
        raise InputError(f"{path} contains no texts")
    named = _are_names(rows[0], text)
    column = _place(path, rows[0], text, (TEXT,) if named else (), otherwise=None if named else 0)
    texts = [(number, cells[column] if column < len(cells) else "") for number, cells in rows[named:]]
    for number, one in texts:
        if not one.strip():
            raise InputError(
                f"{path}, line {number} has no text in column {column + 1}; remove the line, or add a text"
            )
    return [one for _, one in texts]


_Given: TypeAlias = Iterable[tuple[int, "tuple[Any, Any] | str"]]  # line; text and label, or what is wrong


def _collect(path: Path, given: _Given, multi_label: bool) -> LabelledTexts:
    """Check all lines, and list those that are bad."""
    labelled, bad, total = LabelledTexts([], [], [], multi_label), [], 0
    lists = False
    for number, pair in given:
        total += 1
        wrong = pair if isinstance(pair, str) else _wrong(*pair, multi_label=multi_label)
        if wrong or isinstance(pair, str):
            bad.append(f"line {number}: {wrong}")
            continue
        text, label = pair
        lists = lists or isinstance(label, list)
        labelled.texts.append(text)
        labelled.labels.append(tuple(map(str, label)) if isinstance(label, list) else (str(label).strip(),))
        labelled.lines.append(number)
    if bad:
        more = "; ..." if len(bad) > SHOWN else ""
        raise InputError(
            f"{path}: {len(bad)} of {counted(total, 'line')} cannot be used: {'; '.join(bad[:SHOWN])}{more}"
        )
    if not total:
        raise InputError(f"{path} contains no texts")
    return LabelledTexts(labelled.texts, labelled.labels, labelled.lines, multi_label or lists)


def _wrong(text: Any, label: Any, *, multi_label: bool) -> str | None:
    """Say what is wrong with a text and its label, if anything is."""
    if not isinstance(text, str) or not text.strip():
        return "its text is empty" if text in ("", None) or isinstance(text, str) else f"its text is {short(text)}"
    labels = label if isinstance(label, list) else [label]
    for one in labels:
        if isinstance(one, bool) or not isinstance(one, (str, int)):
            return (
                "it has no label" if one is None else f"its label is {short(one)}, neither a string nor a whole number"
            )
        if not str(one).strip():
            return "its label is empty"
    return None


# -- JSON lines -------------------------------------------------------------------------------------------------------


def _of_json(content: str, text: str | None, label: str | None) -> Iterator[tuple[int, tuple[Any, Any] | str]]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            yield number, f"broken JSON ({error})"
            continue
        if not isinstance(record, dict):
            yield number, f"not a JSON object: {short(record)}"
            continue
        name = label or (LABEL if LABEL in record else LABELS)
        missing = [one for one in (text or TEXT, name) if one not in record]
        held = ", ".join(map(repr, record)) or "none"
        wanted = f"no field {missing[0]!r} (fields: {held})" if missing else ""
        yield number, wanted or (record[text or TEXT], record[name])


# -- tables -----------------------------------------------------------------------------------------------------------


def _rows(path: Path, content: str) -> Iterator[Row]:
    """Split a table into its lines and their cells."""
    first = content.partition("\n")[0]
    if path.suffix.lower() == ".tsv" or (path.suffix.lower() != ".csv" and "\t" in first):
        for number, line in enumerate(content.split("\n"), 1):
            yield number, [_unquoted(cell) for cell in line.split("\t")]
        return
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(StringIO(content), delimiter=separator_of(content), strict=True)
    end = 0
    try:
        for cells in reader:
            number, end = end + 1, reader.line_num
            yield number, cells
    except csv.Error as error:
        raise InputError(
            f"{path}, line {end + 1}: {error}; quote cells that hold quotation marks or line ends, and double the "
            "quotation marks inside"
        ) from error


def _unquoted(cell: str) -> str:
    """A cell without the quotation marks that spreadsheets put around it; other marks are part of the text."""
    inner = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else cell


def _are_names(row: Row, *wanted: str | None) -> bool:
    """Tell whether the first line names the columns."""
    names = [cell.strip().lower() for cell in row[1]]
    named = any(name is not None and not name.isdigit() for name in wanted)
    return named or (TEXT in names and len(set(names)) == len(names))


def _place(path: Path, row: Row, given: str | None, usual: Sequence[str], otherwise: int | None) -> int:
    """Give the place of a column that is given by name or number, or else has a usual name; if none has, `otherwise`."""
    number, cells = row
    names = [cell.strip().lower() for cell in cells]
    if given is not None and given.isdigit():
        place = int(given) - 1 if 1 <= int(given) <= len(cells) else None
    else:
        known = [one for one in (usual if given is None else (given.strip().lower(),)) if one in names]
        place = names.index(known[0]) if known else otherwise if given is None else None
    if place is None:
        raise InputError(
            f"{path}, line {number}: there is no column {given or ' or '.join(usual)!r}; the columns are "
            f"{', '.join(map(repr, cells[:20]))}. Name the columns with --text and --label"
        )
    return place


def _columns(path: Path, rows: Sequence[Row], text: str | None, label: str | None) -> tuple[bool, tuple[int, int]]:
    """Tell whether the first line names the columns, and which hold texts and labels."""
    number, cells = rows[0]
    if len(cells) < 2:
        raise InputError(
            f"{path}, line {number} has one column; separate text and label by a tab (.tsv) or a comma (.csv)"
        )
    named = _are_names(rows[0], text, label)
    first = _place(path, rows[0], text, (TEXT,) if named else (), None if named else 0)
    other = 1 - first if len(cells) == 2 and first < 2 else None if named else 1
    second = _place(path, rows[0], label, (LABEL, LABELS) if named else (), other)
    if first == second:
        raise InputError(f"{path}: column {first + 1} cannot be both text and label; give --text and --label")
    return named, (first, second)


def _cells(cells: Sequence[str], first: int, second: int, multi_label: bool) -> tuple[Any, Any] | str:
    """Text and label of a line."""
    if len(cells) <= max(first, second):
        return f"it has {counted(len(cells), 'column')}, but needs {max(first, second) + 1}"
    label = cells[second]
    return cells[first], [one.strip() for one in label.split(_SEPARATOR) if one.strip()] if multi_label else label
