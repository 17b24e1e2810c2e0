"""The crossover and its interval."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgate.core.crossover import find
from specgate.core.ratios import Runs
from specgate.core.shape import Shape
from specgate.sim.profiles import load_profile
from tests.bench.synthetic import LEVELS, falling, runs, through

NAMES = {
    "reference": Shape.NEVER,
    "k25-mxfp4-mi355x-eagle3-bf16": Shape.ALWAYS,
    "k26-int4-8xrtxpro6000-vllm-ctx10k": Shape.CROSSES,
    "k26-int4-8xrtxpro6000-vllm-ctx41k": Shape.CROSSES,
    "qwen35-397b-awq-4xrtxpro6000-vllm-64k": Shape.INVERTED,
}


def table(name):
    profile = load_profile(name)
    spec, plain = profile.measured.values()
    ratios = [s / p for s, p in zip(spec, plain, strict=True)]
    return profile.concurrency, through(profile.concurrency, ratios)


def found(levels, *, paired=True, **changes):
    return find(levels, rng=Random(1), paired=paired, **{"draws": 400, **changes})


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", NAMES)
def test_reference_profiles_have_their_shape_each_time(name, seed):
    levels, truth = table(name)
    sd = 0.025 * math.sqrt(2)
    result = found(runs(truth, levels=levels, sd=sd, drift=0.03, repeats=5, seed=seed))
    assert result.shape is NAMES[name]


@pytest.mark.parametrize("seed", range(8))
def test_a_curve_that_crosses_twice_and_more_is_multi_each_time(seed):
    # GLM-5.1 on 8 RTX PRO 6000, published: ahead, behind from 8 on, ahead again at 32.
    levels = (1, 2, 4, 8, 16, 32)
    truth = through(levels, (1.62, 1.61, 1.50, 0.80, 0.73, 1.28))
    result = found(runs(truth, levels=levels, sd=0.035, drift=0.03, repeats=3, seed=seed))
    assert result.shape is Shape.MULTI
    assert result.pays == ((1, 4), (32, 32))
    assert result.interval is None
    assert result.crossover is None


@pytest.mark.parametrize("seed", range(4))
def test_a_gain_below_the_margin_takes_a_smaller_margin_and_more_repeats(seed):
    """DeepSeek-R1 on GB300 gains at most 2.9 %: by the default margin that is worth nothing."""
    levels, truth = table("dsr1-gb300-mtp-isl2k-osl64")
    measured = runs(truth, levels=levels, sd=0.025, repeats=20, seed=seed)
    assert found(measured, margin=0.01).shape is Shape.MULTI
    assert found(measured, margin=0.06).shape is Shape.NEVER


def test_a_single_run_has_the_shape_of_its_points_and_no_interval():
    levels, truth = table("k26-int4-8xrtxpro6000-vllm-ctx10k")
    result = found(runs(truth, levels=levels, sd=0.0, repeats=1, seed=0))
    assert result.shape is Shape.CROSSES
    assert result.crossover == pytest.approx(38.587, abs=0.001)
    assert result.interval is None
    assert result.confidence is None
    assert result.p_never is None
    assert result.undecided == (32, 64)
    assert all(level.interval is None for level in result.levels)


def test_one_after_the_other_gives_the_same_verdict_with_a_wider_interval():
    for seed in range(5):
        measured = runs(falling(0.13, 20.0), sd=0.03, drift=0.03, repeats=5, seed=seed)
        together = found(measured)
        apart = found(measured, paired=False)
        assert apart.shape is together.shape is Shape.CROSSES
        assert together.interval is not None
        assert apart.interval is not None
        assert apart.interval[1] / apart.interval[0] > together.interval[1] / together.interval[0]
        assert apart.crossover == pytest.approx(together.crossover, rel=0.05)


def test_the_shallow_and_noisy_is_inconclusive_and_says_where_to_repeat():
    measured = runs(falling(0.01, 250.0), sd=0.08, repeats=2, seed=3)
    result = found(measured)
    assert result.shape is Shape.INCONCLUSIVE
    assert result.crossover is None
    assert result.interval is not None
    assert set(result.undecided) <= set(LEVELS)
    assert result.undecided


def test_probabilities_of_the_ends():
    never = found(runs(falling(0.13, 0.4), sd=0.02, repeats=3, seed=0))
    assert never.shape is Shape.NEVER
    assert never.crossover == 0.0
    assert never.interval == (0.0, 0.0)
    assert (never.p_never, never.p_always) == (1.0, 0.0)
    always = found(runs(falling(0.13, 1000.0), sd=0.02, repeats=3, seed=0))
    assert always.shape is Shape.ALWAYS
    assert always.crossover is None
    assert always.interval == (math.inf, math.inf)
    assert (always.p_never, always.p_always) == (0.0, 1.0)


def test_an_edge_case_is_hardly_ever_called_a_crossing():
    """1 % behind at one stream and falling: without a margin a third of such runs would cross."""
    truth = falling(0.05, 2 ** (-0.01 / 0.05))
    shapes = [found(runs(truth, sd=0.04, repeats=3, seed=s), draws=20).shape for s in range(200)]
    assert shapes.count(Shape.CROSSES) < 0.08 * len(shapes)
    assert set(shapes) <= {Shape.NEVER, Shape.INCONCLUSIVE, Shape.CROSSES}


def test_nothing_at_all_is_inconclusive():
    result = found([])
    assert result.shape is Shape.INCONCLUSIVE
    assert result.levels == ()
    assert result.undecided == ()


def test_wins_and_losses_that_a_fit_pools_away_are_inconclusive():
    def level(concurrency, mean, repeats):
        noise = (0.2 if i % 2 else -0.2 for i in range(repeats))
        spec = {i: math.exp(mean + off) for i, off in enumerate(noise)}
        return Runs(concurrency=concurrency, spec=spec, plain=dict.fromkeys(spec, 1.0))

    # A hundred repeats say "hardly", four say "ahead": the fit weighs them, and is below 1 at once.
    result = found([level(1, -0.03, 100), level(2, 0.2, 4), level(4, -1.0, 4)])
    assert [at.standing for at in result.levels] == ["open", "win", "lose"]
    assert result.shape is Shape.INCONCLUSIVE
    assert result.crossover is None


@settings(deadline=None)
@given(
    crossing=st.floats(1.5, 200),
    per_octave=st.floats(0.05, 0.5),
    sd=st.floats(0.0, 0.01),
    seed=st.integers(0, 10**6),
)
def test_a_known_crossing_is_found_within_what_the_noise_allows(crossing, per_octave, sd, seed):
    result = found(runs(falling(per_octave, crossing), sd=sd, repeats=3, seed=seed), draws=50)
    if result.crossover is not None and result.crossover > 0:
        octaves = abs(math.log2(result.crossover / crossing))
        assert octaves <= 0.001 + 5 * sd / math.sqrt(3) / per_octave


@settings(deadline=None)
@given(st.data())
def test_it_never_extrapolates(data):
    count = data.draw(st.integers(1, 6))
    repeats = data.draw(st.integers(1, 3))
    value = st.floats(0.2, 5.0)
    levels = [
        Runs(
            concurrency=3 * 2**i,
            spec={r: data.draw(value) for r in range(repeats)},
            plain={r: data.draw(value) for r in range(repeats)},
        )
        for i in range(count)
    ]
    result = found(levels, paired=data.draw(st.booleans()), draws=30)
    low, high = levels[0].concurrency, levels[-1].concurrency
    for value_found in (result.crossover, *(result.interval or ())):
        assert value_found in (None, 0.0, math.inf) or low <= value_found <= high
    if result.interval is not None:
        assert result.interval[0] <= result.interval[1]
    assert all(low <= a <= b <= high for a, b in result.pays)


@settings(deadline=None)
@given(factor=st.integers(2, 9), seed=st.integers(0, 1000))
def test_relabelled_levels_give_a_relabelled_crossover(factor, seed):
    """Only the logarithm's differences enter: all levels times k give the crossover times k."""
    measured = runs(falling(0.2, 20.0), sd=0.02, repeats=2, seed=seed)
    moved = [
        Runs(concurrency=level.concurrency * factor, spec=level.spec, plain=level.plain)
        for level in measured
    ]
    plainly, scaled = found(measured, draws=50), found(moved, draws=50)
    assert scaled.shape is plainly.shape
    if plainly.crossover:
        assert scaled.crossover == pytest.approx(plainly.crossover * factor, rel=1e-9)
    if plainly.interval and plainly.interval[0] > 0 and plainly.interval[1] < math.inf:
        assert scaled.interval == pytest.approx([end * factor for end in plainly.interval])
