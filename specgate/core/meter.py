"""The meter: what the gate has gained over each lane alone, by the profile and what came.

What a lane alone would have done is not seen, so it is reckoned, and so is what the gate did, in
the same way: as a fluid on the profile's curves. Sequences come when they really came; in a lane
with n of them each goes at the rate that the curve gives one of n, hence leaves at that rate over
its mean work (`core.demand`). Three such pools run along: all on the plain lane, all on the spec
lane, and each where the gate put it, both lanes slowing each other down while both have work. By
Little's law the time that sequences spend in flight, over all of them, is the load summed over
time, so

    gained over a lane      that lane's load alone - the gate's, summed over time

in sequence-seconds; over the sequences that came it is seconds of mean latency. Positive is gained.
On one lane throughout it is nothing over that lane, as both pools are then the same: what chance
does to loads is in all of them and cancels, as the load that is seen would not. What waits before
it is admitted is in flight on a lane alone, and its waiting is the gate's.

A lane that is asked for more than it can give has a backlog that grows, and takes its time to go
away afterwards, as the real one would. The bounds are those of the curves' ratio; what the profile
does not know (other prompts, another engine) they do not hold: an experiment does (switchback).
"""

import math
from typing import NamedTuple

from specgate.core.curves import Curves
from specgate.core.fluid import each, flow, speed
from specgate.core.lanes import Lane


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

    __slots__ = ("_at", "_begun", "_came", "_pools", "_share", "_waiting", "sequences")

    def __init__(self, curves: Curves, now: float, *, share: float = 0.5) -> None:
        """share: how fast a lane is while the other works too."""
        self._at = self._begun = now
        self._share = share
        self._came = dict.fromkeys(Lane, 0)
        self._waiting = 0
        self._pools = [_Pools(curves) for _ in range(3)]
        """By the curves' middle, low and high; the first alone counts without intervals."""
        self.sequences = 0
        self.use(curves)

    def use(self, curves: Curves) -> None:
        """Other curves from now on; what was summed stays."""
        self._pools[0].curves = curves
        for pools, sign in zip(self._pools[1:], (-1.0, 1.0), strict=True):
            spread = curves.spread
            pools.curves = None if spread is None else curves.scaled(math.exp(sign * spread))

    def arrived(self, lane: Lane, sequences: int) -> None:
        self._came[lane] += sequences
        self.sequences += sequences

    def step(
        self, now: float, *, side: Lane, work: float, seen: bool = True, waiting: int = 0
    ) -> None:
        """The time since the last step. work: mean tokens of a sequence. seen: what came went to
        the lanes that the gate chose; else to another one in the place of `side`. waiting:
        sequences that are held back now."""
        elapsed = now - self._at
        if elapsed <= 0.0:
            return
        self._at = now
        came = dict(self._came)
        if not seen:
            came = {side: sum(came.values()), side.other: 0}
        asked = sum(came.values()) + waiting - self._waiting
        for pools in self._pools:
            if pools.curves is not None:
                pools.step(pools.curves, elapsed, came, asked, work, self._share)
                pools.area += 0.5 * (waiting + self._waiting) * elapsed
            else:
                pools.follow(self._pools[0])
        self._waiting = waiting
        self._came = dict.fromkeys(Lane, 0)

    def read(self) -> Gain:
        plain, spec = (self._bounds(lane) for lane in (Lane.PLAIN, Lane.SPEC))
        return Gain(plain, spec, self.sequences, self._at - self._begun)

    def _bounds(self, lane: Lane) -> Bounds:
        middle, low, high = (pools.alone_area[lane] - pools.area for pools in self._pools)
        if self._pools[1].curves is None:
            return Bounds(None, middle, None)
        return Bounds(min(low, high), middle, max(low, high))


class _Pools:
    """Each lane alone, and both as the gate used them; areas in sequence-seconds."""

    __slots__ = ("alone", "alone_area", "area", "curves", "gate")

    def __init__(self, curves: Curves | None) -> None:
        self.curves = curves
        self.alone = dict.fromkeys(Lane, 0.0)
        self.gate = dict.fromkeys(Lane, 0.0)
        self.alone_area = dict.fromkeys(Lane, 0.0)
        self.area = 0.0

    def step(
        self,
        curves: Curves,
        elapsed: float,
        came: dict[Lane, int],
        asked: int,
        work: float,
        share: float,
    ) -> None:
        for lane in Lane:
            leaving = each(curves.of(lane), self.alone[lane]) / work
            self.alone[lane], area = flow(self.alone[lane], asked / elapsed, leaving, elapsed)
            self.alone_area[lane] += area
        pace = {lane: speed(self.gate[lane.other], share) / work for lane in Lane}
        for lane in Lane:
            leaving = each(curves.of(lane), self.gate[lane]) * pace[lane]
            self.gate[lane], area = flow(self.gate[lane], came[lane] / elapsed, leaving, elapsed)
            self.area += area

    def follow(self, other: "_Pools") -> None:
        """Be as another."""
        self.alone, self.alone_area = dict(other.alone), dict(other.alone_area)
        self.gate, self.area = dict(other.gate), other.area
