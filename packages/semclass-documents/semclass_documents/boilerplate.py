"""Finds boilerplate by counting: text in most files of a folder, such as footers, menus and notes."""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass import InputError
from semclass.plugins import CODE, Document, Record, plain_headings

Span: TypeAlias = tuple[int, int]

MIN_FILES = 10
"""Least number of files with a paragraph of boilerplate. In fewer files, chance and copies are as likely as a template."""

FILE_SHARE = 2 / 3
"""Least share of the files of a folder with a paragraph of boilerplate. In measurements, at least 0.7 of the files
contained menus, footers and notes of generators. Up to 0.6 of the pages of a manual shared a description, and more
shared the description of a general option. A share cannot distinguish such descriptions from menus, so the first file
keeps repeated text between other text.
"""

KEPT_OUT = 0.5
"""Factor of both limits for text that was left out before, so that one file more or less changes nothing."""

VERSION_SHARE, VERSION_PARAGRAPHS = 0.5, 3
"""Least share of the words of a file, and least number of its paragraphs, that are repeated if it is a version of
other files. Short pages may have a footer that is longer than their own text.
"""

MIN_WORDS = 8
"""Least number of words of a paragraph. Shorter paragraphs, such as "Examples:", belong to the text around them."""

EDGE_PARAGRAPHS = 3
"""Number of paragraphs at the top and at the bottom of a file that may be shorter, because menus and footers are short."""

IN_MEMORY = 1 << 26
"""Most bytes of packed texts that wait in memory. More texts wait in a file."""

_KEY = re.compile("[0-9a-f]{16}")
_WORD = re.compile(r"[^\W_]\S*")
_PARAGRAPH = re.compile(r"\S[^\n\f]*(?:\n[^\S\n\f]*\S[^\n\f]*)*")
_FENCE = re.compile(r"[ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?(`{3,}|~{3,}|:{3,})")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]|$)")
_NO_PROSE = re.compile(r"[ ]{4}|\t|[ \t]*[|<]|[ \t]*\[[^\]]+\]:|---|\+\+\+")
_RULE = re.compile(r"[ \t]*(?:[=-]+|\|.*)[ \t]*")
_INK = re.compile(r"[^\n\f]")
_PAGES = str.maketrans("\f\x1d", "\n\n")


@dataclass(frozen=True)
class Boilerplate:
    """A paragraph that is left out, because most files of a folder contain it."""

    text: str  # with single spaces between its words
    files: int  # that contain it
    key: str  # of the text, regardless of case, for the argument `before`


