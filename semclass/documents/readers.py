"""Reads passages from files: BEIR corpora, JSON lines, and folders of documents."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from semclass.core.errors import InputError, SemclassError
from semclass.core.types import Passage
from semclass.documents.boilerplate import FEWEST, Boilerplate, Counts, Thinning
from semclass.documents.chunking import CUTS, Cutting, count_words, cut_document
from semclass.documents.decoding import check_encoding, read_text
from semclass.documents.formats import CODE, ENDINGS, FORMATS, MARKDOWN
from semclass.documents.json_lines import iter_records
from semclass.documents.parting import Vectors
from semclass.documents.records import Columns, Record
from semclass.documents.sources import Skipped, SourceFiles, find_files, listed, shown
from semclass.documents.threads import in_threads
from semclass.documents.worker import Converter

_IN_MEMORY = 1 << 26
"""Bytes of packed texts that wait in memory while boilerplate is counted; more of them wait in a file."""


def read_passages(source: str | Path, by: str | None = None, **options: Any) -> list[Passage]:
    """Read all passages into a list. The options are those of :func:`iter_passages`."""
    return list(iter_passages(source, by, **options))


def iter_passages(
    source: str | Path | SourceFiles,
    by: str | None = None,
    *,
    size: int | None = None,
    overlap: int = 0,
    count: Callable[[str], int] = count_words,
    vectors: Vectors | None = None,
    encoding: str | None = None,
    text_column: str | None = None,
    id_column: str | None = None,
    title_column: str | None = None,
    skipped: Callable[[Skipped], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
    keep_boilerplate: bool = False,
    boilerplate: Callable[[Boilerplate], object] | None = None,
    boilerplate_before: Collection[str] = (),
) -> Iterator[Passage]:
    """Read passages one after another, so that a corpus need not fit into memory.

    Parameters
    ----------
    source
        A BEIR folder (with ``corpus.jsonl``), a ``.jsonl`` file, a document, or a folder of documents. Each line of a
        ``.jsonl`` file holds an object with ``text``, and optionally ``_id`` (a string or a whole number). Its other
        fields become metadata. If no line has ``_id``, line numbers are ids. Documents are text, source files,
        Markdown, AsciiDoc, Org, manual pages, CSV, JSON, logs, notebooks, messages, mailboxes and OpenDocument texts
        (odt). With the extra ``documents`` you can also read HTML, EPUB, reStructuredText, PDF, docx, pptx and xlsx. In a
        folder, hidden files and the `unsupported` files of :func:`semclass.documents.sources.find_files` are skipped.
    by
        How to cut documents, see :func:`semclass.documents.chunking.cut`. If None, documents are cut by paragraph, and
        JSON lines are not cut. Otherwise, each JSON line is cut like a document with its id as name, and its passages
        get its metadata.
    size, overlap, count, vectors
        See :func:`semclass.documents.chunking.cut`.
    encoding
        Python name of the encoding of text files that are neither UTF-8 nor UTF-16 with a byte order mark, such as
        ``"cp1252"``.
    text_column, id_column, title_column
        Names of columns of records: of CSV and xlsx, arrays of objects in JSON, and JSON lines without ``text`` or with a
        named column. By default, the text is the column with the most words, followed by the other columns of at least 8
        words on average. A table with no such column or without names of columns stays a table. The id is a column
        with a usual name, such as ``id`` or ``ticket_id``, if nearly all its values differ. The title is the column
        ``title``, ``subject``, ``headline`` or ``summary``.
    skipped
        Function that is called with each document of a folder that cannot be read, or that is read only up to a page
        because it takes too long. If None, the first of these documents is an error.
    progress
        Function that is called after each document with its number, from 1, and the number of all documents. Where
        boilerplate is counted, this happens once while the documents are read, and again while they are cut.
    keep_boilerplate
        Whether to keep paragraphs that stand in at least 10 files and in at least two thirds of the files of a folder,
        those of the folders in it included. By default they are left out where they stand at the top or bottom of a
        file. Amid other text, only the first file keeps them. Source files, tables, code, records, messages, and files
        that are versions of one another stay whole.
    boilerplate
        Function that is called with each paragraph that is left out of any file, once.
    boilerplate_before
        Keys of paragraphs that an earlier call left out. They stay out down to half of the usual number of files.

    Returns
    -------
    iterator of Passage
        The passages, in the order of the file or of the sorted paths. A passage of a document has the id
        ``document#number``, where the document is the path below the folder. Each line end counts as one character.
        Each row of a list of records is a passage, and its other columns are metadata. Its id is ``file:id``, or
        ``file#number`` if no column holds ids. It is cut only if `by` or `size` is given. Messages are
        cut like documents and come last, as those of a thread may be in several files. Rows and threads are documents of
        their own, whose metadata hold ``file``. A thread is named after its first message.
        JSON lines are read line by line. Some 70 bytes of each line stay in memory to find repeated ids. Documents are
        read file by file.

    Raises
    ------
    InputError
        At the call, if the source does not exist, is a device or a named pipe, or the options do not fit. During
        reading, with file and line, if the source holds no passages or has another form.
    """
    files = source if isinstance(source, SourceFiles) else find_files(source)
    cutting = Cutting(by or "paragraph", size, overlap, count, vectors)
    columns = Columns(text_column, id_column, title_column)
    check_encoding(encoding)
    if files.json_lines is None:
        of_rows = None if by is None and size is None else cutting
        documents = _read_documents(files, columns, encoding, skipped, progress)
        if not keep_boilerplate and len(files.documents) >= FEWEST:
            documents = _thinned(documents, boilerplate, boilerplate_before, progress)
        cut = _passages_of(documents, cutting, of_rows)
        return _some(cut, f"{files.path} holds no text that can be read; give files with text")
    if by is None and size is not None:
        raise InputError(f"size is {size}, but JSON lines are split only with by; give by: {', '.join(CUTS)}")
    passages = _read_records(files.json_lines, columns, None if by is None else cutting)
    return _some(passages, f"{files.json_lines} holds no passages; give at least one line")


class Document(NamedTuple):
    """A document for :func:`semclass.documents.chunking.cut`, and its records."""

    text: str
    markdown: bool
    records: Sequence[Record] = ()
    missing: str = ""  #: what is said if the rest was not read


def read_document(path: Path, encoding: str | None, columns: Columns, convert: Converter) -> Document:
    """Read a file within the limits of :mod:`semclass.documents.limits`.

    Formats with a parser are read in another process.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        return Document(read_text(path, encoding), markdown=ending in MARKDOWN)
    content, missing = convert(path, encoding, columns)
    return Document(content.markdown, markdown=True, records=content.records, missing=missing)


