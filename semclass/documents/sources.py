"""Finds the files of a source (JSON lines, a document, or a folder), and the readers of their formats."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from semclass.core import artifacts, plugins
from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.documents.chunking import Chunking, Document, cut_document
from semclass.documents.decoding import mark_divided, read_text, reading, without_directives
from semclass.documents.records import begins_with_text, read_json, read_jsonl
from semclass.documents.sheets import read_csv

MARKDOWN = (".md", ".markdown")
TEXT = (".txt", ".text")
CODE = (".c", ".cpp", ".go", ".h", ".java", ".js", ".py", ".rs", ".sh", ".sql", ".ts")
"""Endings of source files, which are read as text."""

ENDINGS = (*TEXT, ".log", *MARKDOWN, ".csv", ".tsv", ".json", ".jsonl", *CODE)
"""Endings of the files that need no package."""

REMEDIES = {".parquet": "write the rows of .parquet files as JSON lines with `text`"}
"""How to read files that no package reads, by ending."""

NO_ENDING = "files without an ending"
UNREADABLE = "files that cannot be read"
OUTSIDE = "links that lead out of the folder"
LINK = "links to folders or to nothing"
PIPE = "pipes and devices"
"""Kinds of files that are skipped for another reason than their ending."""

NO_TEXT = frozenset([
    ".7z", ".avi", ".bin", ".bmp", ".bz2", ".class", ".css", ".dll", ".eot", ".exe", ".gif", ".gz", ".ico", ".jar", ".jpeg",
    ".jpg", ".map", ".mov", ".mp3", ".mp4", ".o", ".ogg", ".otf", ".png", ".pyc", ".so", ".svg", ".tar", ".tif", ".tiff",
    ".ttf", ".wav", ".webm", ".webp", ".whl", ".woff", ".woff2", ".xz", ".zip",
])  # fmt: skip
"""Endings of files that hold no text: pictures, sounds, fonts, styles, programs and archives."""

LISTED_KINDS = 8
"""Maximum kinds of skipped files that a message lists, the most frequent first."""

EXAMPLES = 3
"""Maximum names of such files that a message lists."""

STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Paths of a command's standard input, and of pipes that a shell connects to it."""


@dataclass(frozen=True)
class Skipped:
    """A document that could not be read, or only in part, or gives nothing that is new."""

    document: str  # its name in the folder
    reason: str
    kind: str = "skipped"  # or "cut": what could be read is kept; "empty": it holds no text; "copy": of an earlier one


@dataclass(frozen=True)
class SourceFiles:
    """The files of a source, without hidden files and files of an index."""

    path: Path  # the given file or folder
    json_lines: Path | None = None  # also of a BEIR folder; None if the source holds documents
    documents: tuple[Path, ...] = ()  # that can be read, sorted
    unsupported: Mapping[str, Sequence[str]] = field(default_factory=dict)  # names of others, by ending or kind

    @property
    def files(self) -> int:
        """Count the files that hold text, or may hold it."""
        return len(self.documents) + self.lost

    @property
    def lost(self) -> int:
        """Count the files that may hold text, but will not be read."""
        kinds = set(self.unsupported) - NO_TEXT - {OUTSIDE, LINK, PIPE}
        return sum(len(self.unsupported[kind]) for kind in kinds)

    def count_records(self) -> int | None:
        """Count the records of a JSON Lines file, its lines that are not blank. None for documents and for a pipe."""
        if self.json_lines is None or not self.json_lines.is_file():
            return None
        with self.json_lines.open("rb") as file:
            return sum(1 for line in file if not line.isspace())


class Reader(Protocol):
    """Reads files of some formats.

    A package adds one by an entry point of the group ``semclass.readers``: a class without arguments. Its formats go before
    those of semclass itself.
    """

    def accepts(self, path: Path) -> bool:
        """Whether it reads files of this name. The file need not exist."""

    def read(self, path: Path, chunking: Chunking) -> Document:
        """Read a file. Raises an InputError that says why it cannot be read."""

    def cut(self, name: str, document: Document, chunking: Chunking) -> list[Passage]:
        """Cut a document that it read. Raises an InputError that says why it cannot be cut."""

    def close(self) -> None:
        """Free what it holds, such as a process."""


class PlainReader:
    """Reads text, Markdown, source files, CSV and JSON."""

    def accepts(self, path: Path) -> bool:
        """Whether the ending is one of ENDINGS."""
        return path.suffix.lower() in ENDINGS

    def read(self, path: Path, chunking: Chunking) -> Document:
        """Read a file. Raises an InputError that says why it cannot be read."""
        ending = path.suffix.lower()
        with reading(path):
            text = read_text(path, chunking.encoding)
            if ending in (".csv", ".tsv"):
                return read_csv(text, chunking.columns)
            if ending in (".json", ".jsonl"):
                return (read_json if ending == ".json" else read_jsonl)(text, chunking.columns)
            if ending in MARKDOWN:
                return Document(without_directives(text))
            return Document(mark_divided(text) if ending in TEXT else text, markdown=False)

    def cut(self, name: str, document: Document, chunking: Chunking) -> list[Passage]:
        """Cut a document, see :func:`semclass.documents.chunking.cut_document`."""
        return cut_document(name, document, chunking)

    def close(self) -> None:
        """Free nothing."""


