"""Reading passages and texts from files: BEIR corpora, JSON lines, and folders of documents."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from semclass.core.checks import check_depth, counted, short
from semclass.core.errors import InputError, SemclassError
from semclass.core.types import Passage
from semclass.documents.chunking import CUTS, check_cut, count_words, cut
from semclass.documents.decoding import check_encoding, read_lines, read_text
from semclass.documents.folders import Skipped, ask, check_source, conversions, listed, look_through, missed, shown
from semclass.documents.formats import FORMATS, is_lacking
from semclass.documents.labelled import TEXT, is_table, texts_of_table
from semclass.documents.parting import Vectors
from semclass.documents.worker import Converter

JSON_LINES = (".jsonl", ".json")
"""Endings of files that are read as JSON lines, or refused with the line that is none."""


class Document(NamedTuple):
    """What :func:`semclass.documents.chunking.cut` cuts."""

    text: str
    markdown: bool
    cut: str = ""  # what is said if the rest was not read


def _text(path: Path, encoding: str | None, convert: Converter) -> Document:
    return Document(read_text(path, encoding), markdown=False)


def _markdown(path: Path, encoding: str | None, convert: Converter) -> Document:
    return Document(read_text(path, encoding), markdown=True)


def _converted(path: Path, encoding: str | None, convert: Converter) -> Document:
    text, cut_at = convert(path, encoding)
    return Document(text, markdown=True, cut=cut_at)


CODE = (".c", ".cpp", ".go", ".h", ".java", ".js", ".py", ".rs", ".sh", ".sql", ".ts")
"""Endings of source files, which are read as text."""

READERS: dict[str, Callable[[Path, str | None, Converter], Document]] = {
    ".txt": _text,
    ".text": _text,
    ".md": _markdown,
    ".markdown": _markdown,
    **dict.fromkeys(FORMATS, _converted),
    **dict.fromkeys(CODE, _text),
}
"""How documents are read, by the endings of their files: with the encoding of text that is not UTF-8, and what
converts other formats."""


def read_passages(
    source: str | Path,
    by: str | None = None,
    *,
    size: int | None = None,
    overlap: int = 0,
    count: Callable[[str], int] = count_words,
    vectors: Vectors | None = None,
) -> list[Passage]:
    """Read passages all at once, as :func:`iter_passages` gives them."""
    return list(iter_passages(source, by, size=size, overlap=overlap, count=count, vectors=vectors))


def iter_passages(
    source: str | Path,
    by: str | None = None,
    *,
    size: int | None = None,
    overlap: int = 0,
    count: Callable[[str], int] = count_words,
    vectors: Vectors | None = None,
    encoding: str | None = None,
    skipped: Callable[[Skipped], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[Passage]:
    """Read passages one after another, so that a corpus need not fit into memory.

    Parameters
    ----------
    source
        One of: a BEIR folder (it holds ``corpus.jsonl``); a ``.jsonl`` file whose objects have ``text`` and may have
        ``_id`` and anything else, which becomes metadata; a document, or a folder of documents: text, source files,
        Markdown, CSV, JSON and notebooks; with the extra ``documents`` also HTML, EPUB, reStructuredText, PDF, docx, pptx
        and xlsx. In a folder, hidden files are skipped, and so are those that :func:`unsupported_files` lists.
    by
        How documents are cut, see :func:`semclass.documents.chunking.cut`. None: documents by paragraph, JSON lines
        not at all. If it is given, each JSON line is a document, too, named by its id, and its passages have its metadata.
    size, overlap, count, vectors
        As for :func:`semclass.documents.chunking.cut`.
    encoding
        Of text files that are not UTF-8, nor UTF-16 with a byte order mark, by its name in Python, such as ``"cp1252"``.
    skipped
        Called with each document of a folder that cannot be read, and why, and with each that is read up to a page only, as
        it takes too long. None: the first one is an error.
    progress
        Called after each document with its number, from 1, and the number of all.

    Returns
    -------
    iterator of Passage
        In the order of the file, or of the sorted paths. A passage that was cut has the id ``document#number``; the
        document is the path below the folder. Each line end counts as one character. JSON lines are read line by line, and
        of each some 70 bytes stay in memory, to find ids that come twice; documents are read file by file.

    Raises
    ------
    InputError
        At once, if the source does not exist, is a device or a named pipe, or cannot be cut so. While it is read, with file
        and line: if it holds no passages, or is not of the form above.
    """
    source = Path(source)
    if not ask(Path.exists, source):
        raise InputError(f"{source} does not exist; name a BEIR folder, a .jsonl file or a folder of documents")
    check_source(source)
    cutting = partial(cut, by=by or "paragraph", size=size, overlap=overlap, count=count, vectors=vectors)
    check_cut(by or "paragraph", size, overlap, vectors)
    check_encoding(encoding)
    lines = _json_lines_of(source)
    if lines is None:
        return _some(
            _cut_files(source, cutting, encoding, skipped, progress),
            f"{source} holds no passages: it has no text that can be read",
        )
    if by is None and size is not None:
        raise InputError(f"size is {size}, but JSON lines are cut only where by is given: {', '.join(CUTS)}")
    suffix = lines.suffix.lower()
    if suffix not in JSON_LINES and (ways := conversions([suffix])):
        raise InputError(f"{lines} is neither text nor JSON lines; {ways[0]}")
    passages = _corpus(lines) if by is None else _cut_passages(_corpus(lines), cutting)
    return _some(passages, f"{lines} holds no passages")


def unsupported_files(source: str | Path) -> str:
    """List the files of a folder that :func:`iter_passages` skips, with the commands that convert them.

    The list reads like ``"2 .odt files, 1 file without an ending (LICENSE); `pandoc FILE ...` converts .odt to Markdown"``.
    It is empty where nothing is skipped, and where the folder holds no documents, as reading it is an error that lists the
    files. Hidden files and those of an index are not listed.
    """
    found = survey(Path(source))
    return listed(found.others) if found is not None and found.documents else ""


class Survey(NamedTuple):
    """What the files of a folder tell before they are read."""

    documents: int  #: files with an ending that is read
    others: dict[str, list[str]]  #: names of files that are not read, by ending or kind
    lacking: dict[str, int]  #: how many of the documents need a package that is not installed, by ending

    @property
    def files(self) -> int:
        """Count the files that may hold text."""
        return self.documents + missed(self.others)

    @property
    def lost(self) -> int:
        """Count those that will not be read."""
        return sum(self.lacking.values()) + missed(self.others)

    def notes(self) -> Iterator[str]:
        """Say what will not be read, and the commands that change that."""
        if self.lacking:
            files = ", ".join(counted(number, f"{ending} file") for ending, number in self.lacking.items())
            yield f'{files}, which the extra `documents` reads; run: pip install "semclass[documents]"'
        if self.others:
            yield listed(self.others)


def survey(source: Path) -> Survey | None:
    """Look through a folder of documents; None for any other source."""
    if not ask(Path.is_dir, source) or _json_lines_of(source) is not None:
        return None
    documents, others = look_through(source, READERS)
    endings = Counter(path.suffix.lower() for path, _ in documents)
    return Survey(len(documents), others, {ending: endings[ending] for ending in sorted(endings) if is_lacking(ending)})


def count_passages(source: str | Path, by: str | None = None) -> int | None:
    """Count the passages of a source, for a progress bar; None where that takes cutting, or for a pipe."""
    lines = _json_lines_of(Path(source))
    if lines is None or by is not None or not lines.is_file():
        return None
    with lines.open("rb") as file:
        return sum(1 for line in file if not line.isspace())


def read_corpus(path: Path) -> list[Passage]:
    """Read passages from JSON lines.

    Each line is an object with ``text``. Either all have ``_id`` (a string or a whole number) or none has: then the line's
    number is the id. ``metadata`` and all other fields become metadata.
    """
    return list(_some(_corpus(path), f"{path} holds no passages"))


def _corpus(path: Path) -> Iterator[Passage]:
    seen: set[int] = set()  # hashes of 64 bits take less memory than ids
    with_id: bool | None = None
    for number, record in read_json_lines(path):
        where = f"{path}, line {number}"
        text = _text_of(record, where)
        if with_id is None:
            with_id = "_id" in record
        if ("_id" in record) != with_id:
            raise InputError(f"{where}: _id is {'missing' if with_id else 'given'}; give all lines one, or none")
        name = record.get("_id", number)
        if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
            raise InputError(f"{where}: _id must be a non-empty string or a whole number, not {short(name)}")
        name = str(name)
        if with_id and hash(name) in seen:
            raise InputError(f"{where}: _id {name!r} was used in an earlier line; ids must be unique")
        seen.add(hash(name))
        metadata = _metadata(record)
        check_depth(metadata, f"{where}: metadata")
        yield Passage(name, text, metadata)


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    nested = record.get("metadata")
    metadata = {key: value for key, value in record.items() if key not in ("_id", "text", "metadata")}
    if isinstance(nested, dict):
        metadata.update(nested)
    elif nested is not None:
        metadata["metadata"] = nested
    if metadata.get("title") == "":
        del metadata["title"]  # BEIR writes an empty title where there is none
    return metadata


def read_texts(path: Path, *, text: str | None = None, encoding: str | None = None) -> list[str]:
    """Read texts to classify: a table or JSON lines, whose column `text` is ``text`` by default, or one text a line."""
    check_encoding(encoding)
    content = read_text(path, encoding)  # once: the file may be a pipe
    lines = list(enumerate(content.removesuffix("\n").split("\n"), 1)) if content else []
    first = next((line for _, line in lines if line.strip()), "")
    if path.suffix.lower() in (".jsonl", ".json") or re.match(r'\s*\{\s*"', first):
        return [_text_of(record, f"{path}, line {number}", text or TEXT) for number, record in _records(path, lines)]
    if text is not None or is_table(path, first):
        return texts_of_table(path, content, text)
    for number, line in lines:
        if not line.strip():
            raise InputError(f"{path}, line {number} is empty; every line must hold a text, so that output lines match")
    return [line for _, line in lines]


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the objects of a file of JSON lines, each with its line number from 1; blank lines are skipped."""
    return _records(path, read_lines(path))


