"""Makes methods for asynchronous programs. The work runs in a thread, and the event loop stays free."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")
Owner = TypeVar("Owner")


def in_thread(
    method: Callable[Concatenate[Owner, P], Result], *, name: str | None = None
) -> Callable[Concatenate[Owner, P], Coroutine[Any, Any, Result]]:
    """Make the asynchronous twin of a method. Its name is that of the method after an ``a``, unless you give `name`.

    The method runs in a thread of the event loop's default executor. ``loop.set_default_executor`` sets how many
    methods run at a time. If you cancel a twin, the waiting stops, but the work continues.
    """

    @functools.wraps(method)
    async def twin(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        import asyncio  # who awaits has imported it; who does not should not wait for it

        return await asyncio.to_thread(method, self, *args, **kwargs)

    twin.__name__ = f"a{method.__name__}" if name is None else name
    twin.__qualname__ = ".".join([*method.__qualname__.split(".")[:-1], twin.__name__])
    twin.__doc__ = f"Await :meth:`{method.__name__}`, which runs in a thread. Takes the same arguments."
    return twin
