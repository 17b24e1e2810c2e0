"""Prompts of several lengths: what the lanes then give, and a gate that follows them."""

from dataclasses import replace
from statistics import fmean

import pytest

from specgate.core.config import PolicyConfig
from specgate.core.threshold import contexts_of
from specgate.replay.comparison import Way
from specgate.replay.deciders import Fixed, Policy
from specgate.replay.hindsight import foresight
from specgate.replay.plan import plan
from specgate.replay.run import World, run
from specgate.replay.traffic import pattern
from specgate.replay.truth import Truth
from specgate.replay.wording import notes
from tests.replay.lanes import FLAT, LENGTHS, PLAIN, SPEC, alone, requests, several_lengths

PROFILE = several_lengths(*LENGTHS)
FOUND = contexts_of(PROFILE)
assert FOUND is not None
CONTEXTS = FOUND


def with_prompts(arrivals, *lengths):
    """The first part of them with the first length, and so on."""
    part = arrivals[-1].at / len(lengths)
    return [
        each._replace(prompt_tokens=lengths[min(len(lengths) - 1, int(each.at / part))])
        for each in arrivals
    ]


@pytest.mark.parametrize(("prompt", "name"), [(128, 0), (10_240, 1), (41_000, 2)])
def test_a_lane_is_as_fast_as_at_its_prompts(prompt, name):
    """One request after another: 100 tokens at the rate of a load of 1, within a step's 5 %."""
    arrivals = requests((0.0, 100), (50.0, 100), prompt=prompt)
    found = alone(PLAIN, arrivals, CONTEXTS.main, contexts=CONTEXTS)
    curves = CONTEXTS.measured[name][1]
    assert found.e2e_s == pytest.approx((100 / curves.plain.rate(1),) * 2, rel=0.05)


def test_the_mean_prompt_in_flight_counts():
    """A short one beside a long one is as slow as at the mean of both."""
    together = requests((0.0, 100), (0.0, 100))
    mixed = [
        each._replace(prompt_tokens=p) for each, p in zip(together, (128, 41_000), strict=True)
    ]
    mean = [each._replace(prompt_tokens=(128 + 41_000) // 2) for each in together]
    took = [alone(SPEC, each, CONTEXTS.main, contexts=CONTEXTS).e2e_s[0] for each in (mixed, mean)]
    assert took[0] == pytest.approx(took[1])


def test_without_lengths_prompts_make_no_difference():
    for prompt in (1, 100_000):
        found = alone(SPEC, requests((0.0, 20), prompt=prompt))
        assert found.e2e_s == pytest.approx((1.0,))
    assert Truth(FLAT, None).at(1.0, 5.0) is FLAT


def test_foresight_knows_the_prompts():
    """At this rate the spec lane is better for short prompts, and the plain one for long ones."""
    arrivals = with_prompts(pattern("constant", 350.0, seed=2), 128, 41_000)
    sides = foresight(CONTEXTS.main, arrivals, 180.0, World(contexts=CONTEXTS))
    assert [side for _, side in sides] == [SPEC, PLAIN]
    assert sides[1][0] == pytest.approx(1800.0, abs=180.0)


def test_a_gate_that_follows_the_prompts_changes_its_side_with_them():
    arrivals = with_prompts(pattern("constant", 350.0, seed=5, most=4000), 128, 41_000, 128)
    world = World(contexts=CONTEXTS)
    config = PolicyConfig(threshold=1.0, curves=CONTEXTS.main, contexts=CONTEXTS)
    gate = Policy(config)
    follows = fmean(run(CONTEXTS.main, arrivals, gate, world).e2e_s)
    fixed = [
        fmean(run(CONTEXTS.main, arrivals, Fixed(lane), world).e2e_s) for lane in (SPEC, PLAIN)
    ]
    assert [each.side for each in gate.switched][-3:] == [SPEC, PLAIN, SPEC]
    assert follows < 0.95 * min(fixed)


def test_short_prompts_gain_what_the_cautious_main_curves_would_not():
    made = plan(PROFILE, "mine", "constant", None, requests=3000)
    assert made.config.curves == CONTEXTS.main
    found = made.replayed(0.4, World())
    # It begins on the lane that carries more by the main curves, and knows better when eight
    # requests have ended.
    assert found.over_better <= 1.15
    assert [each.side for each in found.switched] == [SPEC]
    assert found.switched[0].at < 90.0
    assert found.better is Way.ALL_SPEC
    assert any("prompts of 128, 10,240 and 41,000 tokens" in note for note in notes(made, found))
    blind = Policy(replace(made.config, contexts=None))
    took = run(made.curves, found.arrivals, blind, World(contexts=CONTEXTS)).e2e_s
    assert fmean(took) > 1.1 * found.mean_s(Way.POLICY)
