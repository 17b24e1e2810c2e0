"""The plan of an open loop: rates of arrivals, and when each request arrives. Pure.

Arrivals are Poisson, from the seed and the block alone: all arms get the same ones, in this run or
another, and a longer run begins like a shorter one. Rates are measured in turn, then all of them
again for the next repeat, so that a budget that ends early has seen each rate.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from specgate.bench.plan import Group, Plan

REQUESTS_AT_LEAST = 100
SECONDS_AT_LEAST = 60.0
"""Of arrivals that count: fewer say nothing of a tail, shorter nothing of a queue that grows."""

WARM_UP = 0.25
"""Of the arrivals that count: so many come before them, while in-flight finds its level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateBlock:
    """One repeat (0, 1, ...) of one rate, in requests a second."""

    group: Group
    rate: float
    repeat: int

    @property
    def name(self) -> str:
        return f"{self.group}/rate {self.rate:g}/{self.repeat}"

    @property
    def label(self) -> str:
        return f"{self.rate:g}/s"

    @property
    def place(self) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "context": self.group.context,
            "max_tokens": self.group.max_tokens,
            "repeat": self.repeat,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePlan:
    """`plan`: arms, lengths, repeats and requests, as in a closed loop; its levels do not count.
    `rates`: ascending, requests a second."""

    plan: Plan
    rates: tuple[float, ...]

    def blocks(self) -> Iterator[RateBlock]:
        """All of it, in the order in which it is measured."""
        for group in self.plan.groups():
            for repeat in range(self.plan.repeats):
                for rate in self.rates:
                    yield RateBlock(group=group, rate=rate, repeat=repeat)

    def order(self, block: RateBlock) -> tuple[str, ...]:
        """The arms of a block, turned around each time."""
        return self.plan.arms if block.repeat % 2 == 0 else self.plan.arms[::-1]

    def counted(self, rate: float) -> int:
        """Arrivals whose requests count."""
        if self.plan.requests is not None:
            return self.plan.requests
        return max(REQUESTS_AT_LEAST, math.ceil(rate * SECONDS_AT_LEAST))

    def warming(self, rate: float) -> int:
        """Arrivals before those that count."""
        return max(self.plan.warm_up or 0, math.ceil(WARM_UP * self.counted(rate)), 1)

    def most(self, rate: float) -> int:
        """Arrivals at most: they go on until all that count have ended, but not for ever."""
        return 2 * (self.warming(rate) + self.counted(rate))

    def cell_s(self, rate: float, request_s: float) -> float:
        """What a cell takes at least: its arrivals, and the end of the last request."""
        return (self.warming(rate) + self.counted(rate)) / rate + request_s


def arrivals(block: RateBlock, count: int, *, seed: int) -> list[float]:
    """Seconds from the beginning, ascending: exponential gaps of mean 1 / rate."""
    rng = Random(f"{seed}/arrivals/{block.name}")  # noqa: S311 - a schedule, not a secret
    found, at = [], 0.0
    for _ in range(count):
        at += rng.expovariate(block.rate)
        found.append(at)
    return found
