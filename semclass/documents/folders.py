"""Looking through a folder: which files are documents, and what to do with the others."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from semclass.core import artifacts
from semclass.core.checks import counted
from semclass.core.errors import InputError

CONVERSIONS = {
    "`pandoc FILE -t gfm-raw_html -o FILE.md` converts {} to Markdown": (".odt", ".rtf", ".org", ".tex"),
    "a .jsonl file is read where it is named as SOURCE itself": (".jsonl",),
    "the rows of {} can be written as JSON lines with `text`": (".parquet",),
}
"""How to read unsupported files, and the endings that this is for."""

UNREADABLE = "cannot be read"
ENDINGS_SHOWN = 8

STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Where a command finds its standard input, and pipes that a shell connected to it."""

Answer = TypeVar("Answer")


def ask(question: Callable[[Path], Answer], path: Path) -> Answer:
    """Ask the system about a path, such as ``Path.is_dir``; an error names the path."""
    try:
        return question(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def check_source(path: Path) -> None:
    """Refuse a device or a named pipe, which may never end; standard input and pipes of a shell are read."""
    mode = ask(Path.stat, path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path.absolute().as_posix().startswith(STREAMS)):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise InputError(f"{path} is {kind}; name a file or a folder, or pipe JSON lines into `-`")


@dataclass(frozen=True)
class Skipped:
    """A document that could not be read."""

    document: str  # its name in the folder
    reason: str


def look_through(folder: Path, supported: Container[str]) -> tuple[list[tuple[Path, Path]], Counter[str]]:
    """Find the documents below a folder, sorted, with their names in it; and count unsupported files by their endings.

    Hidden files and those of an index are not counted. A document that cannot be looked at is kept, so that reading it says
    why it cannot be read.
    """
    documents, others, indices, top = [], Counter[str](), set[Path](), ask(Path.resolve, folder)
    # `Path.rglob` of Python 3.10 ends at a link that leads nowhere
    for path in sorted(Path(at, name) for at, folders, files in os.walk(folder) for name in (*folders, *files)):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        ending = path.suffix.lower()
        kind = _kind(path, top)
        if kind == "folder" and (path.parent in indices or artifacts.kind_of(path) == "index"):
            indices.add(path)
        own = ending == ".json" and path.parent in indices  # whoever adds notes to an index wants them read
        if kind in ("file", UNREADABLE) and ending in supported and not own:
            documents.append((path, name))
        elif kind != "folder" and path.parent not in indices:
            others[(ending or "no ending") if kind == "file" else kind] += 1
    return documents, others


def _kind(path: Path, top: Path) -> str:
    """Give ``"file"``, ``"folder"``, or why a path is skipped; files outside of `top` stay unread."""
    try:
        if path.is_file():
            inside = not path.is_symlink() or path.resolve().is_relative_to(top)
            return "file" if inside else "links that lead out of the folder"
        if path.is_symlink():
            return "links to folders or to nothing"
        return "folder" if path.is_dir() else "pipes and devices"
    except OSError:
        return UNREADABLE


def listed(endings: Mapping[str, int]) -> str:
    """List unsupported files by ending, with the commands that convert them."""
    total = sum(endings.values())
    often = sorted(endings, key=lambda ending: (-endings[ending], ending))
    shown = [f"{ending} {endings[ending]}" for ending in often[:ENDINGS_SHOWN]] + ["..."] * (len(often) > ENDINGS_SHOWN)
    return "; ".join([f"{counted(total, 'file')} ({', '.join(shown)})", *conversions(endings)])


def conversions(endings: Iterable[str]) -> list[str]:
    """Say how files with these endings can be read."""
    found = ((text, [ending for ending in fitting if ending in set(endings)]) for text, fitting in CONVERSIONS.items())
    return [text.format(", ".join(fitting)) for text, fitting in found if fitting]
