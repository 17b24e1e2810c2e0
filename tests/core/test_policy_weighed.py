"""The policy with a profile's curves, split pools and the shadow, rule by rule."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from specgate.core.config import NEVER, Placement, PolicyConfig
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason, Situation, decide
from specgate.core.weighing import Weighed
from specgate.settings.deciding import OF_A_THRESHOLD

CONFIG = PolicyConfig(threshold=8.0)
CALM = Weighed(
    regret=0.0,
    standing=1,
    burst=math.inf,
    offered=100.0,
    top=1000.0,
    first_edge=8.0,
    settled=True,
    lately=0,
)
ON_SPEC = Situation(
    mode=Mode.AUTO,
    side=Lane.SPEC,
    since_switch_s=math.inf,
    in_flight=4,
    arriving=1,
    smoothed=4.0,
    usable=frozenset(Lane),
    weighed=CALM,
)
ON_PLAIN = ON_SPEC._replace(side=Lane.PLAIN)


def outcome(situation: Situation, config: PolicyConfig = CONFIG, **weighed) -> tuple[Lane, Reason]:
    known = situation.weighed
    assert known is not None
    decision = decide(config, situation._replace(weighed=known._replace(**weighed)))
    return decision.side, decision.side_reason


def test_a_side_stays_until_its_regret_has_reached_the_price():
    assert outcome(ON_SPEC, standing=-1, regret=0.99) == (Lane.SPEC, Reason.WEIGHING)
    assert outcome(ON_SPEC, standing=-1, regret=1.0) == (Lane.PLAIN, Reason.COSTS)
    assert outcome(ON_PLAIN, standing=1, regret=0.99) == (Lane.PLAIN, Reason.WEIGHING)
    assert outcome(ON_PLAIN, standing=1, regret=1.0) == (Lane.SPEC, Reason.PAYS)


def test_why_it_stays_is_said():
    assert outcome(ON_SPEC, standing=1) == (Lane.SPEC, Reason.PAYS)
    assert outcome(ON_SPEC, standing=0) == (Lane.SPEC, Reason.IN_BAND)
    assert outcome(ON_PLAIN, standing=-1) == (Lane.PLAIN, Reason.COSTS)
    assert outcome(ON_PLAIN, standing=0) == (Lane.PLAIN, Reason.IN_BAND)


def test_more_than_the_spec_lane_can_give_is_named():
    assert outcome(ON_SPEC, regret=2.0, offered=1000.0) == (Lane.PLAIN, Reason.OVER_CAPACITY)


def test_a_burst_leaves_at_once_but_not_while_a_drain_goes_on():
    assert outcome(ON_SPEC, burst=5.0) == (Lane.PLAIN, Reason.BURST)
    assert outcome(ON_SPEC, burst=5.1) == (Lane.SPEC, Reason.PAYS)
    assert outcome(ON_SPEC, burst=5.0, settled=False) == (Lane.SPEC, Reason.PAYS)
    # The same count does not enter what it would leave again.
    assert outcome(ON_PLAIN, burst=5.0, regret=9.0)[0] is Lane.PLAIN


def test_entering_waits_for_the_drain_and_leaving_does_not():
    assert outcome(ON_PLAIN, regret=2.0, settled=False) == (Lane.PLAIN, Reason.DWELL)
    assert outcome(ON_SPEC, regret=2.0, settled=False)[0] is Lane.PLAIN


def test_after_so_many_switches_it_stays_plain():
    assert outcome(ON_PLAIN, regret=2.0, lately=12) == (Lane.PLAIN, Reason.SWITCH_LIMIT)
    assert outcome(ON_PLAIN, regret=2.0, lately=11)[0] is Lane.SPEC
    assert outcome(ON_SPEC, regret=2.0, lately=99)[0] is Lane.PLAIN


weighed = st.builds(
    Weighed,
    regret=st.floats(0, 10),
    standing=st.sampled_from([-1, 0, 1]),
    burst=st.one_of(st.just(math.inf), st.floats(1, 300)),
    offered=st.floats(0, 5000),
    top=st.floats(1, 5000),
    first_edge=st.floats(0, 300),
    settled=st.booleans(),
    lately=st.integers(0, 30),
)


@given(weighed, st.sampled_from(Lane), st.integers(0, 300))
def test_without_regret_nothing_enters_and_the_same_input_says_the_same(known, side, count):
    situation = ON_SPEC._replace(side=side, in_flight=count, weighed=known._replace(regret=0.0))
    decision = decide(CONFIG, situation)
    assert decision == decide(CONFIG, situation)
    if side is Lane.PLAIN:
        assert decision.side is Lane.PLAIN


@given(weighed, st.integers(0, 300))
def test_no_entering_within_the_dwell(known, count):
    situation = ON_PLAIN._replace(in_flight=count, weighed=known._replace(settled=False))
    assert decide(CONFIG, situation).side is Lane.PLAIN


def test_split_places_each_request_by_the_spec_lanes_own_count():
    split = replace(CONFIG, placement=Placement.SPLIT)
    for weighing in (None, CALM):
        placed = [
            decide(split, ON_SPEC._replace(weighed=weighing, in_flight=90, on_spec=count))
            for count in (6, 7)
        ]
        assert [each.lane for each in placed] == [Lane.SPEC, Lane.PLAIN]
        assert placed[1].reason is Reason.OVERFLOW
        assert {each.side for each in placed} == {Lane.SPEC}


def test_split_does_not_speculate_without_a_measurement():
    for threshold, reason in ((None, Reason.UNMEASURED), (NEVER, Reason.NEVER)):
        split = PolicyConfig(threshold=threshold, placement=Placement.SPLIT)
        decision = decide(split, ON_PLAIN._replace(weighed=None))
        assert (decision.lane, decision.reason) == (Lane.PLAIN, reason)


def test_in_shadow_the_lane_is_the_named_one_and_the_side_what_would_be():
    shadow = replace(CONFIG, shadow=Lane.SPEC)
    decision = decide(shadow, ON_PLAIN)
    assert (decision.lane, decision.reason) == (Lane.SPEC, Reason.SHADOW)
    assert decision.side is Lane.PLAIN
    down = decide(shadow, ON_PLAIN._replace(usable=frozenset({Lane.PLAIN})))
    assert (down.lane, down.reason) == (Lane.PLAIN, Reason.LANE_DOWN)


@given(
    side=st.sampled_from(Lane),
    count=st.integers(0, 60),
    smoothed=st.floats(0, 60),
    regret=st.floats(0, 2),
    standing=st.sampled_from((-1, 0, 1)),
    settled=st.booleans(),
    since_switch_s=st.floats(0, 100),
    placement=st.sampled_from(Placement),
    band=st.floats(0, 0.9),
    smoothing_s=st.floats(0, 600),
    burst=st.floats(1, 9),
    dwell_s=st.floats(0, 600),
)
def test_what_is_of_a_threshold_alone_changes_nothing_while_a_profile_is_weighed(
    side, count, smoothed, regret, standing, settled, since_switch_s, placement, **of_a_threshold
):
    assert set(of_a_threshold) == set(OF_A_THRESHOLD)
    weighed = CALM._replace(regret=regret, standing=standing, settled=settled, burst=30.0)
    now = ON_SPEC._replace(
        side=side,
        in_flight=count,
        on_spec=count,
        smoothed=smoothed,
        since_switch_s=since_switch_s,
        weighed=weighed,
    )
    config = replace(CONFIG, placement=placement)
    assert decide(replace(config, **of_a_threshold), now) == decide(config, now)
