"""Reads texts, with or without labels, from JSON lines or from a table with tabs, commas or other separators."""

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
from semclass.documents.decoding import read_text
from semclass.documents.records import TEXT, parse_json_lines, text_of
from semclass.documents.sheets import separator_of

TEXT_NAMES = (
    TEXT, "sentence", "question", "query", "message", "utterance", "content", "description", "review", "tweet", "comment",
    "document", "body", "sms", "headline", "utt", "comment_text", "v2",
)  # fmt: skip
LABELS = "labels"
LABEL_NAMES = (
    "label", LABELS, "class", "category", "topic", "intent", "target", "sentiment", "emotion", "label_coarse",
    "coarse_label", "class_index", "class_name", "category_name", "label_text", "v1",
)  # fmt: skip
"""Usual names of columns, in any case, with ``_``, ``-`` or a space between words. A column ``labels`` may hold several
labels per text.
"""

LISTED_LINES = 5
"""Maximum number of bad lines that an error lists."""

_Row: TypeAlias = "tuple[int, tuple[Any, Any] | str]"  # line; text and label, or what is wrong


@dataclass(frozen=True)
class LabelledTexts:
    """n texts of a file, none of them empty, and their labels."""

    texts: list[str]
    labels: list[tuple[str, ...]]  # of each text exactly one, or any number with `multi_label`
    lines: list[int]  # numbers of lines in the file, from 1
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
        A file of JSON lines, or a table whose first line names its columns.
    text, label
        Names of the columns or fields. By default, the first name of TEXT_NAMES and of LABEL_NAMES that the file has.
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
    content = read_text(path, encoding)
    if content.lstrip().startswith("["):
        raise InputError(f"{path} is one JSON list; write one object per line, e.g. with `jq -c '.[]' {path}`")
    if content.lstrip().startswith("{"):
        return _collect(path, _of_json(content, text, label), multi_label)
    (number, names), rows = _table(path, content)
    first = _place(path, number, names, "text", text, TEXT_NAMES)
    second = _place(path, number, names, "label", label, LABEL_NAMES)
    if first == second:
        raise InputError(f"{path}: column {names[first]!r} cannot be both text and label; name the two columns")
    multi_label = multi_label or names[second].strip().lower() == LABELS
    return _collect(path, (_of_row(line, cells, first, second, multi_label) for line, cells in rows), multi_label)


def read_texts(path: Path, *, text: str | None = None, encoding: str | None = None) -> list[str]:
    """Read texts from a table, from JSON lines, or from a file with one text a line.

    The column is `text`, or one with a usual name. A file with an ending other than .csv and .tsv is a table in two cases:
    you name a column, or its first line has several columns, of which one is called ``text``.
    """
    content = read_text(path, encoding)  # once: the file may be a pipe
    lines = list(enumerate(content.removesuffix("\n").split("\n"), 1)) if content else []
    first = next((line for _, line in lines if line.strip()), "")
    if path.suffix.lower() in (".jsonl", ".json") or re.match(r'\s*\{\s*"', first):
        records = parse_json_lines(path, lines)
        return [text_of(record, f"{path}, line {number}", text or TEXT) for number, record in records]
    names = [name.strip().lower() for name in first.split("\t")]
    if text is not None or path.suffix.lower() in (".csv", ".tsv") or (len(names) > 1 and TEXT in names):
        (number, columns), rows = _table(path, content)
        place = _place(path, number, columns, "text", text, TEXT_NAMES)
        lines = [(number, cells[place] if place < len(cells) else "") for number, cells in rows]
    for number, line in lines:
        if not line.strip():
            raise InputError(f"{path}, line {number} is empty; give each line a text, so that output lines match")
    return [line for _, line in lines]


