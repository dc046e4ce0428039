"""Values that only one thread computes, and how many threads work at a time."""

import os
import threading
from threading import Event, Thread

import pytest

from semclass.core.tools import Once, available_threads
from semclass.encoders.batching import concurrency_limit, watched

ALLOWED = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
QUESTIONS = ["Who discovered penicillin?", "When was the bridge opened?", "How long is the river?"]


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


class Lazy:
    """Makes a value when it is let, and counts how often."""

    def __init__(self):
        self.made = 0

    @Once
    def value(self):
        STARTED.set()
        assert LET.wait(10)
        self.made += 1
        return [self.made]


STARTED, LET = Event(), Event()


@pytest.fixture(autouse=True)
def fresh():
    STARTED.clear()
    LET.set()


def test_threads_that_come_together_share_one_value():
    LET.clear()
    slow, found = Lazy(), []
    threads = [Thread(target=lambda: found.append(slow.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert STARTED.wait(10)
    LET.set()
    for thread in threads:
        thread.join()
    assert slow.made == 1
    assert all(value is slow.value for value in found)


@pytest.mark.parametrize(
    ("content", "expected"),
    [("100000 100000", 1), ("50000 100000", 1), ("max 100000", ALLOWED), ("90000000 100000", ALLOWED), ("", ALLOWED)],
)
def test_the_quota_of_a_container_is_respected(tmp_path, content, expected):
    (tmp_path / "cpu.max").write_text(content)
    assert available_threads(tmp_path / "cpu.max") == expected
    assert available_threads(tmp_path / "none") == ALLOWED
