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


def meter(spread: float | None) -> Meter:
    return Meter(replace(CURVES, spread=spread), 0.0)


def test_on_a_lane_nothing_is_gained_over_itself():
    on = meter(None)
    on.step(10.0, side=Lane.SPEC, count=5, offered=300.0, settled=True)
    gain = on.read()
    assert gain.against_spec.middle == 0.0
    loads = [CURVES.of(lane).load_at(300.0) for lane in (Lane.PLAIN, Lane.SPEC)]
    assert gain.against_plain.middle == pytest.approx(10 * (loads[0] - loads[1]))
    assert gain.over_s == 10.0


def test_a_drain_is_a_loss():
    on = meter(None)
    on.step(10.0, side=Lane.PLAIN, count=60, offered=300.0, settled=False)
    assert on.read().against_plain.middle < 0.0
    assert on.read().against_spec.middle < 0.0


def test_bounds_are_those_of_the_profile_and_none_without():
    assert meter(None).read().against_plain.low is None
    on = meter(0.1)
    on.step(10.0, side=Lane.SPEC, count=5, offered=300.0, settled=True)
    low, middle, high = on.read().against_plain
    assert low is not None
    assert high is not None
    assert low < middle < high


def test_nothing_offered_and_no_time_gain_nothing():
    on = meter(None)
    on.step(10.0, side=Lane.SPEC, count=0, offered=0.0, settled=True)
    on.step(10.0, side=Lane.SPEC, count=9, offered=300.0, settled=True)
    assert on.read().against_plain.middle == 0.0
    assert not math.isnan(on.read().against_spec.middle)
