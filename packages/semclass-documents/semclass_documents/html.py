"""HTML and EPUB as Markdown, by markdownify: without what stands beside the text of a page, and with tables by row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote
from zipfile import ZipFile

from lxml import etree, html
from markdownify import MarkdownConverter

from semclass import Chunking
from semclass.plugins import Document, check_size, paragraph, read_text, table
from semclass_documents.limits import MAX_SPAN, check_package, check_tags
from semclass_documents.page_furniture import is_furniture

_Element: TypeAlias = Any  # of lxml, which has no types

_UNSEEN = frozenset([
    "script", "style", "noscript", "template", "head", "nav", "svg", "select", "input", "iframe", "object", "audio",
    "video", "canvas", "dialog",
])  # fmt: skip
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6", "summary")
_INSIDE = frozenset(["pre", "table", "ul", "ol", "dl", *_HEADINGS])  # a table that holds these lays out a page
_LAYOUT = frozenset(["table", "tbody", "thead", "tfoot", "tr", "td", "th"])

CHARSET_WITHIN = 1024
"""Bytes of a page that say its encoding, as the standard of HTML has it."""

PAGE_MARK = "\ue00c"
"""Stands for the end of a page in HTML, which has no such thing."""

_CHARSET = re.compile(rb"<(?:meta\s[^>]*charset|\?xml\s[^>]*encoding)\s*=", re.IGNORECASE)
_PERMALINKS = frozenset("¶#§🔗\uf0c1")
_FIRST = re.compile(r"^# ", re.MULTILINE)
_PLACE = re.compile("\ue001(\\d+)\ue002")


class _Converter(MarkdownConverter):
    """Writes text without emphasis and links, and no line of it as what Markdown takes for anything else."""

    def escape(self, text: str, *_: Any, **__: Any) -> str:
        return paragraph(text)

    def convert_a(self, _: Any, text: str, **__: Any) -> str:
        return text

    def convert_img(self, *_: Any, **__: Any) -> str:
        return ""

    def convert_sup(self, _: Any, text: str, **__: Any) -> str:
        return f"^{text}" if text.strip() else text

    def convert_dt(self, _: Any, text: str, **__: Any) -> str:
        return f"\n\n{' '.join(text.split()).rstrip(' :')}: " if text.strip() else ""

    def convert_dd(self, _: Any, text: str, **__: Any) -> str:
        text = text.strip()
        return f"\n\n{text}\n\n" if text[:1] in ("-", "#", "`", "\ue001") else f"{text}\n\n"


_CONVERTER = _Converter(
    heading_style="ATX",
    bullets="-",
    autolinks=False,
    strip=["b", "i", "em", "strong", "code", "kbd", "samp", "s", "del"],
)


def read_html(path: Path, chunking: Chunking) -> Document:
    """Read HTML as Markdown; the encoding is that of a page that says none and is not UTF-8."""
    check_size(path)
    content = path.read_bytes()
    check_tags(path, content.count(b"<"))
    if chunking.encoding is not None and not _CHARSET.search(content[:CHARSET_WITHIN]):
        content = read_text(path, chunking.encoding).encode()
    return Document(html_to_markdown(content))


def html_to_markdown(content: bytes, *, whole: bool = False) -> str:
    """Write the main part of a page as Markdown, with its title above it if no heading of the first level is there.

    Text above the title is left out as menus, unless the page is `whole`.
    """
    try:
        content.decode()
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = None  # as the page says
    if not content.strip():
        return ""
    root = html.document_fromstring(content, parser=html.HTMLParser(encoding=encoding), ensure_head_body=True)
    body = root.find("body")
    main = [*body.iter("main"), *body.xpath(".//*[@role='main']"), *body.iter("article")]
    part = main[0] if main else body
    title = " ".join(root.findtext(".//title", "").split())
    tables = _cleaned(part)
    text = _CONVERTER.convert(html.tostring(part, encoding="unicode", with_tail=False)).strip()
    firsts = [match.start() for match in _FIRST.finditer(text)]
    if whole:
        pass
    elif firsts and not main and (len(firsts) == 1 or text.startswith(f"# {title}\n", firsts[0])):
        text = text[firsts[0] :]
    elif title and not firsts:
        text = f"# {title}\n\n{text}"
    return _PLACE.sub(lambda match: tables[int(match[1])], text)


def _cleaned(part: _Element) -> list[str]:
    """Remove what stands beside the text, and put a mark for each table, which is returned in Markdown."""
    tables: list[str] = []
    for element in list(part.iter()):
        if element is part or element.getparent() is None:
            continue
        if not isinstance(element.tag, str) or not _is_seen(element):
            element.drop_tree()
        elif element.tag == "table" and not any(inner.tag in _INSIDE for inner in element.iterdescendants()):
            mark = html.Element("p")
            mark.text, mark.tail = f"\ue001{len(tables)}\ue002", element.tail
            tables.append("\n\n".join(_table(element)))
            element.getparent().replace(element, mark)
        elif element.tag in _LAYOUT and not any(above.tag == "pre" for above in element.iterancestors()):
            element.tag = "div"
    return tables


def _is_seen(element: _Element) -> bool:
    """Whether an element is text of its page: no comment, no decoration, no button that is no heading."""
    if element.tag in _UNSEEN or "hidden" in element.attrib or element.get("aria-hidden") == "true":
        return False
    if element.tag == "button":
        return any(above.tag in _HEADINGS for above in element.iterancestors())
    if element.tag in ("header", "footer") and element.getparent().tag == "body":
        return element.find(".//h1") is not None
    return not (is_furniture(element) or (element.tag == "a" and element.text_content().strip() in _PERMALINKS))


def read_epub(path: Path, _: Chunking) -> Document:
    """Read the chapters of a book as Markdown, in their order."""
    check_package(path)
    safe = etree.XMLParser(resolve_entities=False, no_network=True)
    with ZipFile(path) as book:
        package = etree.fromstring(book.read("META-INF/container.xml"), safe).find(".//{*}rootfile").get("full-path")
        root = etree.fromstring(book.read(package), safe)
        items = {item.get("id"): item for item in root.iterfind(".//{*}manifest/{*}item")}
        chapters = []
        for place in root.iterfind(".//{*}spine/{*}itemref"):
            item = items[place.get("idref")]
            if "html" in item.get("media-type", "") and "nav" not in (item.get("properties") or "").split():
                name = (PurePosixPath(package).parent / unquote(item.get("href"))).as_posix()
                chapters.append(html_to_markdown(book.read(name), whole=True))
    return Document("\n\n".join(chapters))


def _table(element: _Element) -> Iterator[str]:
    """Write a table; cells that span rows are repeated, so that each row says all."""
    for caption in element.iterchildren("caption"):
        yield paragraph(" ".join(caption.text_content().split()))
    first = next(element.iter("tr"), None)
    named = element.get("data-named") is not None or (
        first is not None and (first.find("td") is None or first.getparent().tag == "thead")
    )
    if written := table(chain([] if named else [[]], _rows(element))):
        yield written


def _rows(element: _Element) -> Iterator[list[str]]:
    below: dict[int, tuple[str, int]] = {}  # what spans rows, by column: the text, and how many further rows
    for row in element.iter("tr"):
        cells = iter([cell for cell in row.iterchildren("td", "th") if "linenos" not in (cell.get("class") or "")])
        texts_of_row: list[str] = []
        while (place := len(texts_of_row)) in below or (cell := next(cells, None)) is not None:
            if place in below:
                text, more = below.pop(place)
                texts = [text]
            else:
                text = _cell(cell)
                texts, more = [text, *[""] * (_spans(cell, "colspan") - 1)], _spans(cell, "rowspan")
            texts_of_row += texts
            below |= {place + further: (one, more - 1) for further, one in enumerate(texts) if more > 1}
        yield texts_of_row


def _cell(cell: _Element) -> str:
    for line_break in cell.iter("br"):
        line_break.tail = f", {line_break.tail or ''}"
    return " ".join(cell.text_content().replace(PAGE_MARK, " ").split())


def _spans(cell: _Element, name: str) -> int:
    given = cell.get(name, "")
    return max(1, min(int(given), MAX_SPAN)) if given.isdecimal() and len(given) < 9 else 1
