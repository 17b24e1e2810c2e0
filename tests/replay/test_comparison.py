"""The gate and what it is held against: figures, hindsight, and what is said of them."""

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from specgate.bench.shipped import shipped
from specgate.core.config import ALWAYS, NEVER, Placement
from specgate.core.meter import Bounds, Gain
from specgate.core.shape import Shape
from specgate.replay.comparison import Way, compare
from specgate.replay.deciders import Fixed, Instant, Policy
from specgate.replay.figures import figures_of, load_over_time, share_apart
from specgate.replay.hindsight import clairvoyant, foresight
from specgate.replay.metered import metered
from specgate.replay.picture import picture
from specgate.replay.plan import NoCurvesError, lanes_of, plan
from specgate.replay.record import Replay, replay_object
from specgate.replay.run import Change, World, run
from specgate.replay.traffic import PATTERNS, TrafficError, pattern
from specgate.replay.wording import duration, notes, sentence, title
from tests.replay.lanes import CROSSING, PLAIN, SPEC, alone, requests

CTX10K = "k26-int4-8xrtxpro6000-vllm-ctx10k"


def planned(name=CTX10K, traffic="slow-square", **more):
    return plan(shipped(name), name, traffic, None, **{"requests": 2000, **more})


def replayed(made, load=0.85, **world):
    of = World(**world)
    return Replay(load, of, made.replayed(load, of))


def test_figures_by_hand():
    """Both at once on 10 tok/s: ends at 1 and 1.5 s; the best would have been the spec side."""
    arrivals = requests((0.0, 5), (0.0, 10))
    found = figures_of(alone(PLAIN, arrivals), arrivals, [(0.0, SPEC)])
    assert found.mean_e2e_s == pytest.approx(1.25)
    assert found.p50_e2e_s == pytest.approx(1.25)
    assert found.p99_e2e_s == pytest.approx(1.495)
    assert found.mean_ttft_s == pytest.approx(0.2)
    assert found.tok_s == pytest.approx(10.0)
    assert found.mean_load == pytest.approx(2.5 / 1.5)
    assert found.peak_load == 2
    assert found.mixed_share == 0.0
    assert found.spec_share == 0.0


def test_the_share_on_the_wrong_side_by_hand():
    one = [(0.0, SPEC), (10.0, PLAIN), (40.0, SPEC)]
    assert share_apart(one, [(0.0, SPEC)], 60.0) == pytest.approx(0.5)
    assert share_apart(one, [(0.0, PLAIN), (20.0, SPEC)], 60.0) == pytest.approx(0.5)
    assert share_apart(one, one, 60.0) == 0.0
    assert share_apart(one, [(0.0, PLAIN), (10.0, SPEC)], 10.0) == 1.0


def test_the_load_over_time_ends_at_nothing():
    arrivals = pattern("square", 150.0, seed=1, most=300)
    counts = load_over_time(alone(SPEC, arrivals, CROSSING), arrivals)
    assert counts[-1][1] == 0
    assert min(count for _, count in counts) == 0
    assert all(abs(b - a) == 1 for (_, a), (_, b) in pairwise(counts))


def test_foresight_knows_when_the_better_lane_changes():
    arrivals = pattern("slow-square", 350.0, seed=2, most=10**6)
    sides = foresight(CROSSING, arrivals, 600.0)
    assert [side for _, side in sides] == [SPEC, PLAIN]
    assert sides[1][0] == pytest.approx(1800.0, abs=300.0)


def test_foresight_knows_of_a_changed_accept_length():
    arrivals = pattern("constant", 60.0, seed=2, most=10**6)
    sides = foresight(CROSSING, arrivals, 180.0, World(changes=(Change(1200.0, 0.3),)))
    assert [side for _, side in sides] == [SPEC, PLAIN]
    assert sides[1][0] == pytest.approx(1200.0, abs=50.0)


