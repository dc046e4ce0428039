"""Lines of progress: to the caller's function, to a terminal, or nowhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], object]
Progress: TypeAlias = Say | bool


def say_to(progress: Progress) -> Say:
    """Give what lines are said to: the caller's function, one line of standard error if that is a terminal, or nothing."""
    if callable(progress):
        return progress
    if progress and sys.stderr.isatty():
        # back to the line's beginning, and blank to its end
        return lambda line: sys.stderr.write(f"\r{line[:100]}\x1b[K")
    return lambda line: None
