"""The smoothed load: a time-weighted average, read when it is asked for."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.load import SmoothedLoad


def test_it_approaches_a_constant_count_exponentially():
    load = SmoothedLoad(60.0, 0.0)
    load.observe(10, 0.0)
    assert load.read(60.0) == pytest.approx(10 * (1 - math.exp(-1)))
    assert load.read(6000.0) == pytest.approx(10.0)


def test_it_decays_while_nobody_looks():
    load = SmoothedLoad(60.0, 0.0)
    load.observe(10, 0.0)
    load.observe(0, 6000.0)
    assert load.read(6060.0) == pytest.approx(10 * math.exp(-1))


def test_it_weighs_time_and_not_arrivals():
    once, often = SmoothedLoad(10.0, 0.0), SmoothedLoad(10.0, 0.0)
    once.observe(4, 0.0)
    for step in range(100):
        often.observe(4, step / 100)
    assert often.read(5.0) == pytest.approx(once.read(5.0))


def test_without_smoothing_it_is_the_count():
    load = SmoothedLoad(0.0, 0.0)
    load.observe(7, 0.0)
    assert load.read(0.0) == 7.0


def test_changing_the_time_constant_keeps_what_was_learnt():
    load = SmoothedLoad(60.0, 0.0)
    load.observe(10, 0.0)
    before = load.read(30.0)
    load.retune(5.0, 30.0)
    assert load.read(30.0) == pytest.approx(before)


@given(
    st.floats(0, 100),
    st.lists(st.tuples(st.integers(0, 50), st.floats(-5, 50)), min_size=1, max_size=30),
)
def test_it_stays_between_the_counts_it_saw_whatever_the_clock_does(tau_s, steps):
    load, now = SmoothedLoad(tau_s, 0.0), 0.0
    highest = 0
    for count, passed in steps:
        now += passed
        load.observe(count, now)
        highest = max(highest, count)
        assert 0.0 <= load.read(now) <= highest + 1e-9
