"""Documents, slides and sheets of office programs as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import mammoth
import openpyxl
import pptx
from lxml import etree
from openpyxl.utils import range_boundaries

from semclass import Chunking
from semclass.plugins import Document, check_cells, paragraph, read_sheet, table
from semclass_documents.html import PAGE_MARK, html_to_markdown
from semclass_documents.limits import check_package

_EQUATION = re.compile(rb"<m:oMath>.*?</m:oMath>", re.DOTALL)
_EQUATION_TEXT = re.compile(rb"<m:t(?:\s[^>]*)?>([^<]*)</m:t>")
_PAGE_END = re.compile(rf"^((?:#+|-|\d+\.)?[ \t]*){PAGE_MARK}", re.MULTILINE)
_PERCENT = re.compile(r'[^"%]*?(?:\.([0#?]+))?\s*%')
_FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER", "HEADER")


def read_docx(path: Path, _: Chunking) -> Document:
    """Read a text document as Markdown; pages are those that the program that wrote it last knew."""
    check_package(path)
    marked = BytesIO()
    with ZipFile(path) as package, ZipFile(marked, "w") as copy:
        for part in package.infolist():
            content = package.read(part)
            copy.writestr(part, _with_marks(content) if part.filename == "word/document.xml" else content)
    page = mammoth.convert_to_html(
        marked, style_map="p[style-name='Title'] => h1:fresh", convert_image=mammoth.images.img_element(lambda _: {})
    ).value
    return Document(
        _PAGE_END.sub(
            r"\f\1", html_to_markdown(page.replace("<table>", '<table data-named="">').encode(), whole=True)
        ).replace(PAGE_MARK, "\f")
    )


def _with_marks(content: bytes) -> bytes:
    """Write ends of pages, non-breaking hyphens and equations as text, which mammoth would leave out."""
    mark = f"<w:t>{PAGE_MARK}</w:t>".encode()
    known = b"<w:lastRenderedPageBreak/>" in content
    content = content.replace(b"<w:lastRenderedPageBreak/>", mark)
    content = content.replace(b'<w:br w:type="page"/>', b"" if known else mark)
    content = content.replace(b"<w:noBreakHyphen/>", b"<w:t>-</w:t>")
    return _EQUATION.sub(
        lambda match: b"<w:r><w:t>" + b"".join(_EQUATION_TEXT.findall(match[0])) + b"</w:t></w:r>", content
    )


def _joined(parts: Iterable[tuple[str, str]]) -> str:
    """Join paragraphs by blank lines, items of a list by line ends."""
    text, before = "", "page"
    for kind, part in parts:
        if part:
            text += ("" if "page" in (kind, before) else "\n" if kind == before == "item" else "\n\n") + part
            before = kind
    return text


def read_pptx(path: Path, _: Chunking) -> Document:
    """Read slides as Markdown, one a page: the title as heading, texts, tables and the speaker's notes."""
    check_package(path)
    slides = pptx.Presentation(str(path)).slides
    return Document("\f".join(_joined(_slide(slide)) for slide in slides))


