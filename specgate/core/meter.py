"""The meter: what the gate has gained over each lane alone, by the profile and what was offered.

By Little's law the time that sequences spend in flight, over all of them, is the load summed over
time. What it would have been on one lane alone is not seen; the profile says at which load that
lane gives what is offered. So, per second:

    on one side, settled     load the other lane would hold - load this one holds, by the curves
    while both lanes work    load that lane would hold - the load that is
    on that lane itself      nothing

The sum is in sequence-seconds; over the sequences that came it is seconds of mean latency. Positive
is gained. The bounds are those of the curves' ratio; what the profile does not know (other prompts,
another engine) they do not hold: an experiment does (switchback).
"""

import math
from typing import NamedTuple

from specgate.core.curves import Curves
from specgate.core.lanes import Lane

BACKLOG = 5.0
"""Beyond a lane's top its load is reckoned to grow by so many times the excess, as a share."""


class Bounds(NamedTuple):
    """Sequence-seconds gained; low and high are None where the profile has no intervals."""

    low: float | None
    middle: float
    high: float | None


class Gain(NamedTuple):
    """Since the meter began. sequences: those that came."""

    against_plain: Bounds
    against_spec: Bounds
    sequences: int
    over_s: float


class Meter:
    """`now`: monotonic seconds, of calls in the order of time."""

    __slots__ = ("_at", "_begun", "_curves", "_sums", "sequences")

    def __init__(self, curves: Curves, now: float) -> None:
        self._at = self._begun = now
        self._sums = {lane: [0.0, 0.0, 0.0] for lane in Lane}
        self.sequences = 0
        self.use(curves)

    def use(self, curves: Curves) -> None:
        """Other curves from now on; what was summed stays."""
        spread = curves.spread or 0.0
        self._curves = [curves.scaled(math.exp(sign * spread)) for sign in (-1.0, 0.0, 1.0)]

    def step(self, now: float, *, side: Lane, count: int, offered: float, settled: bool) -> None:
        """The time since the last step: so many in flight, so many tokens a second offered."""
        elapsed = now - self._at
        if elapsed <= 0.0:
            return
        self._at = now
        if offered <= 0.0:
            return
        for lane, sums in self._sums.items():
            if settled and side is lane:
                continue
            for at, curves in enumerate(self._curves):
                there = curves.of(lane).load_for(offered, BACKLOG)
                here = curves.of(side).load_for(offered, BACKLOG) if settled else float(count)
                sums[at] += (there - here) * elapsed

    def read(self) -> Gain:
        plain, spec = (self._bounds(lane) for lane in (Lane.PLAIN, Lane.SPEC))
        return Gain(plain, spec, self.sequences, self._at - self._begun)

    def _bounds(self, lane: Lane) -> Bounds:
        low, middle, high = self._sums[lane]
        if self._curves[1].spread is None:
            return Bounds(None, middle, None)
        return Bounds(min(low, high), middle, max(low, high))
