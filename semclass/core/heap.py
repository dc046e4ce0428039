"""Memory that a long-running process gives back to the system."""

from __future__ import annotations

import ctypes
import os

RETURNED = 1 << 22
"""Bytes from which a freed block goes back to the system at once. The arrays of a long text are larger."""

_TRIM, _MMAP = -1, -3  # parameters of mallopt: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def return_memory() -> None:
    """Keep a process as small as its texts need.

    When glibc frees a large block, it raises the bound from which it gives blocks back, and never lowers it again. Nothing
    changes where the user set them, or where the C library is another one.
    """
    if any(name in os.environ for name in _SETTINGS):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no such function, or no such way to open a program
        return
    for parameter in (_TRIM, _MMAP):
        mallopt(parameter, RETURNED)
