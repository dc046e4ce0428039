"""From the bytes of a file to text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semclass.core.errors import InputError, SemclassError

MAX_FILE = 400_000_000
"""Bytes of a document at most, as it is held in memory; a larger one can be split."""

MAX_LINE = 64_000_000
"""Bytes of a line of a file that is read line by line, at most."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_size(path: Path) -> None:
    """Refuse a file that is too large to be held."""
    size = path.stat().st_size
    if size > MAX_FILE:
        raise InputError(
            f"{path} has {size / 1e6:.0f} MB; at most {MAX_FILE / 1e6:.0f} MB are allowed: split it into smaller files"
        )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error of a reader into an InputError that names the file. A MemoryError passes."""
    try:
        yield
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"{path}: {error}") from error
    except (SemclassError, MemoryError):
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from error
    except Exception as error:  # libraries raise classes of their own for damaged files
        if isinstance(error.__context__, MemoryError):
            raise error.__context__ from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read as {path.suffix}: {reason}; is it damaged or encrypted?") from error


def check_encoding(encoding: str | None) -> None:
    """Refuse the name of an encoding that Python does not know."""
    try:
        "".encode(encoding or "utf-8")
    except LookupError as error:
        raise InputError(
            f"encoding {encoding!r} is unknown; give an encoding of Python, e.g. cp1252 or shift_jis"
        ) from error


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file: UTF-8, UTF-16 with a byte order mark, or else in an encoding; all lines end in one character."""
    check_encoding(encoding)
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
    """Yield the lines of a file in UTF-8 without their ends, each with its number from 1."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise InputError(f"{path}, line {number} has more than {MAX_LINE / 1e6:.0f} MB; split the line")
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
