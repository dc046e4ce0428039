"""The progress of a long command: a bar on a terminal, or a line every half minute in a log."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from semclass.cli.options import echo

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

LOG_SECONDS = 30.0  # seconds between two lines where standard error is no terminal

COUNT_COLUMNS = 60  # columns of a terminal from which the bar is followed by a count


class Progress:
    """Work that is done so far. Called with a count, it adds that many items."""

    def __init__(self, label: str, total: int | None, unit: str, bar: ProgressBar[Any] | None) -> None:
        """Begin with nothing done. Without a `bar`, lines are logged."""
        self.label, self.total, self.unit, self.bar = label, total, unit, bar
        self.done, self.files, self.logged = 0, "", time.monotonic()

    def __call__(self, count: int) -> None:
        """Note that some more items are done."""
        self.done += count
        if self.total is None:
            self._show(None, None)
        else:
            self._show(self.done, self.total)

    def file_read(self, number: int, total: int) -> None:
        """Note that a file was read, and how many there are. Where the number of items is unknown, the bar shows files."""
        self.files = f"{number:,} of {total:,} files, "
        if self.total is None:
            self._show(number, total)

    def _show(self, position: int | None, length: int | None) -> None:
        now = time.monotonic()
        if self.bar is not None:
            if position is not None:
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
    """Show how far the work inside is."""
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
