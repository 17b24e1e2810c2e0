"""The policy, rule by rule, as its docstring numbers them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.config import ALWAYS, NEVER, PolicyConfig
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason, Situation, decide

BOTH = frozenset(Lane)
BARE = PolicyConfig(threshold=8, band=0, smoothing_s=0, dwell_s=0)
SMOOTH = PolicyConfig(threshold=8, band=0.25, smoothing_s=60, burst=2, dwell_s=30)

IDLE = Situation(
    mode=Mode.AUTO,
    side=Lane.PLAIN,
    since_switch_s=math.inf,
    in_flight=0,
    arriving=1,
    smoothed=0.0,
    usable=BOTH,
)
ON_SPEC = IDLE._replace(side=Lane.SPEC)


def at(situation: Situation, **changes) -> Situation:
    return situation._replace(**changes)


def outcome(config, situation):
    decision = decide(config, situation)
    return decision.lane, decision.reason


@pytest.mark.parametrize("mode", [Mode.SPEC, Mode.PLAIN])
@pytest.mark.parametrize("threshold", [None, NEVER, 8.0, ALWAYS])
def test_a_forced_mode_beats_any_threshold(mode, threshold):
    config = replace(BARE, threshold=threshold)
    assert outcome(config, at(IDLE, mode=mode)) == (Lane(mode.value), Reason.FORCED)


@pytest.mark.parametrize(
    ("threshold", "lane", "reason"),
    [
        (None, Lane.PLAIN, Reason.UNMEASURED),
        (NEVER, Lane.PLAIN, Reason.NEVER),
        (ALWAYS, Lane.SPEC, Reason.ALWAYS),
    ],
)
def test_without_a_number_the_load_does_not_matter(threshold, lane, reason):
    for count in (0, 10_000):
        situation = at(IDLE, in_flight=count, smoothed=float(count))
        assert outcome(replace(SMOOTH, threshold=threshold), situation) == (lane, reason)


def test_the_arriving_request_counts_and_the_threshold_is_strict():
    assert outcome(BARE, at(ON_SPEC, in_flight=6)) == (Lane.SPEC, Reason.BELOW_THRESHOLD)
    assert outcome(BARE, at(ON_SPEC, in_flight=7)) == (Lane.PLAIN, Reason.ABOVE_THRESHOLD)


def test_a_real_threshold_is_not_rounded():
    config = replace(BARE, threshold=2.5)
    assert outcome(config, at(ON_SPEC, in_flight=1))[0] is Lane.SPEC
    assert outcome(config, at(ON_SPEC, in_flight=2))[0] is Lane.PLAIN


def test_a_batch_counts_with_all_its_sequences():
    assert outcome(BARE, at(ON_SPEC, in_flight=0, arriving=8))[0] is Lane.PLAIN


def test_a_threshold_of_one_never_speculates():
    assert outcome(replace(BARE, threshold=1), IDLE)[0] is Lane.PLAIN
    assert outcome(replace(SMOOTH, threshold=1), IDLE)[0] is Lane.PLAIN


def test_the_smoothed_load_at_the_threshold_leaves_whatever_the_dwell():
    situation = at(ON_SPEC, smoothed=8.0, since_switch_s=0.0)
    assert outcome(SMOOTH, situation) == (Lane.PLAIN, Reason.ABOVE_THRESHOLD)


def test_a_burst_leaves_before_the_average_shows_it():
    assert outcome(SMOOTH, at(ON_SPEC, in_flight=15, smoothed=1.0)) == (Lane.PLAIN, Reason.BURST)
    assert outcome(SMOOTH, at(ON_SPEC, in_flight=14, smoothed=1.0))[0] is Lane.SPEC


def test_within_the_band_the_side_stays():
    for side in Lane:
        situation = at(IDLE, side=side, smoothed=7.0)
        assert outcome(SMOOTH, situation) == (side, Reason.IN_BAND)


def test_coming_back_waits_for_the_dwell():
    early, late = at(IDLE, since_switch_s=29.9), at(IDLE, since_switch_s=30.0)
    assert outcome(SMOOTH, early) == (Lane.PLAIN, Reason.DWELL)
    assert outcome(SMOOTH, late) == (Lane.SPEC, Reason.BELOW_THRESHOLD)


def test_coming_back_wants_the_count_below_too():
    situation = at(IDLE, in_flight=7, smoothed=1.0)
    assert outcome(SMOOTH, situation) == (Lane.PLAIN, Reason.ABOVE_THRESHOLD)


def test_a_tick_enters_only_where_the_next_request_would_stay():
    tick = at(IDLE, arriving=0)
    assert outcome(replace(BARE, threshold=1), tick)[0] is Lane.PLAIN
    assert outcome(BARE, at(tick, in_flight=7))[0] is Lane.PLAIN
    assert outcome(BARE, at(tick, in_flight=6))[0] is Lane.SPEC


def test_a_tick_does_not_leave_for_a_request_that_has_not_come():
    assert outcome(BARE, at(ON_SPEC, arriving=0, in_flight=7))[0] is Lane.SPEC
    assert outcome(BARE, at(ON_SPEC, arriving=0, in_flight=8))[0] is Lane.PLAIN


def test_an_ejected_lane_gives_way_and_the_side_does_not_move():
    decision = decide(BARE, at(IDLE, usable=frozenset({Lane.PLAIN})))
    assert (decision.lane, decision.reason) == (Lane.PLAIN, Reason.LANE_DOWN)
    assert decision.side is Lane.SPEC


def test_with_both_ejected_the_side_is_asked_all_the_same():
    situation = at(IDLE, usable=frozenset())
    assert outcome(BARE, situation) == (Lane.SPEC, Reason.LAST_RESORT)


configs = st.builds(
    PolicyConfig,
    threshold=st.one_of(st.none(), st.sampled_from([NEVER, ALWAYS]), st.floats(0.1, 100)),
    band=st.floats(0, 0.99),
    smoothing_s=st.sampled_from([0.0, 10.0]),
    burst=st.floats(1, 4),
    dwell_s=st.floats(0, 100),
)
situations = st.builds(
    Situation,
    mode=st.sampled_from(Mode),
    side=st.sampled_from(Lane),
    since_switch_s=st.one_of(st.just(math.inf), st.floats(0, 200)),
    in_flight=st.integers(0, 300),
    arriving=st.integers(0, 20),
    smoothed=st.floats(0, 300),
    usable=st.frozensets(st.sampled_from(Lane)),
    weighed=st.none(),
    on_spec=st.integers(0, 300),
    forced=st.booleans(),
)


@given(configs, situations)
def test_the_same_input_gives_the_same_answer_and_never_an_ejected_lane(config, situation):
    decision = decide(config, situation)
    assert decision == decide(config, situation)
    assert decision.lane in situation.usable or not situation.usable


@given(configs, situations)
def test_no_entering_within_the_dwell(config, situation):
    fresh = at(situation, mode=Mode.AUTO, side=Lane.PLAIN, since_switch_s=0.0)
    if config.threshold not in (None, ALWAYS) and config.dwell_s > 0:
        assert decide(config, fresh).side is Lane.PLAIN


@given(configs, situations, st.integers(1, 50))
def test_more_load_never_brings_speculation(config, situation, more):
    auto = at(situation, mode=Mode.AUTO)
    heavier = at(auto, in_flight=auto.in_flight + more, smoothed=auto.smoothed + more)
    if decide(config, heavier).side is Lane.SPEC:
        assert decide(config, auto).side is Lane.SPEC