def _collect(path: Path, rows: Iterable[_Row], multi_label: bool) -> LabelledTexts:
    """Check all lines, and list the bad ones."""
    good, bad = [], []
    for number, row in rows:
        wrong = row if isinstance(row, str) else _wrong(*row)
        if wrong or isinstance(row, str):
            bad.append(f"line {number}: {wrong}")
        else:
            good.append((number, *row))
    if bad:
        total, more = counted(len(good) + len(bad), "line"), "; ..." if len(bad) > LISTED_LINES else ""
        raise InputError(f"{path}: {len(bad)} of {total} cannot be used: {'; '.join(bad[:LISTED_LINES])}{more}")
    if not good:
        raise InputError(f"{path} contains no texts")
    lines, texts, found = zip(*good, strict=True)
    labels = [tuple(map(str, label)) if isinstance(label, list) else (str(label).strip(),) for label in found]
    several = multi_label or any(isinstance(label, list) for label in found)
    return LabelledTexts(list(texts), labels, list(lines), several)


def _wrong(text: Any, label: Any) -> str | None:
    """Say what is wrong with a text and its label, if anything is."""
    if not isinstance(text, str) or not text.strip():
        return "its text is empty" if text is None or isinstance(text, str) else f"its text is {short(text)}"
    for name in label if isinstance(label, list) else [label]:
        if name is None or name == "":
            return "it has no label"
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            return f"its label is {short(name)}, neither a string nor a whole number"
        if not str(name).strip():
            return "its label is empty"
    return None


def _of_json(content: str, text: str | None, label: str | None) -> Iterator[_Row]:
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
        wanted = [(text,) if text else TEXT_NAMES, (label,) if label else LABEL_NAMES]
        own = {_plain(name): name for name in reversed(record)}
        fields = [next((own[_plain(name)] for name in names if _plain(name) in own), None) for names in wanted]
        missing = [names[0] for names, field in zip(wanted, fields, strict=True) if field is None]
        has = ", ".join(map(repr, record)) or "none"
        yield number, f"no field {missing[0]!r} (fields: {has})" if missing else (record[fields[0]], record[fields[1]])


def _of_row(line: int, cells: Sequence[str], first: int, second: int, multi_label: bool) -> _Row:
    if len(cells) <= max(first, second):
        return line, f"it has {counted(len(cells), 'column')}, but needs {max(first, second) + 1}"
    label = cells[second]
    return line, (cells[first], [name.strip() for name in label.split(",") if name.strip()] if multi_label else label)


def _table(path: Path, content: str) -> tuple[tuple[int, list[str]], list[tuple[int, list[str]]]]:
    """Split a table into the line that names the columns, and those below; each with its number."""
    first = content.partition("\n")[0]
    if path.suffix.lower() == ".tsv" or (path.suffix.lower() != ".csv" and "\t" in first):
        cells = ([_unquoted(cell) for cell in line.split("\t")] for line in content.split("\n"))
        rows = list(enumerate(cells, 1))
    else:
        rows = list(_csv_rows(path, content))
    rows = [row for row in rows if any(cell.strip() for cell in row[1])]
    if not rows:
        raise InputError(f"{path} contains no texts")
    return rows[0], rows[1:]


def _csv_rows(path: Path, content: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(StringIO(content), delimiter=separator_of(content), strict=True)
    end = 0
    try:
        for cells in reader:
            yield end + 1, cells
            end = reader.line_num
    except csv.Error as error:
        raise InputError(
            f"{path}, line {end + 1}: {error}; quote cells that hold quotation marks or line ends, and double the "
            "quotation marks inside"
        ) from error


def _unquoted(cell: str) -> str:
    """Remove the quotation marks that spreadsheets put around a cell; other marks are part of the text."""
    inner = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else cell


def _plain(name: str) -> str:
    """Return the name of a column or field in lower case, with ``_`` between words."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


def _place(path: Path, line: int, cells: Sequence[str], kind: str, name: str | None, usual: Sequence[str]) -> int:
    """Return the place of the column with a name, or with the first usual name."""
    names = [_plain(cell) for cell in cells]
    wanted = usual if name is None else (_plain(name),)
    place = next((names.index(column) for column in wanted if column in names), None)
    if place is None:
        shown = f"{name!r}" if name else f"with a usual name of a {kind} ({', '.join(usual)})"
        raise InputError(
            f"{path}, line {line}: there is no column {shown}; the columns are {', '.join(map(short, cells[:20]))}. Name "
            f"the column of the {kind} with --{kind}-column; if it holds a {kind}, put a line with the names above it"
        )
    return place
