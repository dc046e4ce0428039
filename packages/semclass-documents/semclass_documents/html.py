"""HTML and EPUB as Markdown: its headings, lists, tables and code, without what only decorates a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote
from zipfile import ZipFile

from lxml import etree, html

from semclass import Chunking
from semclass.plugins import Document, check_size, paragraph, read_text, table
from semclass_documents.limits import MAX_SPAN, check_package, check_tags
from semclass_documents.notes import fenced
from semclass_documents.page_furniture import is_furniture

_Element: TypeAlias = Any  # of lxml, which has no types

_UNSEEN = frozenset([
    "script", "style", "noscript", "template", "head", "nav", "svg", "form", "button", "select", "input", "iframe",
    "object", "audio", "video", "canvas", "dialog",
])  # fmt: skip
_BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li",
    "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
])  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INSIDE = frozenset(["pre", "table", "ul", "ol", "dl", *_HEADINGS])  # a table that holds these lays out a page
SHORT_PARAGRAPH = 8
"""Words of a last paragraph of a definition that is joined to the one before, so that no term takes it."""

CHARSET_WITHIN = 1024
"""Bytes of a page that say its encoding, as the standard of HTML has it."""

_CHARSET = re.compile(rb"<(?:meta\s[^>]*charset|\?xml\s[^>]*encoding)\s*=", re.IGNORECASE)
_PERMALINKS = frozenset("¶#§🔗\uf0c1")


def read_html(path: Path, chunking: Chunking) -> Document:
    """Read HTML as Markdown; the encoding is that of a page that says none and is not UTF-8."""
    check_size(path)
    content = path.read_bytes()
    check_tags(path, content.count(b"<"))
    if chunking.encoding is not None and not _CHARSET.search(content[:CHARSET_WITHIN]):
        content = read_text(path, chunking.encoding).encode()
    return Document(html_to_markdown(content))


def html_to_markdown(content: bytes) -> str:
    """Write the main part of a page as Markdown, with its title above it if no heading of the first level is there."""
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
    parts = list(_blocks(main[0] if main else body))
    titles = [place for place, part in enumerate(parts) if part.startswith("# ")]
    title = " ".join(root.findtext(".//title", "").split())
    if titles and not main and (len(titles) == 1 or parts[titles[0]] == f"# {title}"):
        parts = parts[titles[0] :]  # what stands above the title are menus
    elif title and not titles:
        parts.insert(0, f"# {title}")
    return "\n\n".join(parts)


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
                chapters.append(html_to_markdown(book.read(name)))
    return Document("\n\n".join(chapters))


def _blocks(element: _Element) -> Iterator[str]:
    """Give the blocks inside an element; text between them is a paragraph."""
    held = [element.text or ""]
    for child in element:
        if not _seen(child):
            blocks: list[str] = []
        elif child.tag in _BLOCKS or any(inner.tag in _BLOCKS for inner in child.iter()):
            blocks = list(_block(child))
        else:
            held.append(_inline(child))
            blocks = []
        if blocks or (child.tag in _BLOCKS and _seen(child)):
            yield from _paragraphs(held)
            yield from blocks
            held = []
        held.append(child.tail or "")
    yield from _paragraphs(held)


def _seen(element: _Element) -> bool:
    """Tell whether an element is text of its page: no comment, no decoration."""
    if not isinstance(element.tag, str) or element.tag in _UNSEEN or "hidden" in element.attrib:
        return False
    if element.get("aria-hidden") == "true" or is_furniture(element):
        return False
    if element.tag in ("header", "footer") and element.getparent().tag == "body":
        return element.find(".//h1") is not None
    return not (element.tag == "a" and "".join(element.itertext()).strip() in _PERMALINKS)


def _block(element: _Element) -> Iterator[str]:
    tag = element.tag
    if tag in _HEADINGS:
        if name := " ".join(_inline(element).split()):
            yield f"{'#' * _HEADINGS[tag]} {name}"
    elif tag == "pre":
        code = "".join(element.itertext())
        if code.strip():
            yield fenced(code)
    elif tag in ("ul", "ol"):
        yield from _list(element)
    elif tag == "dl":
        yield from _definitions(element)
    elif tag == "table" and not any(inner.tag in _INSIDE and inner is not element for inner in element.iter()):
        yield from _table(element)
    else:
        yield from _blocks(element)


def _paragraphs(held: Sequence[str]) -> Iterator[str]:
    lines = [" ".join(line.split()) for line in "".join(held).split("\v")]
    if text := "\n".join(filter(None, lines)):
        yield paragraph(text)


def _inline(element: _Element) -> str:
    """Give the text of an element, with a vertical tab for a line break."""
    if not _seen(element):
        return ""
    if element.tag == "br":
        return "\v"
    return (element.text or "") + "".join(_inline(child) + (child.tail or "") for child in element)


def _list(element: _Element) -> Iterator[str]:
    items = []
    for number, item in enumerate(element.iterchildren("li"), 1):
        marker = f"{number}. " if element.tag == "ol" else "- "
        first, *others = list(_blocks(item)) or [""]
        indent = "\n" + " " * len(marker)
        # a list right below its item stays close to it
        parts = [first, *(part if part[:2] in ("- ", "1.") else f"\n{part}" for part in others)]
        if first:
            items.append(marker + "\n".join(parts).replace("\n", indent).replace(f"{indent}\n", "\n\n"))
    if items:
        yield "\n".join(items)


def _definitions(element: _Element) -> Iterator[str]:
    """Write each term right before its definition."""
    terms: list[str] = []
    # HTML may group terms and definitions in div elements
    for part in [part for child in element for part in (child if child.tag == "div" else [child])]:
        if part.tag == "dt":
            terms += list(_blocks(part))
        elif part.tag == "dd":
            blocks = _with_tail(list(_blocks(part)))
            term = ", ".join(" ".join(one.split()).rstrip(" :") for one in terms)
            terms = []
            joined = bool(blocks) and blocks[0][0] not in "-|`#"
            if term:
                yield f"{term}: {blocks[0]}" if joined else f"{term}:" if blocks else term
            yield from blocks[joined and bool(term) :]
    yield from terms


def _with_tail(blocks: list[str]) -> list[str]:
    """Join a short last paragraph to the one before, as it would otherwise be cut together with the next term."""
    if (
        len(blocks) < 2
        or len(blocks[-1].split()) >= SHORT_PARAGRAPH
        or any(block[0] in "-|`#" for block in blocks[-2:])
    ):
        return blocks
    return [*blocks[:-2], "\n".join(blocks[-2:])]


def _table(element: _Element) -> Iterator[str]:
    """Write a table; cells that span rows are repeated, so that each row says all."""
    for caption in element.iterchildren("caption"):
        yield from _blocks(caption)
    first = next(element.iter("tr"), None)
    named = first is not None and (first.find("td") is None or first.getparent().tag == "thead")
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
                text = " ".join(_inline(cell).replace("\v", ", ").split())
                texts, more = [text, *[""] * (_spans(cell, "colspan") - 1)], _spans(cell, "rowspan")
            texts_of_row += texts
            below |= {place + further: (one, more - 1) for further, one in enumerate(texts) if more > 1}
        yield texts_of_row


def _spans(cell: _Element, name: str) -> int:
    given = cell.get(name, "")
    return max(1, min(int(given), MAX_SPAN)) if given.isdecimal() and len(given) < 9 else 1
