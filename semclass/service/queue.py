"""Who works next: a queue of requests before threads that run the models.

Requests wait in the order in which they came. Each worker is a thread; one that is free takes the oldest request, and with
it those of the same kind with the same options, as far as they fit into a run: the more there is to do, the more share one.

A request that is more than a run is large, and has a queue of its own; small ones do not wait for it. If it can be cut, it
is cut into parts, of which the next one waits behind those who came in the meantime. One that cannot leaves a worker to the
others, or works beside it where there is only one. What a request costs is known before it is taken, in characters that are
read, and so is how long a character takes (:mod:`semclass.service.pace`): what could not be done in its time is refused at
once. A run that nobody waits for any more ends before its next step, a tenth of a second later or so.

All bookkeeping is done in the event loop, and needs no locks; workers run nothing but the library.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from operator import itemgetter
from typing import Any

from semclass.core.errors import SemclassError
from semclass.service.jobs import Job, Kind, Run, work
from semclass.service.pace import Pace, Taken
from semclass.service.settings import Settings

SURE = 0.5
"""Share of the time of a request that may be planned with: the machine may have more to do soon, or texts cost more."""


class Overloaded(SemclassError):  # noqa: N818 - states, as clients know them
    """There is too much to do.

    Parameters
    ----------
    retry_after
        Seconds after which there is likely to be a place.
    fits
        What of the request could be done now, in words; empty if nothing is known of that.
    """

    def __init__(self, retry_after: float, fits: str = "") -> None:
        super().__init__(f"the service is busy; try again in {retry_after:.1f} s{fits}")
        self.retry_after = retry_after


class TooMuch(SemclassError):  # noqa: N818 - states, as clients know them
    """A request that could not be done in its time, whatever else there is to do."""


class Stopping(SemclassError):  # noqa: N818 - states, as clients know them
    """The service stops, and takes no more work."""


class Queue:
    """Workers, and those who wait for them; all methods belong to one event loop.

    Parameters
    ----------
    settings
        Limits.
    workers
        Threads that run the models.

    Attributes
    ----------
    pace
        How long work takes.
    on_batch
        Called with the kind of work and the number of texts when a run begins, if it is set.
    """

    def __init__(self, settings: Settings, workers: int) -> None:
        self.settings = settings
        self.workers = workers
        self.on_batch: Callable[[str, int], object] | None = None
        self.pace = Pace()
        # long runs leave a worker to the others; if there is only one, they work beside it
        self._for_long = max(self.workers - 1, 1)
        self._was_large = False
        self._running = False
        self._queues: dict[tuple[Kind, bool], dict[Job, None]] = {}
        self._open: set[asyncio.Future[list[Any]]] = set()
        self._arrivals = 0
        self._runs: set[Run] = set()
        self._waiting = {True: Counter[str](), False: Counter[str]()}
        self._costs: Counter[tuple[str, bool]] = Counter()
        self._pool: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at_work(self) -> bool:
        """Whether a run is not over; one that is given up goes on to its next step."""
        return bool(self._runs)

    @property
    def waiting(self) -> int:
        """Texts that wait for a run."""
        return sum(some["texts"] for some in self._waiting.values())

    @property
    def busy(self) -> int:
        """Workers that are at work; those that wait for a server are not counted."""
        return sum(not run.kind.away for run in self._runs)

    @property
    def running(self) -> bool:
        """Whether work is taken."""
        return self._running

    async def start(self) -> None:
        """Make ready."""
        self._pool = ThreadPoolExecutor(2 * self.workers + 1, thread_name_prefix="semclass-worker")
        self._running = True

    async def stop(self) -> None:
        """Take no more work, and finish what was taken, within the settings' time; what is not done then is given up."""
        self._running = False
        if self._open:
            await asyncio.wait(set(self._open), timeout=self.settings.stop_seconds)
        self.give_up()
        if self._timer is not None:
            self._timer.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def give_up(self) -> int:
        """Take no more work, and tell those who wait that theirs is not done; gives how many parts of requests that is."""
        self._running = False
        waiting = [future for future in self._open if not future.done()]
        for future in waiting:
            future.set_exception(Stopping("the service stopped before this was done; ask again"))
        return len(waiting)

    def fits(self, texts: int, cost: int) -> bool:
        """Whether so much is no more than a run should be."""
        return texts <= self.settings.batch_texts and cost <= self.settings.batch_characters

    async def do(self, jobs: list[Job]) -> list[Any]:
        """Queue the parts of a request, wait for all, and give their results one after another."""
        if not self._running:
            raise Stopping("the service is not ready, or stops")
        self._admit(jobs)
        # a part begins: the next one goes to the end of the queue. As many as there are workers may run at a time
        rest = iter(jobs)
        for job in jobs:
            job.rest = rest
            self._count(job, 1)
        futures = [job.done for job in jobs]
        self._open.update(futures)
        for job in islice(rest, self.workers):
            self._queue(job)
        self._dispatch()
        try:
            return [result for found in await asyncio.gather(*futures) for result in found]
        finally:
            self._open.difference_update(futures)
            for job in jobs:
                self._leave(job)

    def _admit(self, jobs: list[Job]) -> None:
        """Refuse a request that has no place in the queue, or that could not be done in its time."""
        settings, large = self.settings, any(job.large for job in jobs)
        texts, characters = sum(job.texts for job in jobs), sum(job.characters for job in jobs)
        before = [self._waiting[False], self._waiting[large]][: 1 + large]
        waiting = sum(some["texts"] for some in before)
        full = waiting and (
            waiting + texts > settings.queue
            or sum(some["characters"] for some in before) + characters > settings.queue_characters
        )
        ahead = self._backlog(large=large)
        if large:
            sure = SURE * settings.request_seconds
            alone = sum(self.pace.alone(job.kind.name, job.cost) for job in jobs) / self._for_long
            if alone > sure:
                fits = _part(sure / alone, characters)
                raise TooMuch(
                    f"this would take about {alone:.0f} s, and what takes more than {sure:g} s is not begun{fits}"
                )
            now = alone * self.pace.slowness
            if full or ahead + now > sure:
                raise Overloaded(max(ahead, 1.0), _part((sure - ahead) / now if now else 0.0, characters))
        # what is larger than the whole queue is taken when nothing else waits; what could not be done in time never waits
        elif full or (waiting and ahead > settings.request_seconds):
            raise Overloaded(ahead)

    def _queue(self, job: Job) -> None:
        """Put a job at the end of its queue; what no other job fits beside has a queue of its own."""
        self._arrivals += 1
        job.number, job.arrived = self._arrivals, asyncio.get_running_loop().time()
        self._queues.setdefault((job.kind, job.large), {})[job] = None

    def _leave(self, job: Job) -> None:
        """Take a job out of the queue, if it is in one: it begins, or nobody waits for it any more."""
        if not job.waits:
            return
        job.waits = False
        self._count(job, -1)
        key = (job.kind, job.large)
        queue = self._queues.get(key, {})
        queue.pop(job, None)
        if not queue:
            self._queues.pop(key, None)

    def _is_long(self, job: Job) -> bool:
        return not self.fits(job.texts, job.cost)

    def _count(self, job: Job, sign: int) -> None:
        self._waiting[job.large].update(texts=sign * job.texts, characters=sign * job.characters)
        self._costs[job.kind.name, job.large] += sign * job.cost

    def _backlog(self, *, large: bool) -> float:
        """Seconds until what comes now would begin: small work waits for small work alone, large work for all of it."""
        seconds = {True: 0.0, False: 0.0}
        for (name, of_large), cost in self._costs.items():
            seconds[of_large] += self.pace.alone(name, cost) * self.pace.slowness
        begun = [run.ends - asyncio.get_running_loop().time() for run in self._runs if run.large]
        found = seconds[False] / self.workers
        if large:
            found += (seconds[True] + sum(left for left in begun if left > 0)) / self._for_long
        return max(found, 0.1)

    # -- runs ---------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Give work to free workers."""
        while batch := self._next():
            self._begin(batch)

    def _has_place(self, kind: Kind, *, long: bool) -> bool:
        """Whether a run may begin: as many wait for a server at a time as there are workers beside them."""
        if kind.away:
            return len(self._runs) - self.busy < self.workers
        at_work = sum(run.long and not run.kind.away for run in self._runs)
        if long:
            return at_work < self._for_long and (self.busy < self.workers or self.workers == 1)
        return self.busy - at_work < max(self.workers - at_work, 1)

    def _next(self) -> list[Job]:
        """The jobs of the next run: the oldest, with those that may share it; none if it is better to wait for more."""
        loop, soonest = asyncio.get_running_loop(), float("inf")
        # one of several workers is enough for large work, and one alone takes turns, while small work waits
        behind = self._was_large or any(run.large for run in self._runs)
        queues = [
            (large and behind, next(iter(queue)).number, queue)
            for (kind, large), queue in self._queues.items()
            if self._has_place(kind, long=self._is_long(next(iter(queue))))
        ]
        for *_, queue in sorted(queues, key=itemgetter(0, 1)):
            batch, full = self._fitting(queue)
            # who comes while nobody is at work does not wait
            due = batch[0].arrived + self.settings.batch_seconds if self._runs else 0.0
            if full or due <= loop.time():
                return batch
            soonest = min(soonest, due)
        if soonest < float("inf") and (self._timer is None or self._timer.when() <= loop.time()):
            self._timer = loop.call_at(soonest, self._dispatch)
        return []

    def _fitting(self, queue: dict[Job, None]) -> tuple[list[Job], bool]:
        """The first jobs of a queue that fit into a run, at least one, and whether it is full."""
        batch: list[Job] = []
        texts = cost = 0
        for job in queue:
            if batch and not self.fits(texts + job.texts, cost + job.cost):
                return batch, True
            batch.append(job)
            texts, cost = texts + job.texts, cost + job.cost
        return batch, not self.fits(texts + 1, cost + 1)

    def _begin(self, batch: list[Job]) -> None:
        kind, loop = batch[0].kind, asyncio.get_running_loop()
        run = Run(batch, self._is_long(batch[0]), 0.0)
        run.ends = loop.time() + self.pace.alone(kind.name, run.cost) * self.pace.slowness
        self._runs.add(run)
        self._was_large = run.large
        for job in batch:
            self._leave(job)
            for later in islice(job.rest, 1):
                self._queue(later)
        if self.on_batch is not None:
            self.on_batch(kind.name, sum(job.texts for job in batch))
        result = loop.run_in_executor(self._pool, work, kind.call, batch)
        result.add_done_callback(lambda result: self._end(run, result))

    def _end(self, run: Run, result: asyncio.Future[tuple[Taken, list[Any]]]) -> None:
        self._runs.discard(run)
        if result.cancelled():
            return
        taken, found = result.result()
        if not run.kind.away:
            self.pace.learn(run.kind.name, run.cost, taken)
        self._dispatch()
        for job, results in zip(run.batch, found, strict=True):
            if job.done.done():
                continue
            if isinstance(results, Exception):
                job.done.set_exception(results)
            else:
                job.done.set_result(results)


def _part(share: float, characters: int) -> str:
    """Say which part of a request could be done."""
    size = float(f"{max(share, 0.0) * characters:.1e}")
    return (
        f"; about {int(size):,} of its {characters:,} characters would fit, so send less at a time" if size >= 1 else ""
    )
