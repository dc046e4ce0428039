"""Limits of a document, so that no small file takes minutes or gigabytes. An error names the limit that is exceeded."""

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
"""Bytes of all parts of a packed document (docx, odt, pptx, xlsx, epub), unpacked."""

PACKED = (".docx", ".epub", ".odt", ".pptx", ".xlsx")
"""Endings of documents that are packages of parts."""

MAX_PAGE = 20_000_000
"""Bytes of the content of a page of a PDF, unpacked; letters of less take some minutes."""

MAX_TAGS = 3_000_000
"""Tags in the parts of a docx, odt, pptx or epub, or in a page of HTML; each takes some 100 bytes of memory."""

MAX_SPAN = 1000
"""Columns or rows that a cell of a table spans; a page may claim any number."""

MIN_SECONDS, SECONDS_PER_MB, MAX_SECONDS = 20, 5, 60
"""Seconds of a processor that any document may take to be read, and again to be cut; more for each megabyte; at most."""

PAGES_SHARE = 0.8
"""Share of these seconds after which a document of pages is cut, so that what was read of it is kept."""

CLOCK_FACTOR = 10
"""Seconds by the clock for each of these, at most: others may use the processors, too, but no document may wait forever."""

MAX_MEMORY = 750_000_000
"""Bytes of memory that reading a document may take, where the system can limit them (Linux)."""

TEXT_PARTS = (".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm")
"""Endings of the parts of a packed document that hold text, and not pictures or fonts."""

_PART = 1 << 20
SPLIT = "split it into smaller files"


def seconds_for(size: int) -> int:
    """Processor seconds that a document of `size` bytes may take."""
    return min(MIN_SECONDS + SECONDS_PER_MB * math.ceil(size / 1e6), MAX_SECONDS)


def bytes_of_text(path: Path) -> int:
    """Size of a file in bytes. Of a zipped document, such as docx, only the parts with text count, at their zipped size."""
    size = path.stat().st_size
    if path.suffix.lower() not in PACKED:
        return size
    with ZipFile(path) as package:
        parts = [part for part in package.infolist() if part.filename.lower().endswith(TEXT_PARTS)]
    return min(size, sum(part.compress_size for part in parts))


def is_large(content: Iterable[Any]) -> bool:
    """Whether the content of a page is over the limit; it is unpacked only up to there."""
    total = 0
    for stream in content:
        with suppress(zlib.error):  # another packing, such as that of a photograph
            total += len(zlib.decompressobj().decompress(stream.rawdata or b"", MAX_PAGE + 1))
    return total > MAX_PAGE


def check_package(path: Path, *, tags: bool = True) -> None:
    """Refuse a packed document that is too large unpacked or, if `tags`, has too many of them."""
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
    """Refuse a file that claims far more bytes than are written, which a reader would search for hours."""
    status = path.stat()
    written = 512 * getattr(status, "st_blocks", status.st_size)
    if status.st_size > max(1_000_000, MAX_GROWTH * written):
        raise InputError(
            f"{path} claims {status.st_size / 1e6:.0f} MB, but holds {written / 1e6:.1f} MB; copy it whole"
        )


def check_tags(path: Path, number: int) -> None:
    """Refuse a document with more tags than a tree of them may hold."""
    if number > MAX_TAGS:
        raise InputError(f"{path} has more than {MAX_TAGS:,} tags; {SPLIT}")


def check_text(path: Path, length: int) -> None:
    """Refuse more text than a document of some size can honestly hold."""
    size = bytes_of_text(path)
    if length > max(FREE_CHARACTERS, MAX_GROWTH * size):
        raise InputError(
            f"{path} has {size / 1e6:.1f} MB without pictures, but contains {length / 1e6:.0f} MB of text; at most "
            f"{MAX_GROWTH} times its size is allowed: {SPLIT}"
        )
