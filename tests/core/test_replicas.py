"""Several engines' counts as one: whatever one of them does, the others' count as they are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.accept import AcceptLength, Counted, between
from specgate.core.replicas import Summed, Together


def of(**lengths: tuple[float, float]) -> dict[str, Counted]:
    """Tokens and steps of each; a request every 100 tokens."""
    return {name: Counted(t, s, t // 100) for name, (t, s) in lengths.items()}


def test_it_is_tokens_over_steps_of_all_and_no_mean_of_means():
    together = Together()
    first = together.saw(of(a=(5000, 1000), b=(100, 100)))
    assert first == Counted(0, 0, 0)
    # a: 900 tokens in 300 steps, 3 a step. b: 100 in 100, 1 a step.
    last = together.saw(of(a=(5900, 1300), b=(200, 200)))
    sample = between(first, last)
    assert sample is not None
    assert sample.length == pytest.approx(1000 / 400)
    assert sample.tokens == 1000
    assert sample.requests == 10


def test_one_that_begins_anew_neither_adds_nor_takes_away():
    together = Together()
    together.saw(of(a=(5000, 1000), b=(9000, 9000)))
    assert together.saw(of(a=(5600, 1200), b=(50, 10)))[:2] == (600, 200)
    assert together.saw(of(a=(5600, 1200), b=(250, 110)))[:2] == (800, 300), "and then it counts"


def test_a_reset_that_the_sum_would_hide_is_none_the_less_one():
    """b falls by less than a rises: all together went up."""
    together = Together()
    together.saw(of(a=(1000, 500), b=(400, 100)))
    assert together.saw(of(a=(2000, 1000), b=(10, 90)))[:2] == (1000, 500)


def test_one_that_is_new_or_comes_back_is_counted_from_then_on():
    together = Together()
    together.saw(of(a=(100, 50)))
    assert together.saw(of(a=(200, 100), b=(90_000, 10_000)))[:2] == (100, 50)
    assert together.saw(of(a=(300, 150)))[:2] == (200, 100)
    assert together.saw(of(a=(400, 200), b=(95_000, 11_000)))[:2] == (300, 150)
    assert together.saw(of(a=(400, 200), b=(96_000, 11_500)))[:2] == (1300, 650)


def test_half_a_count_waits_for_the_other_half():
    together = Together()
    together.saw(of(a=(100, 50)))
    assert together.saw(of(a=(300, 50)))[:2] == (0, 0)
    assert together.saw(of(a=(300, 150)))[:2] == (200, 100)


@pytest.mark.parametrize("after", [(100_000, 101), (150, 400), (math.inf, 200), (math.nan, 200)])
def test_figures_that_cannot_be_are_noted_and_not_believed(after):
    together = Together()
    together.saw(of(b=(0, 0)) | {"a": Counted(100.0, 100.0)})
    found = together.saw(of(b=(200, 100)) | {"a": Counted(*after)})
    assert found[:2] == (200, 100)


def test_a_mean_in_place_of_steps_weighs_by_its_tokens():
    together = Together()
    together.saw({"a": Counted(0, None, 0, 2.0), "b": Counted(0, None, 0, 3.0)})
    found = together.saw({"a": Counted(200, None, 1, 2.0), "b": Counted(1200, None, 1, 4.0)})
    assert found == Counted(1400, 100 + 300, 2)


def test_where_one_counts_no_requests_there_is_no_count_of_them():
    together = Together()
    together.saw({"a": Counted(0, 0, 0), "b": Counted(0, 0)})
    assert together.saw({"a": Counted(20, 10, 1), "b": Counted(20, 10)}) == Counted(40, 20, None)


counts = st.tuples(st.integers(0, 10_000), st.integers(0, 5_000))
pages = st.lists(st.dictionaries(st.sampled_from("abc"), counts), max_size=8)


@given(pages)
def test_whatever_comes_the_count_only_grows_and_stays_between_its_replicas(found):
    together, accept = Together(), AcceptLength(2.0, steps=3, output_tokens=100)
    summed = Summed()
    before, tokens = together.saw({}), 0.0
    for page in found:
        now = together.saw(of(**page))
        assert now.tokens >= before.tokens
        assert now.steps is not None
        assert now.steps >= (before.steps or 0)
        assert now.tokens >= now.steps, "no length below 1"
        accept.saw(now, 1.0)
        assert 1.0 <= accept.estimate(1.0).accept_length <= 4.0
        total = summed.saw({name: float(t) for name, (t, _) in page.items()})
        assert total >= tokens
        before, tokens = now, total


def test_a_counter_begins_as_the_sum_and_never_falls():
    summed = Summed()
    assert summed.saw({"a": 100.0, "b": 50.0}) == 150
    assert summed.saw({"a": 110.0, "b": 5.0}) == 160
    assert summed.saw({"a": 110.0, "b": 25.0, "c": 7000.0}) == 180
    assert summed.saw({"c": 7001.0}) == 181
