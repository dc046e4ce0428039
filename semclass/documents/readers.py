"""Finds the files of a source, and reads passages from them: BEIR corpora, JSON lines, and folders of documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from semclass.core import artifacts, plugins
from semclass.core.checks import counted
from semclass.core.errors import InputError, SemclassError, SkippedWarning, warn
from semclass.core.types import Passage
from semclass.documents.chunking import (
    CUTS,
    DEFAULT_CHUNKING,
    Chunking,
    Document,
    Record,
    cut,
    cut_document,
    cut_record,
    joined,
)
from semclass.documents.decoding import mark_divided, read_text, reading, without_directives
from semclass.documents.records import begins_with_text, iter_records, read_json, read_jsonl
from semclass.documents.sheets import read_csv

MARKDOWN = (".md", ".markdown")
TEXT = (".txt", ".text")
CODE = (".c", ".cpp", ".go", ".h", ".java", ".js", ".py", ".rs", ".sh", ".sql", ".ts")
"""Endings of source files, which are read as text."""

ENDINGS = (*TEXT, ".log", *MARKDOWN, ".csv", ".tsv", ".json", ".jsonl", *CODE)
"""Endings of the files that need no package."""

REMEDIES = {".parquet": "write the rows of .parquet files as JSON lines with `text`"}
"""Instructions for files that no package reads, by ending."""

NO_ENDING = "files without an ending"
UNREADABLE = "files that cannot be read"
OUTSIDE = "links that lead out of the folder"
LINK = "links to folders or to nothing"
PIPE = "pipes and devices"
"""Kinds of files that are skipped for a reason other than their ending."""

NO_TEXT = frozenset([
    ".7z", ".avi", ".bin", ".bmp", ".bz2", ".class", ".css", ".dll", ".eot", ".exe", ".gif", ".gz", ".ico", ".jar", ".jpeg",
    ".jpg", ".map", ".mov", ".mp3", ".mp4", ".o", ".ogg", ".otf", ".png", ".pyc", ".so", ".svg", ".tar", ".tif", ".tiff",
    ".ttf", ".wav", ".webm", ".webp", ".whl", ".woff", ".woff2", ".xz", ".zip",
])  # fmt: skip
"""Endings of files that hold no text: pictures, sounds, fonts, styles, programs and archives."""

LISTED_KINDS = 8
"""Maximum number of kinds of skipped files that a message lists, the most frequent first."""

EXAMPLES = 3
"""Maximum number of names that a message lists for a kind of skipped files."""

STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Paths of a command's standard input, and of pipes that a shell connects to it."""