def _slide(slide: Any) -> Iterator[tuple[str, str]]:
    title = slide.shapes.title
    if title is not None and title.text_frame.text.strip():
        yield "heading", f"# {' '.join(title.text_frame.text.split())}"
    yield from _shapes(shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.splitlines()
        yield from (("text", paragraph(" ".join(line.split()))) for line in notes)


def _shapes(shapes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for shape in shapes:
        if shape.is_placeholder and shape.placeholder_format.type.name in _FURNITURE:
            continue
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes)
        elif shape.has_text_frame:
            lines = [(part.level, " ".join(part.text.split())) for part in shape.text_frame.paragraphs]
            listed = sum(bool(text) for _, text in lines) > 1
            for level, text in lines:
                if text:
                    yield ("item", f"{'  ' * level}- {text}") if listed else ("text", paragraph(text))
            yield "text", ""
        elif shape.has_table:
            yield "table", table([[cell.text for cell in row.cells] for row in shape.table.rows])


def read_xlsx(path: Path, chunking: Chunking) -> Document:
    """Read visible sheets: the rows of lists as records, other tables and lines of text as Markdown.

    Merged cells repeat their value. A formula without a value, as of a file that was never calculated, is written itself.
    """
    check_package(path, tags=False)  # its sheets are never held as trees
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    sheets, formulas, cells = [], list[str](), 0
    try:
        for sheet in (sheet for sheet in book.worksheets if sheet.sheet_state == "visible"):
            sheet.reset_dimensions()  # a sheet may claim any number of columns and rows
            rows = []
            for row in sheet.iter_rows():
                cells += len(row)
                check_cells(cells)
                rows.append([_value(cell) for cell in row])
            formulas += _complete(path, sheet, rows)
            sheets.append(read_sheet(rows, chunking.columns, " ".join(sheet.title.split())))
    finally:
        book.close()
    records = [record for sheet in sheets for record in sheet.records]
    text = "\n\n".join(sheet.text for sheet in sheets if sheet.text)
    missing = (
        f"{path}: formulas without a value: {', '.join(formulas[:3])} ({len(formulas)} in all)" if formulas else ""
    )
    return Document(
        text, records=records, missing=missing and f"{missing}; save it once with a program that calculates"
    )


def _complete(path: Path, sheet: Any, rows: list[list[Any]]) -> list[str]:
    """Repeat the values of merged cells, and write formulas without a value, whose places are returned."""
    merged, places = list[tuple[int, int, int, int]](), list[str]()
    with ZipFile(path) as package, package.open(sheet._worksheet_path) as part:
        tags = ("{*}c", "{*}row", "{*}mergeCell")
        for _, element in etree.iterparse(part, tag=tags, resolve_entities=False, no_network=True):
            if element.tag.endswith("mergeCell"):
                merged.append(range_boundaries(element.get("ref")))
            elif element.tag.endswith("row"):
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
            elif element.find("{*}f") is not None and element.get("r") and not element.findtext("{*}v"):
                column, row, *_ = range_boundaries(element.get("r"))
                if row <= len(rows) and column <= len(rows[row - 1]) and element.get("t") != "str":
                    rows[row - 1][column - 1] = f"={element.findtext('{*}f')}"
                    places.append(f"{sheet.title}!{element.get('r')}")
    _repeat(rows, merged)
    return places


def _repeat(rows: list[list[Any]], merged: Iterable[tuple[int, int, int, int]]) -> None:
    """Write the value of merged cells into all of them; a title, alone in its row, is not repeated beside itself."""
    own = [sum(cell is not None for cell in row) for row in rows]
    groups = set[int]()  # rows that name columns together, first rows of tables
    for left, top, right, bottom in merged:
        if top > len(rows) or left > len(rows[top - 1]) or (value := rows[top - 1][left - 1]) is None:
            continue
        width = right if own[top - 1] > 1 else left
        for row in rows[top - 1 : bottom]:
            row += [None] * (min(width, max(map(len, rows[top - 1 : top + 1]))) - len(row))
            row[left - 1 : width] = [value] * len(row[left - 1 : width])
        if left < width and top == bottom and (top == 1 or own[top - 2] < 2):
            groups.add(top - 1)
    for place in groups:
        over, below = rows[place], rows[place + 1] if place + 1 < len(rows) else []
        if below and all(isinstance(cell, str) for cell in (*over, *below) if cell is not None):
            pairs = zip_longest(over, below)
            rows[place + 1] = [" ".join(dict.fromkeys(filter(None, pair))) or None for pair in pairs]
            rows[place] = []


def _value(cell: Any) -> str | int | float | bool | None:
    """Return the value of a cell as its reader knows it."""
    value = cell.value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if percent := _PERCENT.match(cell.number_format[:99]):
            return f"{value:.{len(percent[1] or '')}%}"
        return int(value) if value == int(value) else float(f"{value:.15g}")
    if isinstance(value, datetime):
        return value.isoformat(" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    return value if value is None or isinstance(value, (str, bool)) else str(value)
