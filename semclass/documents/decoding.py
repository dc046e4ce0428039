"""From the bytes of a file to text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from semclass.core.errors import InputError
from semclass.documents.limits import LINE, check_size

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_encoding(name: str | None) -> str | None:
    """Refuse what is not the name of an encoding of text."""
    if name is not None:
        try:
            "".encode(name)
        except LookupError as error:
            raise InputError(
                f"encoding {name!r} is unknown; give an encoding of Python, e.g. cp1252 or shift_jis"
            ) from error
    return name


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file: UTF-8, UTF-16 with a byte order mark, or else in an encoding; all lines end in one character."""
    try:
        check_size(path)
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    return _decoded(path, data, encoding).replace("\r\n", "\n").replace("\r", "\n")


def _decoded(path: Path, data: bytes, encoding: str | None) -> str:
    known = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    try:
        return data.decode(known)
    except UnicodeDecodeError as error:
        place = data.count(b"\n", 0, error.start) + 1
        if encoding is None:
            raise InputError(
                f"{path}, line {place} is not UTF-8; name its encoding (--encoding, e.g. cp1252), or convert it to UTF-8"
            ) from error
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        place = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {place} is neither UTF-8 nor {encoding}; name another encoding") from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Give the lines of a file in UTF-8 without their ends, each with its number from 1."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LINE + 1):
                number += 1
                if len(line) > LINE:
                    raise InputError(f"{path}, line {number} has more than {LINE / 1e6:.0f} MB; split the line")
                yield number, _line(path, number, line)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _line(path: Path, number: int, line: bytes) -> str:
    """Decode a line, or name the command that converts the file."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        command = f"iconv -f {'UTF-16' if line.startswith(_UTF16) else 'WINDOWS-1252'} -t UTF-8"
        raise InputError(
            f"{path}, line {number} is not UTF-8; convert the file first, e.g. with `{command}`"
        ) from error
