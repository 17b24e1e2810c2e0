"""The switchback experiment, on traffic whose paces are known."""

import math
from itertools import pairwise
from random import Random

import pytest

from specgate.core.lanes import Lane
from specgate.core.switchback import BLOCK, BURN, CALM, CALM_STILL, Switchback

DURATION_S = 5.0
CALM_LOAD = {"offered": 20.0, "weaker_top": 100.0}


class Traffic:
    """A gate on one side, whose requests take `pace` seconds a token, with some noise; a second
    after a switch they are slower, as the old lane drains."""

    def __init__(self, pace: dict[Lane, float], *, share: float = 0.1, seed: int = 1) -> None:
        self.random = Random(seed)
        self.trial = Switchback(share, 0.0, first=lambda: self.random.choice(list(Lane)))
        self.pace = pace
        self.own = Lane.PLAIN
        self.side = self.own
        self.now = 0.0
        self.since_switch = 1e9
        self.other_s = 0.0
        self.sides: list[Lane | None] = []
        self.load = dict(CALM_LOAD)
        self.free = True

    def run(self, seconds: float) -> None:
        step = 0.5
        for _ in range(int(seconds / step)):
            self.now += step
            self.since_switch += step
            held = self.trial.step(
                self.now,
                side=self.side,
                duration_s=DURATION_S,
                expected=1.5,
                free=self.free,
                **self.load,
            )
            self.sides.append(held)
            side = held or self.own
            if side is not self.side:
                self.side, self.since_switch = side, 0.0
            self.other_s += step * (side is not self.own)
            tokens = self.random.randint(50, 150)
            pace = self.pace[self.side] * math.exp(self.random.gauss(0, 0.1))
            if self.since_switch < 2 * DURATION_S:
                pace *= 2
            self.trial.ended(self.now, self.side, pace * tokens, tokens)


PACE = {Lane.SPEC: 0.02, Lane.PLAIN: 0.03}


def test_the_ratio_of_the_paces_is_found_with_an_interval_around_it():
    traffic = Traffic(PACE)
    traffic.run(12_000)
    found = traffic.trial.read()
    assert found.pairs > 6
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.5 < found.high
    assert found.high / found.low < 1.1
    assert found.faster == pytest.approx(1.5, rel=0.05)
    assert found.expected == 1.5


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    held = 0
    for seed in range(30):
        traffic = Traffic(PACE, seed=seed)
        traffic.run(4_000)
        found = traffic.trial.read()
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.5 <= found.high
    assert 22 <= held <= 30, held


def test_time_on_the_other_side_stays_within_the_share():
    for share in (0.01, 0.1):
        traffic = Traffic(PACE, share=share)
        for _ in range(20):
            traffic.run(1_000)
            assert traffic.other_s <= share * traffic.now
        assert traffic.trial.read().spent_s == pytest.approx(traffic.other_s, abs=1.0)


def test_both_orders_come():
    traffic = Traffic(PACE)
    traffic.run(12_000)
    sides = [None, *traffic.sides]
    firsts = {now for was, now in pairwise(sides) if was is None and now}
    assert firsts == set(Lane)


def test_nothing_is_tried_unless_it_is_calm_and_nobody_forces():
    for load, free in (
        ({"offered": 100 * CALM + 1, "weaker_top": 100.0}, True),
        ({"offered": 0.0, "weaker_top": 100.0}, True),
        ({"offered": 10.0, "weaker_top": 0.0}, True),
        (CALM_LOAD, False),
    ):
        traffic = Traffic(PACE)
        traffic.load, traffic.free = load, free
        traffic.run(5_000)
        assert set(traffic.sides) == {None}


@pytest.mark.parametrize("how", ["busy", "forced"])
def test_a_pair_is_dropped_when_calm_is_over(how: str):
    traffic = Traffic(PACE)
    while not traffic.trial.read().running:
        traffic.run(1)
    pairs = traffic.trial.read().pairs
    if how == "busy":
        traffic.load = {"offered": 100 * CALM_STILL + 1, "weaker_top": 100.0}
    else:
        traffic.free = False
    traffic.run(1)
    found = traffic.trial.read()
    assert (found.running, found.pairs) == (False, pairs)
    assert traffic.sides[-1] is None


def test_the_burn_in_does_not_count():
    trial = Switchback(0.1, 0.0, first=lambda: Lane.SPEC)
    now, paces = 10_000.0, {Lane.SPEC: 0.02, Lane.PLAIN: 0.03}
    held = trial.step(now, side=Lane.PLAIN, duration_s=5, expected=1, free=True, **CALM_LOAD)
    assert held is not None
    for _ in range(2):
        began, side = now, held
        while held is side:
            now += 0.5
            slow = 9.0 if now - began < BURN * DURATION_S + 4.0 else 1.0
            # Began within the burn-in, or ended on the other lane: neither counts.
            trial.ended(now, side, slow * paces[side] * 50, 50)
            trial.ended(now, side.other, 100.0, 50)
            held = trial.step(now, side=side, duration_s=5, expected=1, free=True, **CALM_LOAD)
        assert now - began == BLOCK * DURATION_S
        if held is None:
            break
    found = trial.read()
    assert found.pairs == 1
    assert found.faster == pytest.approx(1.5)
    assert found.low is None


def test_a_pair_without_requests_says_nothing():
    trial = Switchback(0.1, 0.0, first=lambda: Lane.SPEC)
    now = 10_000.0
    for _ in range(400):
        now += 0.5
        trial.step(now, side=Lane.PLAIN, duration_s=5, expected=1, free=True, **CALM_LOAD)
    assert trial.read().pairs == 0
