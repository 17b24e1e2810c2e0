"""What arrives waits until the old side has drained, and never for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.hold import Hold, holds

TEN = Hold(drained=4, longest=1.5)


@pytest.mark.parametrize(
    ("old", "held_s", "waits"),
    [(5, 0.0, True), (4, 0.0, False), (0, 0.0, False), (90, 14.9, True), (90, 15.0, False)],
)
def test_it_ends_when_the_old_lane_has_drained_or_the_time_is_over(old, held_s, waits):
    assert holds(TEN, old=old, held_s=held_s, duration_s=10.0) is waits


@given(st.integers(0, 5), st.integers(0, 1000), st.floats(0.0, 100.0))
def test_it_is_over_for_certain_after_so_many_durations(drained, old, duration_s):
    hold = Hold(drained)
    assert not holds(hold, old=old, held_s=hold.longest * duration_s, duration_s=duration_s)


@given(st.integers(0, 50), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_the_emptier_and_the_later_the_sooner_it_ends(old, held_s, duration_s):
    if not holds(TEN, old=old, held_s=held_s, duration_s=duration_s):
        assert not holds(TEN, old=max(0, old - 1), held_s=held_s, duration_s=duration_s)
        assert not holds(TEN, old=old, held_s=held_s + 1.0, duration_s=duration_s)
