"""What is known of how long work takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass_serve import work_cost as module
from semclass_serve.work_cost import Pace


@pytest.fixture
def now(monkeypatch):
    """A clock that is set by hand."""
    found = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: found[0])
    return found


def learned(*runs):
    """A pace that knows runs of some characters, seconds by the clock and of a processor."""
    pace = Pace()
    pace.learn("a", 1, 99.0, 99.0)  # the first run of a kind makes what is made on first use
    for run in runs:
        pace.learn("a", *run)
    return pace


def test_work_that_was_not_seen_costs_nothing():
    assert Pace().alone("a", 1000) == 0
    assert learned().alone("a", 1000) == 0
    assert learned((10, 1.0, 1.0)).alone("b", 10) == 0


def test_a_character_costs_processor_time_however_busy_the_processor_was():
    pace = learned((10, 5.0, 1.0))
    assert pace.alone("a", 1000) == pytest.approx(100)
    assert pace.slowness == pytest.approx(5, rel=0.01)


def test_slowness_fades(now):
    pace = learned((10, 5.0, 1.0))
    now[0] += module.FRESH
    assert pace.slowness == pytest.approx(1 + 4 / 2.718, rel=0.01)
    now[0] += 100 * module.FRESH
    pace.learn("a", 10, 3.0, 1.0)
    assert pace.slowness == pytest.approx(3)


def test_a_run_that_was_given_up_costs_at_least_what_it_took():
    pace = learned((10, 1.0, 1.0))
    pace.learn("a", 1000, 1.0, 1.0, whole=False)
    assert pace.alone("a", 1) == pytest.approx(0.1)
    pace.learn("a", 10, 9.0, 9.0, whole=False)
    assert pace.alone("a", 1) > 0.8


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(1e-6, 30), st.floats(1, 50)), min_size=1, max_size=20))
def test_a_cost_is_never_beyond_those_that_were_seen(runs):
    pace = learned(*((cost, processor * slow, processor) for cost, processor, slow in runs))
    each = [processor / cost for cost, processor, _ in runs]
    assert min(each) * 0.999 <= pace.alone("a", 1) <= max(each) * 1.001
    assert 1 <= pace.slowness <= max(slow for *_, slow in runs) * 1.001
