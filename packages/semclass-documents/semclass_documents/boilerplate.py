"""Text that stands in most files of a folder, such as footers, menus and notes: it is found by counting."""

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
"""Files in which a paragraph of boilerplate stands, at least. Below it, chance and copies are as likely as a template."""

FILE_SHARE = 2 / 3
"""Share of the files of a folder in which it stands, at least. Menus, footers and notes of generators stood in 0.7 to all
of them. Descriptions that pages of a manual have in common stood in up to 0.6, those of general options in more. A share
cannot tell these from menus, so the first file keeps what stands amid other text.
"""

KEPT_OUT = 0.5
"""Share of both sets down to which earlier omissions stay, so that a single file more or less changes nothing."""

VERSION_SHARE, VERSION_PARAGRAPHS = 0.5, 3
"""Share of the words of a file, and number of its paragraphs, from which repeated text makes it a version of other files.
Short pages may have a footer that is longer than what they say.
"""

MIN_WORDS = 8
"""Words of a paragraph, at least: shorter ones, such as "Examples:", belong to what is around them."""

EDGE_PARAGRAPHS = 3
"""Paragraphs at the top and at the bottom of a file that may be shorter, as menus and footers are."""

IN_MEMORY = 1 << 26
"""Bytes of packed texts that wait in memory; more of them wait in a file."""

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
    """A paragraph that is left out, because it stands in most files of a folder."""

    text: str  # with single spaces between its words
    files: int  # in which it stands
    key: str  # of the text in any case, for the argument `before`


def leave_out(
    documents: Iterator[tuple[str, Document]],
    total: int,
    report: Callable[[Boilerplate], object] | None = None,
    before: Collection[str] = (),
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[tuple[str, Document]]:
    """Blank out what most of some documents repeat; source files, and fewer than 10 documents, stay whole.

    All documents are read first, and wait in a file, as converting them again takes long. `report` is called with each
    paragraph that is left out, once; `before` holds the keys of those that an earlier call left out.
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
                    f"{tempfile.gettempdir()} has no room for the texts of files: {error.strerror or error}; make room, "
                    "or name another folder by the environment variable TMPDIR"
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
    """Counts the paragraphs of files, eight bytes each; `before`: keys of paragraphs that an earlier read left out."""

    before: Collection[str] = ()
    _folders: defaultdict[PurePosixPath, list[int]] = field(default_factory=lambda: defaultdict(list))
    _keys: list[array[int]] = field(default_factory=list)
    _words: list[array[int]] = field(default_factory=list)  # of each of these paragraphs
    _totals: list[int] = field(default_factory=list)  # words of each file

    def add(self, name: str, text: str, *, markdown: bool) -> None:
        """Count a file, of which the path below the folder is given."""
        found = list(_paragraphs(text, markdown=markdown))
        for folder in PurePosixPath(name).parents if found else ():
            self._folders[folder].append(len(self._keys))
        self._keys.append(array("Q", (one.key for one in found)))
        self._words.append(array("I", (one.words for one in found)))
        self._totals.append(len(text.split()))

    def repeated(self) -> Mapping[int, int]:
        """Return the keys of boilerplate, each with the number of files in which it stands."""
        keys = [np.unique(np.frombuffer(held, np.uint64)) if held else np.zeros(0, np.uint64) for held in self._keys]
        often = self._often(keys, range(len(keys)))
        own = [number for number in range(len(keys)) if not self._repeats_others(number, often)]
        often = self._often(keys, own)
        found, counts = np.unique(np.concatenate([often[:0], *(keys[number] for number in own)]), return_counts=True)
        places = np.isin(found, often)
        return dict(zip(found[places].tolist(), counts[places].tolist(), strict=True))

    def _often(self, keys: Sequence[npt.NDArray[np.uint64]], files: Collection[int]) -> npt.NDArray[np.uint64]:
        """Return what stands in most of some files of a folder, those of the folders in it included."""
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
    """Tell of the words of the repeated paragraphs of a file, and of all of it, whether it says too little else."""
    most = sum(repeated) > VERSION_SHARE * total and len(repeated) >= VERSION_PARAGRAPHS
    return bool(repeated) and (most or total - sum(repeated) < MIN_WORDS)


@dataclass
class Thinning:
    """Leaves boilerplate out of one file after another.

    At the top and the bottom of a file it is a menu or a footer, and goes. Amid other text it may be a description that
    the pages of a manual have in common, so the first file that has it there keeps it.
    """

    files: Mapping[int, int]  # keys of boilerplate, as Counts.repeated gives them
    told: Callable[[Boilerplate], object]
    _homes: dict[int, str] = field(default_factory=dict)  # the file that keeps it, by key

    def __call__(self, name: str, text: str, *, markdown: bool) -> str:
        """Write blanks for boilerplate, so that all other text keeps its place; a version of other files stays whole."""
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
    """Return the paragraphs that may be boilerplate: those of enough words, and short ones at the edges of the text."""
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
