"""Cuts the content of a file into passages, whose total size is limited by the size of the file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.documents.chunking import Chunking, cut
from semclass.documents.records import Document, Record, joined

MAX_GROWTH = 20
"""Maximum characters that a document gives, texts and metadata together, as a multiple of its bytes."""

FREE_CHARACTERS = 200_000
"""Characters that any document may give, however small it is."""


def cut_document(name: str, document: Document, chunking: Chunking) -> list[Passage]:
    """Cut the text of a document and its records; rows only if the chunking says how.

    Raises an InputError if the passages hold too much for the size of the file, or metadata that JSON cannot hold.
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
                f"{name} gives more than {limit:,} characters of texts and metadata, {MAX_GROWTH} times the bytes of the "
                "file; split it, or shorten what its passages repeat, such as names of columns"
            )
        kept.append(passage)
    return kept


def cut_record(record: Record, file: str, chunking: Chunking) -> Iterator[Passage]:
    """Yield a record as a passage, or cut it. It is a document of its own, as its neighbours are about other things."""
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
    """Name the passages that were cut from documents, which follow one another, by their headings and texts.

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
