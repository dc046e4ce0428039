"""Options that several commands share, readers of their values, progress, and all output of the command line.

Texts of documents, names of files and errors never control the terminal.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import semclass
from semclass.core import plugins
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines
_LEFT_BY_JSON = re.compile(r"[\x7f-\x9f\ud800-\udfff]")

LOG_SECONDS = 30.0  # seconds between two lines where standard error is no terminal

COUNT_COLUMNS = 60  # columns of a terminal from which the bar is followed by a count


def plain(text: str) -> str:
    """Return a text with spaces in place of terminal codes, and "?" for bytes that are not UTF-8."""
    return _CONTROL.sub(" ", text.encode(errors="replace").decode())


def echo(text: str = "", *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print a text without terminal codes, also into pipes. A `styled` text is already plain, except for our own styles."""
    click.echo(text if styled else plain(text), err=err, nl=nl)


def json_line(record: Mapping[str, Any]) -> str:
    """Write a record as one line of JSON, with escapes for control characters."""
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(record, ensure_ascii=False))


def table(formats: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of a table, names at the left, figures at the right. `formats` maps heads of columns to formats."""
    cells = [[*formats], *([format(v, f) for v, f in zip(row, formats.values(), strict=True)] for row in rows)]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    for name, *figures in cells:
        right = [figure.rjust(width) for figure, width in zip(figures, others, strict=True)]
        yield "  ".join([name.ljust(first), *right])


class InputPath(click.Path):
    """A file to read; ``-`` is standard input, so that commands can be piped."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path that can be opened."""
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


Command = TypeVar("Command", bound=Callable[..., Any])

any_path = click.Path(path_type=Path)
positive = click.IntRange(1)

json_output = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON lines.")
models = click.option(
    "--models",
    type=any_path,
    help="Folder of models, or the name of an installed package of models, e.g. multilingual. Default: the shipped models.",
)
encoder = click.option(
    "--encoder",
    help="Encoder to use: a folder, the name of an installed package of models, e.g. multilingual, or hub:NAME for a "
    "sentence-transformers model. Default: the shipped encoder.",
)
encoding = click.option("--encoding", help="Encoding of non-UTF-8 files, e.g. cp1252.")
threads = click.option("--threads", type=positive, help="Number of CPU threads.")
heads = click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="NAME=DIR",
    help="Trained head and the metadata field for its labels, e.g. topic=my-head. Repeatable.",
)
weight = click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=VALUE",
    help="Weight of the ranking method, e.g. alpha=0.6. `semclass index info` lists tuned weights. Repeatable.",
)
where = click.option(
    "--where",
    multiple=True,
    metavar="FILTER",
    help="Return only passages with matching metadata, e.g. 'page>=3', 'lang in (de, en)', 'name=Ac*' or JSON. Repeat "
    "to add conditions.",
)


def together(*several: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Join several options into one decorator, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(several), command)


def column(kind: str) -> Callable[[Command], Command]:
    """Return an option that names the column of records with a kind of content."""
    about = f"Name of the column with the {kind} of each row. Default: a usual name."
    return click.option(f"--{kind}-column", metavar="NAME", help=about)


columns = together(*map(column, ("text", "id", "title")))


def show(record: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a record as a JSON line, or as the given text."""
    echo(json_line(record) if as_json else text)


def load_models(models: Path | None, encoder: str | None, threads: int | None) -> semclass.Models:
    """Load models for many questions. If the number of threads is not given, all are used."""
    from semclass.core.tools import available_threads

    return semclass.Models.load(models, encoder=encoder, threads=threads or available_threads())


def show_weights(values: Mapping[str, float]) -> str:
    """Write weights in one line."""
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def open_retriever(place: str, models: semclass.Models) -> semclass.HybridRetriever:
    """Open the index in a folder, or at an address that an installed package opens, such as a collection of Qdrant."""
    scheme, separator, _ = place.partition("://")
    if separator:
        return semclass.HybridRetriever(plugins.find(plugins.INDICES, scheme)(place, models), models)
    return semclass.HybridRetriever(semclass.PassageIndex.load(place), models)


def read_weights(pairs: Sequence[str], option: str = "--weight") -> dict[str, float] | None:
    """Read weights that are written as NAME=VALUE. Returns None if there are none."""
    weights = {}
    for text in pairs:
        name, _, value = text.partition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"{option} {text!r} has no numeric value; write NAME=VALUE, e.g. alpha=0.6") from None
    return weights or None


def read_heads(pairs: Sequence[str]) -> dict[str, str]:
    """Read heads that are written as NAME=DIR."""
    heads = dict(text.partition("=")[::2] for text in pairs)
    if len(heads) < len(pairs) or not all(heads.values()):
        written = " ".join(f"--head {text}" for text in pairs)
        raise InputError(f"{written!r} is invalid; write NAME=DIR, e.g. topic=my-head, and use each name only once")
    return heads


def shorten(text: str, limit: int = 90) -> str:
    """Shorten a text to one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


class Progress:
    """Counter of finished work. A call with a count adds this number of items."""

    def __init__(self, label: str, total: int | None, unit: str, bar: ProgressBar[Any] | None) -> None:
        """Begin at 0. Without a `bar`, progress is logged in lines."""
        self.label, self.total, self.unit, self.bar = label, total, unit, bar
        self.done, self.files, self.logged = 0, "", time.monotonic()

    def __call__(self, count: int) -> None:
        """Add a number of finished items."""
        self.done += count
        self._show(self.done, self.total)

    def file_read(self, number: int, total: int) -> None:
        """Record that file `number` of `total` was read. If the number of items is unknown, the bar shows files."""
        self.files = f"{number:,} of {total:,} files, "
        if self.total is None:
            self._show(number, total)

    def _show(self, position: int, length: int | None) -> None:
        now = time.monotonic()
        if self.bar is not None:
            if length is not None:
                self.bar.length = length
                self.bar.update(position - self.bar.pos, self)
            self.bar.render_progress()
        elif now - self.logged >= LOG_SECONDS:
            self.logged = now
            echo(f"{self.label}: {self.files}{self}", err=True)

    def __str__(self) -> str:
        """Return the number of items: ``1,234 of 5,000 passages``."""
        of = "" if self.total is None else f" of {self.total:,}"
        one = (self.done if self.total is None else self.total) == 1
        return f"{self.done:,}{of} {self.unit.removesuffix('s') if one else self.unit}"


@contextmanager
def progress(label: str, total: int | None, unit: str = "passages") -> Iterator[Progress]:
    """Show the progress of the work inside the context."""
    if not sys.stderr.isatty():
        yield Progress(label, total, unit, None)
        return
    wide = shutil.get_terminal_size().columns >= COUNT_COLUMNS
    shown: ProgressBar[Any] = click.progressbar(
        length=total or 1,
        label=label,
        file=sys.stderr,
        width=0,
        item_show_func=lambda step: str(step) if step is not None and wide else "",
    )
    with shown as bar:
        yield Progress(label, total, unit, bar)
