"""Reads passages from files: BEIR corpora, JSON lines, and folders of documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from semclass.core import plugins
from semclass.core.errors import InputError, SemclassError, SkippedWarning, warn
from semclass.core.types import Passage
from semclass.documents.chunking import CUTS, DEFAULT_CHUNKING, Chunking, Document, Record, cut, cut_record, joined
from semclass.documents.records import iter_records
from semclass.documents.sources import ENDINGS, Reader, Skipped, SourceFiles, find_files, listed, open_readers, shown


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
        of documents. Each line of a ``.jsonl`` file holds an object with ``text``, and optionally ``_id``
        (a string or a whole number; otherwise line numbers are ids). Its other fields become metadata.
        Documents are text, source files, Markdown, CSV, JSON, and the
        formats of installed packages. In a folder, hidden files and files without a reader are skipped.
    chunking
        How to read and cut documents.
    skipped
        Function that is called with each document of a folder that cannot be read, or only in part, that holds no text, or
        the text of an earlier one. If None, the first that cannot be read is an error, and the others are warned about.
    progress
        Function that is called after each document with its number, from 1, and the number of all documents. Where
        boilerplate is counted, this happens once while the documents are read, and again while they are cut.
    boilerplate
        Function that is called with each paragraph that most files of a folder repeat, once, when it is left out.
    boilerplate_before
        Keys of paragraphs that an earlier call left out. They stay out down to half of the usual number of files.

    Returns
    -------
    iterator of Passage
        The passages, in the order of the file or of the sorted paths. A passage of a document has the id
        ``document#number``, where the document is the path below the folder. Each row of a list of records is one with
        the id ``file:id``, or ``file#number`` if no column holds ids; its other columns are metadata. Rows and threads of
        messages are documents of their own, whose metadata hold ``file``. JSON lines are read line by line.

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
                    raise InputError(f"{name}: a passage has the id of another one; rename the file, or leave it out")
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
    if not document.has_text:
        return Skipped(name, f"{name}: there is no text; that of a scan must be recognised first", "empty")
    first = name if copies is None else copies.setdefault(document.digest(), name)
    if first != name:
        return Skipped(name, f"{name}: the text is that of {first}", "copy")
    return Skipped(name, document.missing, "cut") if document.missing else None


def _check_columns(path: Path, chunking: Chunking, document: Document) -> None:
    """Refuse names of columns for a file that is not a list of records."""
    columns = chunking.columns
    if any(columns) and not document.records:
        named = ", ".join(f"the {kind} column {name!r}" for kind, name in columns._asdict().items() if name is not None)
        raise InputError(f"{path} is not read as rows with {named}; give the names of its first line, or none")


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
