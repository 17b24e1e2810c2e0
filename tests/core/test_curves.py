"""Both lanes' curves: between, below and above the levels; where speculation pays."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane

LOADS = (1.0, 2.0, 8.0)
RISING = Curve(LOADS, (100.0, 180.0, 400.0))


def curves(spec, plain, **more) -> Curves:
    return Curves(spec=Curve(LOADS, spec), plain=Curve(LOADS, plain), **more)


CROSSES = curves((120.0, 190.0, 300.0), (100.0, 180.0, 400.0))
INVERTED = curves((80.0, 180.0, 500.0), (100.0, 190.0, 400.0))


def test_levels_are_met_and_nothing_is_gained_beyond_them():
    assert [RISING.rate(load) for load in LOADS] == pytest.approx([100, 180, 400])
    assert RISING.rate(0.5) == 50.0
    assert RISING.rate(800) == 400.0
    assert RISING.rate(0) == 0.0
    assert RISING.each(16) == 25.0


def test_between_two_levels_the_logarithms_are_linear():
    assert RISING.rate(4) == pytest.approx(math.sqrt(180 * 400))


@given(st.floats(1, 399))
def test_the_load_for_a_rate_gives_that_rate(tok_s):
    assert RISING.rate(RISING.load_at(tok_s)) == pytest.approx(tok_s)


def test_what_a_lane_cannot_give_has_no_load():
    assert RISING.load_at(401) == math.inf
    falling = Curve(LOADS, (100.0, 300.0, 200.0))
    assert falling.top == 300.0
    assert falling.load_at(250) < 2.0, "the lower of the two loads"


def test_speculation_pays_up_to_where_the_curves_meet():
    ((low, high),) = CROSSES.paying
    assert low == 0.0
    assert CROSSES.spec.rate(high) == pytest.approx(CROSSES.plain.rate(high))


def test_a_burst_is_above_the_loads_that_pay_and_costs_something():
    ((_, high),) = CROSSES.paying
    for seen_from in (0.0, high - 1, high + 1):
        assert CROSSES.burst(seen_from, 1.2, 1.0) == pytest.approx(1.2 * high)
        assert CROSSES.burst(seen_from, 1.2, 0.01) == math.inf
    at = CROSSES.burst(0.0, 1.2, 0.8)
    assert 1.2 * high < at == CROSSES.spec.loads[-1]
    assert CROSSES.spec.rate(at) <= 0.8 * CROSSES.plain.rate(at)


def test_from_below_the_loads_that_pay_nothing_is_a_burst():
    assert INVERTED.burst(1.0, 1.2, 1.0) == math.inf
    assert INVERTED.burst(100.0, 1.2, 1.0) == math.inf


def test_a_narrow_gap_ends_no_paying_interval():
    loads = (1.0, 10.0, 12.0, 20.0, 100.0, 200.0)
    spec = Curve(loads, (2.0, 20.0, 19.0, 40.0, 100.0, 150.0))
    plain = Curve(loads, (1.0, 19.0, 20.0, 38.0, 120.0, 300.0))
    both = Curves(spec=spec, plain=plain, output_tokens=100.0)
    assert len(both.paying) == 2
    assert both.burst(0.0, 1.2, 1.0) == pytest.approx(1.2 * both.paying[1][1])


def test_it_may_pay_only_above_a_load_or_nowhere_or_everywhere():
    ((low, high),) = INVERTED.paying
    assert 2.0 < low < 8.0
    assert high == math.inf
    assert curves((1.0, 2.0, 3.0), (2.0, 3.0, 4.0)).paying == ()
    assert curves((2.0, 3.0, 4.0), (1.0, 2.0, 3.0)).paying == ((0.0, math.inf),)


def test_within_the_margin_and_in_open_intervals_neither_lane_is_better():
    assert CROSSES.standing(1) == 1
    assert CROSSES.standing(8) == -1
    assert CROSSES.standing(CROSSES.paying[0][1]) == 0
    assert CROSSES.standing(0) == 0
    open_ = curves(CROSSES.spec.tok_s, CROSSES.plain.tok_s, open=((0.5, 1.5),))
    assert open_.standing(1) == 0
    assert open_.standing(8) == -1


def test_a_longer_accept_length_moves_the_edge_up_and_the_plain_lane_not():
    longer = CROSSES.scaled(1.2)
    assert longer.paying[0][1] > CROSSES.paying[0][1]
    assert longer.of(Lane.PLAIN) == CROSSES.plain
    assert longer.spec.rate(2) == pytest.approx(1.2 * 190)
    assert CROSSES.scaled(0.5).paying == ()
