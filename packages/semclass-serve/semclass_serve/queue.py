"""Which request is worked on next: a queue before the threads that run the models.

Small requests begin in the order in which they came; those of the same kind with the same options share a run. A request
that fills batches of the encoder by itself is large: it shares no run, and large and small requests take turns. One of more
than a run is split into parts where it can be; where it cannot, it leaves a worker to the others, or works next to them
where there is only one. What a request costs is known before
it is taken (:mod:`semclass_serve.work_cost`): what cannot be done in its time is refused at once. A run that nobody
waits for any more ends before its next step.

All bookkeeping is done in the event loop, and needs no locks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from semclass.core.errors import InputError, InputTypeError
from semclass.encoders.batching import watched
from semclass_serve.answers import OverloadedError, stopping, too_large
from semclass_serve.limits import QUIET, give_back
from semclass_serve.settings import Settings
from semclass_serve.work_cost import Pace

BATCH_TEXTS, BATCH_CHARACTERS = 64, 32_768
"""Texts and characters that one run of the models reads at most; a request of more is split where it can be."""

LIGHT = 4096
"""Characters of a small request, and of the requests that share a run: a batch of the encoder is about 2,500, so that more
would gain nothing together, and small ones would wait for it."""

SURE = 0.5
"""Share of a request's time that is planned with: the machine may have more to do soon, or texts may cost more."""

Call: TypeAlias = Callable[[list[Any]], Sequence[Any]]

Item: TypeAlias = tuple[Any, int, int, int]
"""What a call takes, with its texts, its characters, and its cost: the characters that are read."""


@dataclass(frozen=True)
class Kind:
    """Work that may share a run: its name, for metrics, its options, and the call that does the items of many requests."""

    name: str
    options: str
    call: Call = field(compare=False)
    away: bool = False  # mostly waits for a server; such runs have threads of their own


