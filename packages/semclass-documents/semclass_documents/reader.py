"""Chooses the function that reads a file by its ending, and runs it in a process with limits."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from semclass import Chunking, Passage
from semclass.plugins import Document, PlainReader, check_size, reading
from semclass_documents.limits import bytes_of_text, check_text, check_written
from semclass_documents.worker import Worker

FORMATS: Mapping[str, str] = {
    ".docx": "office:read_docx",
    ".eml": "mail:read_eml",
    ".epub": "html:read_epub",
    ".htm": "html:read_html",
    ".html": "html:read_html",
    ".ipynb": "notes:read_notebook",
    ".log": "notes:read_log",
    ".mbox": "mail:read_mbox",
    ".pdf": "pdf:read_pdf",
    ".pptx": "office:read_pptx",
    ".xhtml": "html:read_html",
    ".xlsx": "office:read_xlsx",
}
"""Module and function for each ending. The function takes a path and the chunking, and returns a document."""

BY_PANDOC: Mapping[str, str] = {
    **dict.fromkeys([".adoc", ".asciidoc"], "asciidoc"),
    **dict.fromkeys([".man", *(f".{section}" for section in range(1, 9))], "man"),
    ".odt": "odt",
    ".org": "org",
    ".rst": "rst",
    ".rtf": "rtf",
    ".tex": "latex",
}
"""Formats that pandoc reads if it is installed, by ending."""


class DocumentReader:
    """Reads and cuts documents, each within limits of time and memory."""

    def __init__(self) -> None:
        self._worker, self._plain = Worker(), PlainReader()

    def accepts(self, path: Path) -> bool:
        """Whether a file of this ending can be read. Some need pandoc."""
        ending = path.suffix.lower()
        by_pandoc = ending in BY_PANDOC and find_spec("pypandoc") is not None
        return ending in FORMATS or by_pandoc or self._plain.accepts(path)

    def read(self, path: Path, chunking: Chunking) -> Document:
        """Read a file. Raises an InputError that says why it cannot be read."""
        return self._worker.read(path, chunking)

    def cut(self, name: str, document: Document, chunking: Chunking) -> list[Passage]:
        """Cut a document into passages. Raises an InputError that says why it cannot be cut."""
        return self._worker.cut(name, document, chunking)

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def convert(path: Path, chunking: Chunking) -> Document:
    """Read a file in this process. Raises a MemoryError if there is not enough memory."""
    ending, plain = path.suffix.lower(), PlainReader()
    with reading(path):
        check_size(path)
        check_written(path)
    if ending not in FORMATS and plain.accepts(path):
        document = plain.read(path, chunking)
    else:
        module, _, function = FORMATS.get(ending, "pandoc:read_by_pandoc").partition(":")
        read = getattr(importlib.import_module(f"semclass_documents.{module}"), function)
        with reading(path):
            document = read(path, chunking)
    with reading(path):
        check_text(path, document.length)
        size = bytes_of_text(path)
    return document._replace(size=size, text=document.text.replace("\r", "\n"))
