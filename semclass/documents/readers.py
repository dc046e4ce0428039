"""Reading passages and texts from files: BEIR corpora, JSON lines, and folders of text and Markdown."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from semclass.core import artifacts
from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.documents.chunking import CUTS, check_cut, count_words, cut

MARKDOWN_SUFFIXES = (".md", ".markdown")
DOCUMENT_SUFFIXES = (".txt", ".text", *MARKDOWN_SUFFIXES)

REMEDIES = {
    "`pdftotext FILE` makes text of .pdf": (".pdf",),
    "`pandoc FILE -o FILE.md` makes Markdown of {}": (
        ".docx", ".odt", ".rtf", ".epub", ".html", ".htm", ".rst", ".org", ".tex", ".ipynb",
    ),
    "a .jsonl file is read where it is named as SOURCE itself": (".jsonl",),
    "the rows of {} can be written as JSON lines with `text`": (".csv", ".tsv", ".json", ".xlsx", ".parquet"),
}  # fmt: skip
"""How files can be read that are neither text nor Markdown, and the endings that this is for."""

ROWS = (".jsonl", ".json", ".csv", ".tsv")
"""Endings of those among them that may hold JSON lines, whatever they are called."""

LINKS = "links to folders or to nothing"
OUTSIDE = "links that lead out of the folder"
NO_ENDING = "no ending"
UNREADABLE = "cannot be read"
ENDINGS_SHOWN = 8

Answer = TypeVar("Answer")


def read_passages(
    source: str | Path,
    by: str | None = None,
    *,
    size: int | None = None,
    overlap: int = 0,
    count: Callable[[str], int] = count_words,
) -> list[Passage]:
    """Read passages from wherever they are, all at once: a list of what :func:`iter_passages` gives, which says more.

    Parameters
    ----------
    source, by, size, overlap, count
        As for :func:`iter_passages`.

    Returns
    -------
    list of Passage
        In the order of the file, or of the sorted paths.

    Raises
    ------
    InputError
        If the source does not exist, holds no passages, or is not what it should be; with file and line.
    """
    return list(iter_passages(source, by, size=size, overlap=overlap, count=count))


def iter_passages(
    source: str | Path,
    by: str | None = None,
    *,
    size: int | None = None,
    overlap: int = 0,
    count: Callable[[str], int] = count_words,
) -> Iterator[Passage]:
    """Read passages one after another, so that a corpus need not fit into memory.

    Parameters
    ----------
    source
        One of: a BEIR folder (it holds ``corpus.jsonl``); a ``.jsonl`` file whose objects have ``text`` and may have
        ``_id`` and anything else, which becomes metadata; a ``.txt``, ``.text``, ``.md`` or ``.markdown`` file, or a
        folder of them. In a folder, files and folders whose names begin with a full stop are passed over, and so is what
        :func:`passed_over` tells, links to files outside of it among that.
    by
        How documents are cut: ``"paragraph"``, ``"sentence"``, ``"window"`` or ``"section"``, as
        :func:`semclass.documents.chunking.cut` does it. None: text and Markdown by paragraph, JSON lines not at all. If
        it is given, each JSON line is a document, too, named by its id, and its passages have its metadata.
    size, overlap, count
        As for :func:`semclass.documents.chunking.cut`.

    Returns
    -------
    iterator of Passage
        In the order of the file, or of the sorted paths. A passage that was cut has the id ``document#number``; the
        document is the path below the folder. Characters are counted with each end of a line as one. JSON lines are
        read line by line, and of each some 70 bytes stay, to tell ids that come twice; other documents file by file.

    Raises
    ------
    InputError
        At once, if the source does not exist or cannot be cut so. While it is read: if it holds no passages, or is not
        what it should be; with file and line.
    """
    source = Path(source)
    if not _ask(Path.exists, source):
        raise InputError(
            f"{source} does not exist; name a BEIR folder, a .jsonl file or a folder of .txt and .md files"
        )
    cutting = partial(cut, by=by or "paragraph", size=size, overlap=overlap, count=count)
    check_cut(by or "paragraph", size, overlap)
    lines = _json_lines_of(source)
    if lines is None:
        return _some(
            _cut_files(source, cutting), f"{source} holds no passages: it has no text, only blank lines or none"
        )
    if by is None and size is not None:
        raise InputError(f"size is {size}, but JSON lines are cut only where by is given: {', '.join(CUTS)}")
    suffix = lines.suffix.lower()
    if suffix not in ROWS and (remedies := _remedies([suffix])):
        raise InputError(f"{lines} is neither text nor JSON lines; {remedies[0]}")
    passages = iter_corpus(lines)
    return passages if by is None else _cut_passages(passages, cutting)


def passed_over(source: str | Path) -> str:
    """Tell what :func:`iter_passages` does not read of a folder of documents, and how it could be read.

    Parameters
    ----------
    source
        As for :func:`iter_passages`.

    Returns
    -------
    str
        Such as ``"2 files (.pdf 2); `pdftotext FILE` makes text of .pdf"``; empty for a source of which all is read. Files
        and folders whose names begin with a full stop are not told, nor those of an index; where there is no text at all,
        reading says so.
    """
    source = Path(source)
    if not _ask(Path.is_dir, source) or _json_lines_of(source) is not None:
        return ""
    documents, others = _look_through(source)
    return _told(others) if documents and others else ""


def _told(endings: Mapping[str, int]) -> str:
    """Say how many files there are of which endings, and how they could be read."""
    total = sum(endings.values())
    often = sorted(endings, key=lambda ending: (-endings[ending], ending))
    shown = [f"{ending} {endings[ending]}" for ending in often[:ENDINGS_SHOWN]] + ["..."] * (len(often) > ENDINGS_SHOWN)
    return "; ".join([f"{total} file{'s' * (total != 1)} ({', '.join(shown)})", *_remedies(endings)])


def _remedies(endings: Iterable[str]) -> list[str]:
    """Say how files with these endings could be read."""
    found = ((text, [ending for ending in fitting if ending in set(endings)]) for text, fitting in REMEDIES.items())
    return [text.format(", ".join(fitting)) for text, fitting in found if fitting]


def count_passages(source: str | Path, by: str | None = None) -> int | None:
    """Count the passages of a source before they are read, for a progress bar.

    Parameters
    ----------
    source, by
        As for :func:`iter_passages`.

    Returns
    -------
    int or None
        How many there are, or None where only cutting would tell, or counting would use the source up, as with a pipe.
    """
    lines = _json_lines_of(Path(source))
    if lines is None or by is not None or not lines.is_file():
        return None
    with lines.open("rb") as file:
        return sum(1 for line in file if not line.isspace())


def read_corpus(path: Path) -> list[Passage]:
    """Read passages from JSON lines, all at once: a list of what :func:`iter_corpus` gives, which says more."""
    return list(iter_corpus(path))


def iter_corpus(path: Path) -> Iterator[Passage]:
    """Read passages from JSON lines, one after another.

    Parameters
    ----------
    path
        Each line an object with ``text``. Either all have ``_id`` (a string or a whole number) or none has: then the
        line's number is the id. ``metadata`` and all other fields become metadata.

    Returns
    -------
    iterator of Passage
        In the order of the lines.

    Raises
    ------
    InputError
        Naming file and line, if a line is not such an object, an id is missing or comes twice, or a text is empty.
    """
    return _some(_corpus(path), f"{path} holds no passages")


def _corpus(path: Path) -> Iterator[Passage]:
    seen: set[int] = set()
    with_id: bool | None = None
    for number, record in read_json_lines(path):
        where = f"{path}, line {number}"
        text = _text_of(record, where)
        if with_id is None:
            with_id = "_id" in record
        if ("_id" in record) != with_id:
            raise InputError(f"{where}: {'_id is missing' if with_id else '_id is given'}; give all lines one, or none")
        name = record.get("_id", number)
        if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
            raise InputError(f"{where}: _id must be a non-empty string or a whole number, not {short(name)}")
        name = str(name)
        if with_id:
            # hashes take less memory than ids; where two are equal, the file tells whether the ids are
            if hash(name) in seen:
                _check_new(path, name, number)
            seen.add(hash(name))
        yield Passage(name, text, _metadata(record))


def _check_new(path: Path, name: str, number: int) -> None:
    """Refuse an id that an earlier line has."""
    if not path.is_file():  # a pipe cannot be read again
        raise InputError(f"{path}, line {number}: _id {name!r} was used already; ids must be unique")
    for line, record in read_json_lines(path):
        if line >= number:
            return
        if str(record.get("_id")) == name:
            raise InputError(f"{path}, line {number}: _id {name!r} was used in line {line} already; ids must be unique")


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


def read_texts(path: Path) -> list[str]:
    """Read texts to classify.

    Parameters
    ----------
    path
        A ``.jsonl`` or ``.json`` file of objects with ``text``, one a line, or any other file with one text a line.

    Returns
    -------
    list of str
        In the order of the lines.

    Raises
    ------
    InputError
        Naming file and line, if a line is empty, or is no object with ``text`` in a file of JSON lines.
    """
    lines = list(_lines(path))  # once: the file may be a pipe
    first = next((line for _, line in lines if line.strip()), "")
    if path.suffix.lower() in (".jsonl", ".json") or re.match(r'\s*\{\s*"', first):
        return [_text_of(record, f"{path}, line {number}") for number, record in _records(path, lines)]
    for number, line in lines:
        if not line.strip():
            raise InputError(f"{path}, line {number} is empty; one text a line is wanted, so that output lines match")
    return [line for _, line in lines]


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the objects of a file of JSON lines, each with its line number from 1; blank lines are passed over.

    Raises
    ------
    InputError
        Naming file and line, if the file cannot be read or a line holds no JSON object.
    """
    return _records(path, _lines(path))


