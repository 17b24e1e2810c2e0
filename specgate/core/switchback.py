"""Switchback: an experiment on live traffic that says how much faster one side is than the other.

Requests cannot be compared one by one: each one's time depends on which lane the others are on. So
the whole gate is held on one side for a block of time, then on the other for a second one, in
random order; the pace of each block is the seconds that its requests took over the tokens that they
got. A pair of blocks gives one logarithm of a ratio; the mean over pairs has an interval by
Student's t.

    only when calm  both lanes could carry twice what is offered, so that neither block can hurt
                    much; a pair is dropped as soon as more than CALM_STILL of the weaker lane's top
                    is offered, or somebody forces the mode
    bounded         time on the side that the policy would not have chosen is at most `share` of
                    all time
    burn-in         the first BURN durations of a block are dropped: the other lane drains, and what
                    is measured is a pool that is shared
    the same rule   a request counts if it began after the burn-in and ended within its block. The
    for both        longest ones of a block are cut off by that, on both sides alike; the pace is
                    per token, so that it matters little

What the profile says at the same load stands beside it: if the interval does not hold that, the
profile is of other prompts, another machine or another engine.

Design: Bojinov, Simchi-Levi, Zhao, "Design and analysis of switchback experiments" (2009.00148).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from specgate.core.lanes import Lane
from specgate.core.student import t_quantile

BLOCK, BURN = 8.0, 3.0
"""Of a block, in mean durations of a sequence."""

BLOCK_LEAST_S = 10.0
CALM, CALM_STILL = 0.5, 0.8
"""Offered, as a share of the weaker lane's top: to begin, and to go on."""

REQUESTS_LEAST = 3
"""In each block; a pair with fewer says nothing."""

CONFIDENCE = 0.9


class Experiment(NamedTuple):
    """What is known so far: `faster` is the plain side's pace over the spec side's, above 1 where
    speculation is faster; low and high its 90 % interval, None before two pairs. `expected`: what
    the profile says at the load of the last pair. `spent_s`: time on the side that the policy would
    not have chosen. `running`: a pair is under way."""

    pairs: int
    faster: float | None
    low: float | None
    high: float | None
    expected: float | None
    spent_s: float
    running: bool


@dataclass(slots=True)
class _Block:
    """A side, held from `began` on; what its requests took and got."""

    side: Lane
    began: float
    length_s: float
    burn_s: float
    requests: int = 0
    took_s: float = 0.0
    tokens: int = 0

    @property
    def pace(self) -> float:
        """Seconds a token."""
        return self.took_s / self.tokens


class Switchback:
    """`now`: monotonic seconds, in order. share: at most, of all time, above 0. first: the side of
    a pair's first block, by chance."""

    def __init__(self, share: float, now: float, *, first: Callable[[], Lane]) -> None:
        self.share = share
        self._begun = now
        self._at = now
        self._first = first
        self._blocks: list[_Block] = []
        self._to_come: list[Lane] = []
        self._own: Lane | None = None
        self._expected: float | None = None
        self._spent_s = 0.0
        self._pairs = 0
        self._mean = 0.0
        self._squares = 0.0

    def step(
        self,
        now: float,
        *,
        side: Lane,
        offered: float,
        weaker_top: float,
        duration_s: float,
        expected: float,
        free: bool,
    ) -> Lane | None:
        """The side to hold from now on; None: the policy's.

        side: what it is now. offered, weaker_top: tokens a second, asked, and given at most by the
        lane that gives less. duration_s: of a sequence. expected: the profile's ratio of paces at
        this load. free: nobody forces anything.
        """
        elapsed, self._at = now - self._at, now
        load = offered / weaker_top if weaker_top > 0.0 else math.inf
        if self._blocks:
            if self._blocks[-1].side is not self._own:
                self._spent_s += elapsed
            if not free or load > CALM_STILL:
                self._drop()
                return None
            return self._go_on(now)
        length_s = max(BLOCK_LEAST_S, BLOCK * duration_s)
        allowed_s = self.share * (now - self._begun)
        if free and 0.0 < load <= CALM and self._spent_s + length_s <= allowed_s:
            self._own, self._expected = side, expected
            first = self._first()
            self._to_come = [first.other]
            burn_s = length_s * BURN / BLOCK
            self._blocks = [_Block(first, now, length_s, burn_s)]
            return first
        return None

    def ended(self, now: float, lane: Lane, took_s: float, tokens: int) -> None:
        """A request ended now, with so many tokens."""
        if not self._blocks or tokens <= 0:
            return
        block = self._blocks[-1]
        if lane is block.side and now - took_s >= block.began + block.burn_s:
            block.requests += 1
            block.took_s += took_s
            block.tokens += tokens

    def read(self) -> Experiment:
        pairs, low, high = self._pairs, None, None
        if pairs >= 2:
            error = math.sqrt(self._squares / (pairs - 1) / pairs)
            reach = t_quantile(0.5 + CONFIDENCE / 2, pairs - 1) * error
            low, high = math.exp(self._mean - reach), math.exp(self._mean + reach)
        faster = math.exp(self._mean) if pairs else None
        expected = self._expected if pairs else None
        return Experiment(pairs, faster, low, high, expected, self._spent_s, bool(self._blocks))

    def _go_on(self, now: float) -> Lane | None:
        block = self._blocks[-1]
        if now < block.began + block.length_s:
            return block.side
        if self._to_come:
            self._blocks.append(_Block(self._to_come.pop(), now, block.length_s, block.burn_s))
            return self._blocks[-1].side
        self._count()
        self._drop()
        return None

    def _count(self) -> None:
        """A pair is over."""
        if min(block.requests for block in self._blocks) < REQUESTS_LEAST:
            return
        pace = {block.side: block.pace for block in self._blocks}
        found = math.log(pace[Lane.PLAIN] / pace[Lane.SPEC])
        self._pairs += 1
        off = found - self._mean
        self._mean += off / self._pairs
        self._squares += off * (found - self._mean)

    def _drop(self) -> None:
        self._blocks, self._to_come = [], []