@contextmanager
def open_readers() -> Iterator[list[Reader]]:
    """Yield the readers of installed packages, by name, then that of semclass; close them at the end."""
    names = sorted(plugins.installed(plugins.READERS))
    readers: list[Reader] = [*(plugins.find(plugins.READERS, name)() for name in names), PlainReader()]
    try:
        yield readers
    finally:
        for reader in readers:
            reader.close()


def _is_readable(path: Path, readers: Iterable[Reader]) -> bool:
    return any(reader.accepts(path) for reader in readers)


def find_files(path: str | Path) -> SourceFiles:
    """Find the files of a source.

    Raises an InputError if the source does not exist, or is a device or a named pipe, which may not end.
    """
    path = Path(path)
    with reading(path):
        if not path.exists():
            raise InputError(f"{path} does not exist; name a BEIR folder, a .jsonl file or a folder of documents")
        mode = path.stat().st_mode
        corpus = path / "corpus.jsonl"
        if corpus.is_file() and ((path / "queries.jsonl").is_file() or (path / "qrels").is_dir()):
            return SourceFiles(path, corpus)
        if stat.S_ISDIR(mode):
            with open_readers() as readers:
                return _look_through(path, readers)
    if not (stat.S_ISREG(mode) or path.absolute().as_posix().startswith(STREAMS)):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise InputError(f"{path} is {kind}; name a file or a folder, or pipe JSON lines into `-`")
    ending = path.suffix.lower()
    is_lines = ending == ".jsonl" or (ending == ".json" and begins_with_text(path))
    with open_readers() as readers:
        if not is_lines and _is_readable(path, readers):
            return SourceFiles(path, documents=(path,))
    if not is_lines and (remedy := "; ".join(remedies([ending]))):
        raise InputError(f"{path} is neither text nor JSON lines; {remedy}")
    return SourceFiles(path, json_lines=path)


def _look_through(folder: Path, readers: Sequence[Reader]) -> SourceFiles:
    """Find the documents below a folder; one that cannot be looked at is kept, so that reading it says why."""
    documents, indices, top = [], set[Path](), folder.resolve()
    unsupported: dict[str, list[str]] = {}
    for path in sorted(_seen_paths(folder)):
        name, ending = path.relative_to(folder), path.suffix.lower()
        kind = _kind(path, top)
        if kind == "folder" and (path.parent in indices or artifacts.kind_of(path) == "index"):
            indices.add(path)
        own = ending in (".json", ".jsonl") and path.parent in indices  # whoever adds notes to an index wants them read
        if kind in ("file", UNREADABLE) and not own and _is_readable(path, readers):
            documents.append(path)
        elif kind != "folder" and path.parent not in indices:
            unsupported.setdefault((ending or NO_ENDING) if kind == "file" else kind, []).append(shown(name))
    return SourceFiles(folder, documents=tuple(documents), unsupported=unsupported)


def _seen_paths(folder: Path) -> Iterator[Path]:
    """Yield the paths below a folder; hidden folders, such as .git, are not entered."""
    # `Path.rglob` of Python 3.10 ends at a link that leads nowhere
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(at, name) for name in (*folders, *files) if not name.startswith("."))


def _kind(path: Path, top: Path) -> str:
    """Return ``"file"``, ``"folder"``, or the kind for which a path is skipped; files outside of `top` stay unread."""
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


def listed(unsupported: Mapping[str, Sequence[str]]) -> str:
    """List unsupported files by ending or kind, with the commands that make them readable."""
    often = sorted(unsupported, key=lambda kind: (-len(unsupported[kind]), kind))
    parts = []
    for kind in often[:LISTED_KINDS]:
        names = unsupported[kind]
        more = f" and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else ""
        examples = f"{kind} ({', '.join(names[:EXAMPLES])}{more})"
        parts.append(counted(len(names), f"{kind} file") if kind.startswith(".") else examples)
    if rest := sum(len(unsupported[kind]) for kind in often[LISTED_KINDS:]):
        parts.append(counted(rest, "other file"))
    return "; ".join([", ".join(parts), *remedies(unsupported)])


def remedies(endings: Iterable[str]) -> list[str]:
    """Say how files with these endings can be read: the packages to install, or what to convert."""
    packages = plugins.PACKAGES[plugins.READERS]
    missing = dict.fromkeys(packages[ending] for ending in endings if ending in packages)
    install = [plugins.missing(package, "a reader of them") for package in missing]
    return [*install, *(remedy for ending, remedy in REMEDIES.items() if ending in endings)]