def _records(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            suffix, suffixes = path.suffix.lower(), ", ".join(DOCUMENT_SUFFIXES)
            others = [] if suffix in ("", ".jsonl") else [f"as text are read only {suffixes}", *_remedies([suffix])]
            raise InputError("; ".join([f"{path}, line {number}: broken JSON ({error})", *others])) from error
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: a JSON object is wanted, not {short(record)}")
        yield number, record


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines without their ends, from 1."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(_not_utf8(path)) from error


def _not_utf8(path: Path) -> str:
    """Say where a file is no UTF-8, and what to do."""
    if not path.is_file():  # a pipe cannot be read again
        return f"{path} is not UTF-8; convert it first"
    with path.open("rb") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if not _is_utf8(line))
        number, line = next(lines, (1, b""))
    encoding = (
        "UTF-16" if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "WINDOWS-1252"
    )
    return f"{path}, line {number} is not UTF-8; convert the file first, such as with `iconv -f {encoding} -t UTF-8`"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text_of(record: dict[str, Any], where: str) -> str:
    text = record.get("text")
    if not isinstance(text, str):
        found = "is missing" if text is None else f"must be a string, not {short(text)}"
        raise InputError(f"{where}: text {found}")
    if not text.strip():
        raise InputError(f"{where}: text is empty")
    return text


