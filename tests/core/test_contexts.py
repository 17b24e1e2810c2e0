"""The curves follow the prompts' length as far as it is known."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.contexts import ENOUGH, STALE_S, STEP, Contexts, Prompts
from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane
from specgate.core.prefixes import Prefixes

LOADS = (1.0, 4.0, 16.0, 64.0)


def curves(spec, plain, **more):
    return Curves(spec=Curve(LOADS, spec), plain=Curve(LOADS, plain), **more)


SHORT = curves((300.0, 800.0, 1500.0, 2000.0), (100.0, 350.0, 1200.0, 2500.0), accept_length=3.0)
LONG = curves((120.0, 200.0, 250.0, 260.0), (90.0, 220.0, 400.0, 500.0), accept_length=2.0)
CONTEXTS = Contexts(LONG, ((1000, SHORT), (9000, LONG)))


def told(lengths, *, contexts=CONTEXTS, now=0.0):
    prompts = Prompts(contexts)
    for length in lengths:
        prompts.ended(length, now)
    return prompts


def test_at_a_measured_length_and_beyond_the_curves_are_the_measured_ones():
    for tokens, found in ((1, SHORT), (1000, SHORT), (9000, LONG), (10**6, LONG)):
        for lane in Lane:
            rates = CONTEXTS.at(tokens).of(lane).tok_s
            assert rates == pytest.approx(found.of(lane).tok_s)


def test_in_between_the_time_for_a_token_is_linear_in_the_length():
    """In the middle of 1000 and 9000: 1/300 and 1/120 give 2/0.01167."""
    middle = CONTEXTS.at(5000)
    assert middle.spec.rate(1) == pytest.approx(2 / (1 / 300 + 1 / 120))
    assert middle.plain.rate(64) == pytest.approx(2 / (1 / 2500 + 1 / 500))
    assert middle.accept_length == pytest.approx(2.5)


def test_levels_that_only_one_length_has_are_taken_from_the_others_curve():
    few = replace(LONG, spec=Curve((1.0, 64.0), (120.0, 260.0)))
    mixed = Contexts(LONG, ((1000, SHORT), (9000, few))).at(5000)
    assert mixed.spec.loads == LOADS
    assert mixed.spec.rate(4) == pytest.approx(2 / (1 / 800 + 1 / few.spec.rate(4)))


@given(st.floats(1.0, 20_000.0), st.sampled_from(LOADS), st.sampled_from(Lane))
def test_a_rate_lies_between_those_of_the_neighbours(tokens, load, lane):
    low, high = sorted((SHORT.of(lane).rate(load), LONG.of(lane).rate(load)))
    assert low * 0.999 <= CONTEXTS.at(tokens).of(lane).rate(load) <= high * 1.001


def test_the_open_interval_keeps_its_distance_from_the_crossover():
    edges = SHORT.first_edge, LONG.first_edge
    short, long = (
        replace(each, open=((edge * 0.8, edge * 1.25),))
        for each, edge in zip((SHORT, LONG), edges, strict=True)
    )
    middle = Contexts(long, ((1000, short), (9000, long))).at(3000)
    assert edges[1] < middle.first_edge < edges[0]
    ((low, high),) = middle.open
    assert low == pytest.approx(middle.first_edge * 0.8)
    assert high == pytest.approx(middle.first_edge * 1.25)
    ends = replace(short, open=((0.0, math.inf),))
    assert Contexts(long, ((1000, ends), (9000, long))).at(3000).open == ((0.0, math.inf),)
    bare = Contexts(long, ((1000, short), (9000, LONG))).at(3000)
    assert bare.open == ()


def test_the_recent_mean_chooses():
    prompts = told([5000] * ENOUGH)
    assert prompts.mean(1.0) == pytest.approx(5000)
    found = prompts.curves(1.0)
    assert found.spec.rate(1) == pytest.approx(CONTEXTS.at(5000).spec.rate(1), rel=0.03)
    assert prompts.curves(2.0) is found


@pytest.mark.parametrize(
    "lengths",
    [[], [5000] * (ENOUGH - 1), [None] * 100, [0] * 100, [None, 5000, None] * 50],
)
def test_with_too_little_told_it_is_the_main_curves(lengths):
    prompts = told(lengths)
    assert prompts.mean(1.0) is None
    assert prompts.curves(1.0) is LONG


def test_an_old_mean_is_none_and_begins_anew():
    prompts = told([1000] * 100)
    assert prompts.curves(STALE_S).spec.rate(1) > 250
    assert prompts.curves(STALE_S + 1) is LONG
    prompts.ended(9000, STALE_S + 2)
    assert prompts.mean(STALE_S + 2) is None
    for _ in range(ENOUGH):
        prompts.ended(9000, STALE_S + 3)
    assert prompts.mean(STALE_S + 3) == pytest.approx(9000)


def test_other_prompts_are_followed_within_some_hundred_requests():
    prompts = told([1000] * 200)
    for _ in range(300):
        prompts.ended(9000, 1.0)
    assert prompts.mean(1.0) == pytest.approx(9000, rel=0.06)


def test_noise_about_a_step_changes_nothing():
    prompts = told([2000] * 200)
    found = prompts.curves(0.0)
    draw = random.Random(1)
    for at in range(2000):
        # Within a quarter of the mean: its average stays within a tenth.
        prompts.ended(round(2000 * math.exp(draw.uniform(-2, 2) * STEP)), float(at))
        assert prompts.curves(float(at)) is found


def test_another_profile_keeps_what_was_seen():
    prompts = told([9000] * 50)
    other = Contexts(SHORT, ((1000, LONG), (9000, SHORT)))
    prompts.use(other)
    assert prompts.curves(1.0).spec.rate(1) == pytest.approx(300.0)
    prompts.use(other)
    assert prompts.mean(1.0) == pytest.approx(9000)


def test_what_a_switch_loses_is_the_same_at_all_lengths():
    lost = Prefixes(100.0, 60.0, 5000.0)
    losing = CONTEXTS.losing(lost)
    assert losing.main.prefixes == lost
    assert {losing.at(tokens).prefixes for tokens in (1, 5000, 10_000)} == {lost}
