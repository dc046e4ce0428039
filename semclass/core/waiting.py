"""Methods for asynchronous programs: the work runs in a thread, and the event loop stays free."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    P = ParamSpec("P")

Result = TypeVar("Result")
Owner = TypeVar("Owner")


def in_thread(
    method: Callable[Concatenate[Owner, P], Result], *, name: str | None = None
) -> Callable[Concatenate[Owner, P], Coroutine[Any, Any, Result]]:
    """Make the asynchronous twin of a method.

    It runs in a thread of the event loop's default executor: ``loop.set_default_executor`` says how many run at a time.
    onnxruntime and numpy let other threads run while they compute, so that searches go on side by side. A twin that is
    cancelled stops waiting; the work that has begun goes on to its end.

    Parameters
    ----------
    method
        A method that several threads may run at a time.
    name
        Of the twin; the method's after an ``a`` if None.

    Returns
    -------
    callable
        Takes the same arguments, and gives what the method gives when it is awaited.
    """

    @functools.wraps(method)
    async def twin(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        import asyncio  # who awaits has imported it; who does not should not wait for it

        return await asyncio.to_thread(method, self, *args, **kwargs)

    twin.__name__ = f"a{method.__name__}" if name is None else name
    twin.__qualname__ = ".".join([*method.__qualname__.split(".")[:-1], twin.__name__])
    twin.__doc__ = f"Await :meth:`{method.__name__}`, which runs in a thread; the arguments are the same."
    return twin