def _json_lines_of(source: Path) -> Path | None:
    """Give the file of JSON lines that a source is or holds; None if it is text and Markdown."""
    if _ask(Path.is_dir, source):
        corpus = source / "corpus.jsonl"
        return corpus if _ask(Path.is_file, corpus) else None
    return None if source.suffix.lower() in DOCUMENT_SUFFIXES else source


def _ask(question: Callable[[Path], Answer], path: Path) -> Answer:
    """Ask the system about a path; where it may not tell, that is an error which names the path."""
    try:
        return question(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _cut_files(source: Path, cutting: Callable[..., Iterator[Passage]]) -> Iterator[Passage]:
    """Cut a document, or those in a folder."""
    named = [(source, Path(source.name))]
    if source.is_dir():
        named, others = _look_through(source)
        if not named:
            held = f" but {_told(others)}" if others else ""
            raise InputError(f"{source} holds no passages{held}; as text are read {', '.join(DOCUMENT_SUFFIXES)} files")
    for path, name in named:
        content = "\n".join(line for _, line in _lines(path)).replace("\r", "\n")  # alone, it is an end of line, too
        yield from cutting(content, _name_of(path, name), markdown=path.suffix.lower() in MARKDOWN_SUFFIXES)


def _look_through(folder: Path) -> tuple[list[tuple[Path, Path]], Counter[str]]:
    """Find the documents below a folder, sorted, with their names in it; and count by endings what is none.

    The files of an index are not counted, as nobody would read them. What the system tells nothing about, such as the files
    of a folder that may not be entered, is a document if its name says so, and reading it tells why it cannot be read.
    """
    documents, others, indices, top = [], Counter[str](), set[Path](), _ask(Path.resolve, folder)
    for path in _below(folder):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        ending = path.suffix.lower()
        kind = _kind(path, top)
        if kind == "folder" and (path.parent in indices or artifacts.kind_of(path) == "index"):
            indices.add(path)
        if kind in ("file", UNREADABLE) and ending in DOCUMENT_SUFFIXES:
            documents.append((path, name))
        elif kind != "folder" and path.parent not in indices:
            others[ending or NO_ENDING if kind == "file" else kind] += 1
    return documents, others


def _below(folder: Path) -> list[Path]:
    """Files, folders and links below a folder, sorted; `Path.rglob` of Python 3.10 ends at a link that leads nowhere."""
    return sorted(Path(top, name) for top, folders, files in os.walk(folder) for name in (*folders, *files))


def _kind(path: Path, top: Path) -> str:
    """Tell what a path is: ``"file"``, ``"folder"`` (or of no use here), or one of the three names above.

    A link to a file outside of `top` is not followed: who hands a folder over hands over what is in it, and no more.
    """
    try:
        if path.is_file():
            inside = not path.is_symlink() or path.resolve().is_relative_to(top)
            return "file" if inside else OUTSIDE
        return LINKS if path.is_symlink() else "folder"
    except OSError:
        return UNREADABLE


def _name_of(path: Path, name: Path) -> str:
    """Give the name of a document; ids are made of it and written as UTF-8."""
    try:
        name.as_posix().encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the name of {str(path)!r} is not UTF-8; rename the file, as ids are made of it") from error
    return name.as_posix()


def _cut_passages(passages: Iterable[Passage], cutting: Callable[..., Iterator[Passage]]) -> Iterator[Passage]:
    for passage in passages:
        for part in cutting(passage.text, passage.id):
            yield replace(part, metadata={**passage.metadata, **part.metadata})


def _some(passages: Iterator[Passage], missing: str) -> Iterator[Passage]:
    """Pass passages on; none at all is an error."""
    first = next(passages, None)
    if first is None:
        raise InputError(missing)
    yield first
    yield from passages
