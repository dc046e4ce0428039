"""Cuts documents into passages: by paragraph, by section, or in windows with overlap; within limits of size."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from semclass.core.checks import check_choice, check_depth, check_positive, check_text
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Passage
from semclass.documents.blocks import MAX_NAME, Block, Unit, introduces, read_blocks, without_links, wrapped_lines
from semclass.documents.decoding import FIRM, SOFT, check_encoding, join_divided
from semclass.documents.sentences import bounded_spans, sentence_spans, trimmed

CUTS = ("paragraph", "window", "section")
"""Ways to cut a document."""

WINDOW_WORDS = 100
"""Default number of words of a window, as for Wikipedia in Karpukhin et al. 2020 (Dense Passage Retrieval)."""

MAX_PASSAGE = 50_000
"""Maximum characters of a passage that is cut from a document: twenty pages."""

TABLE_WORDS = 100
"""Maximum words of a passage of table rows. A long table as one passage would match every question and answer none."""

SMALL_WORDS = 8
"""Number of words below which a paragraph is joined to its neighbour. Examples are "Note", a term before its definition, or
a line before code.
"""

FULL_WORDS = 80
"""Number of words up to which a passage takes in the next paragraph of its section, unless this makes it twice as long.

Chosen from 8 (which joins only small paragraphs), 40, 80 and 120 on four domains of documentation.
"""

MAX_GROWTH = 20
"""Maximum characters of a document's passages, texts and metadata together, as a multiple of the document's bytes."""

FREE_CHARACTERS = 200_000
"""Number of characters that the passages of any document may have, however small the document is."""

MAX_VALUE = 2000
"""Maximum characters of a value of metadata."""

_WORD = re.compile(r"\S+")
_SPOKEN = re.compile(r"[^\W_]\S*")
_SOFT_BREAK = re.compile(r"(?<!  )(?<!\\)\n[ \t]*")
_ESCAPED = re.compile(r"^([ \t]*)\\(?=[#<>`~*+=_\[-])", re.MULTILINE)
_ROLE = re.compile(r"\{[\w:+-]+\}`[~!]?([^`<]+)(?:<[^`<>]*>)?`")  # of MyST, such as {ref}`text <label>`
_WRITTEN = ("table", "html")


Columns: TypeAlias = Mapping[str, str]
"""Names of the columns of ``text``, ``id`` and ``title`` in records. For a missing entry, usual names are tried."""


@dataclass(frozen=True)
class Chunking:
    """Settings for reading documents and cutting them into passages.

    Attributes
    ----------
    by
        ``"paragraph"`` cuts at blank lines. Lists and fenced code of Markdown stay whole. Paragraphs of fewer than 8 words
        are joined to a neighbour or their heading. Unless `size` is given, paragraphs below a heading are joined up to
        about 80 words. ``"section"`` keeps all text under a heading together. ``"window"`` makes runs of whole sentences
        within a section, as many as `size` allows. None (the default) cuts documents by paragraph, and leaves JSON lines
        and rows whole.
    size
        Maximum words of a passage. Longer passages are cut between sentences, and longer sentences between words. Defaults
        to 100 words for ``"window"``. Otherwise, the limit is 50,000 characters.
    overlap
        Number of words of the previous passage to repeat after a cut by `size`. It must be less than `size`.
    encoding
        Python name of the encoding of text files that are neither UTF-8 nor UTF-16 with a byte order mark.
    text_column, id_column, title_column
        Names of columns of records, which are rows of CSV, xlsx, JSON arrays of objects, and JSON lines without ``text``.
        By default, columns with usual names are used, such as ``description``, ``ticket_id`` and ``subject``. A table
        without a usual text column stays a table. Values of other columns follow the text if they have at least 8 words.
    keep_boilerplate
        Whether to keep text that most files of a folder repeat. Without semclass-documents, it is always kept.
    keep_copies
        Whether to keep files whose text equals the text of an earlier file of the folder.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed.
    """

    by: str | None = None
    size: int | None = None
    overlap: int = 0
    encoding: str | None = None
    text_column: str | None = None
    id_column: str | None = None
    title_column: str | None = None
    keep_boilerplate: bool = False
    keep_copies: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        if self.by is not None:
            check_choice(self.by, CUTS, "by")
        if self.size is not None:
            check_positive(self.size, "size")
        if self.overlap != 0:
            check_positive(self.overlap, "overlap")
            if self.limit is None:
                raise InputError(f"overlap is {self.overlap}, but overlap needs a size; give size, or by='window'")
            if self.overlap >= self.limit:
                raise InputError(f"overlap is {self.overlap}; it must be less than size, which is {self.limit}")
        check_encoding(self.encoding)

    @property
    def way(self) -> str:
        """The way in which documents are cut: `by`, or its default."""
        return self.by or "paragraph"

    @property
    def limit(self) -> int | None:
        """Maximum words of a passage: `size`, or its default."""
        return WINDOW_WORDS if self.size is None and self.by == "window" else self.size

    @property
    def columns(self) -> Columns:
        """The names of columns that are given."""
        names = {"text": self.text_column, "id": self.id_column, "title": self.title_column}
        return {kind: name for kind, name in names.items() if name is not None}

    def settings(self) -> Mapping[str, Any]:
        """Return the options that differ from their defaults, as an index stores them."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}


