"""The queue and the engine: shared runs, small and large requests, requests that were given up."""

import asyncio
import contextlib
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semclass import EntailmentClassifier, InputError, PassageIndex, Reranker
from semclass.encoders.batching import steps
from semclass_serve import queue
from semclass_serve.engine import Engine
from semclass_serve.errors import ServiceError
from semclass_serve.limits import Settings

PATIENCE = 20
"""Seconds after which a test fails that waits for something."""


class Work:
    """Stands for the models: every run waits until it is let go, and is remembered."""

    def __init__(self, *, held=True):
        self.runs = []
        self.began, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.held = held
        self.questions = self.passages = SimpleNamespace(classify=self.classify)
        self.has_classes, self.pair_heads = True, object()

    def classify(self, texts, min_probability=0.0):
        self.runs.append(list(texts))
        self.began.release()
        if self.held:
            assert self.may_end.acquire(timeout=PATIENCE)
        if any("bad" in text for text in texts):
            raise InputError("one of the texts is bad")
        return [f"{text}@{min_probability}" for text in texts]

    def rerank_many(self, questions, passages, **options):
        return [[hit] for hit in self.classify(questions)]

    def let_go(self, runs=1):
        self.may_end.release(runs)

    async def begun(self, runs=1):
        """Wait until so many runs more have begun."""
        for _ in range(runs):
            assert await asyncio.to_thread(self.began.acquire, timeout=PATIENCE)


@contextlib.asynccontextmanager
async def started(work, workers=1, run_items=4, **limits):
    engine = Engine(work, None, Settings(**limits), workers=workers)
    engine._reranker, before = work, asyncio.all_tasks()
    await engine.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "RUN_ITEMS", run_items)
        try:
            yield engine
        finally:
            work.held = False
            work.let_go(1000)
            await engine.stop()
    assert not any(engine._waiting.values())
    assert asyncio.all_tasks() <= before


async def asked(engine, *requests, **options):
    """Begin requests in this order; gives their tasks."""
    tasks = []
    for texts in requests:
        tasks.append(asyncio.create_task(engine.classify_questions(texts, **options)))
        await asyncio.sleep(0)
    return tasks


def in_loop(test):
    """Run a test in an event loop."""

    def run():
        asyncio.run(asyncio.wait_for(test(), PATIENCE))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_loop
async def test_small_requests_share_a_run():
    work = Work()
    async with started(work) as engine:
        first = await asked(engine, ["a"])
        await work.begun()
        later = await asked(engine, ["b"], ["c", "d"], ["e"], ["f"])
        assert engine.waiting == 5
        work.let_go(3)
        assert await asyncio.gather(*first, *later) == [["a@0.0"], ["b@0.0"], ["c@0.0", "d@0.0"], ["e@0.0"], ["f@0.0"]]
    assert work.runs == [["a"], ["b", "c", "d", "e"], ["f"]]


@in_loop
async def test_a_large_request_is_split_and_lets_others_pass():
    work = Work()
    async with started(work) as engine:
        large = await asked(engine, [f"large {place}" for place in range(12)])
        await work.begun()
        small = await asked(engine, ["small"])
        work.let_go(2)
        assert await asyncio.gather(*small) == [["small@0.0"]]
        work.let_go(2)
        assert await asyncio.gather(*large) == [[f"large {place}@0.0" for place in range(12)]]
    assert [len(run) for run in work.runs] == [4, 1, 4, 4]


class Searched:
    """Stands for a retriever whose runs wait as those of the models do."""

    def __init__(self, work):
        self.work, self.index, self.error = work, object.__new__(PassageIndex), None

    def search_many(self, questions, k, **options):
        found = self.work.rerank_many(questions, None)
        if self.error is not None:
            raise self.error
        return found


@contextlib.asynccontextmanager
async def searching(work, workers=1, **limits):
    async with started(work, workers, **limits) as engine:
        engine.retriever = Searched(work)
        yield engine


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("words", "options"), [(1, {"k": 1000, "candidates": 1000, "explain": True}), (3000, {})])
def test_large_searches_let_small_requests_pass(workers, words, options):
    async def scene():
        work = Work()
        async with searching(work, workers, run_items=64) as engine:
            questions = [f"large {place}" + " w" * words for place in range(3)]
            large = [asyncio.create_task(engine.search(question, **options)) for question in questions]
            await work.begun()
            small = asyncio.create_task(engine.classify_questions(["small"]))
            await asyncio.sleep(0)
            await work.begun()  # beside it, also where there is one worker
            assert work.runs == [questions[:1], ["small"]]
            work.held = False
            work.let_go(2)
            await asyncio.gather(*large, small)
        assert [len(run) for run in work.runs] == [1] * 4

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


