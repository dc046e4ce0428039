"""Asynchronous programs search and re-rank without holding up their event loop."""

import asyncio
import inspect
import threading

from semclass import HybridRetriever
from semclass.core.asynchronous import in_thread
from semclass.core.cpu import available_threads
from semclass.encoders.batching import concurrency_limit, watched

QUESTIONS = ["Who discovered penicillin?", "When was the bridge opened?", "How long is the river?"]


def test_searches_that_are_awaited_together_give_what_they_give_one_by_one(retriever):
    async def together():
        return await asyncio.gather(*(retriever.asearch(question, 3) for question in QUESTIONS))

    assert asyncio.run(together()) == [retriever.search(question, 3) for question in QUESTIONS]
    assert asyncio.run(retriever.asearch_many(QUESTIONS, 2, method="convex")) == retriever.search_many(
        QUESTIONS, 2, method="convex"
    )


def test_the_event_loop_goes_on_while_a_thread_works():
    class Slow:
        def __init__(self):
            self.may_end = threading.Event()

        def work(self, number):
            """Wait until the loop has done something else."""
            assert self.may_end.wait(10)
            return number + 1

        awork = in_thread(work)

    async def both():
        slow = Slow()
        task = asyncio.create_task(slow.awork(1))
        await asyncio.sleep(0)
        slow.may_end.set()
        return await task

    assert asyncio.run(both()) == 2


def test_a_twin_has_the_arguments_of_the_method():
    assert inspect.signature(HybridRetriever.asearch) == inspect.signature(HybridRetriever.search)
    assert HybridRetriever.asearch.__name__ == "asearch"


def test_a_question_waits_while_all_processors_are_busy(retriever):
    taken, limit = 0, concurrency_limit()
    while limit.acquire(blocking=False):
        taken += 1
    assert taken == available_threads()
    thread = threading.Thread(target=retriever.search, args=(QUESTIONS[0],), kwargs={"method": "convex", "k": 1})
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    with watched(lambda: None):  # who counts for themselves do not wait
        retriever.search(QUESTIONS[0], k=1, method="convex")
    for _ in range(taken):
        limit.release()
    thread.join(10)
    assert not thread.is_alive()
