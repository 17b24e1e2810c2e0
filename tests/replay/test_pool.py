"""The pool serves what it was given, no more and no less, and as fast as the curves say."""

import math
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgate.core.lanes import Lane
from specgate.replay.pool import Pool
from specgate.replay.run import Change, World, run
from tests.replay.lanes import (
    CROSSING,
    FLAT,
    PLAIN,
    SPEC,
    Chosen,
    alone,
    at_random,
    requests,
)

LANES = st.lists(st.sampled_from(Lane), min_size=1, max_size=5)
ARRIVALS = st.lists(
    st.tuples(st.floats(0.0, 50.0), st.integers(1, 300)), min_size=1, max_size=40
).map(lambda pairs: requests(*sorted(pairs)))


def test_two_on_one_lane_by_hand():
    """10 tok/s: the first alone for half a second, both at 5 tok/s, the second alone."""
    found = alone(PLAIN, requests((0.0, 10), (0.5, 10)))
    assert found.e2e_s == pytest.approx((1.5, 1.5))
    assert found.ttft_s == pytest.approx((0.1, 0.2))
    assert found.took_s == pytest.approx(2.0)
    assert found.mixed_s == 0.0


def test_one_on_each_lane_by_hand():
    """While both work each is half as fast, with a contention of 0.5 three quarters."""
    arrivals = requests((0.0, 20), (0.0, 20))
    sliced = run(FLAT, arrivals, Chosen([SPEC, PLAIN]), World())
    assert sliced.e2e_s == pytest.approx((2.0, 3.0))
    assert sliced.mixed_s == pytest.approx(2.0)
    eased = run(FLAT, arrivals, Chosen([SPEC, PLAIN]), World(contention=0.5))
    assert eased.e2e_s == pytest.approx((4 / 3, 2 + 1 / 3))
    apart = run(FLAT, arrivals, Chosen([SPEC, PLAIN]), World(apart=True))
    assert apart.e2e_s == pytest.approx((1.0, 2.0))


def test_a_prompt_that_is_read_anew_by_hand():
    """The second goes to the other lane, which reads 100 tokens at 50 tok/s; the third waits."""
    arrivals = requests((0.0, 10), (2.0, 20), (3.0, 20))
    world = World(cached=1.0, gap_s=1e-9, prefill_tok_s=50.0)
    # The side is what it was a moment before each: plain, plain, spec.
    found = run(FLAT, arrivals, Chosen([PLAIN, SPEC, SPEC]), world)
    # Reading ends at 4 s; from then on both get 10 tok/s.
    assert found.e2e_s == pytest.approx((1.0, 4.0, 3.0))
    assert found.ttft_s == pytest.approx((0.1, 2.1, 1.1))
    assert found.lanes == (PLAIN, SPEC, SPEC)


def test_a_change_of_the_accept_length_by_hand():
    """20 tok/s for a second, then 5: at 1 s twenty of forty tokens are still to come."""
    found = alone(SPEC, requests((0.0, 40)), changes=(Change(1.0, 0.25),))
    assert found.e2e_s == pytest.approx((5.0,))
    plain = alone(PLAIN, requests((0.0, 40)), changes=(Change(1.0, 0.25),))
    assert plain.e2e_s == pytest.approx((4.0,))


@given(ARRIVALS, LANES, st.floats(0.0, 1.0))
def test_exactly_the_tokens_that_were_submitted_are_served(arrivals, lanes, contention):
    pool = Pool(CROSSING, contention=contention)
    served, submitted = 0.0, 0

    def until(to):
        nonlocal served
        counts = {lane: pool.count(lane) for lane in Lane}
        factor = (1 + contention) / 2 if all(counts.values()) else 1.0
        rate = sum(CROSSING.of(lane).rate(counts[lane]) * factor for lane in Lane)
        served += rate * (to - pool.now)
        pool.advance(to)

    for number, each in enumerate(arrivals):
        while pool.next_at() <= each.at:
            until(pool.next_at())
            pool.pop()
        until(each.at)
        pool.submit(lanes[number % len(lanes)], number, each.output_tokens)
        submitted += each.output_tokens
    while not math.isinf(pool.next_at()):
        until(pool.next_at())
        pool.pop()
    assert served == pytest.approx(submitted, rel=1e-6)
    assert [pool.count(lane) for lane in Lane] == [0, 0]


