"""Documents, slides and sheets of office programs as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import mammoth
import openpyxl
import pptx

from semclass import Chunking
from semclass.plugins import Document, check_cells, named_rows, paragraph, records_of, table
from semclass_documents.html import PAGE_MARK, html_to_markdown
from semclass_documents.limits import check_package

_EQUATION = re.compile(rb"<m:oMath>.*?</m:oMath>", re.DOTALL)
_EQUATION_TEXT = re.compile(rb"<m:t(?:\s[^>]*)?>([^<]*)</m:t>")
_PAGE_END = re.compile(rf"^((?:#+|-|\d+\.)?[ \t]*){PAGE_MARK}", re.MULTILINE)
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
    """Read sheets: the rows of lists as records.

    Of other sheets, the name is a heading, and what stands above the table is text. Then follows the table.
    """
    check_package(path, tags=False)  # its sheets are never held as trees
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = [_sheet(sheet, chunking) for sheet in book.worksheets if sheet.sheet_state == "visible"]
    finally:
        book.close()
    records = [record for sheet in sheets for record in sheet.records]
    return Document("\n\n".join(sheet.text for sheet in sheets if sheet.text), records=records)


def _sheet(sheet: Any, chunking: Chunking) -> Document:
    rows, cells = [], 0
    sheet.reset_dimensions()  # a sheet may claim any number of columns and rows
    for row in sheet.iter_rows(values_only=True):
        values = [_value(cell) for cell in row]
        if any(value != "" for value in values):
            cells += len(row)
            check_cells(cells)
            rows.append(values)
    # the table begins at the first row of more than one cell, unless all have but one
    first = next((place for place, row in enumerate(rows) if sum(value != "" for value in row) > 1), 0)
    name = " ".join(sheet.title.split())
    columns = chunking.columns
    records = records_of(enumerate(named_rows(rows[first:], columns), 1), columns, f"{name}:", {"sheet": name})
    parts = [paragraph(" ".join(" ".join(map(str, row)).split())) for row in rows[:first]]
    parts += [table([*map(str, row)] for row in rows[first:])] if rows and records is None else []
    return Document("\n\n".join([f"# {name}", *parts] if parts else []), records=list(records or ()))


def _value(cell: object) -> str | int | float | bool:
    """Yield the value of a cell as its reader knows it."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    if isinstance(cell, datetime):
        return cell.isoformat(" ") if cell.time() != time() else cell.date().isoformat()
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    return cell if isinstance(cell, (str, int, float)) else "" if cell is None else str(cell)
