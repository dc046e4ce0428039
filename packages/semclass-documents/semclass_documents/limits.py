"""Limits of a document, so that no small file takes minutes or gigabytes. An error names the exceeded limit."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from semclass import InputError
from semclass.plugins import FREE_CHARACTERS, MAX_GROWTH

MAX_UNPACKED = 200_000_000
"""Most bytes of all unpacked parts of a packed document (docx, odt, pptx, xlsx, epub)."""

PACKED = (".docx", ".epub", ".odt", ".pptx", ".xlsx")
"""Endings of packed documents."""

MAX_PAGE = 20_000_000
"""Most bytes of the unpacked content of a PDF page. Below this limit, a page of letters takes up to some minutes."""

MAX_TAGS = 3_000_000
"""Most tags in all parts of a docx, odt, pptx or epub, or in an HTML page. A tag takes about 100 bytes of memory."""

MAX_SPAN = 1000
"""Most columns or rows that a table cell spans. A page may claim any number."""

MIN_SECONDS, SECONDS_PER_MB, MAX_SECONDS = 20, 5, 60
"""Seconds of CPU time to read a document, and again to cut it: for any document, for each megabyte, and at most."""

PAGES_SHARE = 0.8
"""Share of these seconds after which the remaining pages of a document are skipped, so that the first pages are kept."""

CLOCK_FACTOR = 10
"""Most elapsed seconds per second of CPU time. Other programs may use the processors, but no document waits forever."""

MAX_MEMORY = 750_000_000
"""Most bytes of memory to read a document, where the system can limit memory (Linux)."""

TEXT_PARTS = (".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm")
"""Endings of the parts of a packed document that contain text, not pictures or fonts."""

_PART = 1 << 20
SPLIT = "split it into smaller files"


def seconds_for(size: int) -> int:
    """Return the seconds of CPU time that a document of `size` bytes may take."""
    return min(MIN_SECONDS + SECONDS_PER_MB * math.ceil(size / 1e6), MAX_SECONDS)


def bytes_of_text(path: Path) -> int:
    """Return the bytes of a file. In packed documents, such as docx, only parts with text count, before unpacking."""
    size = path.stat().st_size
    if path.suffix.lower() not in PACKED:
        return size
    with ZipFile(path) as package:
        parts = [part for part in package.infolist() if part.filename.lower().endswith(TEXT_PARTS)]
    return min(size, sum(part.compress_size for part in parts))


def is_large(content: Iterable[Any]) -> bool:
    """Whether the content of a page exceeds the limit. The content is unpacked only up to the limit."""
    total = 0
    for stream in content:
        with suppress(zlib.error):  # another packing, such as that of a photograph
            total += len(zlib.decompressobj().decompress(stream.rawdata or b"", MAX_PAGE + 1))
    return total > MAX_PAGE


def check_package(path: Path, *, tags: bool = True) -> None:
    """Refuse a packed document that is too large when unpacked or, if `tags` is true, has too many tags."""
    with ZipFile(path) as package:
        # no part can give more bytes than it claims
        size = sum(part.file_size for part in package.infolist())
        if size > MAX_UNPACKED:
            raise InputError(
                f"{path} has {size / 1e6:,.0f} MB unpacked; at most {MAX_UNPACKED / 1e6:.0f} MB are allowed: {SPLIT}"
            )
        number = 0
        for part in package.infolist() if tags else ():
            with suppress(BadZipFile, zlib.error), package.open(part) as file:  # its reader says what is lost
                while content := file.read(_PART):
                    number += content.count(b"<")
                    check_tags(path, number)


def check_written(path: Path) -> None:
    """Refuse a file whose claimed size is far above the bytes on disk. A reader would search it for hours."""
    status = path.stat()
    written = 512 * getattr(status, "st_blocks", status.st_size)
    if status.st_size > max(1_000_000, MAX_GROWTH * written):
        raise InputError(
            f"{path} claims {status.st_size / 1e6:.0f} MB, but has {written / 1e6:.1f} MB on disk; copy the file again"
        )


def check_tags(path: Path, number: int) -> None:
    """Refuse a document with too many tags."""
    if number > MAX_TAGS:
        raise InputError(f"{path} has more than {MAX_TAGS:,} tags; {SPLIT}")


def check_text(path: Path, length: int) -> None:
    """Refuse more text than a document of this size can plausibly contain."""
    size = bytes_of_text(path)
    if length > max(FREE_CHARACTERS, MAX_GROWTH * size):
        raise InputError(
            f"{path} has {size / 1e6:.1f} MB without pictures, but contains {length / 1e6:.0f} MB of text; at most "
            f"{MAX_GROWTH} times its size is allowed: {SPLIT}"
        )