@dataclass(eq=False)
class Part:
    """Items of a request that are done in one run."""

    items: list[Any] = field(default_factory=list)
    texts: int = 0
    characters: int = 0
    cost: int = 0
    done: asyncio.Future[list[Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_long(self) -> bool:
        """Whether it is more than a run should be, and cannot be split."""
        return not _fits(self.texts, self.cost)


@dataclass(eq=False)
class Request:
    """The parts of a request that have not begun."""

    kind: Kind
    parts: deque[Part]
    large: bool  # more than is done along with others
    heavy: bool  # more than a run should be


@dataclass(eq=False)
class Run:
    """Parts that are done together."""

    kind: Kind
    parts: list[Part]
    large: bool  # parts of a large request
    ends: float  # when it probably will, by the loop's clock

    @property
    def is_long(self) -> bool:
        """Whether it is more than a run should be."""
        return self.parts[0].is_long

    @property
    def cost(self) -> int:
        """Characters that are read."""
        return sum(part.cost for part in self.parts)


class Queue:
    """Threads that run the models, and the requests that wait for them."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self.settings = settings
        self.workers = workers
        self.pace = Pace()
        self.on_batch: Callable[[str, int], object] | None = None
        self._for_long = max(workers - 1, 1)
        self._running = self._was_large = False
        self._waiting: dict[bool, dict[Request, None]] = {False: {}, True: {}}  # by whether they are large
        self._open: set[asyncio.Future[list[Any]]] = set()
        self._runs: set[Run] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._giving_back: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether work is taken."""
        return self._running

    @property
    def at_work(self) -> bool:
        """Whether a run is not over; one that is given up goes on to its next step."""
        return bool(self._runs)

    @property
    def waiting(self) -> int:
        """Texts that wait for a run."""
        return sum(part.texts for requests in self._waiting.values() for request in requests for part in request.parts)

    async def start(self) -> None:
        """Take work from now on."""
        self._pool = ThreadPoolExecutor(2 * self.workers + 1, thread_name_prefix="semclass-worker")
        self._running = True

    async def stop(self) -> None:
        """Take no more work, and finish what was taken within the settings' time."""
        self._running = False
        if self._giving_back is not None:
            self._giving_back.cancel()
        if self._open:
            await asyncio.wait(set(self._open), timeout=self.settings.stop_seconds)
        self.give_up()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def give_up(self) -> int:
        """Take no more work, and refuse what is not done yet; gives how many parts of requests that is."""
        self._running = False
        waiting = [future for future in self._open if not future.done()]
        for future in waiting:
            future.set_exception(stopping("the service stopped before this was done; ask again"))
        return len(waiting)

    async def do(self, kind: Kind, items: Iterable[Item]) -> list[Any]:
        """Queue the items of a request, and give their results."""
        if not self._running:
            raise stopping("the service is not ready, or is stopping")
        parts: deque[Part] = deque()
        for item, texts, characters, cost in items:
            if not parts or not _fits(parts[-1].texts + texts, parts[-1].cost + cost):
                parts.append(Part())
            part = parts[-1]
            part.items.append(item)
            part.texts, part.characters, part.cost = part.texts + texts, part.characters + characters, part.cost + cost
        if not parts:
            return []
        heavy = len(parts) > 1 or parts[0].is_long
        request = Request(kind, parts, heavy or parts[0].cost > LIGHT, heavy)
        self._admit(request)
        futures = [part.done for part in parts]
        self._open.update(futures)
        self._waiting[request.large][request] = None
        self._dispatch()
        try:
            return [result for results in await asyncio.gather(*futures) for result in results]
        finally:
            self._open.difference_update(futures)
            self._waiting[request.large].pop(request, None)

    def _admit(self, request: Request) -> None:
        """Refuse a request that could not be done in its time."""
        seconds, ahead = self.settings.request_seconds, self._backlog(large=request.large)
        if not request.large:
            if ahead > seconds:
                raise OverloadedError(ahead)
            return
        sure = SURE * seconds
        characters = sum(part.characters for part in request.parts)
        alone = self._seconds([request]) / self._hands(request)
        if alone > sure:
            fits = _share(sure / alone, characters)
            raise too_large(f"this request would take about {alone:.0f} s, and at most {sure:g} s are allowed{fits}")
        now = alone * self.pace.slowness
        if ahead + now > sure:
            raise OverloadedError(max(ahead, 1.0), _share((sure - ahead) / now if now else 0.0, characters))

    def _seconds(self, requests: Iterable[Request]) -> float:
        """Processor time of what waits."""
        return sum(self.pace.alone(request.kind.name, part.cost) for request in requests for part in request.parts)

    def _backlog(self, *, large: bool) -> float:
        """Seconds until what comes now would begin: small requests wait for small ones alone, large ones for all."""
        slowness, now = self.pace.slowness, asyncio.get_running_loop().time()
        seconds = slowness * self._seconds(self._waiting[False]) / self.workers
        if large:
            begun = sum(max(run.ends - now, 0) for run in self._runs if run.large)
            # those that leave a worker to others are done by fewer
            waiting = sum(self._seconds([request]) / self._hands(request) for request in self._waiting[True])
            seconds += slowness * waiting + begun / self._for_long
        return seconds

    def _hands(self, request: Request) -> int:
        """Workers that requests of this size can have at a time."""
        return self._for_long if request.heavy else self.workers

    # -- runs ---------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Give work to free workers."""
        while request := self._next():
            self._begin(request)

    def _next(self) -> Request | None:
        """The oldest request that has a place; small and large ones take turns."""
        places = {
            (away, long): self._has_place(away=away, long=long) for away in (True, False) for long in (True, False)
        }
        small_first = self._was_large or any(run.large for run in self._runs)
        for large in (not small_first, small_first):
            for request in self._waiting[large]:
                if places[request.kind.away, request.parts[0].is_long]:
                    return request
        return None

    def _has_place(self, *, away: bool, long: bool) -> bool:
        """Whether a run may begin: as many wait for a server as there are workers, and a long run leaves one to others."""
        if away:
            return sum(run.kind.away for run in self._runs) < self.workers
        at_work = [run for run in self._runs if not run.kind.away]
        longs = sum(run.is_long for run in at_work)
        if long:
            return longs < self._for_long and (len(at_work) < self.workers or self.workers == 1)
        return len(at_work) - longs < max(self.workers - longs, 1)

    def _begin(self, first: Request) -> None:
        """Begin a run: a part of a large request, or small requests of one kind as far as they fit."""
        kind, waiting, loop = first.kind, self._waiting[first.large], asyncio.get_running_loop()
        run = Run(kind, [], first.large, 0.0)
        for request in [first] if first.large else [other for other in waiting if other.kind == kind]:
            part, texts = request.parts[0], sum(part.texts for part in run.parts)
            if run.parts and not (texts + part.texts <= BATCH_TEXTS and run.cost + part.cost <= LIGHT):
                break
            run.parts.append(request.parts.popleft())
            del waiting[request]
            if request.parts:
                waiting[request] = None  # behind those that came in the meantime
        run.ends = loop.time() + self.pace.alone(kind.name, run.cost) * self.pace.slowness
        self._runs.add(run)
        self._was_large = run.large
        if self.on_batch is not None:
            self.on_batch(kind.name, sum(part.texts for part in run.parts))
        result = loop.run_in_executor(self._pool, _work, run)
        result.add_done_callback(lambda result: self._end(run, result))

    def _end(self, run: Run, result: asyncio.Future[tuple[list[Any], float, float]]) -> None:
        self._runs.discard(run)
        if run.large:
            self._give_back_later()
        if result.cancelled():
            return
        results, seconds, processor = result.result()
        if not run.kind.away:
            whole = not any(isinstance(found, Exception) for found in results)
            self.pace.learn(run.kind.name, run.cost, seconds, processor, whole=whole)
        self._dispatch()
        for part, found in zip(run.parts, results, strict=True):
            if part.done.done():
                continue
            if isinstance(found, Exception):
                part.done.set_exception(found)
            else:
                part.done.set_result(found)

    def _give_back_later(self) -> None:
        """Return memory to the system once no large run has ended for a while: what it took is many times a small one's."""
        if self._giving_back is not None:
            self._giving_back.cancel()
        loop = asyncio.get_running_loop()
        self._giving_back = loop.call_later(QUIET, loop.run_in_executor, None, give_back)


class _Unwanted(Exception):  # noqa: N818 - a state, which never leaves this module
    """Nobody waits for a run any more."""


def _work(run: Run) -> tuple[list[Any], float, float]:
    """Do a run in a worker, as long as anybody waits for it; gives its results, and its seconds by clock and processor."""

    def between() -> None:
        if all(part.done.done() for part in run.parts):
            raise _Unwanted

    began, processor = time.perf_counter(), time.thread_time()
    with watched(between):
        results = _results(run.kind.call, run.parts)
    return results, time.perf_counter() - began, time.thread_time() - processor


def _results(call: Call, parts: list[Part]) -> list[Any]:
    """Results of each part, or an exception.

    Refused input fails only its own part: then each is done by itself, if somebody waits for it. Any other error fails all.
    """
    try:
        results = iter(call([item for part in parts for item in part.items]))
        return [list(islice(results, len(part.items))) for part in parts]
    except (InputError, InputTypeError) as error:
        alone = len(parts) == 1
        return [error] if alone else [None if part.done.done() else _results(call, [part])[0] for part in parts]
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the requests
        return [error] * len(parts)


def _fits(texts: int, cost: int) -> bool:
    return texts <= BATCH_TEXTS and cost <= BATCH_CHARACTERS


def _share(share: float, characters: int) -> str:
    """Say how much of a request could be done."""
    size = int(float(f"{max(share, 0.0) * characters:.1e}"))
    return f"; about {size:,} of its {characters:,} characters would fit, so send less at a time" if size else ""
