"""A value that is made once, whatever threads read it."""

import copy
from threading import Event, Thread

import pytest

from semclass.core.once import Once


class Slow:
    """Makes a value when it is let, and counts how often."""

    def __init__(self):
        self.made = 0

    @Once
    def value(self):
        STARTED.set()
        assert LET.wait(10)
        self.made += 1
        return [self.made]

    @Once
    def other(self):
        return "other"


STARTED, LET = Event(), Event()


@pytest.fixture(autouse=True)
def fresh():
    STARTED.clear()
    LET.set()


def test_threads_that_come_together_share_one_value():
    LET.clear()
    slow, found = Slow(), []
    threads = [Thread(target=lambda: found.append(slow.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert STARTED.wait(10)
    LET.set()
    for thread in threads:
        thread.join()
    assert slow.made == 1
    assert all(value is slow.value for value in found)


def test_other_values_and_other_objects_do_not_wait():
    LET.clear()
    slow = Slow()
    thread = Thread(target=lambda: slow.value)
    thread.start()
    assert STARTED.wait(10)
    assert (slow.other, Slow().other) == ("other", "other")
    LET.set()
    thread.join()


def test_an_object_can_be_copied_once_its_value_is_made():
    slow = Slow()
    assert slow.value == [1]
    assert copy.deepcopy(slow).value == [1]


def test_a_value_that_could_not_be_made_is_made_again():
    class Failing:
        failures = iter([ValueError("first")])

        @Once
        def value(self):
            for failure in self.failures:
                raise failure
            return 7

    failing = Failing()
    with pytest.raises(ValueError, match="first"):
        _ = failing.value
    assert failing.value == 7
