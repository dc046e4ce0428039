"""Formats that pandoc reads, where it is installed: a program of its own, without access to files or the network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pypandoc

from semclass import Chunking
from semclass.plugins import Document
from semclass_documents.limits import check_package
from semclass_documents.reader import BY_PANDOC


def read_by_pandoc(path: Path, chunking: Chunking) -> Document:
    """Read a document as Markdown. The limits of the process hold for pandoc, too."""
    kind = BY_PANDOC[path.suffix.lower()]
    if kind == "odt":
        check_package(path)
    command = [
        pypandoc.get_pandoc_path(),
        "--sandbox",
        "--from",
        kind,
        "--to",
        "gfm-raw_html-alerts",
        "--wrap",
        "none",
        path,
    ]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace"))
    return Document(done.stdout.decode())