def _read_documents(
    files: SourceFiles,
    columns: Columns,
    encoding: str | None,
    skipped: Callable[[Skipped], object] | None,
    progress: Callable[[int, int], object] | None,
) -> Iterator[tuple[str, Document]]:
    """Read one document after another; each comes with its name."""
    if not files.documents:
        others = f" but {listed(files.unsupported)}" if files.unsupported else ""
        raise InputError(f"{files.path} holds no documents{others}; give {', '.join(ENDINGS)} files")
    with Converter() as convert:
        for number, path in enumerate(files.documents, 1):
            alone = path == files.path
            name = Path(path.name) if alone else path.relative_to(files.path)
            try:
                _check_name(path, name)
                document = read_document(path, encoding, columns, convert)
                if alone:
                    _check_columns(path, columns, document)
                if document.missing and skipped is None:
                    raise InputError(document.missing)
            except SemclassError as error:
                if skipped is None or alone:
                    raise
                skipped(Skipped(shown(name), str(error)))
            else:
                if document.missing and skipped is not None:
                    skipped(Skipped(shown(name), document.missing, cut=True))
                yield name.as_posix(), document
            if progress is not None:
                progress(number, len(files.documents))


def _thinned(
    documents: Iterator[tuple[str, Document]],
    boilerplate: Callable[[Boilerplate], object] | None,
    before: Collection[str],
    progress: Callable[[int, int], object] | None,
) -> Iterator[tuple[str, Document]]:
    """Give documents without boilerplate. All are read first, and wait in a file, as converting them again takes long."""
    counts, told = Counts(before), set[str]()

    def tell(one: Boilerplate) -> None:
        if boilerplate is not None and one.key not in told:
            boilerplate(one)
        told.add(one.key)

    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as waiting:
        names = []
        for name, document in documents:
            if _may_hold_boilerplate(name):
                counts.add(name, document.text, markdown=document.markdown)
            packed = zlib.compress(json.dumps(document).encode(), level=1)
            names.append((name, len(packed)))
            try:
                waiting.write(packed)
            except OSError as error:
                raise InputError(
                    f"{tempfile.gettempdir()} has no room for the texts of files: {error.strerror or error}; make room, "
                    "or name another folder by the environment variable TMPDIR"
                ) from error
        thinned = Thinning(counts.repeated(), tell)
        waiting.seek(0)
        for number, (name, length) in enumerate(names, 1):
            text, markdown, records, missing = json.loads(zlib.decompress(waiting.read(length)))
            if _may_hold_boilerplate(name):
                text = thinned(name, text, markdown=markdown)
            yield name, Document(text, markdown, [Record(*record) for record in records], missing)
            if progress is not None:
                progress(number, len(names))


