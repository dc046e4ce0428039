"""The queue before the threads that run the models.

A request is split into parts of at most `RUN_ITEMS` items and `RUN_CHARACTERS` characters. A request with one part is
small, and small requests of the same kind share a run. All other requests are large. Small and large runs take turns,
so that neither kind waits long. An item above `RUN_CHARACTERS` cannot be split and makes a long run. Long runs leave
one worker to other runs. If there is only one worker, another run is done in parallel.

The queue is bounded: a request that would probably miss the time limit is refused. A run that nobody waits for ends
before its next step. All bookkeeping is done in the event loop, and needs no locks.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from semclass import InputError, InputTypeError
from semclass.plugins import watched
from semclass_serve.errors import overloaded, stopping
from semclass_serve.limits import Settings

RUN_ITEMS, RUN_CHARACTERS = 64, 4096
"""Most items and characters of a run. A batch of the encoder has about 2,500 characters, so longer runs would only
make other runs wait.
"""

CHARACTER_SECONDS = 20e-6
"""Approximate seconds per character of one worker. They bound the queue, and do not affect results."""

QUIET_SECONDS = 1.0
"""Seconds after the last large run until free memory is returned to the system."""

WORKER = "semclass-worker"
"""Prefix of the names of the threads."""

Call: TypeAlias = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Kind:
    """Kind of work that may share a run: its name for metrics, its options, and the call for items of many requests."""

    name: str
    options: str
    call: Call = field(compare=False)


@dataclass(eq=False)
class Part:
    """Items of one request that one run processes, and their cost in characters."""

    kind: Kind
    items: list[Any] = field(default_factory=list)
    cost: int = 0
    done: asyncio.Future[list[Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_long(self) -> bool:
        """Whether the part is larger than a run should be."""
        return self.cost > RUN_CHARACTERS


@dataclass(eq=False)
class Run:
    """Parts that are processed together."""

    parts: list[Part]
    large: bool


class Queue:
    """Threads that run the models, and the parts of requests that wait for them."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self.settings = settings
        self.workers = workers
        self.running = False
        self.on_run: Callable[[str, int], object] = lambda kind, items: None
        self._max_long = max(workers - 1, 1)
        self._waiting: dict[bool, dict[Part, None]] = {False: {}, True: {}}  # by whether their request is large
        self._runs: set[Run] = set()
        self._last_was_large = False
        self._pool: ThreadPoolExecutor | None = None
        self._trimming: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Number of items that wait for a run."""
        return sum(len(part.items) for parts in self._waiting.values() for part in parts)

    async def start(self) -> None:
        """Start the workers, and accept work."""
        # one more thread: a long run may run beside others
        self._pool = ThreadPoolExecutor(self.workers + 1, thread_name_prefix=WORKER)
        self.running = True

    async def stop(self) -> None:
        """Accept no more work, and cancel all waiting work."""
        self.running = False
        if self._trimming is not None:
            self._trimming.cancel()
        for part in [*self._waiting[False], *self._waiting[True], *(p for run in self._runs for p in run.parts)]:
            if not part.done.done():
                part.done.set_exception(stopping("the service stopped before it finished this request; send it again"))
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def do(self, kind: Kind, items: Iterable[tuple[Any, int]]) -> list[Any]:
        """Queue the items of a request, and return their results in order. Each item comes with its cost in characters."""
        if not self.running:
            raise stopping()
        parts: list[Part] = []
        for item, cost in items:
            if not parts or len(parts[-1].items) == RUN_ITEMS or parts[-1].cost + cost > RUN_CHARACTERS:
                parts.append(Part(kind))
            parts[-1].items.append(item)
            parts[-1].cost += cost
        if not parts:
            return []
        large = len(parts) > 1 or parts[0].is_long
        self._check_room(parts, large=large)
        lane = self._waiting[large]
        lane.update(dict.fromkeys(parts))
        self._dispatch()
        try:
            return [result for results in await asyncio.gather(*(part.done for part in parts)) for result in results]
        finally:
            for part in parts:
                lane.pop(part, None)

    def _check_room(self, parts: Sequence[Part], *, large: bool) -> None:
        """Refuse a request that would probably miss the time limit, because too much work is queued before it."""
        hands = self._max_long if any(part.is_long for part in parts) else self.workers
        second = hands / CHARACTER_SECONDS  # characters of a second
        ahead = sum(part.cost for part in self._waiting[large]) / second
        if ahead and ahead + sum(part.cost for part in parts) / second > self.settings.request_seconds:
            raise overloaded(f"the service is busy; try again in {ahead:.0f} s, or send less at a time", ahead)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Assign work to free workers."""
        while first := self._next():
            self._begin(*first)

    def _next(self) -> tuple[Part, bool] | None:
        """Return the oldest part for which a worker is free, and whether its request is large."""
        long_runs = sum(run.parts[0].is_long for run in self._runs)
        short_runs = len(self._runs) - long_runs
        long_fits = long_runs < self._max_long and (len(self._runs) < self.workers or self.workers == 1)
        fits = {True: long_fits, False: short_runs < max(self.workers - long_runs, 1)}
        small_first = self._last_was_large or any(run.large for run in self._runs)
        for large in (not small_first, small_first):
            for part in self._waiting[large]:
                if fits[part.is_long]:
                    return part, large
        return None

    def _begin(self, first: Part, large: bool) -> None:
        """Begin a run of a part of a large request, or of as many small requests of one kind as fit."""
        run, items, cost = Run([first], large), len(first.items), first.cost
        for part in () if large else self._waiting[False]:
            if part is first or part.kind != first.kind:
                continue
            items, cost = items + len(part.items), cost + part.cost
            if items > RUN_ITEMS or cost > RUN_CHARACTERS:
                break
            run.parts.append(part)
        for part in run.parts:
            del self._waiting[large][part]
        self._runs.add(run)
        self._last_was_large = large
        self.on_run(first.kind.name, sum(len(part.items) for part in run.parts))
        result = asyncio.get_running_loop().run_in_executor(self._pool, _work, run)
        result.add_done_callback(lambda result: self._end(run, result))

    def _end(self, run: Run, result: asyncio.Future[list[Any]]) -> None:
        self._runs.discard(run)
        if run.large:
            self._trim_later()
        if result.cancelled():
            return
        self._dispatch()
        for part, results in zip(run.parts, result.result(), strict=True):
            if part.done.done():
                continue
            if isinstance(results, Exception):
                part.done.set_exception(results)
            else:
                part.done.set_result(results)

    def _trim_later(self) -> None:
        """Return memory to the system some time after the last large run."""
        if self._trimming is not None:
            self._trimming.cancel()
        loop = asyncio.get_running_loop()
        self._trimming = loop.call_later(QUIET_SECONDS, loop.run_in_executor, None, trim_memory)


class _UnwantedError(Exception):
    """Ends a run that nobody waits for. It is raised and caught only in this module."""


def _work(run: Run) -> list[Any]:
    """Process a run in a worker while a client waits for it. Returns the results of each part, or an exception."""

    def check_wanted() -> None:
        if all(part.done.done() for part in run.parts):
            raise _UnwantedError

    with watched(check_wanted):
        return _results(run.parts)


def _results(parts: list[Part]) -> list[Any]:
    """Return the results of each part, or an exception.

    If an input is refused, each part is processed separately, so that only one part fails. Other errors fail all parts.
    """
    try:
        results = iter(parts[0].kind.call([item for part in parts for item in part.items]))
        return [list(islice(results, len(part.items))) for part in parts]
    except (InputError, InputTypeError) as error:
        return [error] if len(parts) == 1 else [_results([part])[0] for part in parts]
    except Exception as error:  # noqa: BLE001 - any error belongs to the requests
        return [error] * len(parts)


def trim_memory() -> None:
    """Collect cycles, and return free memory to the system, where the C library can (glibc)."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