@given(ARRIVALS, LANES, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(0, 9))
def test_every_arrival_ends_once_and_its_first_token_comes_before(
    arrivals, lanes, contention, cached, seed
):
    world = World(contention=contention, cached=cached)
    decider = Chosen(lanes)
    found = run(CROSSING, arrivals, decider, world, seed=seed)
    assert len(found.e2e_s) == len(found.ttft_s) == len(arrivals)
    fastest = max(CROSSING.of(lane).each(1) for lane in Lane)
    for each, e2e, ttft in zip(arrivals, found.e2e_s, found.ttft_s, strict=True):
        assert 0.0 < ttft <= e2e + 1e-9
        assert e2e >= each.output_tokens / fastest * (1 - 1e-6)
    assert sum(by for _, by in decider.told) == 0
    assert len(decider.told) == 2 * len(arrivals)
    again = run(CROSSING, arrivals, Chosen(lanes), world, seed=seed)
    assert again == found


@given(ARRIVALS, LANES)
def test_without_interference_the_lanes_are_as_if_apart(arrivals, lanes):
    one = run(CROSSING, arrivals, Chosen(lanes), World(contention=1.0))
    other = run(CROSSING, arrivals, Chosen(lanes), World(apart=True))
    assert one == other


@given(ARRIVALS, st.sampled_from(Lane), st.floats(0.1, 10.0))
def test_changed_from_the_start_it_is_as_if_it_had_been_measured_so(arrivals, lane, factor):
    changed = alone(lane, arrivals, CROSSING, changes=(Change(0.0, factor),))
    measured = alone(lane, arrivals, CROSSING.scaled(factor))
    assert changed.e2e_s == pytest.approx(measured.e2e_s)


@settings(max_examples=20)
@given(st.integers(0, 1000), LANES)
def test_littles_law(seed, lanes):
    """The count that was seen, averaged over time, is the rate of arrivals times their time."""
    arrivals = at_random(300, 1.5, 60, seed=seed)
    decider = Chosen(lanes)
    found = run(CROSSING, arrivals, decider, World())
    area, count, before = 0.0, 0, 0.0
    for now, by in decider.told:
        area += count * (now - before)
        count, before = count + by, now
    mean = area / found.took_s
    assert mean == pytest.approx(len(arrivals) / found.took_s * fmean(found.e2e_s), rel=1e-6)


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("offered", [60.0, 150.0])
def test_on_a_constant_rate_the_load_is_what_theory_says(lane, offered):
    """Shared service with a rate X(n): P(n) goes with the product of offered / X(k), whatever the
    lengths' distribution."""
    curve, mean = CROSSING.of(lane), 40.0
    arrivals = at_random(20_000, offered / mean, mean, seed=3)
    tokens = sum(each.output_tokens for each in arrivals) / arrivals[-1].at
    weights = [1.0]
    for k in range(1, 400):
        weights.append(weights[-1] * tokens / curve.rate(k))
    expected = sum(n * w for n, w in enumerate(weights)) / sum(weights)
    found = alone(lane, arrivals, CROSSING)
    assert sum(found.e2e_s) / found.took_s == pytest.approx(expected, rel=0.05)


def test_the_decider_is_told_the_accept_length_of_what_the_spec_lane_ended():
    known = replace(FLAT, accept_length=3.0)
    arrivals = requests(*((float(at), 10) for at in range(400)))
    decider = Chosen([SPEC, PLAIN])
    world = World(apart=True, changes=(Change(200.0, 0.5),))
    run(known, arrivals, decider, world)
    assert len(decider.accept) == 200
    before = [length for now, _, length in decider.accept if now < 200.0]
    after = [length for now, _, length in decider.accept if now >= 200.0]
    # Over steps, as engines count it.
    assert 1 / fmean(1 / each for each in before) == pytest.approx(3.0, rel=0.05)
    assert 1 / fmean(1 / each for each in after) == pytest.approx(1.5, rel=0.05)
    assert len(set(before)) > 90
    assert all(tokens == 10 and length >= 1.0 for _, tokens, length in decider.accept)
    unknown = Chosen([SPEC])
    run(FLAT, arrivals, unknown, World())
    assert unknown.accept == []