@pytest.mark.parametrize("traffic", PATTERNS)
def test_the_clairvoyant_is_never_worse_than_a_fixed_lane(traffic):
    arrivals = pattern(traffic, 340.0, seed=4, most=1500)
    fixed = {lane: run(CROSSING, arrivals, Fixed(lane), World()) for lane in (SPEC, PLAIN)}
    best = clairvoyant(CROSSING, arrivals, World(), fixed)
    assert sum(best.e2e_s) <= min(sum(each.e2e_s) for each in fixed.values())


def test_instant_switches_where_the_count_crosses():
    curves = replace(CROSSING)
    edge = curves.paying[0][1]
    decider = Instant(curves)
    lanes = [decider.arrived(i, float(i)) for i in range(int(edge) + 3)]
    assert lanes == [SPEC if count < edge else PLAIN for count in range(1, len(lanes) + 1)]
    assert decider.switches == 1


@pytest.mark.parametrize("contention", [0.0, 0.4])
def test_the_gate_equals_plain_with_a_profile_of_never(contention):
    made = planned("reference")
    found = replayed(made, contention=contention).found
    assert found.outcomes[Way.POLICY].e2e_s == found.outcomes[Way.ALL_PLAIN].e2e_s
    assert found.figures[Way.POLICY].switches == 0
    assert sentence(made, found) == (
        "The gate stayed on the plain side, as the profile says `never`, and equals all-plain, "
        "the better fixed lane."
    )
    assert found.share_of_win is None


def test_the_gate_equals_spec_with_a_profile_of_always():
    made = planned("dsv4-pro-b300-dspark-k3")
    found = replayed(made).found
    assert found.outcomes[Way.POLICY].e2e_s == found.outcomes[Way.ALL_SPEC].e2e_s
    assert "as the profile says `always`, and equals all-spec" in sentence(made, found)


@pytest.mark.parametrize(("threshold", "side"), [(NEVER, "plain"), (ALWAYS, "spec")])
def test_a_threshold_by_hand_takes_the_place_of_the_profile(threshold, side):
    made = planned(by_hand={"threshold": threshold})
    assert made.config.curves is None
    found = replayed(made).found
    other = Way.ALL_PLAIN if side == "plain" else Way.ALL_SPEC
    assert found.outcomes[Way.POLICY].e2e_s == found.outcomes[other].e2e_s
    assert f"stayed on the {side} side, as the threshold says, and equals" in sentence(made, found)


def test_split_the_gate_fills_the_spec_lane_and_the_rest_overflows():
    made = planned(placement=Placement.SPLIT, by_hand={"threshold": 8.0})
    found = replayed(made, apart=True).found
    gate = found.outcomes[Way.POLICY]
    moves = sorted(
        move
        for each, e2e, lane in zip(found.arrivals, gate.e2e_s, gate.lanes, strict=True)
        if lane is SPEC
        for move in ((each.at, 1), (each.at + e2e, -1))
    )
    assert max(accumulate(by for _, by in moves)) == 7
    assert 0.0 < found.figures[Way.POLICY].spec_share < 1.0
    assert found.stayed is None
    assert found.over_better < 0.9
    assert "The spec lane took" in next(notes(made, found))


def test_told_of_the_accept_length_the_gate_leaves_a_lane_that_no_longer_pays():
    """It pays at this load by the profile, and at half the accept length it does not."""
    whole = shipped(CTX10K)
    levels = tuple(
        replace(lv, arms={**lv.arms, "spec": replace(lv.arms["spec"], accept_length=3.0)})
        for lv in whole.levels
    )
    known = replace(whole, levels=levels)
    change = (Change(200.0, 0.5),)
    found = {}
    for adaptive in (False, True):
        made = plan(known, "mine", "constant", None, requests=1000, adaptive=adaptive)
        found[adaptive] = replayed(made, load=0.15, changes=change).found
    assert [each.side for each in found[False].switched] == [SPEC]
    began, left = found[True].switched[:2]
    assert (began.side, left.side) == (SPEC, PLAIN)
    assert began.at < 10.0
    assert 200.0 < left.at < 300.0
    assert found[True].mean_s(Way.POLICY) < 0.8 * found[False].mean_s(Way.POLICY)


