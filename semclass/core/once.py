"""Values of an object that are made when they are first read, by one thread while others wait."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

T = TypeVar("T")


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
