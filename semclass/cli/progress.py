"""How far a long command is: one line on a terminal, drawn over and over, or a line now and then in a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from semclass.cli.output import echo

LOGGED = 30.0
"""Seconds between two lines where standard error is no terminal."""

DRAWN = 0.1
"""Seconds between two drawings on a terminal."""

Item = TypeVar("Item")


@dataclass
class Progress:
    """What a command has done so far; called with a count, it adds that many items."""

    label: str  #: what the command does, such as "indexing"
    total: int | None  #: how many items there are; None where that is not known beforehand
    unit: str  #: what an item is, in the plural
    terminal: bool  #: whether standard error is a terminal
    done: int = 0
    read: int = 0  #: items that are read and may still wait to be done
    files: int = 0
    files_total: int = 0
    start: float = field(default_factory=time.monotonic)
    shown: float = 0.0  #: when the last line was shown
    width: int = 0  #: characters of that line

    def __post_init__(self) -> None:
        """Count the time to the first line from the start."""
        self.shown = self.start

    def __call__(self, count: int) -> None:
        """Note that some more items are done."""
        self.done += count
        self.show()

    def file_read(self, number: int, total: int) -> None:
        """Note that a file was read, and how many there are."""
        self.files, self.files_total = number, total
        self.show()

    def reading(self, items: Iterable[Item]) -> Iterator[Item]:
        """Pass items on, and count them as read."""
        for item in items:
            self.read += 1
            yield item

    def share(self) -> float:
        """Which part of the work is done, from 0 to 1; 0 where that is not known."""
        if self.total is not None:
            return self.done / max(self.total, 1)
        return self.files / self.files_total * min(self.done / max(self.read, 1), 1.0) if self.files_total else 0.0

    def parts(self, seconds: float) -> list[str]:
        """What a line says after some seconds of work, the most important part first."""
        counts = f"{self.done:,} {self.unit}" if self.total is None else f"{self.done:,} of {self.total:,} {self.unit}"
        files = [f"{self.files:,} of {self.files_total:,} files"] if self.files_total else []
        share = self.share()
        left = [f"{clock(seconds * (1 - share) / share)} left"] if 0 < share < 1 else []
        return [*files, counts, *left]

    def show(self) -> None:
        """Show a line if the last one is some time ago."""
        now = time.monotonic()
        if now - self.shown >= (DRAWN if self.terminal else LOGGED):
            self.shown = now
            if self.terminal:
                self.draw()
            else:
                seconds = now - self.start
                echo(f"{self.label}: {', '.join(self.parts(seconds))} after {clock(seconds)}", err=True)

    def draw(self) -> None:
        """Draw the line over the last one, with the parts that fit into the terminal."""
        line = fitting(self.label, self.parts(time.monotonic() - self.start), columns() - 1)
        echo("\r" + line.ljust(self.width), err=True, nl=False, styled=True)
        self.width = len(line)


@contextmanager
def progress(label: str, total: int | None, unit: str = "passages") -> Iterator[Progress]:
    """Show how far the work inside is; at the end a terminal keeps the last line."""
    found = Progress(label, total, unit, sys.stderr.isatty())
    try:
        yield found
    finally:
        if found.terminal:
            found.draw()
            echo(err=True)


def fitting(label: str, parts: Iterable[str], width: int) -> str:
    """Put a label and as many parts as fit into one line of `width` characters."""
    line = label
    for number, part in enumerate(parts):
        longer = f"{line}{', ' if number else ' '}{part}"
        if len(longer) > width:
            break
        line = longer
    return line[: max(width, 0)]


def clock(seconds: float) -> str:
    """Write a time as minutes and seconds, such as 1:05, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def columns() -> int:
    """Columns of the terminal that standard error is; 80 where it does not tell."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
