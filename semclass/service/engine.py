"""The work of a service: the library's calls, awaited, with many small requests in one run of the encoder.

Requests wait in the order in which they came. Each worker is a thread; one that is free takes the oldest request, and with
it those of the same kind with the same options, up to a number of texts: the more there is to do, the more share a run. A
large request that can be cut is cut into parts, of which the next one waits behind those who came in the meantime. One that
cannot leaves a worker to the others. So neither small requests wait for a large one, nor it for them for ever.

All bookkeeping is done in the event loop, and needs no locks; workers run nothing but the library.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from math import ceil
from operator import itemgetter
from typing import Any, TypeAlias

from semclass.entailment import EntailmentClassifier, EntailmentLabel, check_pairs
from semclass.errors import InputError, InputTypeError, SemclassError
from semclass.index import PassageIndex
from semclass.processors import available_threads
from semclass.ranker import Ranker
from semclass.rerank import Reranker, check_passages
from semclass.retriever import CANDIDATES, HybridRetriever
from semclass.service.settings import Settings
from semclass.types import Hit, Passage, PassageLabels, QuestionLabel
from semclass.validation import check_positive, check_text, check_texts

Call: TypeAlias = Callable[[list[Any]], Sequence[Any]]

SEARCH, CANDIDATES_OF_TEXT, EXPLAINED_OF_TEXT = 3, 16, 10
"""What a search costs, in texts that are classified: itself, and one for so many candidates, and hits that are explained.

