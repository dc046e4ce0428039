"""Lines of UTF-8 files."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from semclass.core.errors import InputError


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Give the lines of a file without their ends, each with its number from 1."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(_not_utf8(path)) from error


def _not_utf8(path: Path) -> str:
    """Name the line that is not UTF-8, and the command that converts the file."""
    if not path.is_file():  # a pipe cannot be read again
        return f"{path} is not UTF-8; convert it first"
    with path.open("rb") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if not _is_utf8(line))
        number, line = next(lines, (1, b""))
    utf16 = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "UTF-16" if utf16 else "WINDOWS-1252"
    return f"{path}, line {number} is not UTF-8; convert the file first, such as with `iconv -f {encoding} -t UTF-8`"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
