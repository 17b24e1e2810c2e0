"""What the meter says was gained, against what the lanes alone really took, in virtual time."""

import math
from dataclasses import replace
from statistics import fmean

import pytest

from specgate.bench.shipped import shipped
from specgate.core.config import PolicyConfig
from specgate.core.lanes import Lane
from specgate.core.meter import Meter
from specgate.core.threshold import curves_of
from specgate.replay.deciders import Fixed, Policy
from specgate.replay.run import World, run
from specgate.replay.traffic import pattern

_CURVES = curves_of(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k"))
assert _CURVES is not None
CURVES = _CURVES


@pytest.mark.parametrize("load", [0.2, 0.4, 0.8])
def test_it_says_what_one_lane_alone_would_have_taken(load):
    arrivals = pattern("constant", load * CURVES.plain.top, seed=5, most=4000)
    policy = Policy(PolicyConfig(threshold=1.0, curves=CURVES))
    took = fmean(run(CURVES, arrivals, policy, World()).e2e_s)
    plain = fmean(run(CURVES, arrivals, Fixed(Lane.PLAIN), World()).e2e_s)
    gain = policy.gate.view().gain
    assert gain is not None
    assert gain.sequences == len(arrivals)
    said = gain.against_plain.middle / gain.sequences
    # A tenth of what a request takes: the load swings about what is offered on the mean.
    assert said == pytest.approx(plain - took, abs=0.1 * plain)


WORK = 200.0
RATE = 1.5
"""Sequences a second: 300 tokens a second, which both lanes can give."""


def meter(spread: float | None = None, **more: float) -> Meter:
    return Meter(replace(CURVES, spread=spread), 0.0, **more)


def steady(on: Meter, lane: Lane, *, seconds: int, since: int = 0, waiting: int = 0) -> None:
    """Two come every second and a third, in steps of as long."""
    for step in range(since, since + round(seconds * RATE / 2)):
        on.arrived(lane, 2)
        on.step((step + 1) * 2 / RATE, side=lane, work=WORK, waiting=waiting)


def test_on_a_lane_nothing_is_gained_over_itself():
    for lane in Lane:
        on = meter()
        steady(on, lane, seconds=600)
        gain = on.read()
        itself = gain.against_spec if lane is Lane.SPEC else gain.against_plain
        assert itself.middle == pytest.approx(0.0, abs=1e-6 * gain.sequences)
        assert gain.over_s == pytest.approx(600.0)
        assert gain.sequences == 900


def test_a_steady_load_gains_the_difference_of_the_loads_by_the_curves():
    on = meter()
    steady(on, Lane.SPEC, seconds=600)
    first = on.read().against_plain.middle
    steady(on, Lane.SPEC, seconds=600, since=450)
    plain, spec = (CURVES.of(lane).load_at(RATE * WORK) for lane in (Lane.PLAIN, Lane.SPEC))
    assert on.read().against_plain.middle - first == pytest.approx(600 * (plain - spec), rel=0.02)


def test_a_drain_is_a_loss_that_both_lanes_alone_would_not_have_had():
    """The more, the more the lanes slow each other down."""
    lost = []
    for share in (0.5, 0.9):
        on = meter(share=share)
        steady(on, Lane.PLAIN, seconds=300)
        before = on.read()
        steady(on, Lane.SPEC, seconds=20, since=225)
        lost.append(on.read().against_spec.middle - before.against_spec.middle)
    assert lost[0] < lost[1] < 0.0


def test_more_than_a_lane_can_give_is_a_backlog_that_takes_its_time_to_go_away():
    on = meter()
    for second in range(100):
        on.arrived(Lane.PLAIN, 6)  # 1200 tokens a second: above the spec lane's top
        on.step(second + 1.0, side=Lane.PLAIN, work=WORK)
    over = on.read().against_spec.middle
    on.step(101.0, side=Lane.PLAIN, work=WORK)
    assert 0.0 < over < on.read().against_spec.middle


def test_in_shadow_it_is_the_side_that_counts():
    on = meter()
    for second in range(60):
        on.arrived(Lane.PLAIN, 2)
        on.step(second + 1.0, side=Lane.SPEC, work=WORK, seen=False)
    assert on.read().against_spec.middle == pytest.approx(0.0, abs=1e-6)
    assert on.read().against_plain.middle > 0.0


def test_what_waits_is_in_flight_on_a_lane_alone():
    """Ten wait for ten seconds, and come then: alone they would have been served by then."""
    on = meter()
    on.step(1.0, side=Lane.SPEC, work=WORK, waiting=10)
    for second in range(1, 10):
        on.step(second + 1.0, side=Lane.SPEC, work=WORK, waiting=10)
    lost = on.read().against_spec.middle
    assert -100.0 < lost < -50.0
    on.arrived(Lane.SPEC, 10)
    on.step(11.0, side=Lane.SPEC, work=WORK)
    for second in range(11, 60):
        on.step(second + 1.0, side=Lane.SPEC, work=WORK)
    assert on.read().against_spec.middle == pytest.approx(-100.0, rel=0.2)


def test_bounds_are_those_of_the_profile_and_none_without():
    assert meter().read().against_plain.low is None
    on = meter(0.1)
    steady(on, Lane.SPEC, seconds=300)
    low, middle, high = on.read().against_plain
    assert low is not None
    assert high is not None
    assert low < middle < high


def test_bounds_that_come_late_begin_where_the_middle_is():
    on = meter()
    steady(on, Lane.SPEC, seconds=300)
    middle = on.read().against_plain.middle
    on.use(replace(CURVES, spread=0.1))
    assert on.read().against_plain == (middle, middle, middle)


def test_nothing_that_comes_and_no_time_gain_nothing():
    on = meter()
    on.step(10.0, side=Lane.SPEC, work=WORK)
    on.arrived(Lane.SPEC, 9)
    on.step(10.0, side=Lane.SPEC, work=WORK)
    assert on.read().against_plain.middle == 0.0
    assert not math.isnan(on.read().against_spec.middle)