DEFAULT_CHUNKING = Chunking()


class Record(NamedTuple):
    """A row of a table, or a part of a file that is a document of its own, such as a message.

    A row is cut only if a :class:`Chunking` has `by` or `size`. Other records are cut like documents.
    """

    id: str  #: part of the passage's id after the name of the file
    text: str
    metadata: Mapping[str, Any]
    is_row: bool = True
    markdown: bool = False
    links: Sequence[str] | None = None  #: ids of a message: its own, or "", and those that it names
    file: str = ""  #: file of a message, if the first message of its document is in another file


class Document(NamedTuple):
    """The text of a file, its records, or both, e.g. of a workbook with several sheets."""

    text: str = ""
    markdown: bool = True
    records: Sequence[Record] = ()
    missing: str = ""  #: reason why the rest of the file was not read; empty if it was read
    size: int = 0  #: bytes of the file, which limit the characters of its passages
    joined: bool = False  #: whether the records are cut one after another, as one document

    def digest(self) -> bytes:
        """Return a digest of the text without white space, to find copies."""
        digest = hashlib.blake2b(" ".join(self.text.split()).encode(errors="surrogatepass"), digest_size=16)
        for record in self.records:
            digest.update(repr((record.id, record.text, record.metadata)).encode(errors="surrogatepass"))
        return digest.digest()

    @property
    def length(self) -> int:
        """Characters of all texts."""
        texts = (text for record in self.records for text in (record.text, *record.metadata.values()))
        return len(self.text) + sum(len(text) for text in texts if isinstance(text, str))


def cut_document(name: str, document: Document, chunking: Chunking) -> list[Passage]:
    """Cut the text and the records of a document. Rows are cut only if `chunking` has `by` or `size`.

    Raises an InputError if the passages are too long for the size of the file, or metadata are not valid JSON.
    """
    rows = {name + record.id for record in document.records}
    texts = cut(document.text, name, chunking, markdown=document.markdown)
    passages: Iterator[Passage] = (replace(text, id=f"{text.id}-text") if text.id in rows else text for text in texts)
    if document.joined:
        passages = chain(passages, _cut_together(document.records, name, chunking))
    else:
        parts = (cut_record(record, name, chunking) for record in document.records)
        passages = chain(passages, chain.from_iterable(parts))
    limit, total, kept = max(FREE_CHARACTERS, MAX_GROWTH * document.size), 0, []
    for passage in passages:
        try:
            metadata = json.dumps(passage.metadata, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name}: metadata of a passage cannot be saved as JSON: {error}") from error
        total += len(passage.id) + len(passage.text) + len(metadata)
        if total > limit:
            raise InputError(
                f"{name} yields more than {limit:,} characters of texts and metadata, {MAX_GROWTH} times the bytes of the "
                "file; split it, or shorten what its passages repeat, such as names of columns"
            )
        kept.append(passage)
    return kept


def cut_record(record: Record, file: str, chunking: Chunking) -> Iterator[Passage]:
    """Yield a record as a passage, or cut it. It is cut on its own, because its neighbours are about other things."""
    if record.is_row and chunking.by is None and chunking.size is None:
        name = file + record.id
        yield Passage(name, record.text, joined({"document": name, "file": file}, record.metadata))
    else:
        yield from _cut_together([record], file, chunking)


