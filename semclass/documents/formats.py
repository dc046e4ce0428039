"""Documents of many formats as Markdown, by the endings of their files."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from semclass.core.errors import InputError, SemclassError, import_extra

FORMATS = {
    ".csv": ("data", "read_csv", None),
    ".docx": ("office", "read_docx", "docx"),
    ".epub": ("markup", "read_epub", "lxml.html"),
    ".htm": ("markup", "read_html", "lxml.html"),
    ".html": ("markup", "read_html", "lxml.html"),
    ".ipynb": ("data", "read_notebook", None),
    ".json": ("data", "read_json", None),
    ".pdf": ("pdf", "read_pdf", "pdfplumber"),
    ".pptx": ("office", "read_pptx", "pptx"),
    ".rst": ("rst", "read_rst", "docutils"),
    ".tsv": ("data", "read_csv", None),
    ".xhtml": ("markup", "read_html", "lxml.html"),
    ".xlsx": ("office", "read_xlsx", "openpyxl"),
}
"""By ending: the module and function that read the format, and the package of the extra ``documents`` that they need."""


def to_markdown(path: Path) -> str:
    """Read a document as Markdown, with a form feed between pages.

    Raises
    ------
    InputError
        If it cannot be read, or is not of the format that its name says.
    MissingExtraError
        If its format needs the extra ``documents``, which is not installed.
    """
    module, function, needed = FORMATS[path.suffix.lower()]
    if needed:
        import_extra(needed, "documents")
    read: Callable[[Path], str] = getattr(importlib.import_module(f"semclass.documents.{module}"), function)
    try:
        return read(path).replace("\r", "\n")
    except SemclassError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from error
    except Exception as error:  # libraries raise classes of their own for damaged files
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read as {path.suffix}: {reason}; is it damaged or encrypted?") from error