Measured with one thread: 2.8 ms a short question; a search 7 ms, and 0.16 ms a candidate and 0.30 ms an explained hit.
"""

HITS = 10
"""Hits of a search that says nothing of them, as :meth:`semclass.retriever.HybridRetriever.search` has it."""

NEWEST = 0.2
"""Share of the last run in the estimate of how long a text takes; older runs count less and less."""


class Overloaded(SemclassError):  # noqa: N818 - states, as clients know them
    """The queue is full.

    Parameters
    ----------
    retry_after
        Seconds after which there is likely to be a place.
    """

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the service is busy; try again in {retry_after:.1f} s")
        self.retry_after = retry_after


class NoIndexError(SemclassError):
    """The service was started without an index."""


class Stopping(SemclassError):  # noqa: N818 - states, as clients know them
    """The service stops, and takes no more work."""


@dataclass(frozen=True)
class _Kind:
    """Work that may share a run.

    Attributes
    ----------
    name
        What it is, for metrics.
    options
        Stands for its options; only the same share a run.
    call
        Takes the items of several requests one after another, and gives a result for each.
    away
        Whether it mostly waits for a server; such runs have threads of their own.
    """

    name: str
    options: str
    call: Call = field(compare=False)
    away: bool = False


@dataclass(eq=False)
class _Job:
    """Items of a request that are done in one run.

    Attributes
    ----------
    kind
        The work.
    items
        What is handed to the kind's call.
    texts, characters
        How much that is; what costs more than encoding is counted as texts, too.
    done
        Gets the results; whoever waits for them may give up.
    rest
        Parts of the same request that are not in a queue yet.
    waits
        Whether it is counted as waiting: it was taken, did not begin, and was not given up.
    number
        Rises with the time of arrival.
    arrived
        That time, by the loop's clock, s.
    """

    kind: _Kind
    items: list[Any]
    texts: int
    characters: int
    done: asyncio.Future[list[Any]]
    rest: Iterator[_Job] = field(default_factory=lambda: iter(()))
    waits: bool = True
    number: int = 0
    arrived: float = 0.0


class Engine:
    """The models and the index of a service; all methods belong to one event loop.

    Parameters
    ----------
    ranker
        The models. Their encoder should have one thread: two runs side by side are faster than one with two threads.
    retriever
        The index with its models; None: nothing can be searched. The attribute may be set to another one at any time; runs
        that have begun keep theirs.
    settings
        Limits.
    entailment
        The heads that judge pairs; None: pairs are refused.
    workers
        Threads that run the models; as many as there are processors for the encoder's threads if None.

    Attributes
    ----------
    waiting
        Texts that wait for a run.
    waiting_characters
        Characters of these texts.
    busy
        Workers that are at work; those that wait for a server are not counted.
    on_batch
        Called with the kind of work and the number of texts when a run begins, if it is set.
    """

    def __init__(
        self,
        ranker: Ranker,
        retriever: HybridRetriever | None,
        settings: Settings,
        *,
        entailment: EntailmentClassifier | None = None,
        workers: int | None = None,
    ) -> None:
        self.ranker = ranker
        self.retriever = retriever
        self.settings = settings
        self.entailment = entailment
        self.workers = _workers_for(ranker) if workers is None else check_positive(workers, "workers")
        self.on_batch: Callable[[str, int], object] | None = None
        self.waiting = 0
        self.waiting_characters = 0
        self.busy = 0
        self._away = 0
        self._large = 0
        # large jobs leave a worker to the others; if there is only one, they take turns with them
        self._for_large = max(self.workers - 1, 1)
        self._was_large = False
        self._running = False
        self._reranker = Reranker(ranker)
        self._queues: dict[tuple[_Kind, bool], dict[_Job, None]] = {}
        self._open: set[asyncio.Future[list[Any]]] = set()
        self._arrivals = 0
        self._texts_of: Counter[tuple[str, bool]] = Counter()
        self._seconds_of: dict[str, float] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at_work(self) -> bool:
        """Whether a run is not over; none can be given up."""
        return self.busy + self._away > 0

    @property
    def running(self) -> bool:
        """Whether work is taken."""
        return self._running

    @property
    def searched(self) -> HybridRetriever:
        """What is searched.

        Raises
        ------
        NoIndexError
            If there is no index.
        """
        if self.retriever is None:
            raise NoIndexError(
                "this service has no index, so there is nothing to search; start it with semclass serve INDEX"
            )
        return self.retriever

    async def start(self) -> None:
        """Make ready."""
        self._pool = ThreadPoolExecutor(2 * self.workers, thread_name_prefix="semclass-worker")
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

    async def classify_questions(self, texts: Sequence[str], *, min_probability: float = 0.0) -> list[QuestionLabel]:
        """See :meth:`semclass.questions.QuestionClassifier.predict`."""
        items, predict = check_texts(texts, "questions"), self.ranker.questions.predict
        kind = _Kind("questions", repr(min_probability), lambda some: predict(some, min_probability=min_probability))
        return await self._in_parts(kind, items, [len(text) for text in items], 1)

    async def classify_passages(self, texts: Sequence[str]) -> list[PassageLabels]:
        """See :meth:`semclass.passages.PassageClassifier.predict`."""
        items = check_texts(texts, "passages")
        kind = _Kind("passages", "", self.ranker.passages.predict)
        return await self._in_parts(kind, items, [len(text) for text in items], 1)

    async def entails(self, pairs: Sequence[tuple[str, str]]) -> list[EntailmentLabel]:
        """See :meth:`semclass.entailment.EntailmentClassifier.predict`."""
        if self.entailment is None:
            raise InputError("there is no head for pairs; serve models with a folder entailment/")
        items = check_pairs(pairs)
        kind = _Kind("pairs", "", self.entailment.predict)
        return await self._in_parts(kind, items, [len(question) + len(text) for question, text in items], 2)

    async def rerank(self, question: str, passages: Sequence[Passage], **options: Any) -> list[Hit]:
        """See :meth:`semclass.rerank.Reranker.rerank`."""
        item = (check_text(question, "question"), check_passages(passages, "passages"))

        def call(some: list[tuple[str, list[Passage]]]) -> list[list[Hit]]:
            return self._reranker.rerank_many([asked for asked, _ in some], [given for _, given in some], **options)

        shown = len(item[1]) if options.get("k") is None else min(options["k"], len(item[1]))
        texts = 1 + len(item[1]) + _explained(shown, options)
        characters = len(question) + sum(len(passage.text) for passage in item[1])
        hits: list[Hit] = await self._alone(_Kind("rerank", _digest(options), call), item, texts, characters)
        return hits

    async def search(self, question: str, **options: Any) -> list[Hit]:
        """See :meth:`semclass.retriever.HybridRetriever.search`."""

        def call(some: list[str]) -> list[list[Hit]]:
            # that of when the run begins: those who waited find what is new
            return self.searched.search_many(some, **options)

        away = not isinstance(self.searched.index, PassageIndex)
        kind = _Kind("search", _digest(options), call, away)
        limit = options.get("k", HITS)
        texts = SEARCH + ceil(max(limit, options.get("candidates", CANDIDATES)) / CANDIDATES_OF_TEXT)
        texts += _explained(limit, options)
        hits: list[Hit] = await self._alone(kind, check_text(question, "question"), texts, len(question))
        return hits

    async def _alone(self, kind: _Kind, item: Any, texts: int, characters: int) -> Any:
        """Do one item, which cannot be cut."""
        job = _Job(kind, [item], texts, characters, asyncio.get_running_loop().create_future())
        return (await self._done([job]))[0]

    async def _in_parts(self, kind: _Kind, items: list[Any], lengths: list[int], each: int) -> list[Any]:
        """Do items of `each` texts and some characters, as many in a run as fit into it."""
        loop, size = asyncio.get_running_loop(), max(self.settings.batch_texts // each, 1)
        cuts = [slice(begin, begin + size) for begin in range(0, len(items), size)]
        return await self._done(
            [_Job(kind, items[cut], each * len(items[cut]), sum(lengths[cut]), loop.create_future()) for cut in cuts]
        )

    # -- the queue ----------------------------------------------------------------------------------------------------

    async def _done(self, jobs: list[_Job]) -> list[Any]:
        """Queue the parts of a request, wait for all, and give their results one after another."""
        if not self._running:
            raise Stopping("the service is not ready, or stops")
        texts, characters = sum(job.texts for job in jobs), sum(job.characters for job in jobs)
        settings = self.settings
        # what is larger than the whole queue is taken when nothing else waits; what could not be done in time never waits
        if self.waiting and (
            self.waiting + texts > settings.queue
            or self.waiting_characters + characters > settings.queue_characters
            or self._backlog() > settings.request_seconds
        ):
            raise Overloaded(self._backlog())
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

    def _queue(self, job: _Job) -> None:
        """Put a job at the end of its queue; what no other job fits beside has a queue of its own."""
        self._arrivals += 1
        job.number, job.arrived = self._arrivals, asyncio.get_running_loop().time()
        self._queues.setdefault((job.kind, self._is_large(job)), {})[job] = None

    def _leave(self, job: _Job) -> None:
        """Take a job out of the queue, if it is in one: it begins, or nobody waits for it any more."""
        if not job.waits:
            return
        job.waits = False
        self._count(job, -1)
        key = (job.kind, self._is_large(job))
        queue = self._queues.get(key, {})
        queue.pop(job, None)
        if not queue:
            self._queues.pop(key, None)

    def _count(self, job: _Job, sign: int) -> None:
        self.waiting += sign * job.texts
        self.waiting_characters += sign * job.characters
        self._texts_of[job.kind.name, self._is_large(job)] += sign * job.texts

    def _is_large(self, job: _Job) -> bool:
        return job.texts > self.settings.batch_texts

    def _backlog(self) -> float:
        """Seconds that all that waits will take, as long as texts of its kind took so far."""
        seconds = {True: 0.0, False: 0.0}
        for (name, large), count in self._texts_of.items():
            seconds[large] += count * self._seconds_of.get(name, 0.0)
        return max(sum(seconds.values()) / self.workers, seconds[True] / self._for_large, 0.1)

    # -- runs ---------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Give work to free workers."""
        while batch := self._next():
            self._begin(batch)

    def _has_place(self, kind: _Kind, *, large: bool) -> bool:
        """Whether a run may begin: as many wait for a server at a time as there are workers beside them."""
        if kind.away:
            return self._away < self.workers
        return self.busy < self.workers and not (large and self._large >= self._for_large)

    def _next(self) -> list[_Job]:
        """The jobs of the next run: the oldest, with those that may share it; none if it is better to wait for more."""
        loop, soonest = asyncio.get_running_loop(), float("inf")
        queues = [
            (large and self._was_large, next(iter(queue)).number, queue)
            for (kind, large), queue in self._queues.items()
            if self._has_place(kind, large=large)
        ]
        for *_, queue in sorted(queues, key=itemgetter(0, 1)):
            batch, full = self._fitting(queue)
            # who comes while nobody is at work does not wait
            due = batch[0].arrived + self.settings.batch_seconds if self.busy or self._away else 0.0
            if full or due <= loop.time():
                return batch
            soonest = min(soonest, due)
        if soonest < float("inf") and (self._timer is None or self._timer.when() <= loop.time()):
            self._timer = loop.call_at(soonest, self._dispatch)
        return []

    def _fitting(self, queue: dict[_Job, None]) -> tuple[list[_Job], bool]:
        """The first jobs of a queue that fit into a run, at least one, and whether it is full."""
        batch: list[_Job] = []
        texts = 0
        for job in queue:
            if batch and texts + job.texts > self.settings.batch_texts:
                return batch, True
            batch.append(job)
            texts += job.texts
        return batch, texts >= self.settings.batch_texts

    def _begin(self, batch: list[_Job]) -> None:
        kind, large = batch[0].kind, self._is_large(batch[0])
        self._occupy(kind, 1, large=large)
        self._was_large = large
        for job in batch:
            self._leave(job)
            for later in islice(job.rest, 1):
                self._queue(later)
        texts = sum(job.texts for job in batch)
        if self.on_batch is not None:
            self.on_batch(kind.name, texts)
        run = asyncio.get_running_loop().run_in_executor(self._pool, _run, kind.call, batch)
        run.add_done_callback(lambda run: self._end(batch, texts, run))

    def _occupy(self, kind: _Kind, sign: int, *, large: bool) -> None:
        if kind.away:
            self._away += sign
        else:
            self.busy += sign
            self._large += sign * large

    def _end(self, batch: list[_Job], texts: int, run: asyncio.Future[tuple[float, list[Any]]]) -> None:
        self._occupy(batch[0].kind, -1, large=self._is_large(batch[0]))
        if run.cancelled():
            return
        seconds, found = run.result()
        name = batch[0].kind.name
        before = self._seconds_of.get(name, seconds / texts)
        self._seconds_of[name] = before + NEWEST * (seconds / texts - before)
        self._dispatch()
        for job, results in zip(batch, found, strict=True):
            if job.done.done():
                continue
            if isinstance(results, Exception):
                job.done.set_exception(results)
            else:
                job.done.set_result(results)


