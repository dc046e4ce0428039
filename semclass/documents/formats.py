"""Documents of many formats as Markdown and records, by the endings of their files."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from semclass.core.errors import InputError, SemclassError, import_extra
from semclass.documents.decoding import read_text
from semclass.documents.limits import check_text
from semclass.documents.records import Columns, Content


class Format(NamedTuple):
    """How a format is read."""

    module: str
    function: str
    needed: str | None = None  #: package of the extra ``documents``
    text: bool = False  #: the function takes text, and not a path
    encoded: bool = False  #: it takes a path, and the encoding
    paged: bool = False  #: it takes a path, and a function that is called where it stops before the last page
    tabular: bool = False  #: it takes also the names of columns


_CSV = Format("data", "read_csv", text=True, tabular=True)
_HTML = Format("markup", "read_html", "lxml.html", encoded=True)
_ASCIIDOC = Format("outlines", "asciidoc_to_markdown", text=True)
_ROFF = Format("outlines", "roff_to_markdown", text=True)

FORMATS = {
    **{f".{section}": _ROFF for section in range(1, 9)},
    ".adoc": _ASCIIDOC,
    ".asciidoc": _ASCIIDOC,
    ".csv": _CSV,
    ".docx": Format("office", "read_docx", "docx"),
    ".eml": Format("mail", "read_eml"),
    ".epub": Format("markup", "read_epub", "lxml.html"),
    ".htm": _HTML,
    ".html": _HTML,
    ".ipynb": Format("data", "notebook_to_markdown", text=True),
    ".json": Format("data", "read_json", text=True, tabular=True),
    ".jsonl": Format("data", "read_jsonl", text=True, tabular=True),
    ".log": Format("data", "read_log", text=True),
    ".man": _ROFF,
    ".mbox": Format("mail", "read_mbox"),
    ".odt": Format("office", "read_odt"),
    ".org": Format("outlines", "org_to_markdown", text=True),
    ".pdf": Format("pdf", "read_pdf", "pdfplumber", paged=True),
    ".pptx": Format("office", "read_pptx", "pptx"),
    ".rst": Format("rst", "rst_to_markdown", "docutils", text=True),
    ".tsv": _CSV,
    ".xhtml": _HTML,
    ".xlsx": Format("office", "read_xlsx", "openpyxl", tabular=True),
}
"""How formats with a parser are read, by the endings of their files."""

MARKDOWN = (".md", ".markdown")
"""Endings of files that are Markdown already."""

CODE = (".c", ".cpp", ".go", ".h", ".java", ".js", ".py", ".rs", ".sh", ".sql", ".ts")
"""Endings of source files, which are read as text."""

ENDINGS = (".txt", ".text", *MARKDOWN, *FORMATS, *CODE)
"""Endings of all files that are read."""

CONVERSIONS = {
    "`pandoc FILE -t gfm-raw_html -o FILE.md` converts {} to Markdown": (".rtf", ".tex"),
    "the rows of {} can be written as JSON lines with `text`": (".parquet",),
}
"""How to read unsupported files, and the endings that this is for."""


def conversions(endings: Iterable[str]) -> list[str]:
    """Say how files with these endings can be read."""
    fitting = {way: [ending for ending in some if ending in set(endings)] for way, some in CONVERSIONS.items()}
    return [way.format(", ".join(some)) for way, some in fitting.items() if some]


def is_lacking(ending: str) -> bool:
    """Tell whether a format needs a package that is not installed."""
    kind = FORMATS.get(ending)
    try:
        return kind is not None and kind.needed is not None and find_spec(kind.needed) is None
    except ImportError:
        return True


def read_content(
    path: Path,
    encoding: str | None = None,
    cut: Callable[[str], object] | None = None,
    columns: Columns = Columns(),  # noqa: B008 - it cannot change
) -> Content:
    """Read a document as Markdown, with a form feed between pages, and the records that it holds.

    Parameters
    ----------
    path
        Of the document.
    encoding
        Of a format that is text, where that is not UTF-8; one that a page of HTML says itself goes before it.
    cut
        Called with what is said of a PDF that takes too long and is therefore read up to a page. None: it is read whole.
    columns
        Names of columns of a table whose rows are records.

    Raises
    ------
    InputError
        If it cannot be read, or is not of the format that its name says.
    MissingExtraError
        If its format needs the extra ``documents``, which is not installed.
    MemoryError
        If memory does not suffice.
    """
    kind = FORMATS[path.suffix.lower()]
    if kind.needed:
        import_extra(kind.needed, "documents")
    read = getattr(importlib.import_module(f"semclass.documents.{kind.module}"), kind.function)
    try:
        found = read(*_given(kind, path, encoding, cut), *([columns] if kind.tabular else []))
        content = found if isinstance(found, Content) else Content(found)
        check_text(path, content.length)
        return content._replace(markdown=content.markdown.replace("\r", "\n"))
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"{path}: {error}") from error
    except (SemclassError, MemoryError):
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from error
    except Exception as error:  # libraries raise classes of their own for damaged files
        if isinstance(error.__context__, MemoryError):
            raise error.__context__ from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read as {path.suffix}: {reason}; is it damaged or encrypted?") from error


def _given(kind: Format, path: Path, encoding: str | None, cut: Callable[[str], object] | None) -> tuple[object, ...]:
    """Give what the function of a format takes."""
    if kind.text:
        return (read_text(path, encoding),)
    return (path, encoding) if kind.encoded else (path, cut) if kind.paged else (path,)