def _records(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            suffix = path.suffix.lower()
            others = (
                [] if suffix in ("", ".jsonl") else [f"text files end in {', '.join(READERS)}", *conversions([suffix])]
            )
            raise InputError("; ".join([f"{path}, line {number}: broken JSON ({error})", *others])) from error
        except RecursionError as error:
            raise InputError(f"{path}, line {number}: JSON nested too deeply; flatten it") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: a line must be a JSON object, not {short(record)}")
        yield number, record


def _text_of(record: dict[str, Any], where: str, name: str = TEXT) -> str:
    text = record.get(name)
    if not isinstance(text, str):
        found = "is missing" if text is None else f"must be a string, not {short(text)}"
        raise InputError(f"{where}: {name} {found}")
    if not text.strip():
        raise InputError(f"{where}: {name} is empty")
    return text


def _json_lines_of(source: Path) -> Path | None:
    """Give the file of JSON lines that a source is or holds; None if it holds documents."""
    if ask(Path.is_dir, source):
        corpus = source / "corpus.jsonl"
        return corpus if ask(Path.is_file, corpus) else None
    ending = source.suffix.lower()
    return None if ending in READERS and not (ending == ".json" and _begins_with_a_text(source)) else source


def _begins_with_a_text(path: Path) -> bool:
    """Tell whether a file begins with a JSON line that holds a text; other JSON is a document."""
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("text"), str)