@dataclass(frozen=True)
class Skipped:
    """A document that could not be read, that was read only in part, or that adds no new text."""

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

    A package adds a reader by an entry point of the group ``semclass.readers``: a class without arguments. It takes
    precedence over the reader of semclass itself.
    """

    def accepts(self, path: Path) -> bool:
        """Return whether this reader reads files of this name. The file need not exist."""

    def read(self, path: Path, chunking: Chunking) -> Document:
        """Read a file. Raises an InputError that says why it cannot be read."""

    def cut(self, name: str, document: Document, chunking: Chunking) -> list[Passage]:
        """Cut a document that this reader read. Raises an InputError that says why the document cannot be cut."""

    def close(self) -> None:
        """Free the resources of this reader, such as a process."""


class PlainReader:
    """Reads text, Markdown, source files, CSV and JSON."""

    def accepts(self, path: Path) -> bool:
        """Return whether the ending is one of ENDINGS."""
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
        """Do nothing, because this reader has no resources."""


@contextmanager
def open_readers() -> Iterator[list[Reader]]:
    """Yield the readers of installed packages, sorted by name, and then the reader of semclass. Close all at the end."""
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

    Raises an InputError if the source does not exist, or is a device or a named pipe, which might never end.
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
    """Return the name of a file as text, even if it is not UTF-8."""
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
    """Return how to make files with these endings readable: packages to install, or formats to convert to."""
    packages = plugins.PACKAGES[plugins.READERS]
    missing = dict.fromkeys(packages[ending] for ending in endings if ending in packages)
    install = [plugins.missing(package, "a reader of them") for package in missing]
    return [*install, *(remedy for ending, remedy in REMEDIES.items() if ending in endings)]


def read_passages(source: str | Path, chunking: Chunking = DEFAULT_CHUNKING, **options: Any) -> list[Passage]:
    """Read all passages into a list. The options are those of :func:`iter_passages`."""
    return list(iter_passages(source, chunking, **options))


def iter_passages(
    source: str | Path | SourceFiles,
    chunking: Chunking = DEFAULT_CHUNKING,
    *,
    skipped: Callable[[Skipped], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
    boilerplate: Callable[[Any], object] | None = None,
    boilerplate_before: Collection[str] = (),
) -> Iterator[Passage]:
    """Read passages one after another, so that a corpus need not fit into memory.

    Parameters
    ----------
    source
        A BEIR folder (``corpus.jsonl`` beside ``queries.jsonl`` or ``qrels/``), a ``.jsonl`` file, a document, or a folder
        of documents. Each line of a ``.jsonl`` file holds an object with ``text`` and optionally ``_id`` (a string or a
        whole number; without it, line numbers are ids). Its other fields become metadata. Documents are text, source
        files, Markdown, CSV, JSON, and the formats of installed packages. In a folder, hidden files and files without a
        reader are skipped.
    chunking
        How to read and cut documents.
    skipped
        Function that is called with each :class:`Skipped` document of a folder: it cannot be read, is read only in part,
        holds no text, or is a copy of an earlier document. If None, a document that cannot be read raises an error, and
        the others cause a warning.
    progress
        Function that is called after each document with its number, from 1, and the number of all documents. If
        boilerplate is counted, it is called once while documents are read, and once while they are cut.
    boilerplate
        Function that is called once with each paragraph that is left out because most files of a folder repeat it.
    boilerplate_before
        Keys of paragraphs that an earlier call left out. For these, half of the usual number of files is enough.

    Returns
    -------
    iterator of Passage
        The passages, in the order of the file or of the sorted paths. A passage of a document has the id
        ``document#number``, where the document is the path below the folder. Each row of a list of records is one passage.
        Its id is ``file:id``, or ``file#number`` if no column holds ids, and its other columns are metadata. Rows and
        threads of messages are documents of their own, whose metadata hold ``file``. JSON lines are read line by line.

    Raises
    ------
    InputError
        At the call, if the source does not exist, is a device or a named pipe, or the options do not fit. During
        reading, with file and line, if the source holds no passages or has another form.
    """
    files = source if isinstance(source, SourceFiles) else find_files(source)
    if files.json_lines is not None:
        if chunking.by is None and chunking.size is not None:
            size = chunking.size
            raise InputError(f"size is {size}, but JSON lines are split only with by; give by: {', '.join(CUTS)}")
        passages = _read_lines(files.json_lines, chunking)
        return _not_empty(passages, f"{files.json_lines} holds no passages; give at least one line")
    passages = _read_folder(files, chunking, skipped, progress, boilerplate, boilerplate_before)
    return _not_empty(passages, f"{files.path} holds no text that can be read; give files with text")


def _read_folder(
    files: SourceFiles,
    chunking: Chunking,
    skipped: Callable[[Skipped], object] | None,
    progress: Callable[[int, int], object] | None,
    boilerplate: Callable[[Any], object] | None,
    boilerplate_before: Collection[str],
) -> Iterator[Passage]:
    """Read all documents, and cut one after another; a document that cannot be cut is skipped whole."""
    names = {path.relative_to(files.path).as_posix() for path in files.documents if path != files.path}
    # "a.csv" and "a.csv:b.csv" may give the same ids
    begun = ((name, name[:at]) for name in names for at, mark in enumerate(name) if mark in "#:" and name[:at] in names)
    alike, ids = {name for pair in begun for name in pair}, set[str]()
    with open_readers() as readers:
        documents = _read_documents(files, readers, chunking, skipped, progress)
        if not chunking.keep_boilerplate and (step := plugins.find_installed(plugins.STEPS, "boilerplate")):
            documents = step(documents, len(files.documents), boilerplate, boilerplate_before, progress)
        if step := plugins.find_installed(plugins.STEPS, "threads"):
            documents = step(documents)
        for name, document in documents:
            try:
                passages = _reader_of(Path(name), readers).cut(name, document, chunking)
                own = {passage.id for passage in passages}
                if len(own) < len(passages) or not own.isdisjoint(ids):
                    raise InputError(f"{name}: two passages would have the same id; rename the file, or leave it out")
                ids |= own if name in alike else set()
            except SemclassError as error:  # noqa: PERF203 - a document takes longer than that
                if skipped is None or files.documents == (files.path,):
                    raise
                skipped(Skipped(name, str(error)))
            else:
                yield from passages


def _reader_of(path: Path, readers: Sequence[Reader]) -> Reader:
    return next(reader for reader in readers if reader.accepts(path))


def _read_documents(
    files: SourceFiles,
    readers: Sequence[Reader],
    chunking: Chunking,
    skipped: Callable[[Skipped], object] | None,
    progress: Callable[[int, int], object] | None,
) -> Iterator[tuple[str, Document]]:
    """Read one document after another; each comes with its name."""
    if not files.documents:
        others = f" but {listed(files.unsupported)}" if files.unsupported else ""
        raise InputError(f"{files.path} holds no documents{others}; give {', '.join(ENDINGS)} files")
    copies: dict[bytes, str] = {}
    for number, path in enumerate(files.documents, 1):
        alone = path == files.path
        name = Path(path.name) if alone else path.relative_to(files.path)
        try:
            _check_name(path, name)
            document = _reader_of(path, readers).read(path, chunking)
            document = document._replace(size=document.size or path.stat().st_size)
            if alone:
                _check_columns(path, chunking, document)
        except SemclassError as error:
            if skipped is None or alone:
                raise
            skipped(Skipped(shown(name), str(error)))
        else:
            found = _unusual(document, shown(name), None if chunking.keep_copies else copies)
            if found is not None and not (alone and found.kind == "empty"):
                warn(SkippedWarning(found.reason)) if skipped is None else skipped(found)
            if found is None or found.kind == "cut":
                yield name.as_posix(), document
        if progress is not None:
            progress(number, len(files.documents))


def _unusual(document: Document, name: str, copies: dict[bytes, str] | None) -> Skipped | None:
    """Say that a document lacks a part, or any text, or is one of the `copies` of an earlier one."""
    if not (document.records or document.text.strip()):
        return Skipped(name, f"{name}: there is no text; a scan needs text recognition (OCR) first", "empty")
    first = name if copies is None else copies.setdefault(document.digest(), name)
    if first != name:
        return Skipped(name, f"{name}: the text equals that of {first}", "copy")
    return Skipped(name, document.missing, "cut") if document.missing else None


def _check_columns(path: Path, chunking: Chunking, document: Document) -> None:
    """Refuse names of columns for a file that is not a list of records."""
    if chunking.columns and not document.records:
        named = ", ".join(f"the {kind} column {name!r}" for kind, name in chunking.columns.items())
        raise InputError(f"{path} has no rows with {named}; name columns of its first line, or leave the options out")


def _check_name(path: Path, name: Path) -> None:
    try:
        name.as_posix().encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the name of {str(path)!r} is not UTF-8; rename the file, because passage ids contain its name"
        ) from error


def _read_lines(path: Path, chunking: Chunking) -> Iterator[Passage]:
    """Read JSON lines, each of which is a passage, or a document where the chunking says how to cut."""
    for line in iter_records(path, chunking.columns):
        if isinstance(line, Record):
            yield from cut_record(line, path.name, chunking)
        elif chunking.by is None:
            # `file` is the file that was read, and `document` may be any name
            named = "file" in line.metadata or "document" in line.metadata
            yield replace(line, metadata=joined({"file": path.name}, line.metadata)) if named else line
        else:
            for passage in cut(line.text, line.id, chunking):
                yield replace(passage, metadata=joined({**passage.metadata, "file": path.name}, line.metadata))


def _not_empty(passages: Iterator[Passage], missing: str) -> Iterator[Passage]:
    """Pass passages on, or raise an error if there are none."""
    first = next(passages, None)
    if first is None:
        raise InputError(missing)
    yield first
    yield from passages
