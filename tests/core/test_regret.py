"""What staying costs against what a switch costs, on lanes that are what they say."""

import math
from dataclasses import replace

import pytest

from specgate.core.curves import Curve, Curves
from specgate.core.demand import Demand
from specgate.core.lanes import Lane
from specgate.core.prefixes import Prefixes
from specgate.core.regret import Regret

LOADS = (1.0, 10.0, 100.0)
# Speculation pays twice over at the bottom, costs half at the top; they meet at 10.
CURVES = Curves(
    spec=Curve(LOADS, (200.0, 1000.0, 1500.0)),
    plain=Curve(LOADS, (100.0, 1000.0, 3000.0)),
    output_tokens=100.0,
)


def steady(side: Lane, load: int, *, durations: float, curves: Curves = CURVES) -> float:
    """The regret's share of the price after so long at a load that a lane just holds."""
    demand = Demand(curves, 0.0)
    regret = Regret(curves, 0.0)
    duration_s = 100.0 / curves.of(side).each(load)
    step_s, marks, now = duration_s / load, [], 0.0
    spec, plain = (load, 0) if side is Lane.SPEC else (0, load)
    while now < durations * duration_s:
        marks.append(demand.arrived(side, 1, now))
        if len(marks) > load:
            demand.left(marks.pop(0), now)
        regret.step(now, side=side, spec=spec, plain=plain, demand=demand)
        now += step_s
    return regret.share


@pytest.mark.parametrize(("side", "load"), [(Lane.SPEC, 2), (Lane.PLAIN, 60)])
def test_on_the_better_side_nothing_is_regretted(side, load):
    assert steady(side, load, durations=50) == 0.0


@pytest.mark.parametrize(("side", "load"), [(Lane.SPEC, 90), (Lane.PLAIN, 2)])
def test_on_the_worse_side_a_switch_is_worth_it_before_long(side, load):
    assert steady(side, load, durations=30) >= 1.0


def test_regret_needs_time():
    assert steady(Lane.PLAIN, 2, durations=0.2) < 1.0


def test_a_larger_gain_takes_less_time():
    assert steady(Lane.SPEC, 90, durations=6) > steady(Lane.SPEC, 20, durations=6)


def test_what_a_switch_loses_of_the_caches_is_waited_for():
    """The same regret is a smaller share of the price, the more there is to read anew."""
    shares = []
    for tokens in (0.0, 100.0, 1000.0):
        lost = replace(CURVES, prefixes=Prefixes(tokens, 60.0, 5000.0))
        shares.append(steady(Lane.PLAIN, 2, durations=1.0, curves=lost))
    assert shares[0] == steady(Lane.PLAIN, 2, durations=1.0)
    assert shares[0] > shares[1] > shares[2] > 0.0


def test_what_is_lost_by_hand():
    """Two requests a second, a gap of a minute: 120 of them read 500 tokens at 6,000 a second."""
    assert Prefixes(500.0, 60.0, 6000.0).lost_s(2.0) == pytest.approx(10.0)


def test_where_the_measurement_says_nothing_nothing_is_regretted():
    unknown = Curves(
        spec=CURVES.spec, plain=CURVES.plain, open=((0.5, math.inf),), output_tokens=100.0
    )
    for side, load in ((Lane.SPEC, 90), (Lane.PLAIN, 2)):
        assert steady(side, load, durations=30, curves=unknown) == 0.0


def test_each_switch_makes_the_next_one_dearer():
    demand, regret = Demand(CURVES, 0.0), Regret(CURVES, 0.0)
    for second in range(5):
        demand.arrived(Lane.PLAIN, 1, float(second))
    shares = []
    for number in range(3):
        now = 5.0 + number
        for tenth in range(1, 10):
            regret.step(now + tenth / 10, side=Lane.PLAIN, spec=0, plain=2, demand=demand)
        shares.append(regret.share)
        regret.switched(now + 0.95)
        regret.switched(now + 0.95)
    assert shares[0] > shares[1] > shares[2] > 0.0


