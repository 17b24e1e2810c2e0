"""ln(spec / plain) and its noise, from repeats."""

import math
from random import Random
from statistics import fmean, stdev

import pytest

from specgate.core.ratios import Runs, log_ratios


def level(concurrency, spec, plain):
    return Runs(concurrency=concurrency, spec=dict(enumerate(spec)), plain=dict(enumerate(plain)))


def test_a_drift_that_a_block_shares_is_not_noise():
    levels = [level(1, [100, 150, 80], [50, 75, 40]), level(2, [90, 60], [90, 60])]
    ratios = log_ratios(levels, paired=True)
    assert ratios.means == pytest.approx((math.log(2), 0.0))
    assert ratios.noise[0].sd == pytest.approx(0.0)
    assert ratios.noise[0].df == 3


def test_unpaired_the_spreads_of_both_arms_add_up():
    levels = [level(1, [100, 150, 80], [50, 75, 40])]
    ratios = log_ratios(levels, paired=False)
    assert ratios.means == pytest.approx((math.log(2),))
    sd = stdev(map(math.log, [100, 150, 80]))
    assert [noise.sd for noise in ratios.noise] == pytest.approx([sd, sd])
    intervals = ratios.intervals(0.9)
    assert intervals is not None
    # Two equal sources of 2 degrees of freedom each have 4 together (Welch, Satterthwaite).
    half = 2.13185 * sd * math.sqrt(2 / 3)
    assert intervals[0] == pytest.approx((math.log(2) - half, math.log(2) + half), rel=1e-4)


def test_a_block_that_lacks_an_arm_and_a_level_that_lacks_a_block_are_left_out():
    levels = [
        Runs(concurrency=4, spec={0: 10.0, 2: 11.0}, plain={0: 10.0, 1: 99.0}),
        Runs(concurrency=1, spec={0: 10.0}, plain={1: 10.0}),
    ]
    ratios = log_ratios(levels, paired=True)
    assert ratios.concurrency == (4,)
    assert ratios.means == (0.0,)


def test_without_repeats_there_is_no_noise_and_no_interval():
    ratios = log_ratios([level(1, [2], [1]), level(2, [1], [1])], paired=True)
    assert ratios.noise == ()
    assert ratios.intervals(0.9) is None
    assert ratios.weights() == [1.0, 1.0]
    assert ratios.draw(Random(0)) == list(ratios.means)


def test_one_arm_without_repeats_leaves_its_spread_unknown():
    assert log_ratios([level(1, [2, 3], [1])], paired=False).noise == ()


def test_levels_weigh_as_they_were_repeated():
    ratios = log_ratios([level(1, [1, 2, 3, 4], [1] * 4), level(2, [1, 2], [1, 1])], paired=True)
    first, second = ratios.weights()
    assert first == pytest.approx(2 * second)


def test_draws_are_around_the_means_and_wider_than_the_noise():
    """One chi-square a draw: the spread of what is drawn is that of t, not of the normal."""
    levels = [level(1, [1.0, 1.1, 0.9], [1, 1, 1]), level(2, [0.5, 0.52, 0.48], [1, 1, 1])]
    ratios = log_ratios(levels, paired=True)
    rng = Random(5)
    drawn = [ratios.draw(rng) for _ in range(20_000)]
    se = ratios.noise[0].sd / math.sqrt(3)
    for i in (0, 1):
        values = [draw[i] for draw in drawn]
        assert fmean(values) == pytest.approx(ratios.means[i], abs=0.01)
        # t with 4 degrees of freedom: its variance is 4 / (4 - 2).
        assert stdev(values) == pytest.approx(se * math.sqrt(2), rel=0.15)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_what_has_no_logarithm_is_refused(value):
    with pytest.raises(ValueError, match="no logarithm"):
        log_ratios([level(1, [value], [1])], paired=True)


def test_a_systematic_error_widens_an_interval_that_repeats_would_not():
    def of(error):
        repeats = {i: 106.0 + 0.1 * (i % 2) for i in range(20)}
        plain = dict.fromkeys(range(20), 100.0)
        ratios = log_ratios(
            [Runs(concurrency=1, spec=repeats, plain=plain, error=error)], paired=True
        )
        (interval,) = ratios.intervals(0.9) or [(0.0, 0.0)]
        rng = Random(0)
        return interval, stdev(ratios.draw(rng)[0] for _ in range(300))

    (low, high), spread = of(0.0)
    (wide_low, wide_high), wide_spread = of(0.05)
    assert (wide_low, wide_high) == pytest.approx((low - 0.05, high + 0.05))
    assert spread < 0.001
    assert wide_spread == pytest.approx(0.05, rel=0.15)
