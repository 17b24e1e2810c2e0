"""The live accept length: what it learns, forgets and does not believe."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.accept import AcceptLength, Counted, Sample, between

BENCH, TOKENS = 2.5, 200.0


class Lane:
    """An engine whose requests have 200 tokens each, and a gate that reads it after each."""

    def __init__(self, *, steps: int | None = 7) -> None:
        self.accept = AcceptLength(BENCH, steps=steps, output_tokens=TOKENS)
        self.tokens = self.verified = self.requests = 0.0
        self.now = 100.0
        self.read()

    def read(self) -> bool:
        return self.accept.saw(Counted(self.tokens, self.verified, self.requests), self.now)

    def serves(self, requests: int, length: float, every_s: float = 1.0) -> None:
        for _ in range(requests):
            self.tokens += TOKENS
            self.verified += TOKENS / length
            self.requests += 1
            self.now += every_s
            assert self.read()

    @property
    def factor(self) -> float:
        return self.accept.estimate(self.now).factor


def test_before_anything_is_seen_it_is_the_bench_s():
    found = Lane().accept.estimate(100)
    assert (found.accept_length, found.factor, found.age_s) == (BENCH, 1.0, None)
    assert found.standard_error > 0.2


@pytest.mark.parametrize("times", [0.5, 2.0])
def test_a_halving_and_a_doubling_are_followed_within_thirty_requests(times):
    lane = Lane()
    lane.serves(100, BENCH)
    assert lane.factor == pytest.approx(1.0, abs=1e-6)
    lane.serves(10, BENCH * times)
    assert abs(math.log(lane.factor / times)) < 0.5 * math.log(2)
    lane.serves(20, BENCH * times)
    assert lane.factor == pytest.approx(times, rel=0.04)
    lane.serves(30, BENCH)
    assert lane.factor == pytest.approx(1.0, rel=0.04)


def test_few_requests_move_it_little():
    lane = Lane()
    lane.serves(1, BENCH / 2)
    assert 0.7 < lane.factor < 0.9


def test_the_mean_is_over_steps():
    lane = Lane()
    for _ in range(100):
        lane.serves(1, 1.0)
        lane.serves(1, 4.0)
    # 400 tokens take 200 + 50 steps.
    assert lane.factor * BENCH == pytest.approx(400 / 250, rel=0.15)


def test_one_reading_of_many_requests_is_worth_them_all():
    one, many = Lane(), Lane()
    many.serves(40, 1.5)
    one.tokens, one.verified, one.requests, one.now = 8000, 8000 / 1.5, 40, many.now
    assert one.read()
    assert one.factor == pytest.approx(many.factor, rel=0.01)


def test_without_a_count_of_requests_tokens_stand_for_them():
    accept = AcceptLength(BENCH, steps=7, output_tokens=TOKENS)
    for count in range(32):
        accept.saw(Counted(TOKENS * count, TOKENS * count / 1.25), float(count))
    assert accept.estimate(31).factor == pytest.approx(0.5, rel=0.04)


def test_unseen_it_ages_and_the_bench_s_comes_back_within_ten_minutes():
    lane = Lane()
    lane.serves(60, BENCH / 2)
    at_once = lane.accept.estimate(lane.now)
    aged = [lane.accept.estimate(lane.now + each) for each in (60, 180, 300, 600)]
    factors = [each.factor for each in (at_once, *aged)]
    errors = [each.standard_error for each in (at_once, *aged)]
    assert factors == sorted(factors)
    assert errors[1:] == sorted(errors[1:])
    assert errors[-1] > 5 * errors[0]
    assert factors[0] < 0.52
    assert factors[1] < 0.6
    assert factors[-1] > 0.92
    assert lane.accept.estimate(lane.now + 720).factor > 0.99
    assert aged[-1].age_s == 600
    # And what comes then is believed as quickly as at first.
    lane.now += 600
    lane.serves(15, BENCH / 2)
    assert lane.factor < 0.6


def test_another_engine_is_another_start():
    lane = Lane()
    lane.serves(60, BENCH / 2)
    lane.accept.forget()
    assert lane.accept.estimate(lane.now).age_s is None
    assert not lane.read()


READINGS = {
    "nothing new": Counted(1000, 400, 5),
    "a restart": Counted(100, 40, 1),
    "steps that went backwards": Counted(1200, 390, 6),
    "requests that went backwards": Counted(1200, 480, 4),
    "below 1": Counted(1200, 700, 6),
    "above steps + 1": Counted(2000, 420, 6),
    "no number": Counted(math.nan, 480, 6),
    "steps that are no number": Counted(1200, math.nan, 6),
    "infinite": Counted(math.inf, 480, 6),
    "no steps any more": Counted(1200, None, 6, 2.0),
    "too few steps": Counted(1010, 404, 5),
}


@pytest.mark.parametrize("what", READINGS)
def test_what_cannot_be_is_not_believed(what):
    accept = AcceptLength(BENCH, steps=3, output_tokens=TOKENS)
    assert not accept.saw(Counted(1000, 400, 5), 0)
    assert not accept.saw(READINGS[what], 5)
    assert accept.estimate(5).age_s is None
    assert accept.estimate(5).factor == 1.0


def test_after_a_restart_it_learns_on():
    accept = AcceptLength(BENCH, steps=3, output_tokens=TOKENS)
    accept.saw(Counted(1000, 400, 5), 0)
    assert not accept.saw(Counted(100, 40, 1), 5)
    assert accept.saw(Counted(1100, 540, 6), 10)
    assert accept.estimate(10).accept_length < BENCH


def test_few_steps_wait_for_more():
    accept = AcceptLength(BENCH, steps=3, output_tokens=TOKENS)
    accept.saw(Counted(0, 0, 0), 0)
    assert [accept.saw(Counted(each * 10, each * 5, 0), each) for each in range(1, 5)] == [
        False,
        False,
        False,
        True,
    ]


def test_a_mean_counts_only_while_tokens_move():
    accept = AcceptLength(BENCH, steps=3, output_tokens=TOKENS)
    assert not accept.saw(Counted(1000, None, 5, 1.5), 0)
    assert accept.saw(Counted(2000, None, 10, 1.5), 5)
    known = accept.estimate(5)
    # The engine is idle, and its gauge stands.
    assert not any(accept.saw(Counted(2000, None, 10, 1.5), at) for at in range(6, 60))
    assert accept.estimate(60).age_s == 55
    assert accept.estimate(60).factor > known.factor
    for wrong in (0.0, 0.99, 4.01, math.nan, math.inf, -1.0):
        assert not accept.saw(Counted(3000, None, 15, wrong), 61)


def test_without_steps_sixty_four_is_the_most():
    accept = AcceptLength(BENCH, steps=None, output_tokens=TOKENS)
    assert accept.learn(Sample(64.0, 100.0, None), 0)
    assert not accept.learn(Sample(64.1, 100.0, None), 0)


numbers = st.floats(allow_nan=True, allow_infinity=True)
counts = st.one_of(st.none(), numbers, st.floats(0, 1e6))
readings = st.builds(Counted, st.one_of(numbers, st.floats(0, 1e6)), counts, counts, counts)


@given(
    st.lists(st.tuples(readings, st.floats(-10, 1000)), max_size=30),
    st.one_of(st.none(), st.integers(1, 8)),
    st.floats(1, 9),
)
def test_whatever_is_read_the_estimate_is_within_what_a_step_can_yield(seen, steps, bench):
    accept = AcceptLength(bench, steps=steps, output_tokens=TOKENS)
    now = 0.0
    for reading, elapsed in seen:
        now += elapsed
        accept.saw(reading, now)
        found = accept.estimate(now)
        assert 1.0 <= found.accept_length <= accept.most
        assert found.factor == found.accept_length / accept.bench
        assert 0.0 <= found.noise <= found.standard_error < math.inf
        assert found.age_s is None or found.age_s >= 0


@given(readings, readings)
def test_a_difference_has_tokens(before, after):
    sample = between(before, after)
    assert sample is None or sample.tokens > 0
