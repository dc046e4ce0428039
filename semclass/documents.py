"""Reading passages and texts from files: BEIR corpora, JSON lines, and folders of text and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from semclass.errors import InputError
from semclass.types import Passage
from semclass.validation import short

DOCUMENT_SUFFIXES = (".txt", ".md")

_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


def read_passages(source: str | Path) -> list[Passage]:
    """Read passages from wherever they are.

    Parameters
    ----------
    source
        One of: a BEIR folder (it holds ``corpus.jsonl``); a ``.jsonl`` file whose objects have ``text`` and may have
        ``_id`` and anything else, which becomes metadata; a ``.txt`` or ``.md`` file, or a folder of them, which is cut
        into paragraphs at blank lines. A paragraph's id is ``document#number`` and its metadata are ``document`` (path
        below the folder), ``paragraph`` (from 1), ``start`` and ``end`` (characters) and, in Markdown, ``heading``.

    Returns
    -------
    list of Passage
        In the order of the file, or of the sorted paths.

    Raises
    ------
    InputError
        If the source does not exist, holds no passages, or is not what it should be; with file and line.
    """
    source = Path(source)
    if not source.exists():
        raise InputError(
            f"{source} does not exist; name a BEIR folder, a .jsonl file or a folder of .txt and .md files"
        )
    if source.is_dir():
        if (source / "corpus.jsonl").is_file():
            return read_corpus(source / "corpus.jsonl")
        files = sorted(
            path for path in source.rglob("*") if path.suffix.lower() in DOCUMENT_SUFFIXES and path.is_file()
        )
        passages = [passage for path in files for passage in _paragraphs(path, path.relative_to(source).as_posix())]
    elif source.suffix.lower() in DOCUMENT_SUFFIXES:
        passages = list(_paragraphs(source, source.name))
    else:
        return read_corpus(source)
    if not passages:
        raise InputError(f"{source} holds no passages: no corpus.jsonl and no text in .txt or .md files")
    return passages


def read_corpus(path: Path) -> list[Passage]:
    """Read passages from JSON lines.

    Parameters
    ----------
    path
        Each line an object with ``text``. Either all have ``_id`` (a string or a whole number) or none has: then the
        line's number is the id. ``metadata`` and all other fields become metadata.

    Returns
    -------
    list of Passage
        In the order of the lines.

    Raises
    ------
    InputError
        Naming file and line, if a line is not such an object, an id is missing or comes twice, or a text is empty.
    """
    passages: list[Passage] = []
    lines: dict[str, int] = {}
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
        if name in lines:
            raise InputError(f"{where}: _id {name!r} was used in line {lines[name]} already; ids must be unique")
        lines[name] = number
        nested = record.get("metadata")
        metadata = {key: value for key, value in record.items() if key not in ("_id", "text", "metadata")}
        if isinstance(nested, dict):
            metadata.update(nested)
        elif nested is not None:
            metadata["metadata"] = nested
        if metadata.get("title") == "":
            del metadata["title"]  # BEIR writes an empty title where there is none
        passages.append(Passage(name, text, metadata))
    if not passages:
        raise InputError(f"{path} holds no passages")
    return passages


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
            raise InputError(f"{path}, line {number}: broken JSON ({error})") from error
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


def _paragraphs(path: Path, document: str) -> Iterator[Passage]:
    """Cut a document at blank lines; a Markdown heading is no passage but is remembered by those below it."""
    content = "\n".join(line for _, line in _lines(path))
    markdown = path.suffix.lower() == ".md"
    heading = None
    number = start = 0
    for match in [*_BLANK_LINES.finditer(content), None]:
        end = len(content) if match is None else match.start()
        block = content[start:end]
        text = block.strip()
        begin = start + len(block) - len(block.lstrip())
        start = end if match is None else match.end()
        if markdown and (found := re.match(r"#{1,6}\s+(.+)", text)):
            heading = found.group(1).strip().rstrip("#").strip()
            first, _, rest = text.partition("\n")
            begin += len(first) + 1 + len(rest) - len(rest.lstrip())
            text = rest.strip()
        if not text:
            continue
        number += 1
        metadata: dict[str, Any] = {
            "document": document,
            "paragraph": number,
            "start": begin,
            "end": begin + len(text),
        }
        if heading is not None:
            metadata["heading"] = heading
        yield Passage(f"{document}#{number}", text, metadata)