@pytest.mark.parametrize("load", [0.2, 0.4])
def test_the_meter_stands_beside_what_was_really_gained(load):
    made = planned(traffic="constant")
    found = replayed(made, load=load).found
    plain, spec = metered(found)
    assert (plain.over, spec.over) == (Way.ALL_PLAIN, Way.ALL_SPEC)
    took = found.mean_s(Way.ALL_PLAIN)
    assert plain.measured_s == took - found.mean_s(Way.POLICY) > 0.0
    assert plain.estimated_s == pytest.approx(plain.measured_s, abs=0.1 * took)
    # Published without its spread: there is no interval.
    assert plain.low_s is plain.high_s is None
    said: Any = replay_object(made, Replay(load, World(), found))["meter"]
    assert said["all_plain"]["estimated_s"] == plain.estimated_s
    assert said["all_spec"]["measured_s"] == spec.measured_s


def test_the_meters_figures_by_hand():
    made = planned()
    gain = Gain(Bounds(10.0, 20.0, 30.0), Bounds(None, -5.0, None), 10, 60.0)
    found = replace(replayed(made).found, gain=gain)
    plain, spec = metered(found)
    assert plain[1:4] == (2.0, 1.0, 3.0)
    assert spec[1:4] == (-0.5, None, None)
    assert metered(replace(found, gain=gain._replace(sequences=0))) == ()
    by_hand = planned(by_hand={"threshold": 9.0})
    found = replayed(by_hand).found
    assert metered(found) == ()
    assert replay_object(by_hand, Replay(0.85, World(), found))["meter"] is None


def test_a_gate_that_knows_what_a_switch_loses_switches_less():
    """Half of the requests go on with a conversation, and reading is very slow."""
    made = planned(traffic="spike", requests=4000)
    arrivals = made.arrivals(0.6)
    world = World(cached=0.5, prefill_tok_s=300.0)
    knows = made.replayed(0.6, world)
    blind = compare(made.curves, made.config, arrivals, world)
    assert knows.arrivals == arrivals
    assert knows.figures[Way.POLICY].switches < blind.figures[Way.POLICY].switches
    assert knows.mean_s(Way.POLICY) < blind.mean_s(Way.POLICY)


def test_a_switching_gate_is_told_of_in_one_sentence():
    made = planned(by_hand={"threshold": 40.0, "smoothing_s": 5.0, "dwell_s": 5.0})
    found = replayed(made, load=0.9, contention=0.4).found
    count = found.figures[Way.POLICY].switches
    assert count == len(found.switched) > 0
    said = sentence(made, found)
    assert f"{count} switch" in said
    assert said.count(". ") == 0
    assert [each.side for each in found.switched] == [
        s for _, s in found.outcomes[Way.POLICY].sides
    ][1:]


def test_the_sentence_and_the_notes_by_hand():
    made = planned(by_hand={"threshold": 40.0})
    found = replayed(made, load=0.9, contention=0.4).found

    def with_means(policy, plain, spec, best):
        means = dict(zip(Way, (policy, plain, spec, plain, best), strict=True))
        return replace(
            found,
            figures={
                w: replace(f, mean_e2e_s=means[w], peak_load=7) for w, f in found.figures.items()
            },
        )

    assert "took 10.0% less time behind the gate" in sentence(made, with_means(9, 20, 10, 9))
    assert "fixed lane (all-spec)" in sentence(made, with_means(9, 20, 10, 9))
    assert "took 5.0% more time" in sentence(made, with_means(10.5, 10, 20, 9))
    assert "took as long behind the gate as with the better" in sentence(
        made, with_means(10, 10, 20, 9)
    )
    assert list(notes(made, with_means(9.5, 10, 20, 9))) == [
        "Perfect foresight would have won 10.0% over all-plain; of that the gate got 50%."
    ]
    assert "got nothing of that" in next(notes(made, with_means(11, 10, 20, 9)))
    assert list(notes(made, with_means(10, 10, 20, 9.9))) == []