def test_time_that_stands_still_changes_nothing():
    demand, regret = Demand(CURVES, 0.0), Regret(CURVES, 0.0)
    demand.arrived(Lane.PLAIN, 1, 0.0)
    first = regret.step(1.0, side=Lane.PLAIN, spec=0, plain=2, demand=demand)
    assert regret.step(1.0, side=Lane.PLAIN, spec=0, plain=90, demand=demand) == first
    assert regret.step(0.5, side=Lane.PLAIN, spec=0, plain=90, demand=demand) == first


# The other way about: speculation carries more, and a single request is better off without it.
INVERTED = Curves(
    spec=Curve(LOADS, (80.0, 900.0, 3000.0)),
    plain=Curve(LOADS, (100.0, 1000.0, 1500.0)),
    output_tokens=100.0,
)


@pytest.mark.parametrize("curves", [CURVES, INVERTED])
def test_an_idle_gate_goes_where_a_single_sequence_is_served_best(curves):
    side = curves.best_idle.other
    demand, regret = Demand(curves, 0.0), Regret(curves, 0.0)
    assert regret.step(0.9, side=side, spec=0, plain=0, demand=demand) < 1.0
    assert regret.step(1.1, side=side, spec=0, plain=0, demand=demand) >= 1.0
    assert Regret(curves, 0.0).step(9.0, side=side.other, spec=0, plain=0, demand=demand) == 0.0


# They part only at 1,450 of the 1,500 tokens a second that the spec lane can give.
PARTING_LATE = Curves(
    spec=Curve((1.0, 16.0, 64.0, 100.0), (120.0, 1200.0, 1450.0, 1500.0)),
    plain=Curve((1.0, 16.0, 64.0, 100.0), (100.0, 1000.0, 1450.0, 1600.0)),
    output_tokens=100.0,
)


@pytest.mark.parametrize(
    ("curves", "tops", "after_s"),
    [
        pytest.param(CURVES, 0.9, 10.0, id="after a peak"),
        pytest.param(CURVES, 1.6, 10.0, id="after more than the other lane can give"),
        pytest.param(PARTING_LATE, 1.6, 600.0, id="left full, after more than it can give"),
    ],
)
def test_after_a_peak_an_idle_gate_waits_for_longer(curves, tops, after_s):
    demand, regret = Demand(curves, 0.0), Regret(curves, 0.0)
    now, every = 0.0, 100.0 / (tops * curves.spec.top)
    while now < 20.0:
        demand.left(demand.arrived(Lane.PLAIN, 1, now), now + 0.02)
        now += every
        regret.step(now, side=Lane.PLAIN, spec=0, plain=60, demand=demand)

    def idle_for(seconds: float) -> float:
        return regret.step(now + seconds, side=Lane.PLAIN, spec=0, plain=0, demand=demand)

    assert idle_for(0.9 * after_s) < 1.0
    assert idle_for(1.2 * after_s) >= 1.0


def test_the_lane_that_carries_less_is_not_entered_where_much_is_offered():
    demand, regret = Demand(CURVES, 0.0), Regret(CURVES, 0.0)
    # 14 a second: 1,400 of the spec lane's 1,500 tokens; and few in flight, as if it paid.
    for number in range(1400):
        now = number / 14.0
        demand.arrived(Lane.PLAIN, 1, now)
        share = regret.step(now + 0.06, side=Lane.PLAIN, spec=0, plain=2, demand=demand)
        assert share == 0.0 or now < 5.0


def test_what_a_rise_will_cost_counts_at_once_while_little_is_in_flight():
    """Towards the lane that carries more nobody waits until it has cost as much as a switch."""
    demand, regret = Demand(CURVES, 0.0), Regret(CURVES, 0.0)
    now = 0.0
    for _ in range(60):  # one a second, and then 25
        now += 1.0
        demand.left(demand.arrived(Lane.SPEC, 1, now), now + 0.5)
        assert regret.step(now + 0.6, side=Lane.SPEC, spec=1, plain=0, demand=demand) < 1.0
    rose_at, share = now, 0.0
    while share < 1.0 and now < rose_at + 10.0:
        now += 0.04
        demand.arrived(Lane.SPEC, 1, now)
        share = regret.step(now, side=Lane.SPEC, spec=5, plain=0, demand=demand)
    assert share >= 1.0
    assert now - rose_at < 3.0
