"""Traffic that goes past the gate."""

from hypothesis import given
from hypothesis import strategies as st

from specgate.core.beyond import LAG_S, Beyond
from specgate.core.lanes import Lane
from specgate.core.load import Counts

FRESH_S = 15.0


def made(spec: int = 0, plain: int = 0) -> Beyond:
    beyond = Beyond(FRESH_S)
    beyond.ours(Counts(spec=spec, plain=plain), 0.0)
    return beyond


def test_two_readings_in_a_row_are_believed_and_the_smaller_counts():
    beyond = made(spec=3)
    beyond.saw(Lane.SPEC, 10, 1)
    assert beyond.counts(1).total == 0
    beyond.saw(Lane.SPEC, 8, 6)
    assert (beyond.counts(6).spec, beyond.counts(6).plain) == (5, 0)
    beyond.saw(Lane.SPEC, 3, 11)
    assert beyond.counts(11).total == 0


def test_readings_at_once_are_one():
    beyond = made()
    for at in (1.0, 1.1, 1.2):
        beyond.saw(Lane.SPEC, 9, at)
        assert beyond.counts(at).spec == 0
    beyond.saw(Lane.SPEC, 7, 1.3)
    beyond.saw(Lane.SPEC, 9, 1.6)
    assert beyond.counts(1.6).spec == 7


def test_a_number_that_is_no_count_says_nothing():
    """Of two lanes the sum was too large for a float, and every tick an error."""
    beyond = made()
    for at in (1, 2, 3):
        beyond.saw(Lane.SPEC, 17 * 10**307, at)
    assert beyond.counts(3).total == 0
    beyond.saw(Lane.SPEC, 9, 4)
    beyond.saw(Lane.SPEC, 9, 5)
    assert beyond.counts(5).total == 9, "what it says next is listened to"


def test_an_old_reading_says_nothing():
    beyond = made()
    for at in (1, 6):
        beyond.saw(Lane.PLAIN, 7, at)
    assert beyond.counts(6 + FRESH_S).plain == 7
    assert beyond.counts(6.1 + FRESH_S).plain == 0
    # Nor is it one of two in a row.
    beyond.saw(Lane.PLAIN, 7, 30)
    assert beyond.counts(30).plain == 0


def test_a_late_count_of_what_has_just_left_is_none():
    beyond = made(spec=20)
    beyond.ours(Counts(spec=0, plain=0), 1.0)
    for at in (1.1, 2.1, 3.1):
        beyond.saw(Lane.SPEC, 20, at)
        assert beyond.counts(at).spec == 0
    beyond.ours(Counts(spec=0, plain=0), LAG_S + 1)
    for at in (LAG_S + 2, LAG_S + 3):
        beyond.saw(Lane.SPEC, 20, at)
    assert beyond.counts(LAG_S + 3).spec == 20


def test_another_engine_in_the_lane_is_another_start():
    beyond = made()
    for at in (1, 2):
        beyond.saw(Lane.SPEC, 9, at)
    beyond.forget(Lane.SPEC)
    assert beyond.counts(2).total == 0


@given(
    st.lists(
        st.tuples(st.sampled_from(Lane), st.integers(0, 50), st.integers(0, 50), st.floats(0, 40)),
        max_size=30,
    )
)
def test_it_is_never_negative_and_never_more_than_was_reported_beyond_ours(steps):
    beyond, now = Beyond(FRESH_S), 0.0
    for lane, reported, ours, elapsed in steps:
        now += elapsed
        beyond.ours(Counts(spec=ours, plain=ours), now)
        beyond.saw(lane, reported, now)
        assert 0 <= beyond.counts(now).of(lane) <= max(0, reported - ours)
