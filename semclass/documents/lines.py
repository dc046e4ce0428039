"""Lines of UTF-8 files."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from semclass.core.errors import InputError


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Give the lines of a file without their ends, each with its number from 1."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield number, _decoded(path, number, line).rstrip("\r\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _decoded(path: Path, number: int, line: bytes) -> str:
    """Decode a line, or name the command that converts the file."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        utf16 = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        command = f"iconv -f {'UTF-16' if utf16 else 'WINDOWS-1252'} -t UTF-8"
        raise InputError(
            f"{path}, line {number} is not UTF-8; convert the file first, such as with `{command}`"
        ) from error
