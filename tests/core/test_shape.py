"""Standings and shapes, at a margin of 3 %."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.shape import (
    MEANINGS,
    Shape,
    Standing,
    ranges_that_pay,
    shape,
    shape_of_points,
    standing,
)

DELTA = math.log1p(0.03)
SPANS = {
    "win": (0.05, 0.1),
    "lose": (-0.1, -0.05),
    "tie": (-0.01, 0.02),
    "open": (-0.1, 0.1),
    "up?": (-0.01, 0.1),
    "down?": (-0.1, 0.01),
}


@pytest.mark.parametrize(
    ("interval", "stands"),
    [
        ((0.01, 0.05), "win"),
        ((0.001, DELTA), "tie"),
        ((-0.02, 0.02), "tie"),
        ((-DELTA, DELTA), "tie"),
        ((-0.05, -0.01), "lose"),
        ((-0.02, -0.01), "tie"),
        ((-0.04, 0.02), "open"),
        ((-0.02, 0.04), "open"),
        ((0.0, 0.2), "open"),
    ],
)
def test_a_level_stands_by_where_its_interval_lies(interval, stands):
    assert standing(interval, 0.03) is Standing(stands)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("lose lose lose", "never"),
        ("tie lose lose", "never"),
        ("down? lose down?", "never"),
        ("lose open lose", "never"),
        ("tie tie", "never"),
        ("up? lose lose", "inconclusive"),
        ("lose lose open", "inconclusive"),
        ("win win", "always"),
        ("win tie", "always"),
        ("up? win open win", "always"),
        ("win win down?", "inconclusive"),
        ("open win", "inconclusive"),
        ("win lose", "crosses"),
        ("win open tie lose open", "crosses"),
        ("open win lose", "crosses"),
        ("lose win", "inverted"),
        ("lose tie open win", "inverted"),
        ("lose win lose", "multi"),
        ("win lose tie win", "multi"),
        ("tie open", "inconclusive"),
        ("open", "inconclusive"),
        ("", "inconclusive"),
    ],
)
def test_the_shape_is_the_order_of_wins_and_losses(levels, expected):
    assert shape([SPANS[word] for word in levels.split()], 0.03) is Shape(expected)


def test_points_have_the_shape_of_their_signs():
    assert shape_of_points([0.01, -0.001]) is Shape.CROSSES
    assert shape_of_points([-0.2, 0.004, 0.029, -0.1]) is Shape.MULTI
    assert shape_of_points([0.0, -0.1]) is Shape.NEVER


def test_ranges_that_pay_end_at_levels():
    pays = ranges_that_pay([1, 2, 5, 10, 30], [0.1, 0.2, -0.1, 0.0, 0.3])
    assert pays == ((1, 2), (30, 30))
    assert ranges_that_pay([], []) == ()


@given(st.lists(st.sampled_from(sorted(SPANS)), min_size=1, max_size=8))
def test_the_shape_depends_on_the_order_of_levels_alone(words):
    """Monotone relabelling: no concurrency enters."""
    spans = [SPANS[word] for word in words]
    doubled = [(low * 2, high * 2) for low, high in spans]
    if shape(spans, 0.03) in (Shape.CROSSES, Shape.INVERTED, Shape.MULTI):
        assert shape(doubled, 0.03) is shape(spans, 0.03)
    assert shape([(-high, -low) for low, high in spans], 0.03) is MIRRORED[shape(spans, 0.03)] or (
        shape(spans, 0.03) in (Shape.NEVER, Shape.MULTI)
    )


MIRRORED = {
    Shape.NEVER: Shape.ALWAYS,
    Shape.ALWAYS: Shape.NEVER,
    Shape.CROSSES: Shape.INVERTED,
    Shape.INVERTED: Shape.CROSSES,
    Shape.MULTI: Shape.MULTI,
    Shape.INCONCLUSIVE: Shape.INCONCLUSIVE,
}


def test_every_shape_is_explained():
    assert set(MEANINGS) == set(Shape)