def leave_out(
    documents: Iterator[tuple[str, Document]],
    total: int,
    report: Callable[[Boilerplate], object] | None = None,
    before: Collection[str] = (),
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[tuple[str, Document]]:
    """Replace boilerplate in documents by blanks. Source files, and fewer than 10 documents, stay unchanged.

    All documents are read first and wait in a temporary file, because converting them again takes long. `report` is
    called once per left-out paragraph. `before` contains the keys of paragraphs that an earlier call left out.
    """
    if total < MIN_FILES:
        yield from documents
        return
    counts, reported = Counts(before), set[str]()

    def report_once(paragraph: Boilerplate) -> None:
        if report is not None and paragraph.key not in reported:
            report(paragraph)
        reported.add(paragraph.key)

    with tempfile.SpooledTemporaryFile(IN_MEMORY) as waiting:
        names = []
        for name, document in documents:
            if not name.lower().endswith(CODE):
                counts.add(name, document.text, markdown=document.markdown)
            packed = zlib.compress(json.dumps(document).encode(), level=1)
            names.append((name, len(packed)))
            try:
                waiting.write(packed)
            except OSError as error:
                raise InputError(
                    f"{tempfile.gettempdir()} has no room for the texts of files: {error.strerror or error}; delete files, "
                    "or set the environment variable TMPDIR to another folder"
                ) from error
        thinning = Thinning(counts.repeated(), report_once)
        waiting.seek(0)
        for number, (name, length) in enumerate(names, 1):
            document = Document(*json.loads(zlib.decompress(waiting.read(length))))
            document = document._replace(records=[Record(*record) for record in document.records])
            if not name.lower().endswith(CODE):
                document = document._replace(text=thinning(name, document.text, markdown=document.markdown))
            yield name, document
            if progress is not None:
                progress(number, len(names))


class _Paragraph(NamedTuple):
    key: int  # of its words, in any case
    start: int
    end: int
    words: int


@dataclass
class Counts:
    """Counts the paragraphs of files. `before` contains the keys of paragraphs that an earlier read left out."""

    before: Collection[str] = ()
    _folders: defaultdict[PurePosixPath, list[int]] = field(default_factory=lambda: defaultdict(list))
    _keys: list[array[int]] = field(default_factory=list)
    _words: list[array[int]] = field(default_factory=list)  # of each of these paragraphs
    _totals: list[int] = field(default_factory=list)  # words of each file

    def add(self, name: str, text: str, *, markdown: bool) -> None:
        """Count the paragraphs of a file. `name` is its path relative to the folder."""
        found = list(_paragraphs(text, markdown=markdown))
        for folder in PurePosixPath(name).parents if found else ():
            self._folders[folder].append(len(self._keys))
        self._keys.append(array("Q", (one.key for one in found)))
        self._words.append(array("I", (one.words for one in found)))
        self._totals.append(len(text.split()))

    def repeated(self) -> Mapping[int, int]:
        """Return the keys of boilerplate, each with the number of files that contain it."""
        keys = [np.unique(np.frombuffer(held, np.uint64)) if held else np.zeros(0, np.uint64) for held in self._keys]
        often = self._often(keys, range(len(keys)))
        own = [number for number in range(len(keys)) if not self._repeats_others(number, often)]
        often = self._often(keys, own)
        found, counts = np.unique(np.concatenate([often[:0], *(keys[number] for number in own)]), return_counts=True)
        places = np.isin(found, often)
        return dict(zip(found[places].tolist(), counts[places].tolist(), strict=True))

    def _often(self, keys: Sequence[npt.NDArray[np.uint64]], files: Collection[int]) -> npt.NDArray[np.uint64]:
        """Return the keys that occur in most of the given files of a folder and its subfolders."""
        before = np.array([int(key, 16) for key in self.before if _KEY.fullmatch(str(key))], np.uint64)
        counted, found = set(files), [np.zeros(0, np.uint64)]
        for numbers in self._folders.values():
            held = [keys[number] for number in numbers if number in counted]
            if len(held) >= MIN_FILES * KEPT_OUT:
                some, counts = np.unique(np.concatenate(held), return_counts=True)
                least = max(MIN_FILES, FILE_SHARE * len(held)) * np.where(np.isin(some, before), KEPT_OUT, 1)
                found.append(some[counts >= least])
        return np.unique(np.concatenate(found))

    def _repeats_others(self, number: int, often: npt.NDArray[np.uint64]) -> bool:
        places = np.isin(np.array(self._keys[number], np.uint64), often)
        return _is_version(np.array(self._words[number], np.int64)[places].tolist(), self._totals[number])


def _run(repeated: Sequence[bool], gaps: Sequence[int]) -> int:
    """Count the first paragraphs that are all repeated, with little text before each."""
    others = (place for place, again in enumerate(repeated) if not again or gaps[place] >= MIN_WORDS)
    return next(others, len(repeated))


def _is_version(repeated: Sequence[int], total: int) -> bool:
    """Whether a file has too little text besides its repeated paragraphs. Takes their numbers of words, and the total."""
    most = sum(repeated) > VERSION_SHARE * total and len(repeated) >= VERSION_PARAGRAPHS
    return bool(repeated) and (most or total - sum(repeated) < MIN_WORDS)


@dataclass
class Thinning:
    """Leaves out boilerplate in one file after another.

    Boilerplate at the top or bottom of a file is a menu or a footer, and is left out. Between other text it may be a
    description that several pages of a manual share, so the first file with this description keeps it.
    """

    files: Mapping[int, int]  # keys of boilerplate, as Counts.repeated gives them
    told: Callable[[Boilerplate], object]
    _homes: dict[int, str] = field(default_factory=dict)  # the file that keeps it, by key

    def __call__(self, name: str, text: str, *, markdown: bool) -> str:
        """Replace boilerplate by blanks, so that other text keeps its place. A version of another file stays unchanged."""
        if not self.files:
            return text
        paragraphs = list(_paragraphs(text, markdown=markdown))
        repeated = [one.key in self.files for one in paragraphs]
        if _is_version(
            [one.words for one, again in zip(paragraphs, repeated, strict=True) if again], len(text.split())
        ):
            return text
        ends, starts = [0, *(one.end for one in paragraphs)], [*(one.start for one in paragraphs), len(text)]
        gaps = [len(text[end:start].split()) for end, start in zip(ends, starts, strict=True)]  # headings, code
        top = _run(repeated, gaps)
        bottom = len(repeated) - _run(repeated[::-1], gaps[::-1])
        parts, at = [], 0
        for place, (one, again) in enumerate(zip(paragraphs, repeated, strict=True)):
            if not again or (top <= place < bottom and self._homes.setdefault(one.key, name) == name):
                continue
            held = text[one.start : one.end]
            self.told(Boilerplate(" ".join(held.split()), self.files[one.key], f"{one.key:016x}"))
            parts += [text[at : one.start], _INK.sub(" ", held)]
            at = one.end
        return "".join([*parts, text[at:]])


def _paragraphs(text: str, *, markdown: bool) -> Iterator[_Paragraph]:
    """Return the paragraphs that may be boilerplate: long ones anywhere, and short ones at the edges of the text."""
    spans = list(_markdown_spans(text) if markdown else _plain_spans(text))
    edge = min(EDGE_PARAGRAPHS, len(spans) // 4)
    for place, (start, end) in enumerate(spans):
        words = text[start:end].casefold().split()
        spoken = len(list(islice(_WORD.finditer(text, start, end), MIN_WORDS)))
        if spoken >= MIN_WORDS or (spoken and not edge <= place < len(spans) - edge):
            kind = b"" if spoken >= MIN_WORDS else b"edge"
            digest = blake2b(" ".join(words).encode(errors="replace"), digest_size=8, person=kind).digest()
            yield _Paragraph(int.from_bytes(digest, "big"), start, end, len(words))


def _plain_spans(text: str) -> Iterator[Span]:
    """Return the paragraphs of plain text, without headings."""
    at = 0
    for heading in [*plain_headings(text), None]:
        end = len(text) if heading is None else heading.begin
        for paragraph in _PARAGRAPH.finditer(text, at, end):
            yield paragraph.span()
        at = end if heading is None else heading.after


def _markdown_spans(text: str) -> Iterator[Span]:
    """Return the paragraphs and lists of Markdown, without headings, tables, code, raw HTML and definitions of links."""
    start, at, fence, prose = -1, 0, "", True
    for line in [*text.translate(_PAGES).split("\n"), ""]:
        opened = _FENCE.match(line)
        ends = bool(fence) or opened is not None or _HEADING.match(line) is not None or not line.strip()
        if ends:
            if start >= 0 and prose:
                yield start, at - 1
            start = -1
        elif start < 0:
            start, prose = at, not _NO_PROSE.match(line)
        else:
            prose = prose and not _RULE.fullmatch(line)
        if fence:
            fence = "" if line.strip().startswith(fence) and not line.strip().strip(fence[0]) else fence
        elif opened:
            fence = opened[1]
        at += len(line) + 1
