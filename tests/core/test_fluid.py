"""What a switch costs and what staying misses, on lanes that are what they say."""

import math

import pytest

from specgate.core.curves import Curve, Curves
from specgate.core.fluid import duration_s, flow, missed, speed, switch_cost
from specgate.core.lanes import Lane

LOADS = (1.0, 10.0, 100.0)
# Speculation gives twice as much at the bottom and half at the top; they meet at 10.
CURVES = Curves(
    spec=Curve(LOADS, (200.0, 1000.0, 1500.0)),
    plain=Curve(LOADS, (100.0, 1000.0, 3000.0)),
    output_tokens=100.0,
)


def cost(there: Lane, *, old: float, offered: float, share: float = 0.5) -> float:
    return switch_cost(
        CURVES, there, old=old, new=0.0, offered=offered, work=100.0, share=share, over=40.0
    )


def miss(here: Lane, *, load: float, offered: float) -> float:
    return missed(CURVES, here, load=load, offered=offered, work=100.0, over=40.0)


def test_a_flow_that_is_steady_stays_and_its_area_is_the_load_times_the_time():
    assert flow(10.0, 5.0, 0.5, 7.0) == pytest.approx((10.0, 70.0))


def test_a_flow_keeps_what_came_and_did_not_leave():
    after, area = flow(4.0, 3.0, 0.5, 2.0)
    assert after == pytest.approx(4.0 + 3.0 * 2.0 - 0.5 * area)


def test_a_lane_is_as_fast_as_ever_beside_an_idle_one():
    assert speed(0.0, 0.5) == 1.0
    assert speed(50.0, 0.5) == pytest.approx(0.5)


def test_the_duration_is_that_at_what_is_asked():
    assert duration_s(CURVES, Lane.PLAIN, offered=1000.0, work=100.0) == pytest.approx(1.0)
    full = duration_s(CURVES, Lane.PLAIN, offered=9e9, work=100.0)
    assert full == pytest.approx(100.0 / (3000.0 / 100.0))


def test_with_nothing_in_flight_a_switch_costs_nothing():
    assert cost(Lane.PLAIN, old=0.0, offered=500.0) == pytest.approx(0.0, abs=1e-6)


def test_lanes_that_do_not_slow_each_other_cost_far_less():
    assert cost(Lane.PLAIN, old=20.0, offered=1500.0, share=1.0) < 0.3 * cost(
        Lane.PLAIN, old=20.0, offered=1500.0
    )


@pytest.mark.parametrize("there", list(Lane))
def test_it_costs_more_with_more_in_flight_and_much_more_where_the_lane_is_nearly_full(there):
    top = CURVES.of(there).top
    few, many = (cost(there, old=old, offered=0.5 * top) for old in (5.0, 50.0))
    assert 0.0 < few < many
    assert cost(there, old=50.0, offered=0.95 * top) > 3.0 * many


def test_staying_misses_what_the_other_lane_would_spare_and_never_both_ways():
    for load, offered in ((2.0, 200.0), (60.0, 1400.0), (90.0, 2500.0)):
        spec, plain = (miss(lane, load=load, offered=offered) for lane in Lane)
        assert spec * plain < 0.0
    assert miss(Lane.SPEC, load=90.0, offered=2500.0) > 0.0
    assert miss(Lane.PLAIN, load=2.0, offered=200.0) > 0.0


def test_what_cannot_be_carried_piles_up_the_longer():
    once, more = (miss(Lane.SPEC, load=90.0, offered=offered) for offered in (1600.0, 2400.0))
    assert more > 2.0 * once
    assert math.isfinite(more)
