"""Tools: values that only one thread computes, names that are imported on first use, and the number of processors."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import ceil
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

T = TypeVar("T")


_making = RLock()


class Once(cached_property[T]):
    """A ``cached_property`` for large values. One thread computes each value, and only one value is computed at a time."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Make the value if there is none; later reads find it without coming here."""
        with _making:
            return super().__get__(instance, owner)


def importer(module: str, package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` that imports names on first use. `homes` maps each module of the package to its names."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    return find


def available_threads(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Processors that this process may keep busy, at least 1.

    A container with a quota (``docker run --cpus 2``) still sees all processors of the machine, but threads beyond the
    quota are only stopped by the system. The quota is rounded up; see "CPU" in the kernel's ``cgroup-v2.rst``.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # "max 100000" where there is none
        time, period = quota.read_text().split()
        allowed = min(allowed, ceil(int(time) / int(period)))
    return max(allowed, 1)
