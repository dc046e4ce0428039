"""Converts HTML and EPUB to Markdown by markdownify, without menus and other parts beside the text of a page."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote
from zipfile import BadZipFile, ZipFile

from lxml import etree, html
from markdownify import MarkdownConverter

from semclass import Chunking
from semclass.plugins import Document, paragraph, table
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
"""Bytes at the start of a page that may declare its encoding, according to the HTML standard."""

MIN_WORDS = 4
"""Least number of words for text above the title of a page to be kept. A sentence may be shorter."""

PAGE_MARK = "\ue00c"
"""Character for the end of a page, which HTML cannot express."""

_CHARSET = re.compile(
    rb"""<(?:meta\s[^>]{,200}?charset|\?xml\s[^>]{,200}?encoding)\s*=\s*["']?([\w:-]*)""", re.IGNORECASE
)
_WIDER = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030",
    "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
"""Larger encodings that browsers use in place of the encodings that pages declare."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
HYPHENS = {0xAD: None, 0x2011: "-"}  # soft ones, which are not seen, and non-breaking ones
_PERMALINKS = frozenset([*"¶#§🔗\uf0c1↑↩", "↩\ufe0e"])
_HEADING = re.compile(r"^(#+) +(.*)", re.MULTILINE)
_ACCORDION = re.compile("accordion|collaps|toggle|faq|question", re.IGNORECASE)
_SHOWING = frozenset(
    ["aria-controls", "aria-expanded", "data-bs-target", "data-bs-toggle", "data-target", "data-toggle"]
)
_PLACE = re.compile("\ue001(\\d+)\ue002")


class _Converter(MarkdownConverter):
    """Writes text without emphasis and links, and escapes lines that Markdown would read as something else."""

    def escape(self, text: str, *_: Any, **__: Any) -> str:
        return paragraph(text)

    def convert_a(self, _: Any, text: str, **__: Any) -> str:
        return text

    def convert_img(self, *_: Any, **__: Any) -> str:
        return ""

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
    """Read HTML as Markdown. `chunking.encoding` is for pages that declare no encoding and are not UTF-8."""
    content = path.read_bytes()
    check_tags(path, content.count(b"<"))
    return Document(html_to_markdown(content, encoding=chunking.encoding))


def _decoded(content: bytes, encoding: str | None) -> str:
    """Decode a page as browsers do: as UTF-8, or in the encoding that it declares, or `encoding`, or windows-1252."""
    try:
        return content.decode("utf-16" if content.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError:
        pass
    said = _CHARSET.search(content[:CHARSET_WITHIN])
    try:
        known = codecs.lookup(said[1].decode() if said and said[1] else encoding or "cp1252").name
        return content.decode(_WIDER.get(known, known), "replace")
    except (LookupError, UnicodeError):
        return content.decode("cp1252", "replace")


def html_to_markdown(content: bytes, *, whole: bool = False, named: bool = False, encoding: str | None = None) -> str:
    """Write the main parts of a page as Markdown. A page without a first-level heading gets its title as heading.

    Above the title, only sentences and tables are kept, unless `whole` is true. The first row of a table names the
    columns if `named` is true, or if its cells are header cells.
    """
    if not content.strip():
        return ""
    page = _decoded(content, encoding).encode(errors="replace")
    root = html.document_fromstring(page, parser=html.HTMLParser(encoding="utf-8"), ensure_head_body=True)
    body = root.find("body")
    main = _outermost([*body.iter("main"), *body.xpath(".//*[@role='main']")])
    articles = _outermost([] if main else body.iter("article"))
    while len(articles) > 1:  # and what stands between them
        main = articles = _outermost([article.getparent() for article in articles])
    main = main or articles
    title = " ".join((root.findtext(".//title") or ("" if body in main else body.findtext(".//h1")) or "").split())
    tables: list[str] = []
    texts = []
    for part in main or [body]:
        _clean(part, tables, named)
        texts.append(_CONVERTER.convert(html.tostring(part, encoding="unicode", with_tail=False)).strip())
    text = "\n\n".join(texts)
    headings = list(_HEADING.finditer(text))
    firsts = [match.start() for match in headings if match[1] == "#"]
    if whole:
        pass
    elif firsts and not main and (len(firsts) == 1 or text.startswith(f"# {title}\n", firsts[0])):
        above = text[: firsts[0]].split("\n\n")
        kept = (
            block
            for block, below in zip_longest(above, above[1:], fillvalue="")
            if _is_text(block) or (block.startswith("#") and _is_text(below))
        )
        text = "\n\n".join([*kept, text[firsts[0] :]])
    elif title and headings and not firsts and " ".join(headings[0][2].split()) == title:
        text = f"{text[: headings[0].start()]}# {text[headings[0].start(2) :]}"
    elif title and not firsts:
        text = f"# {title}\n\n{text}"
    return _PLACE.sub(lambda match: tables[int(match[1])], text).translate(HYPHENS)


def _is_text(block: str) -> bool:
    """Whether a block above a title is text: a sentence or a table."""
    words = block.strip("# ").split()
    return len(words) >= MIN_WORDS or bool(_PLACE.search(block)) or (len(words) > 2 and words[-1][-1] in ".!?:)")


def _outermost(elements: Iterable[_Element]) -> list[_Element]:
    """Return the elements that are not inside another of these elements, in their order on the page."""
    parts = set(elements)
    outer = {part for part in parts if parts.isdisjoint(part.iterancestors())}
    return [part for part in next(iter(outer)).getroottree().iter() if part in outer] if outer else []


def _clean(part: _Element, tables: list[str], named: bool) -> None:
    """Remove elements beside the text, and replace each table by a mark. `tables` gets the tables in Markdown."""
    _prepare(part)
    level = 1
    for element in list(part.iter()):
        if element is part or element.getparent() is None:
            continue
        if not isinstance(element.tag, str) or not _is_seen(element):
            element.drop_tree()
        elif element.tag in _HEADINGS:
            level = int(element.tag[1:]) if element.tag != "summary" else level
        elif element.tag == "button":
            element.tag = "div" if _is_labelled(element) else f"h{min(level + 1, 6)}"
        elif element.tag == "table" and not any(inner.tag in _INSIDE for inner in element.iterdescendants()):
            mark = html.Element("p")
            mark.text, mark.tail = f"\ue001{len(tables)}\ue002", element.tail
            tables.append("\n\n".join(_table(element, named)))
            element.getparent().replace(element, mark)
        elif element.tag in _LAYOUT and not any(above.tag == "pre" for above in element.iterancestors()):
            element.tag = "div"


def _prepare(part: _Element) -> None:
    """Mark superscripts and subscripts, and show panels that a button would open."""
    opened = {name for one in part.iterfind(".//*[@aria-controls]") for name in one.get("aria-controls").split()}
    for element in part.iter("*"):
        if element.tag in ("sup", "sub"):
            _mark_raised(element)
        elif (hiding := {"hidden", "aria-hidden"} & {*element.attrib}) and (
            element.get("id") in opened or _is_opened(element)
        ):
            for name in hiding:
                del element.attrib[name]


def _is_seen(element: _Element) -> bool:
    """Whether an element is text of its page, not a comment, a decoration, or a button that is no heading."""
    if element.tag in _UNSEEN or "hidden" in element.attrib or element.get("aria-hidden") == "true":
        return False
    if element.tag == "button":
        return _is_labelled(element) or _opens(element)
    if element.tag in ("header", "footer") and element.getparent().tag in ("body", "form"):
        return element.find(".//h1") is not None
    return not (is_furniture(element) or (element.tag == "a" and element.text_content().strip() in _PERMALINKS))


def _is_labelled(button: _Element) -> bool:
    """Whether a button is in a heading, or contains one."""
    return any(one.tag in (*_HEADINGS, "dt") for one in (*button.iterancestors(), *button.iterdescendants()))


def _opens(button: _Element) -> bool:
    """Whether a button is the heading of the next element, which it opens and closes."""
    panel = button.getparent().getnext() if button.getnext() is None else button.getnext()
    says = not _SHOWING.isdisjoint(button.attrib) or _ACCORDION.search(button.get("class") or "") is not None
    follows = panel is not None and panel.tag in ("div", "section", "p") and not is_furniture(panel)
    return says and follows and bool(button.text_content().strip())


def _is_opened(panel: _Element) -> bool:
    """Whether the element before a panel opens and closes it."""
    before = panel.getprevious()
    return before is not None and ("aria-expanded" in before.attrib or before.find(".//*[@aria-expanded]") is not None)


def _mark_raised(element: _Element) -> None:
    """Write superscripts as 10^6, subscripts as 10_2, and marks of notes as [1]. 5th and CO2 stay unchanged."""
    text, before = element.text_content().strip(), element.getprevious()
    above = element.getparent().text if before is None else before.tail or before.text_content()
    follows_digit = (above or "")[-1:].isdigit()
    word = text.isalpha() and (len(text) > 1 or (follows_digit and text in "aeo"))
    if text.isdigit() and (element.getparent().tag == "a" or element.find("a") is not None):
        element[:], element.text = [], f"[{text}]"
    elif text and text[0] != "[" and (not word if element.tag == "sup" else text[0].isdigit() and follows_digit):
        element.text = f"{'^' if element.tag == 'sup' else '_'}{element.text or ''}"
    element.tag = "span"


def read_epub(path: Path, _: Chunking) -> Document:
    """Read the chapters of a book as Markdown, in their order."""
    check_package(path)
    safe = etree.XMLParser(resolve_entities=False, no_network=True)
    chapters, bad = [], []
    with ZipFile(path) as book:
        package = etree.fromstring(book.read("META-INF/container.xml"), safe).find(".//{*}rootfile").get("full-path")
        root = etree.fromstring(book.read(package), safe)
        items = {item.get("id"): item for item in root.iterfind(".//{*}manifest/{*}item")}
        for place in root.iterfind(".//{*}spine/{*}itemref"):
            item = items.get(place.get("idref"), place)
            if "html" in item.get("media-type", "html") and "nav" not in (item.get("properties") or "").split():
                href = unquote(item.get("href", "")).partition("#")[0]
                try:
                    content = book.read((PurePosixPath(package).parent / href).as_posix())
                    chapters.append(html_to_markdown(content, whole=True))
                except (
                    KeyError,
                    ValueError,
                    NotImplementedError,
                    RuntimeError,
                    BadZipFile,
                    zlib.error,
                    etree.LxmlError,
                ):
                    bad.append(href or place.get("idref", ""))
    if bad and not any(chapters):
        raise ValueError(f"none of {len(bad)} chapters")
    missing = f"{path}: chapters that cannot be read: {', '.join(bad[:3])} ({len(bad)} in all)" if bad else ""
    return Document("\n\n".join(chapters), missing=missing)


def _table(element: _Element, named: bool) -> Iterator[str]:
    """Write a table. Cells that span rows are repeated, so that each row is complete."""
    for caption in element.iterchildren("caption"):
        yield paragraph(" ".join(caption.text_content().split()))
    first = next(element.iter("tr"), None)
    named |= first is not None and (first.find("td") is None or first.getparent().tag == "thead")
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
