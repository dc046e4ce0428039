"""Documents, slides and sheets of office programs as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx

from semclass import Chunking
from semclass.plugins import Document, check_cells, named_rows, paragraph, records_of, table
from semclass_documents.limits import MAX_INDENT, MAX_SPAN, check_package

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER", "HEADER")


def read_docx(path: Path, _: Chunking) -> Document:
    """Read a text document as Markdown; pages are those that the program that wrote it last knew."""
    check_package(path)
    body = docx.Document(str(path))
    known = body.element.body.find(f".//{_W}lastRenderedPageBreak") is not None
    parts: list[tuple[str, str]] = []  # kind and text
    for item in body.iter_inner_content():
        if hasattr(item, "rows"):
            parts.append(("table", table(_docx_rows(item._tbl))))
            continue
        parts += _paged(_docx_text(item._p, known), *_docx_mark(item))
    return Document(_joined(parts))


def _docx_text(element: Any, known: bool) -> str:
    """Yield the text of a paragraph, insertions under review included, with form feeds where pages end."""
    text = ""
    for node in element.iter(f"{_W}t", f"{_W}tab", f"{_W}br", f"{_W}cr", f"{_W}lastRenderedPageBreak"):
        if node.tag == f"{_W}t":
            text += node.text or ""
        elif node.tag == f"{_W}lastRenderedPageBreak" or node.get(f"{_W}type") == "page":
            text += "\f" if known == (node.tag == f"{_W}lastRenderedPageBreak") else ""
        else:
            text += " " if node.tag == f"{_W}tab" else "\n"
    return text


def _docx_mark(item: Any) -> tuple[str, str]:
    """Yield the kind of a paragraph, and what Markdown writes before it."""
    name = item.style.name if item.style is not None else ""
    if name == "Title":
        return "heading", "# "
    if name.startswith("Heading ") and name[8:].isdigit():
        return "heading", "#" * min(int(name[8:]), 6) + " "
    numbering = item._p.find(f"{_W}pPr/{_W}numPr")
    if numbering is None and not name.startswith(("List Bullet", "List Number")):
        return "text", ""
    level = numbering.find(f"{_W}ilvl") if numbering is not None else None
    return "item", "  " * (min(int(level.get(f"{_W}val")), MAX_INDENT) if level is not None else 0) + "- "


def _docx_rows(element: Any) -> Iterator[list[str]]:
    """Yield the rows of a table; a cell that spans rows is repeated, so that each row says all."""
    above: list[str] = []
    for row in element.tr_lst:
        cells: list[str] = []
        for cell in row.tc_lst:
            merged = cell.vMerge == "continue" and len(cells) < len(above)
            text = above[len(cells)] if merged else ", ".join(_docx_text(p, True) for p in cell.iter(f"{_W}p"))
            cells += [text, *[""] * (min(cell.grid_span, MAX_SPAN) - 1)]
        yield cells
        above = cells


def _paged(text: str, kind: str, mark: str) -> Iterator[tuple[str, str]]:
    """Yield a paragraph, which form feeds part, with what Markdown writes before it."""
    for number, part in enumerate(text.split("\f")):
        yield from [("page", "\f")] if number else []
        lines = "\n".join(filter(None, (" ".join(line.split()) for line in part.split("\n"))))
        yield (kind, mark + lines if mark else paragraph(lines)) if lines else ("text", "")


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
