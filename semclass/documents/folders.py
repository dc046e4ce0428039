"""Looking through a folder: which files are documents, and what to do with the others."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
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

NO_ENDING = "no ending"
UNREADABLE = "cannot be read"
OUTSIDE = "leads out"
LINK = "link"
PIPE = "pipe"

KINDS = {
    NO_ENDING: ("file without an ending", "files without an ending"),
    UNREADABLE: ("file that cannot be read", "files that cannot be read"),
    OUTSIDE: ("link that leads out of the folder", "links that lead out of the folder"),
    LINK: ("link to a folder or to nothing", "links to folders or to nothing"),
    PIPE: ("pipe or device", "pipes and devices"),
}
"""What is skipped for another reason than its ending, of which examples are shown."""

NO_TEXT = frozenset([
    ".7z", ".avi", ".bin", ".bmp", ".bz2", ".class", ".css", ".dll", ".eot", ".exe", ".gif", ".gz", ".ico", ".jar", ".jpeg",
    ".jpg", ".map", ".mov", ".mp3", ".mp4", ".o", ".ogg", ".otf", ".png", ".pyc", ".so", ".svg", ".tar", ".tif", ".tiff",
    ".ttf", ".wav", ".webm", ".webp", ".whl", ".woff", ".woff2", ".xz", ".zip",
])  # fmt: skip
"""Endings of pictures, sounds, fonts, styles, programs and archives, which nobody misses in an index of text."""

SHOWN = 8
"""Kinds of skipped files that are listed, the most frequent ones."""

EXAMPLES = 3

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
    """A document that could not be read, or was read up to a page."""

    document: str  # its name in the folder
    reason: str
    cut: bool = False  # what was read of it is kept


def look_through(folder: Path, supported: Container[str]) -> tuple[list[tuple[Path, Path]], dict[str, list[str]]]:
    """Find the documents below a folder, sorted, with their names in it; and the names of others by ending or kind.

    Hidden files and those of an index are not among them. A document that cannot be looked at is kept, so that reading it
    says why it cannot be read.
    """
    documents, indices, top = [], set[Path](), ask(Path.resolve, folder)
    others: dict[str, list[str]] = {}
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
            others.setdefault((ending or NO_ENDING) if kind == "file" else kind, []).append(shown(name))
    return documents, others


def _kind(path: Path, top: Path) -> str:
    """Give ``"file"``, ``"folder"``, or the kind for which a path is skipped; files outside of `top` stay unread."""
    try:
        if path.is_file():
            inside = not path.is_symlink() or path.resolve().is_relative_to(top)
            return "file" if inside else OUTSIDE
        if path.is_symlink():
            return LINK
        return "folder" if path.is_dir() else PIPE
    except OSError:
        return UNREADABLE


def shown(name: Path) -> str:
    """Write the name of a file in a folder, which need not be UTF-8."""
    return name.as_posix().encode(errors="backslashreplace").decode()


def listed(others: Mapping[str, Sequence[str]]) -> str:
    """List unsupported files by ending or kind, with the commands that convert them."""
    often = sorted(others, key=lambda kind: (-len(others[kind]), kind))
    parts = [_counted(kind, others[kind]) for kind in often[:SHOWN]]
    if rest := sum(len(others[kind]) for kind in often[SHOWN:]):
        parts.append(counted(rest, "other file"))
    return "; ".join([", ".join(parts), *conversions(others)])


def _counted(kind: str, names: Sequence[str]) -> str:
    if kind not in KINDS:
        return counted(len(names), f"{kind} file")
    examples = [*names[:EXAMPLES], *["..."] * (len(names) > EXAMPLES)]
    return f"{len(names)} {KINDS[kind][len(names) > 1]} ({', '.join(examples)})"


def missed(others: Mapping[str, Sequence[str]]) -> int:
    """Count the unsupported files that may hold text."""
    return sum(
        len(names) for kind, names in others.items() if kind not in NO_TEXT and kind not in (OUTSIDE, LINK, PIPE)
    )


def conversions(endings: Iterable[str]) -> list[str]:
    """Say how files with these endings can be read."""
    found = ((text, [ending for ending in fitting if ending in set(endings)]) for text, fitting in CONVERSIONS.items())
    return [text.format(", ".join(fitting)) for text, fitting in found if fitting]
