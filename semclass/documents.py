"""Reading passages and texts from files: BEIR corpora, JSON lines, and folders of text and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from semclass.chunking import CUTS, check_cut, count_words, cut
from semclass.errors import InputError
from semclass.types import Passage
from semclass.validation import short

MARKDOWN_SUFFIXES = (".md", ".markdown")
DOCUMENT_SUFFIXES = (".txt", ".text", *MARKDOWN_SUFFIXES)


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
        folder of them. In a folder, files and folders whose names begin with a full stop are passed over.
    by
        How documents are cut: ``"paragraph"``, ``"sentence"``, ``"window"`` or ``"section"``, as
        :func:`semclass.chunking.cut` does it. None: text and Markdown by paragraph, JSON lines not at all. If it is
        given, each JSON line is a document, too, named by its id, and its passages have its metadata.
    size, overlap, count
        As for :func:`semclass.chunking.cut`.

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
    if not source.exists():
        raise InputError(
            f"{source} does not exist; name a BEIR folder, a .jsonl file or a folder of .txt and .md files"
        )
    cutting = partial(cut, by=by or "paragraph", size=size, overlap=overlap, count=count)
    check_cut(by or "paragraph", size, overlap)
    lines = _json_lines_of(source)
    if lines is None:
        missing = f"{source} holds no passages: no corpus.jsonl and no text in .txt or .md files"
        return _some(_cut_files(source, cutting), missing)
    if by is None and size is not None:
        raise InputError(f"size is {size}, but JSON lines are cut only where by is given: {', '.join(CUTS)}")
    passages = iter_corpus(lines)
    return passages if by is None else _cut_passages(passages, cutting)


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
            suffixes = ", ".join(DOCUMENT_SUFFIXES)
            other = "" if path.suffix.lower() in ("", ".json", ".jsonl") else f"; as text are read only {suffixes}"
            raise InputError(f"{path}, line {number}: broken JSON ({error}){other}") from error
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
        raise InputError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}); convert it first") from error


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
    if source.is_dir():
        corpus = source / "corpus.jsonl"
        return corpus if corpus.is_file() else None
    return None if source.suffix.lower() in DOCUMENT_SUFFIXES else source


def _cut_files(source: Path, cutting: Callable[..., Iterator[Passage]]) -> Iterator[Passage]:
    """Cut a document, or those in a folder."""
    if source.is_dir():
        found = (path for path in source.rglob("*") if path.suffix.lower() in DOCUMENT_SUFFIXES and path.is_file())
        named = [(path, path.relative_to(source)) for path in sorted(found)]
        named = [(path, name) for path, name in named if not any(part.startswith(".") for part in name.parts)]
    else:
        named = [(source, Path(source.name))]
    for path, name in named:
        content = "\n".join(line for _, line in _lines(path))
        yield from cutting(content, _name_of(path, name), markdown=path.suffix.lower() in MARKDOWN_SUFFIXES)


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
