"""Requests that the gate holds at a switch wait, and their wait counts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.bench.shipped import shipped
from specgate.core.config import PolicyConfig
from specgate.core.hold import Hold
from specgate.core.threshold import curves_of
from specgate.replay.deciders import Policy
from specgate.replay.run import World, run
from specgate.replay.traffic import pattern
from tests.replay.lanes import CROSSING, FLAT, K26, PLAIN, SPEC, Chosen, requests


class Holding(Chosen):
    """Holds from one time to another."""

    def __init__(self, lanes, since, until):
        super().__init__(lanes)
        self._since, self._until = since, until

    def holding(self, now, waiting):
        return self._since <= now < self._until


def test_a_wait_by_hand():
    """Held from 1 to 3 s: the second and the third go on together then, at 10 tok/s on spec."""
    arrivals = requests((0.0, 10), (1.5, 10), (2.0, 10))
    found = run(FLAT, arrivals, Holding([PLAIN, SPEC, SPEC], 1.0, 3.0), World(), tick_s=0.25)
    assert found.e2e_s == pytest.approx((1.0, 2.5, 2.0))
    assert found.ttft_s == pytest.approx((0.1, 1.6, 1.1))
    assert found.held_s == pytest.approx((1.5, 1.0))
    assert found.mixed_s == 0.0


def test_those_that_wait_go_on_in_their_order():
    arrivals = requests(*((float(at), 10) for at in range(6)))
    decider = Holding([SPEC], 0.5, 3.5)
    run(FLAT, arrivals, decider, World())
    # Three have waited, and the fourth comes when nobody does.
    assert [now for now, by in decider.told if by > 0] == pytest.approx([0, 3.5, 3.5, 3.5, 4, 5])


@given(st.floats(0.0, 30.0), st.floats(0.0, 30.0), st.integers(0, 20))
def test_all_end_whatever_is_held(since, lasts, seed):
    arrivals = pattern("constant", 100.0, seed=seed, most=30)
    decider = Holding([SPEC, PLAIN], since, since + lasts)
    found = run(CROSSING, arrivals, decider, World())
    assert len(found.lanes) == len(arrivals)
    assert all(e2e > 0.0 for e2e in found.e2e_s)
    assert all(0.0 < waited <= lasts + 0.25 for waited in found.held_s)
    assert sum(by for _, by in decider.told) == 0


def test_the_gate_holds_what_comes_after_a_switch_and_no_longer_than_it_may():
    curves = curves_of(shipped(K26 + "10k"))
    assert curves is not None
    config = PolicyConfig(threshold=1.0, curves=curves)
    arrivals = pattern("slow-square", 0.9 * curves.plain.top, seed=7, most=4000)
    freely = run(curves, arrivals, Policy(config), World())
    assert freely.held_s == ()
    gate = Policy(config, hold=Hold(drained=2))
    found = run(curves, arrivals, gate, World())
    assert len(gate.switched) >= 1
    assert len(found.held_s) > 0
    assert gate.gate.view().queued == 0
    duration_s = sum(found.e2e_s) / len(found.e2e_s)
    assert max(found.held_s) < 3 * duration_s
    assert found.mixed_s < freely.mixed_s


def test_nothing_is_held_where_the_gate_does_not_switch():
    curves = replace(CROSSING, open=((0.0, 1e9),))
    config = PolicyConfig(threshold=1.0, curves=curves)
    arrivals = pattern("constant", 60.0, seed=3, most=500)
    found = run(CROSSING, arrivals, Policy(config, hold=Hold(drained=0)), World())
    assert found.held_s == ()
