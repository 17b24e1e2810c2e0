"""Threshold and band, from a profile."""

import math

import pytest

from specgate.core.profile import Level, Profile, Verdict
from specgate.core.shape import Shape
from specgate.core.threshold import threshold_and_band


def profile(shape, **verdict):
    levels = tuple(Level(concurrency=c, arms={}) for c in (1, 10, 100))
    return Profile(verdict=Verdict(shape=Shape(shape), **verdict), levels=levels)


def test_the_threshold_is_the_crossover_itself():
    derived = threshold_and_band(profile("crosses", crossover=38.6, interval=(35.0, 44.0)))
    assert derived == (38.6, 0.2, None)


@pytest.mark.parametrize(
    ("low", "band"),
    [(40.0, 0.2), (32.0, 0.2), (20.0, 0.5), (10.0, 0.75), (2.0, 0.8), (0.0, 0.8)],
)
def test_the_band_reaches_down_to_the_lower_end_of_the_interval(low, band):
    derived = threshold_and_band(profile("crosses", crossover=40.0, interval=(low, None)))
    assert derived.band == pytest.approx(band)


def test_a_wider_default_stays():
    found = profile("crosses", crossover=40.0, interval=(39.0, 41.0))
    assert threshold_and_band(found, default_band=0.4).band == 0.4


def test_a_single_run_has_the_default_band_and_a_caveat():
    derived = threshold_and_band(profile("crosses", crossover=4.0))
    assert derived.threshold == 4.0
    assert derived.band == 0.2
    assert derived.caveat is not None


@pytest.mark.parametrize(
    ("shape", "threshold", "caveat"),
    [
        ("never", 0.0, None),
        ("always", math.inf, "nothing is known above 100"),
        ("inverted", 0.0, "above some load"),
        ("inconclusive", None, "more repeats"),
    ],
)
def test_shapes_without_a_crossover(shape, threshold, caveat):
    derived = threshold_and_band(profile(shape))
    assert derived.threshold == threshold
    assert derived.band == 0.2
    assert (derived.caveat is None) == (caveat is None)
    assert (caveat or "") in (derived.caveat or "")


def test_of_several_ranges_the_gate_takes_the_first_if_it_begins_at_the_lowest_level():
    assert threshold_and_band(profile("multi", pays=((1, 10), (100, 100)))).threshold == 10.0
    assert threshold_and_band(profile("multi", pays=((10, 10),))).threshold == 0.0
    assert threshold_and_band(profile("multi")).threshold == 0.0
