"""Reads documents, slides and sheets of office programs as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from io import BytesIO
from itertools import takewhile, zip_longest
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
from semclass_documents.equations import linear
from semclass_documents.html import HYPHENS, PAGE_MARK, html_to_markdown
from semclass_documents.limits import check_package

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_PROSE = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")
_PAGE_END = re.compile(rf"^((?:#+|-|\d+\.)?[ \t]*){PAGE_MARK}", re.MULTILINE)
_PERCENT = re.compile(r'[^"%]*?(?:\.([0#?]+))? ?%')
_VALUES, _CATEGORIES = "(c:val|c:yVal)//c:pt", "(c:cat|c:xVal)//c:pt"
_FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER", "HEADER")


def read_docx(path: Path, _: Chunking) -> Document:
    """Read a text document as Markdown. Page numbers are those that the last program stored in the file."""
    check_package(path)
    marked = BytesIO()
    with ZipFile(path) as package, ZipFile(marked, "w") as copy:
        for part in package.infolist():
            content = package.read(part)
            copy.writestr(part, _with_marks(content) if part.filename in _PROSE else content)
    page = mammoth.convert_to_html(
        marked, style_map="p[style-name='Title'] => h1:fresh", convert_image=mammoth.images.img_element(lambda _: {})
    ).value
    return Document(
        _PAGE_END.sub(r"\f\1", html_to_markdown(page.encode(), whole=True, named=True)).replace(PAGE_MARK, "\f")
    )


def _with_marks(content: bytes) -> bytes:
    """Write ends of pages, non-breaking hyphens, equations and results of fields as text, because mammoth ignores them."""
    root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
    _show_boxes(root)
    rendered = next(root.iter(f"{_W}lastRenderedPageBreak"), None) is not None
    page_end = f"{_W}{'lastRenderedPageBreak' if rendered else 'br'}"
    for element in list(root.iter(page_end, f"{_W}noBreakHyphen", f"{_W}fldSimple", f"{_M}oMathPara", f"{_M}oMath")):
        if element.tag in (f"{_W}fldSimple", f"{_M}oMathPara"):
            element.tag = f"{_W}smartTag"  # of which mammoth reads what is inside
        elif element.tag == f"{_M}oMath":
            run = etree.Element(f"{_W}r")
            etree.SubElement(run, f"{_W}t").text = linear(element)
            element.getparent().replace(element, run)
        elif element.tag != f"{_W}br" or element.get(f"{_W}type") == "page":
            element.text = "-" if element.tag == f"{_W}noBreakHyphen" else PAGE_MARK
            element.tag = f"{_W}t"
    return bytes(etree.tostring(root))


def _show_boxes(root: Any) -> None:
    """Write text boxes of drawings in the old format, which mammoth can read."""
    for box in list(root.iter(f"{_W}txbxContent")):
        for above in takewhile(lambda part: part.tag not in (f"{_W}r", f"{_W}p"), box.iterancestors()):
            if above.tag == f"{_COMPATIBLE}Choice":
                above.tag = f"{_COMPATIBLE}Fallback"
                above.getparent()[:] = [above]
            elif not above.tag.startswith(_COMPATIBLE):
                above.tag = f"{_W}pict"


def _joined(parts: Iterable[tuple[str, str]]) -> str:
    """Join paragraphs by blank lines, items of a list by line ends."""
    text, before = "", "page"
    for kind, part in parts:
        if part:
            text += ("" if "page" in (kind, before) else "\n" if kind == before == "item" else "\n\n") + part
            before = kind
    return text


def read_pptx(path: Path, _: Chunking) -> Document:
    """Read slides as Markdown, one page per slide: the title as heading, texts, tables and the speaker's notes."""
    check_package(path)
    slides = pptx.Presentation(str(path)).slides
    return Document("\f".join(_joined(_slide(slide)) for slide in slides).translate(HYPHENS))


def _slide(slide: Any) -> Iterator[tuple[str, str]]:
    _show_equations(slide.shapes._spTree)
    title = slide.shapes.title
    named = " ".join(title.text_frame.text.split()) if title is not None else ""
    others = [shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id]
    parts = [part for part in _shapes(others) if part[1]]
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.splitlines()
        parts += [("text", paragraph(" ".join(line.split()))) for line in notes]
    # a heading without a name ends the section of the slide before
    yield "heading", f"# {named if parts else ''}".strip()
    yield from parts or [("text", paragraph(named))]


def _show_equations(tree: Any) -> None:
    """Write equations as text, and replace alternative versions of shapes with equations, which python-pptx ignores."""
    for versions in list(tree.iter(f"{_COMPATIBLE}AlternateContent")):
        for part in list(versions[0]):
            versions.addprevious(part)
        versions.getparent().remove(versions)
    for equation in list(tree.iter(f"{_M}oMath")):
        paragraph_of = next(equation.iterancestors(f"{_A}p"), None)
        if paragraph_of is not None:
            run = tree.makeelement(f"{_A}r")
            etree.SubElement(run, f"{_A}t").text = linear(equation)
            next(part for part in paragraph_of if part in [*equation.iterancestors()]).addprevious(run)


def _shapes(shapes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for shape in shapes:
        if shape.is_placeholder and shape.placeholder_format.type.name in _FURNITURE:
            continue
        if hasattr(shape, "shapes"):  # a group
            yield from _shapes(shape.shapes)
        elif shape.has_text_frame:
            lines = [(part.level, _line(part)) for part in shape.text_frame.paragraphs]
            listed = sum(bool(text) for _, text in lines) > 1
            for level, text in lines:
                if text:
                    yield ("item", f"{'  ' * level}- {text}") if listed else ("text", paragraph(text))
        elif shape.has_table:
            yield "table", table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif shape.has_chart:
            yield from _chart(shape.chart._chartSpace)


def _line(part: Any) -> str:
    for run in part.runs:
        if int(run.font._element.get("baseline", 0)) > 0 and run.text and not run.text.strip().isalpha():
            run.text = f"^{run.text}"
    return " ".join(part.text.split())


def _chart(space: Any) -> Iterator[tuple[str, str]]:
    """Yield the title of a chart, and a table with its categories as rows and its series as columns."""
    yield "text", paragraph(" ".join("".join(space.xpath("c:chart/c:title//a:t/text()")).split()))
    series = space.xpath(".//c:ser")
    columns = [{int(point.get("idx", 0)): point.findtext("{*}v", "") for point in one.xpath(_VALUES)} for one in series]
    labels: dict[int, str] = {}
    for point in (point for one in series for point in one.xpath(_CATEGORIES)):
        labels.setdefault(int(point.get("idx", 0)), point.findtext("{*}v", ""))
    names = ["; ".join(one.xpath("c:tx//c:v/text()")) for one in series]
    places = sorted({*labels, *(place for column in columns for place in column)})
    yield (
        "table",
        table([["", *names], *([labels.get(at, ""), *(one.get(at, "") for one in columns)] for at in places)]),
    )


def read_xlsx(path: Path, chunking: Chunking) -> Document:
    """Read visible sheets: rows of lists become records, other tables and lines of text become Markdown.

    Merged cells repeat their value. A formula without a stored value, as in a file that was never calculated, is kept
    as text.
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
        text, records=records, missing=missing and f"{missing}; open the file in a spreadsheet program and save it"
    )


def _complete(path: Path, sheet: Any, rows: list[list[Any]]) -> list[str]:
    """Repeat values of merged cells, write formulas without a stored value, and return the places of these formulas."""
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
    """Write the value of merged cells into each of them. A title that is alone in its row is not repeated in the row."""
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
    """Return the value of a cell as a spreadsheet program shows it."""
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