def _cut_together(records: Sequence[Record], file: str, chunking: Chunking) -> Iterator[Passage]:
    """Cut records as one document, named after the first, each with metadata of its own."""
    name = file + records[0].id
    number = before = 0
    for record in records:
        for passage in cut(record.text, name, chunking, markdown=record.markdown):
            number += 1
            own = {"document": name, "file": record.file or file, **passage.metadata, chunking.way: number}
            own |= {key: passage.metadata[key] + before for key in ("start", "end")}
            yield replace(passage, id=f"{name}#{number}", metadata=joined(own, record.metadata))
        before += len(record.text) + 2  # as if an empty line stood between them


def named_by_content(passages: Iterable[Passage]) -> Iterator[Passage]:
    """Name passages that were cut from documents by their headings and texts. Passages of a document must be adjacent.

    The id of the second passage with the same content ends in ``-2``, and so on. All other ids stay unchanged.
    """
    document, seen = None, Counter[str]()
    for passage in passages:
        name = passage.metadata.get("document") if isinstance(passage, Passage) else None
        if not isinstance(name, str) or not str(passage.id).startswith(f"{name}#"):
            yield passage
            continue
        if name != document:
            document, seen = name, Counter()
        content = json.dumps([passage.metadata.get("headings", []), passage.text])
        digest = hashlib.blake2b(content.encode(), digest_size=5).hexdigest()
        seen[digest] += 1
        number = seen[digest]
        yield replace(passage, id=f"{name}#{digest}" if number == 1 else f"{name}#{digest}-{number}")