def _run(call: Call, batch: list[_Job]) -> tuple[float, list[Any]]:
    """Do the items of several jobs in one call; gives its seconds and, for each job, its results or an exception.

    One job whose input is refused must not fail the others: then each is done by itself, if it is still waited for. Any
    other error is of all: models and indexes that fail for one fail for the next.
    """
    began = time.perf_counter()
    try:
        results = iter(call([item for job in batch for item in job.items]))
        found: list[Any] = [list(islice(results, len(job.items))) for job in batch]
    except (InputError, InputTypeError) as error:
        alone = len(batch) == 1
        found = [error] if alone else [None if job.done.done() else _run(call, [job])[1][0] for job in batch]
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to who asked
        found = [error] * len(batch)
    return time.perf_counter() - began, found


def _explained(hits: int, options: dict[str, Any]) -> int:
    """Texts that explanations of some hits cost, if there are any."""
    return ceil(hits / EXPLAINED_OF_TEXT) if options.get("explain") else 0


def _digest(options: dict[str, Any]) -> str:
    """Digest of options: equal for those that may share a run, and short for a filter of any length."""
    return blake2b(repr(sorted(options.items())).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def _workers_for(ranker: Ranker) -> int:
    return max(available_threads() // int(getattr(ranker.encoder, "threads", 1)), 1)
