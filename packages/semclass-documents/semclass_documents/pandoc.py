"""Reads formats by the program pandoc, if it is installed, without access to files or the network."""

from __future__ import annotations

import subprocess
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pypandoc
from lxml import etree

from semclass import Chunking
from semclass.plugins import Document
from semclass_documents.html import HYPHENS, html_to_markdown
from semclass_documents.limits import check_package
from semclass_documents.reader import BY_PANDOC

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"


def read_by_pandoc(path: Path, _: Chunking) -> Document:
    """Read a document as Markdown. The limits of this process also apply to pandoc."""
    kind = BY_PANDOC[path.suffix.lower()]
    if kind == "odt":
        check_package(path)
        return Document(html_to_markdown(_run(_flat(path), kind, "html").encode(), whole=True, named=True))
    return Document(_run(path.read_bytes(), kind, "gfm-raw_html-alerts").translate(HYPHENS))


def _run(content: bytes, kind: str, to: str) -> str:
    command = [pypandoc.get_pandoc_path(), "--sandbox", "--from", kind, "--to", to, "--wrap", "none"]
    done = subprocess.run(command, input=content, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace"))
    return done.stdout.decode()


def _flat(path: Path) -> bytes:
    """Write text boxes below their paragraphs, and tables within cells as lines, because pandoc ignores both."""
    flat = BytesIO()
    with ZipFile(path) as package, ZipFile(flat, "w") as copy:
        for part in package.infolist():
            content = package.read(part)
            copy.writestr(part, _flattened(content) if part.filename == "content.xml" else content)
    return flat.getvalue()


def _flattened(content: bytes) -> bytes:
    root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
    for box in list(root.iter("{*}text-box")):
        above = [one for one in box.iterancestors() if one.tag in (f"{_TEXT}p", f"{_TEXT}h", "{*}frame")]
        place = above[-1] if above else box.getparent()
        for part in reversed(box):
            place.addnext(part)
    for cell in root.iter(f"{_TABLE}table-cell"):
        for table in cell.findall(f"{_TABLE}table"):
            for row in table.iter(f"{_TABLE}table-row"):
                texts = (" ".join("".join(cell.itertext()).split()) for cell in row.iterchildren(f"{_TABLE}table-cell"))
                line = etree.Element(f"{_TEXT}p")
                line.text = "; ".join(filter(None, texts))
                table.addprevious(line)
            cell.remove(table)
    return bytes(etree.tostring(root))