def joined(known: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Join the fields of a reader with those of a file. A field of the file with the same name gets "_" at its end.

    Names of the file's fields are cut to 60 characters, and values to 2,000. Of lists, the first items are kept.
    """
    check_depth(dict(metadata), "metadata")
    own = {str(name)[:MAX_NAME]: _first(value, MAX_VALUE) for name, value in metadata.items()}
    return {**known, **{f"{name}_" if name in known else name: value for name, value in own.items()}}


def _first(value: Any, room: int) -> Any:
    """Return the part of a value that takes at most so many characters."""
    if isinstance(value, str):
        return value[:room]
    if not isinstance(value, (dict, list, tuple)):
        return value
    kept: list[tuple[str, Any]] = []
    for name, item in value.items() if isinstance(value, dict) else (("", item) for item in value):
        item = _first(item, room)
        room -= len(str(name)) + len(item if isinstance(item, str) else json.dumps(item, default=str)) + 2
        if room < 0:
            break
        kept.append((str(name), item))
    return dict(kept) if isinstance(value, dict) else [item for _, item in kept]


def cut(
    text: str, document: str, chunking: Chunking = DEFAULT_CHUNKING, *, markdown: bool = False
) -> Iterator[Passage]:
    """Cut a document into passages.

    Parameters
    ----------
    text
        The document. A form feed starts a new page. Lines that most pages repeat are left out.
    document
        Name of the document. The ids of the passages begin with it.
    chunking
        How to cut.
    markdown
        Whether the text is Markdown (CommonMark with GitHub's tables). Headings, front matter, rules, link definitions and
        HTML tags are left out. A table row is written as "column: value; column: value", in passages of about 100 words.

    Returns
    -------
    iterator of Passage
        The passages, in the order of the document. Their ids are ``document#number``, from 1. The metadata hold
        ``document``; the number, under ``paragraph``, ``section`` or ``window``; ``start`` and ``end`` (characters of
        `text`); ``heading`` (the nearest heading); ``headings`` (all headings, outermost first); ``page``, from 1, if the
        text has form feeds; and ``table`` (true) for text of table rows.

    Raises
    ------
    InputError, InputTypeError
        If the text is not a string, or the name is empty.
    """
    if not isinstance(text, str):
        raise InputTypeError(f"text must be a string, not {type(text).__name__}")
    check_text(document, "document")
    return _passages(text, document, chunking, markdown=markdown)


def _passages(text: str, document: str, chunking: Chunking, *, markdown: bool) -> Iterator[Passage]:
    blocks = groupby(read_blocks(text, markdown=markdown), key=attrgetter("section"))
    sections = (list(section) for _, section in blocks)
    join = _joined if chunking.way == "paragraph" else lambda _, section, __: [section]
    groups = (group for section in sections for group in join(text, section, chunking))
    pieces = ((group[0], units) for group in groups for units in _groups(text, group, chunking))
    bounded = ((block, part) for block, units in pieces for part in _pack(_bounded(text, units), MAX_PASSAGE))
    written = ((block, units, _written(text, units)) for block, units in bounded)
    kept = (passage for passage in written if not _is_stub(passage[2], passage[0].headings))
    for number, (block, units, passage) in enumerate(kept, 1):
        start, end = units[0].start, units[-1].end
        metadata: dict[str, Any] = {"document": document, chunking.way: number, "start": start, "end": end}
        if block.page is not None:
            metadata["page"] = block.page
        if block.headings:
            metadata["heading"] = block.headings[-1]
            metadata["headings"] = list(block.headings)
        if any(unit.row for unit in units):
            metadata["table"] = True
        yield Passage(f"{document}#{number}", passage, metadata)


def _is_stub(text: str, headings: Sequence[str]) -> bool:
    """Whether a passage is nothing but its headings and links within the site; code may repeat a heading."""

    def bare(line: str) -> str:
        return line.strip(" \t#>*_:-").casefold()

    names = {*map(bare, headings)} - {""}
    rest = "\n".join(line for line in text.split("\n") if bare(line) not in names)
    return "`" not in text and not _SPOKEN.search(without_links(rest)) and _SPOKEN.search(text) is not None


def _groups(text: str, blocks: Sequence[Block], chunking: Chunking) -> Iterator[list[Unit]]:
    """Yield the units of blocks, in groups of at most the size, if there is one."""
    if (limit := chunking.limit) is None:
        return iter([[unit for block in blocks for unit in _rows(block)]])
    units = (unit for block in blocks for unit in _sentences(text, block, limit))
    return _pack(_fitting(text, units, limit), limit, chunking.overlap)


def _rows(block: Block) -> Sequence[Unit]:
    """Yield the rows of a table, the sentences of HTML, the items of a list, and any other block whole."""
    return [Unit(block.units[0].start, block.units[-1].end)] if block.kind == "code" else block.units


def _parts(text: str, block: Block) -> Iterator[Block]:
    """Yield a table by groups of rows, and any other block whole."""
    if block.kind != "table":
        yield block
        return
    for rows in _pack(_fitting(text, block.units, TABLE_WORDS), TABLE_WORDS):
        yield replace(block, units=tuple(rows))


def _joined(text: str, section: Sequence[Block], chunking: Chunking) -> Iterator[list[Block]]:
    """Join blocks to the one before while that is not full, and small ones in any case; at the end also to the heading.

    Tables are joined only if they, or what stands before them, are small; entries of a list are not joined to one another.
    """
    groups: list[list[Block]] = []
    full = FULL_WORDS if section[0].headings and not chunking.limit else SMALL_WORDS
    words, table = full, False
    for block in section if chunking.limit else chain.from_iterable(_parts(text, block) for block in section):
        spoken = chain.from_iterable(_SPOKEN.finditer(unit.written(text)) for unit in _rows(block))
        held = len(list(islice(spoken, 2 * full)))  # more makes no difference
        fits = words < full and words + held <= 2 * full and not table and block.kind not in _WRITTEN
        if groups and (words < SMALL_WORDS or fits) and not _is_another(groups[-1], block):
            groups[-1].append(block)
            words += held
        else:
            groups.append([block])
            words = held
        table = block.kind in _WRITTEN
    if words < SMALL_WORDS and len(groups) > 1 and not _is_another(groups[-2], groups[-1][0]):
        small = groups.pop()
        groups[-1] += small
    elif words < SMALL_WORDS and len(groups) == 1 and (heading := groups[0][0].heading):
        groups[0].insert(0, replace(groups[0][0], kind="text", units=(heading,)))
    yield from groups


def _is_another(group: Sequence[Block], block: Block) -> bool:
    """Whether a block is another entry of a list that a group holds one of."""
    return bool(block.entry) and any(part.entry == block.entry for part in group)


def _sentences(text: str, block: Block, limit: int) -> Iterator[Unit]:
    """Yield the rows of a table, the lines of code that is too long, or the sentences of text and lists."""
    if block.kind in _WRITTEN:
        yield from block.units
    elif block.kind == "code":
        (whole,) = _rows(block)
        yield from [whole] if len(whole.written(text).split()) <= limit else block.units
    else:
        sentences = (
            replace(unit, start=unit.start + start, end=unit.start + end)
            for unit in block.units
            for start, end in sentence_spans(_unwrapped(text[unit.start : unit.end], markdown=block.markdown))
        )
        yield from _introduced(text, sentences, limit)


def _introduced(text: str, units: Iterator[Unit], limit: int) -> Iterator[Unit]:
    """Join what ends in a colon to the item of a list that follows it, where the two fit."""
    before = next(units)
    for unit in units:
        if before.text is None and introduces(text, before, unit):
            both = Unit(before.start, unit.end, _written(text, [before, unit]))
            if len((both.text or "").split()) <= limit:
                before = both
                continue
        yield before
        before = unit
    yield before


def _unwrapped(paragraph: str, *, markdown: bool) -> str:
    """Put a space for each line end that ends no sentence, so that no character moves: in Markdown all but hard breaks."""
    if "\n" not in paragraph:
        return paragraph
    if markdown:
        return _SOFT_BREAK.sub(lambda match: " " * len(match[0]), paragraph)
    first, *lines = paragraph.split("\n")
    wrapped = zip([first, *lines], wrapped_lines([first, *lines]), strict=False)
    ends = (" " if ended or line.endswith((SOFT, FIRM)) else "\n" for line, ended in wrapped)
    return first + "".join(end + line for end, line in zip(ends, lines, strict=True))


def _pack(units: Iterable[tuple[Unit, int]], limit: int, overlap: int = 0) -> Iterator[list[Unit]]:
    """Group units of known lengths up to a limit; each group begins with the last units of the one before."""
    group: list[tuple[Unit, int]] = []
    total = 0
    for unit, length in units:
        if group and total + length > limit:
            yield [one for one, _ in group]
            group = group[1:] if overlap else []  # a group is never repeated whole
            total = sum(held for _, held in group)
            while group and total > min(overlap, limit - length):
                total -= group.pop(0)[1]
        group.append((unit, length))
        total += length
    if group:
        yield [one for one, _ in group]


def _fitting(text: str, units: Iterable[Unit], limit: int) -> Iterator[tuple[Unit, int]]:
    """Yield each unit with its count; what is too long is cut between words, except a row of a table."""
    for unit in units:
        count = len(unit.written(text).split())
        if count <= limit or unit.text is not None:
            yield unit, count
            continue
        words = _WORD.finditer(text, unit.start, unit.end)
        while part := list(islice(words, limit)):
            yield replace(unit, start=part[0].start(), end=part[-1].end()), len(part)


def _bounded(text: str, units: Iterable[Unit]) -> Iterator[tuple[Unit, int]]:
    """Yield each unit with its characters; what no passage may hold is cut at lines, else between words."""
    for unit in units:
        if unit.text is not None:
            spans = bounded_spans(unit.text, 0, len(unit.text), MAX_PASSAGE)
            parts = (unit.text[start:end].strip() for start, end in spans)
            yield from ((replace(unit, text=part), len(part)) for part in parts)
            continue
        for span in bounded_spans(text, unit.start, unit.end, MAX_PASSAGE):
            start, end = trimmed(text, *span)
            yield replace(unit, start=start, end=end), end - start


def _written(text: str, units: Sequence[Unit]) -> str:
    """Write units out, each of `Unit.text` on a line, and what stands between the others unless it belongs to none."""
    before: Unit | None = None
    parts: list[str] = []
    for unit in units:
        if before is not None:
            gap = text[before.end : unit.start]
            between = "\n\n" if gap.strip() or "\n" in gap[1:] else gap
            parts.append(between if unit.text is None and before.text is None else "\n")
        part = join_divided(unit.written(text))
        if unit.wrapped:
            part = _SOFT_BREAK.sub(" ", _ESCAPED.sub(r"\1", _ROLE.sub(lambda role: role[1].rstrip(), part)))
        parts.append(part)
        before = unit
    return "".join(parts)