def _cut_files(
    source: Path,
    cutting: Callable[..., Iterator[Passage]],
    encoding: str | None,
    skipped: Callable[[Skipped], object] | None,
    progress: Callable[[int, int], object] | None,
) -> Iterator[Passage]:
    """Cut a document, or those in a folder."""
    named = [(source, Path(source.name))]
    if source.is_dir():
        named, others = look_through(source, READERS)
        if not named:
            held = f" but {listed(others)}" if others else ""
            raise InputError(f"{source} holds no passages{held}; it must hold {', '.join(READERS)} files")
    with Converter() as convert:
        for number, (path, name) in enumerate(named, 1):
            document = _read(path, name, encoding, convert, None if path == source else skipped)
            if document is not None:
                _tell_cut(document, name, skipped)
                yield from cutting(document.text, name.as_posix(), markdown=document.markdown)
            if progress is not None:
                progress(number, len(named))


def _read(
    path: Path,
    name: Path,
    encoding: str | None,
    convert: Converter,
    skipped: Callable[[Skipped], object] | None,
) -> Document | None:
    """Read a document; None for one that was skipped."""
    try:
        try:
            name.as_posix().encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"the name of {str(path)!r} is not UTF-8; rename the file, as ids are made of it"
            ) from error
        return READERS[path.suffix.lower()](path, encoding, convert)
    except SemclassError as error:
        if skipped is None:
            raise
        skipped(Skipped(shown(name), str(error)))
        return None


def _tell_cut(document: Document, name: Path, skipped: Callable[[Skipped], object] | None) -> None:
    if document.cut:
        if skipped is None:
            raise InputError(document.cut)
        skipped(Skipped(shown(name), document.cut, cut=True))


def _cut_passages(passages: Iterable[Passage], cutting: Callable[..., Iterator[Passage]]) -> Iterator[Passage]:
    for passage in passages:
        for part in cutting(passage.text, passage.id):
            yield replace(part, metadata={**passage.metadata, **part.metadata})


def _some(passages: Iterator[Passage], missing: str) -> Iterator[Passage]:
    """Pass passages on, or raise an error if there are none."""
    first = next(passages, None)
    if first is None:
        raise InputError(missing)
    yield first
    yield from passages
