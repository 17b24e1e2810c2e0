"""The rate of arrivals: steady while it is, and soon another when it has changed."""

import math
import random

import pytest

from specgate.core.arrivals import Arrivals

WINDOW_S = 100.0


def fed(arrivals: Arrivals, rate: float, *, since: float, until: float, seed: int) -> float:
    """Random arrivals at a rate; when the last came."""
    draw = random.Random(seed)
    now = since
    while (at := now + draw.expovariate(rate)) < until:
        now = at
        arrivals.arrived(1, now, WINDOW_S)
    return now


@pytest.mark.parametrize("seed", range(5))
def test_one_rate_is_found_and_no_change_in_it(seed):
    arrivals = Arrivals(0.0)
    fed(arrivals, 5.0, since=0.0, until=1000.0, seed=seed)
    assert arrivals.changed == 0
    assert arrivals.rate(0.0) == pytest.approx(5.0, rel=0.2)
    assert arrivals.known == pytest.approx(500.0, rel=0.2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [3.0, 1 / 3.0])
def test_a_change_is_seen_long_before_the_window_is_over(seed, factor):
    arrivals = Arrivals(0.0)
    fed(arrivals, 5.0, since=0.0, until=500.0, seed=seed)
    fed(arrivals, 5.0 * factor, since=500.0, until=500.0 + 0.3 * WINDOW_S, seed=seed + 100)
    assert arrivals.changed >= 1
    assert arrivals.rate(0.0) == pytest.approx(5.0 * factor, rel=0.5)


def test_a_window_that_grows_leaves_the_rate_what_it_is():
    """Durations grow with the load, and the window with them."""
    arrivals = Arrivals(0.0)
    for number in range(1, 2001):
        arrivals.arrived(1, number / 10.0, 10.0 + number / 20.0)
    assert arrivals.rate(0.0) == pytest.approx(10.0, rel=0.02)


def test_until_it_has_changed_once_it_is_no_rate_over_a_moment():
    arrivals = Arrivals(0.0)
    arrivals.arrived(1, 0.01, WINDOW_S)
    assert arrivals.rate(10.0) == pytest.approx(0.1, rel=0.01)


def test_batches_count_with_all_their_sequences_and_are_no_change():
    arrivals = Arrivals(0.0)
    draw, now = random.Random(1), 0.0
    for _ in range(3000):
        now += draw.expovariate(2.0)
        arrivals.arrived(4, now, WINDOW_S)
    assert arrivals.changed == 0
    assert arrivals.rate(0.0) == pytest.approx(8.0, rel=0.25)


def test_what_would_have_shown_by_now_falls_with_the_gap():
    arrivals = Arrivals(0.0)
    arrivals.arrived(1, 1.0, WINDOW_S)
    assert arrivals.quiet() == math.inf
    arrivals.catch_up(11.0, WINDOW_S)
    assert arrivals.quiet() == pytest.approx(0.5)