def _may_hold_boilerplate(name: str) -> bool:
    """Tell whether a file is no source file, in which nothing is left out."""
    return PurePath(name).suffix.lower() not in CODE


def _check_columns(path: Path, columns: Columns, document: Document) -> None:
    """Refuse names of columns for a file that is not a list of records."""
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


def _passages_of(
    documents: Iterable[tuple[str, Document]], cutting: Cutting, of_rows: Cutting | None
) -> Iterator[Passage]:
    """Cut documents, and their rows if it is said how; then messages, as those of a thread may be in several files."""
    messages = []
    for name, document in documents:
        yield from cut_document(document.text, name, cutting, markdown=document.markdown)
        for record in document.records:
            if record.links is None:
                yield from _cut_record(record, name, of_rows if record.is_row else cutting)
            else:
                messages.append((name, record))
    for thread in in_threads(messages):
        yield from _cut_together(thread, cutting)


def _cut_record(record: Record, file: str, cutting: Cutting | None) -> Iterator[Passage]:
    """Give a record as a passage, or cut it. It is a document of its own, as the rows around it are about other things."""
    if cutting is None:
        name = file + record.id
        yield Passage(name, record.text, {"document": name, "file": file, **record.metadata})
    else:
        yield from _cut_together([(file, record)], cutting)


def _cut_together(records: Sequence[tuple[str, Record]], cutting: Cutting) -> Iterator[Passage]:
    """Cut records, which come with the names of their files, as one document, each with metadata of its own."""
    name, first = records[0][0] + records[0][1].id, records[0][1].metadata
    shared = {"thread": first["thread"]} if "thread" in first else {}
    number = before = 0
    for file, record in records:
        metadata = {"document": name, "file": file, **record.metadata, **shared}
        for passage in cut_document(record.text, name, cutting, markdown=record.markdown):
            number += 1
            own = {**passage.metadata, cutting.by: number}
            own |= {key: passage.metadata[key] + before for key in ("start", "end")}
            yield replace(passage, id=f"{name}#{number}", metadata={**metadata, **own})
        before += len(record.text) + 2  # as if an empty line stood between them


def _read_records(path: Path, columns: Columns, cutting: Cutting | None) -> Iterator[Passage]:
    """Read JSON lines, each of which is a passage, or a document where it is said how to cut."""
    for line in iter_records(path, columns):
        if isinstance(line, Record):
            yield from _cut_record(line, path.name, cutting)
        elif cutting is None:
            yield line
        else:
            for passage in cut_document(line.text, line.id, cutting):
                yield replace(passage, metadata={**line.metadata, **passage.metadata})


def _some(passages: Iterator[Passage], missing: str) -> Iterator[Passage]:
    """Pass passages on, or raise an error if there are none."""
    first = next(passages, None)
    if first is None:
        raise InputError(missing)
    yield first
    yield from passages
