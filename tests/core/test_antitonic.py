"""The non-increasing fit and its zero."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.antitonic import antitonic, first_zero

VALUES = st.lists(st.floats(-2, 2), min_size=1, max_size=9)


def test_what_falls_already_stays_as_it_is():
    assert antitonic([3.0, 2.0, 2.0, -1.0], [1, 1, 1, 1]) == [3.0, 2.0, 2.0, -1.0]


def test_neighbours_that_rise_become_their_weighted_mean():
    assert antitonic([1.0, 4.0, -1.0], [1, 2, 1]) == pytest.approx([3.0, 3.0, -1.0])
    assert antitonic([1.0, 2.0, 3.0], [1, 1, 1]) == pytest.approx([2.0, 2.0, 2.0])


@given(VALUES, st.data())
def test_the_fit_never_rises_and_keeps_the_weighted_mean(values, data):
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(values), max_size=len(values)))
    fitted = antitonic(values, weights)
    assert all(a >= b - 1e-12 for a, b in pairwise(fitted))
    mean = sum(v * w for v, w in zip(values, weights, strict=True))
    assert sum(v * w for v, w in zip(fitted, weights, strict=True)) == pytest.approx(mean, abs=1e-9)


def test_the_zero_is_linear_in_the_logarithm():
    assert first_zero([4, 16], [1.0, -1.0]) == pytest.approx(8.0)
    assert first_zero([1, 2, 4], [1.0, 0.0, -1.0]) == 2.0


def test_the_ends_are_zero_and_infinity():
    assert first_zero([1, 8], [0.0, -1.0]) == 0.0
    assert first_zero([1, 8], [2.0, 0.1]) == math.inf


@given(VALUES)
def test_nothing_is_ever_said_of_loads_beyond_the_levels(values):
    levels = [3 * 2**i for i in range(len(values))]
    zero = first_zero(levels, antitonic(values, [1.0] * len(values)))
    assert zero in (0.0, math.inf) or levels[0] <= zero <= levels[-1]
