"""The one way out of the command line: text of documents, names of files and errors never command a terminal."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines
_LEFT_BY_JSON = re.compile(r"[\x7f-\x9f\ud800-\udfff]")


def plain(text: str) -> str:
    """A text with spaces in place of what a terminal takes for commands, and "?" for bytes that are not UTF-8."""
    return _CONTROL.sub(" ", text.encode(errors="replace").decode())


def echo(text: str = "", *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print a text, made plain for pipes as for terminals; a `styled` text is plain already but for styles of ours."""
    click.echo(text if styled else plain(text), err=err, nl=nl)


def json_line(record: Mapping[str, Any]) -> str:
    """A record in one line of JSON, with escapes for control characters."""
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(record, ensure_ascii=False))


def table(formats: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of a table: names left, figures right. `formats` holds the format of each column under its head."""
    cells = [[*formats], *([format(v, f) for v, f in zip(row, formats.values(), strict=True)] for row in rows)]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    for name, *figures in cells:
        right = [figure.rjust(width) for figure, width in zip(figures, others, strict=True)]
        yield "  ".join([name.ljust(first), *right])


class EchoHandler(logging.Handler):
    """Shows what libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record as a warning."""
        echo(f"warning: {record.getMessage()}", err=True)
