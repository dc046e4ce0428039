"""Tools: values that only one thread computes, asynchronous twins of methods, names imported on first use, processors."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import ceil
from pathlib import Path
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Owner = TypeVar("Owner")


class Once(cached_property[T]):
    """A ``cached_property`` that is made once whatever threads read it; each object has a lock for each value.

    It is for values that take long or much memory: without a lock threads that come at the same time would make several.
    """

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Make the value if there is none; later reads find it without coming here."""
        if instance is None:
            return self
        values, name = vars(instance), str(self.attrname)
        guard = f"{name} is being made"
        with values.setdefault(guard, RLock()):  # one step: threads get the same lock
            if name not in values:
                values[name] = self.func(instance)
        values.pop(guard, None)  # a lock cannot be copied or pickled
        return values[name]


def in_thread(
    method: Callable[Concatenate[Owner, P], T],
) -> Callable[Concatenate[Owner, P], Coroutine[Any, Any, T]]:
    """Make the asynchronous twin of a method. Its name is that of the method after an ``a``.

    The method runs in a thread of the event loop's default executor. ``loop.set_default_executor`` sets how many
    methods run at a time. If you cancel a twin, the waiting stops, but the work continues.
    """

    @functools.wraps(method)
    async def twin(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio  # who awaits has imported it; who does not should not wait for it

        return await asyncio.to_thread(method, self, *args, **kwargs)

    twin.__name__ = f"a{method.__name__}"
    twin.__qualname__ = ".".join([*method.__qualname__.split(".")[:-1], twin.__name__])
    twin.__doc__ = f"Await :meth:`{method.__name__}`, which runs in a thread. Takes the same arguments."
    return twin


def importer(module: str, package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module. `homes`: names by the modules of the package that they come from."""
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

    A container with a quota (``docker run --cpus 2``) still sees all processors of the machine, and threads beyond the
    quota would only be stopped by the system. The quota is rounded up; see "CPU" in the kernel's ``cgroup-v2.rst``.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # "max 100000" where there is none
        time, period = quota.read_text().split()
        allowed = min(allowed, ceil(int(time) / int(period)))
    return max(allowed, 1)