@in_loop
async def test_an_unwanted_run_ends_before_its_next_step():
    work = Work()

    def in_steps(texts, min_probability=0.0):
        for _ in steps(range(100)):
            work.classify(texts)
        return texts

    work.questions = SimpleNamespace(classify=in_steps)
    async with started(work, workers=2) as engine:
        first, second = await asked(engine, ["a"], ["b"])
        await work.begun(2)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await engine.stop()
        work.let_go(2)
        assert (await asyncio.gather(second, return_exceptions=True))[0].status == 503
        while engine._runs:
            await asyncio.sleep(0)
    assert sorted(work.runs) == [["a"], ["b"]]


@in_loop
async def test_a_bad_request_fails_alone():
    work = Work()
    async with started(work) as engine:
        first = await asked(engine, ["a"])
        await work.begun()
        good, bad, other = await asked(engine, ["b"], ["bad"], ["c"])
        work.held = False
        work.let_go()
        await asyncio.gather(*first)
        assert await asyncio.gather(good, other) == [["b@0.0"], ["c@0.0"]]
        with pytest.raises(InputError, match="bad"):
            await bad
    assert work.runs == [["a"], ["b", "bad", "c"], ["b"], ["bad"], ["c"]]


@in_loop
async def test_a_request_behind_too_much_work_is_refused():
    work = Work()
    async with searching(work, request_seconds=2.5) as engine:
        tasks = [asyncio.create_task(engine.search("w " * 2500)) for _ in range(4)]  # about 0.7 s each
        await work.begun()
        with pytest.raises(ServiceError, match="busy") as raised:
            await engine.search("w " * 2500)
        assert raised.value.status == 429
        small = asyncio.create_task(engine.search("small"))  # waits for small requests alone
        await work.begun()
        work.held = False
        work.let_go(9)
        await asyncio.gather(*tasks, small)


@settings(max_examples=60)
@given(
    requests=st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from([0.0, 0.5]), st.booleans(), st.integers(0, 2)), max_size=12
    ),
    workers=st.integers(1, 3),
    run_items=st.integers(1, 6),
)
def test_every_request_gets_its_own_answer(requests, workers, run_items):
    async def scene():
        work = Work(held=False)
        async with started(work, workers, run_items=run_items) as engine:
            tasks = []
            for number, (size, least, _, pauses) in enumerate(requests):
                texts = [f"{number}.{place}" for place in range(size)]
                tasks.append(asyncio.create_task(engine.classify_questions(texts, min_probability=least)))
                for _ in range(pauses):
                    await asyncio.sleep(0)
            for task, (_, _, gone, _) in zip(tasks, requests, strict=True):
                if gone:
                    task.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
        for number, ((size, least, gone, _), answer) in enumerate(zip(requests, found, strict=True)):
            if not (gone and isinstance(answer, asyncio.CancelledError)):
                assert answer == [f"{number}.{place}@{least}" for place in range(size)]
        assert all(len(run) <= run_items for run in work.runs)

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


def test_shared_runs_answer_as_the_library(models, corpus, retriever):
    entailment = EntailmentClassifier.load(encoder=models.encoder)
    questions = ["Who designed the lighthouse?", "When was the bridge opened?", "How long is the river?"]

    async def scene():
        engine = Engine(models, retriever, Settings(), entailment=entailment)
        await engine.start()
        try:
            return await asyncio.gather(
                asyncio.gather(*(engine.rerank(question, corpus[:6], k=3) for question in questions)),
                asyncio.gather(*(engine.search(question, k=3) for question in questions)),
                engine.classify_questions(questions),
                engine.classify_passages([item.text for item in corpus[:3]]),
                engine.entails([(questions[0], corpus[0].text)]),
            )
        finally:
            await engine.stop()

    ranked, found, labels, provided, judged = asyncio.run(scene())
    alone = Reranker(models)
    for question, hits, results in zip(questions, ranked, found, strict=True):
        expected = {hit.id: hit.score for hit in alone.rerank(question, corpus[:6], k=3)}
        assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, abs=1e-6)
        assert [hit.id for hit in results] == [hit.id for hit in retriever.search(question, k=3)]
    assert [label.label for label in labels] == [found.label for found in models.questions.classify(questions)]
    assert [label.labels for label in provided] == [
        found.labels for found in models.passages.classify([item.text for item in corpus[:3]])
    ]
    assert judged[0].probability == pytest.approx(entailment.classify([(questions[0], corpus[0].text)])[0].probability)