def test_a_load_beyond_the_profile_is_noted():
    made = planned()
    found = replayed(made, load=1.5).found
    assert found.figures[Way.POLICY].peak_load > 128
    assert any("The profile ends at 128" in note for note in notes(made, found))
    low = planned("k25-mxfp4-mi355x-eagle3-bf16")
    assert any("The profile begins at 4" in note for note in notes(low, replayed(low).found))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(5, "5 s"), (89, "89 s"), (120, "2 min"), (3600, "60 min"), (8100, "2 h 15 min")],
)
def test_durations(seconds, said):
    assert duration(seconds) == said


def test_the_same_seed_gives_the_same_and_another_does_not():
    one, again = (replay_object(planned(seed=3), replayed(planned(seed=3))) for _ in range(2))
    assert one == again
    other = replay_object(planned(seed=4), replayed(planned(seed=4)))
    assert other["policy"] != one["policy"]


def test_a_profile_without_curves_says_what_is_missing():
    whole = shipped(CTX10K)
    one = replace(whole, levels=whole.levels[:1])
    with pytest.raises(NoCurvesError, match="fewer than two levels at which both spec and plain"):
        lanes_of(one)
    alone_ = replace(
        whole,
        levels=tuple(replace(lv, arms={"spec": lv.arms["spec"]}) for lv in whole.levels),
    )
    with pytest.raises(NoCurvesError, match="no arm called plain"):
        lanes_of(alone_)
    with pytest.raises(NoCurvesError, match="no levels of concurrency"):
        lanes_of(replace(whole, levels=()))


def test_a_load_that_brings_nothing_is_refused():
    made = planned(seed=1)
    with pytest.raises(TrafficError, match="hardly anything arrives"):
        made.arrivals(1e-7)


def test_every_shipped_profile_can_be_replayed_or_says_why_not():
    from specgate.bench.shipped import names

    for name in names():
        made = planned(name, requests=200)
        found = replayed(made).found
        assert sentence(made, found)
        undecided = shipped(name).verdict.shape is Shape.INCONCLUSIVE
        assert not undecided or found.stayed is PLAIN


def test_the_picture_shows_sides_switches_and_lines():
    made = planned(by_hand={"threshold": 40.0, "smoothing_s": 5.0, "dwell_s": 5.0})
    shown = replayed(made, load=0.9)
    drawn = picture(made, shown)
    assert drawn == picture(made, shown)
    root = ET.fromstring(drawn)
    texts = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "offered tok/s" in texts
    assert "in flight (gate)" in texts
    for name in ("gate", "all-plain", "all-spec", "clairvoyant", "side spec", "side plain"):
        assert name in texts
    for switch in shown.found.switched:
        assert any(text.startswith(f"switch: {switch.reason} (") for text in texts)
    assert sentence(made, shown.found) in drawn
    assert title(made, shown.found, 0.9, 0.0) in drawn


def test_a_picture_of_a_name_with_signs_is_still_a_picture():
    made = replace(planned("reference", requests=50), traffic="a<b>&$\x07]", recorded=None)
    found = planned("reference", requests=50)
    drawn = picture(made, replayed(found))
    assert "\x07" not in drawn
    ET.fromstring(drawn)


def test_the_gate_of_a_replay_holds_nothing_at_the_end():
    made = planned()
    gate = Policy(made.config)
    run(made.curves, made.arrivals(0.9), gate, World())
    assert gate.gate.view().counts.total == 0
    assert compare(made.curves, made.config, made.arrivals(0.3), World()).stayed is not None
