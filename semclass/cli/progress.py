"""The progress of a long command: a bar on a terminal, or a line every half minute in a log."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from semclass.cli.output import echo

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

LOG_SECONDS = 30.0  # seconds between two lines where standard error is no terminal

ESTIMATE_SECONDS = 3.0
"""Seconds after the first finished items from which the time left is shown: loading and the first items say little."""

COUNT_COLUMNS = 60  # columns of a terminal from which the bar is followed by a count


class Progress:
    """Work that is done so far. Called with a count, it adds that many items."""

    def __init__(self, label: str, total: int | None, unit: str, bar: ProgressBar[Any] | None) -> None:
        """Begin with nothing done. Without a `bar`, lines are logged."""
        self.label, self.total, self.unit, self.bar = label, total, unit, bar
        self.done, self.files = 0, ""
        self.first: tuple[float, int] | None = None  # time and number of the first items that were done
        self.started = self.logged = time.monotonic()

    @property
    def terminal(self) -> bool:
        """Whether standard error is a terminal."""
        return self.bar is not None

    def __call__(self, count: int) -> None:
        """Note that some more items are done."""
        self.done += count
        self.first = self.first or (time.monotonic(), self.done)
        if self.bar is not None:
            self.bar.length = self.total or self.bar.length
            self.bar.update(count if self.total else 0, self)
        self._show()

    def file_read(self, number: int, total: int) -> None:
        """Note that a file was read, and how many there are. Where the number of items is unknown, the bar shows files."""
        self.files = f"{number:,} of {total:,} files, "
        if self.bar is not None and self.total is None:
            self.bar.length = total
            self.bar.update(number - self.bar.pos, self)
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if self.bar is not None:
            self.bar.render_progress()
        elif now - self.logged >= LOG_SECONDS:
            self.logged = now
            echo(f"{self.label}: {self.files}{self} after {now - self.started:.0f} s", err=True)

    def __str__(self) -> str:
        """Return the number of items, and the time left if it is known: ``1,234 of 5,000 passages, 0:01:05 left``."""
        of = "" if self.total is None else f" of {self.total:,}"
        one = (self.done if self.total is None else self.total) == 1
        return f"{self.done:,}{of} {self.unit.removesuffix('s') if one else self.unit}{self._left()}"

    def _left(self) -> str:
        """Return the time left at the pace since the first items."""
        begin, before = self.first or (0.0, 0)
        seconds = time.monotonic() - begin
        if self.total is None or not before < self.done < self.total or seconds < ESTIMATE_SECONDS:
            return ""
        left = seconds / (self.done - before) * (self.total - self.done)
        return f", {timedelta(seconds=round(left))} left"


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
        show_eta=False,  # its first estimates count the time of loading for each item
        item_show_func=lambda step: str(step) if step is not None and wide else "",
    )
    with shown as bar:
        yield Progress(label, total, unit, bar)
