"""How far the gate is from changing side."""

from dataclasses import replace
from typing import Any

import pytest

from specgate.core.config import ALWAYS, NEVER, Placement, PolicyConfig
from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane
from specgate.core.outlook import outlook
from specgate.core.policy import Mode, Reason
from specgate.core.view import GateView
from tests.support.views import IDLE, a_view

CROSSING = Curves(
    spec=Curve((1.0, 2.0, 4.0, 8.0, 16.0), (200.0, 360.0, 600.0, 800.0, 900.0)),
    plain=Curve((1.0, 2.0, 4.0, 8.0, 16.0), (100.0, 200.0, 400.0, 800.0, 1500.0)),
)
"""Speculation pays up to a load of 8."""

LATER = Curves(
    spec=Curve((1.0, 4.0, 16.0), (50.0, 400.0, 3000.0)),
    plain=Curve((1.0, 4.0, 16.0), (100.0, 400.0, 1500.0)),
)
"""From a load of 4 on."""


def weighed_at(
    *, curves: Curves, side: Lane = Lane.SPEC, load: float = 0.0, **weighed: Any
) -> GateView:
    view = a_view(curves=curves, side=side, load=load)
    assert view.weighed is not None
    return replace(view, weighed=view.weighed._replace(**weighed))


def test_on_the_spec_side_the_way_is_up_to_the_threshold():
    seen = outlook(a_view(load=5.0))
    assert (seen.low, seen.high, seen.away) == (6.0, 8.0, 3.0)
    assert seen.words == "leaves spec at a load of 8: 3.00 more"


def test_on_the_plain_side_it_is_down_to_the_lower_edge():
    seen = outlook(a_view(side=Lane.PLAIN, load=7.5))
    assert (seen.low, seen.high, seen.away) == (6.0, 8.0, -1.5)
    assert "below 6: 1.50 less" in seen.words


def test_when_only_the_dwell_is_waited_for_no_load_is_named():
    seen = outlook(a_view(side=Lane.PLAIN, load=2.0, since_switch_s=15.0))
    assert seen.away is None
    assert "in 45 s" in seen.words


@pytest.mark.parametrize(
    ("threshold", "side", "words"),
    [
        (NEVER, Lane.PLAIN, "never speculates"),
        (ALWAYS, Lane.SPEC, "always speculates"),
        (None, Lane.PLAIN, "nothing was measured"),
    ],
)
def test_where_there_is_no_edge_none_is_told(threshold, side, words):
    policy = replace(IDLE.policy, threshold=threshold)
    seen = outlook(a_view(policy=policy, side=side, load=3.0))
    assert (seen.low, seen.high, seen.away) == (None, None, None)
    assert words in seen.words


def test_a_forced_side_has_its_band_and_no_way_to_it():
    seen = outlook(a_view(mode=Mode.SPEC, load=5.0))
    assert (seen.low, seen.high, seen.away) == (6.0, 8.0, None)
    assert "operator" in seen.words


def test_a_block_of_the_experiment_holds_the_side_too():
    seen = outlook(a_view(load=5.0, reason=Reason.SWITCHBACK))
    assert (seen.low, seen.high, seen.away) == (6.0, 8.0, None)
    assert "experiment" in seen.words


def test_where_the_lanes_take_turns_it_is_weighed_as_on_a_shared_pool():
    policy = PolicyConfig(threshold=8.0, band=0.25, placement=Placement.ALTERNATE)
    curves = replace(CROSSING, open=((7.0, 9.0),))
    seen = outlook(a_view(policy=policy, curves=curves, load=5.0))
    assert (seen.low, seen.high, seen.away) == pytest.approx((7.0, 9.0, 4.0))
    assert seen.words == "weighs going to plain at a load above 9: 4.00 more"


def test_a_share_of_forced_requests_is_named():
    view = a_view(side=Lane.PLAIN, reason=Reason.FORCED_SHARE, forced_share=0.4)
    assert "40%" in outlook(view).words


def test_split_lanes_tell_the_room_that_is_left():
    policy = PolicyConfig(threshold=8.0, placement=Placement.SPLIT)
    seen = outlook(a_view(policy=policy, in_flight=(5, 9), load=14.0))
    assert seen.away == 3.0
    assert "room for 3" in seen.words


def test_weighed_the_edge_is_where_the_better_lane_changes():
    spec = outlook(a_view(curves=CROSSING, load=5.0))
    assert (spec.low, spec.high) == pytest.approx((8.0, 8.0))
    assert spec.away == pytest.approx(3.0)
    assert "plain" in spec.words
    plain = outlook(a_view(curves=CROSSING, side=Lane.PLAIN, load=12.0))
    assert plain.away == pytest.approx(-4.0)


def test_weighed_where_speculation_pays_only_above_a_load_the_ways_are_turned():
    spec = outlook(a_view(curves=LATER, load=10.0))
    assert spec.away == pytest.approx(-6.0)
    plain = outlook(a_view(curves=LATER, side=Lane.PLAIN, load=1.0))
    assert plain.away == pytest.approx(3.0)


def test_weighed_the_band_is_what_the_measurement_leaves_open():
    curves = replace(CROSSING, open=((6.5, 9.5),))
    spec = outlook(a_view(curves=curves, load=5.0))
    assert (spec.low, spec.high) == (6.5, 9.5)
    assert spec.away == pytest.approx(4.5)
    plain = outlook(a_view(curves=curves, side=Lane.PLAIN, load=12.0))
    assert plain.away == pytest.approx(-5.5)


def test_weighed_beyond_the_edge_what_staying_has_cost_is_told():
    view = a_view(curves=CROSSING, load=14.0)
    assert view.weighed is not None
    seen = outlook(replace(view, weighed=view.weighed._replace(regret=0.4)))
    assert seen.away is None
    assert "40% of a switch's price" in seen.words


def test_weighed_an_idle_gate_goes_where_one_request_is_served_best():
    assert outlook(a_view(curves=CROSSING)).away == pytest.approx(8.0)
    assert outlook(a_view(curves=LATER, side=Lane.PLAIN)).away == pytest.approx(4.0)
    assert "goes to plain, which serves one request best" in outlook(a_view(curves=LATER)).words
    waits = outlook(weighed_at(curves=CROSSING, side=Lane.PLAIN, regret=0.4))
    assert (
        waits.words == "goes to spec, which serves one request best, if none comes: 40% of the wait"
    )
    assert waits.away is None


def test_weighed_what_staying_costs_may_be_ahead_of_the_load():
    seen = outlook(weighed_at(curves=CROSSING, load=5.0, regret=0.3))
    assert (seen.low, seen.high, seen.away) == pytest.approx((8.0, 8.0, None))
    assert seen.words == "weighs a switch to plain: staying costs 30% of a switch's price"


def test_weighed_a_lane_that_is_asked_for_nearly_all_it_can_give_is_not_entered():
    # 0.8 of the 900 tok/s that the spec lane gives at the most.
    busy = outlook(weighed_at(curves=CROSSING, side=Lane.PLAIN, load=6.0, offered=721.0))
    assert busy.words == "stays on plain: 721 tok/s are asked, and it goes to spec at 720 or less"
    after = outlook(weighed_at(curves=CROSSING, side=Lane.PLAIN, offered=9.0, peak=856.0))
    assert after.words == (
        "stays on plain: 856 tok/s were asked within 10 minutes, "
        "and it goes to spec after as long at 855 or less"
    )
    early = replace(
        CROSSING, plain=Curve(CROSSING.plain.loads, (100.0, 300.0, 700.0, 900.0, 1500.0))
    )
    after = outlook(weighed_at(curves=early, side=Lane.PLAIN, offered=9.0, peak=856.0))
    assert "goes to spec, which serves one request best" in after.words
    less = outlook(weighed_at(curves=CROSSING, side=Lane.PLAIN, load=6.0, offered=720.0))
    assert "weighs a switch to spec" in less.words
    # The lane that carries more is always entered.
    assert "at a load above 8" in outlook(weighed_at(curves=CROSSING, load=6.0, offered=2e3)).words


def test_weighed_what_a_switch_that_is_worth_it_waits_for_is_named():
    worth: dict[str, Any] = {"curves": CROSSING, "side": Lane.PLAIN, "load": 2.0, "regret": 1.0}
    assert "when the last drain is over" in outlook(weighed_at(**worth, settled=False)).words
    assert "hourly limit" in outlook(weighed_at(**worth, lately=12)).words
    assert "when little is in flight" in outlook(weighed_at(**worth, settled=True)).words


def test_curves_that_never_cross_have_no_edge():
    never = replace(CROSSING, spec=Curve((1.0, 16.0), (50.0, 700.0)))
    seen = outlook(a_view(curves=never, side=Lane.PLAIN, load=3.0))
    assert (seen.low, seen.high, seen.away) == (None, None, None)
    assert "never pays" in seen.words
