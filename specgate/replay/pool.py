"""Two lanes on one pool in virtual time: each shares its measured rate among what it serves.

A lane with n sequences gives X(n) tokens a second (`core.curves`), each sequence an equal share;
while both lanes work, each is (1 + contention) / 2 as fast: 0 is time slicing, 1 no interference.
A sequence is done when it has got its tokens. LEFT_OUT says what this leaves out.
"""

import math
from heapq import heappop, heappush
from typing import NamedTuple

from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane

LEFT_OUT = (
    "the line in front of a lane that runs only so many at once: its total stays flat here too, "
    "but the sequences wait together, and not in line",
    "the time that a single prompt takes: the curves hold it on the mean, so TTFT here is the time "
    "of one token, and of a prompt that is read anew after a switch",
    "loads beyond the measured ones: below the lowest a sequence is as fast as there, above the "
    "highest the total stays what it was there",
    "lengths of prompts that the profile does not have, the memory for the KV cache, failures, and "
    "clients that leave",
)
"""What the model knows nothing of, in words."""


class Ended(NamedTuple):
    """A sequence got its first token (`first`) or its last one."""

    at: float
    lane: Lane
    number: int
    first: bool


class _Share:
    """One lane. `served`: tokens that a sequence which was always there would have got. `reading`:
    seconds of the lane's own time that it must read prompts for, before it goes on with tokens."""

    __slots__ = ("count", "curve", "goals", "reading", "served")

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.served = 0.0
        self.reading = 0.0
        self.count = 0
        # (served at which it happens, number, whether it is the last token): at one time a
        # sequence's first token comes before its last.
        self.goals: list[tuple[float, int, bool]] = []


class Pool:
    """`contention` in 0..1; `apart`: the lanes have GPUs of their own and share nothing."""

    def __init__(self, curves: Curves, *, contention: float = 0.0, apart: bool = False) -> None:
        self.now = 0.0
        self.mixed_s = 0.0
        """Time in which both lanes worked."""
        self._while_mixed = 1.0 if apart else (1.0 + contention) / 2.0
        self._lanes = {lane: _Share(curves.of(lane)) for lane in Lane}
        self._spec, self._plain = self._lanes[Lane.SPEC], self._lanes[Lane.PLAIN]

    def count(self, lane: Lane) -> int:
        return self._lanes[lane].count

    def use(self, curves: Curves) -> None:
        """Other curves from now on: the prompts have changed."""
        for lane, share in self._lanes.items():
            share.curve = curves.of(lane)

    def submit(self, lane: Lane, number: int, tokens: float, reading_s: float = 0.0) -> None:
        """A sequence of so many tokens, above 0; `reading_s`: the lane's time for its prompt, in
        which all of the lane's sequences wait."""
        share = self._lanes[lane]
        share.count += 1
        share.reading += reading_s
        heappush(share.goals, (share.served + min(1.0, tokens), number, False))
        heappush(share.goals, (share.served + tokens, number, True))

    def next_at(self) -> float:
        """When the next token of note comes; infinity while the pool is idle."""
        return min(self._due(self._spec), self._due(self._plain))

    def advance(self, to: float) -> None:
        """Pass time in which nothing ends: `to` is at most `next_at`."""
        elapsed = to - self.now
        if elapsed > 0.0:
            mixed = self._mixed()
            for share in (self._spec, self._plain):
                if share.count:
                    own = elapsed * mixed
                    if share.reading:
                        read = min(own, share.reading)
                        share.reading -= read
                        own -= read
                    share.served += own * share.curve.each(share.count)
            if self._spec.count and self._plain.count:
                self.mixed_s += elapsed
        self.now = to

    def pop(self) -> Ended:
        """What happens at `next_at`, which is now."""
        lane = Lane.SPEC if self._due(self._spec) <= self._due(self._plain) else Lane.PLAIN
        share = self._lanes[lane]
        served, number, last = heappop(share.goals)
        share.served = max(share.served, served)
        share.reading = 0.0  # else no token would have come; what is left is rounding
        if last:
            share.count -= 1
        return Ended(self.now, lane, number, not last)

    def _due(self, share: _Share) -> float:
        if not share.count:
            return math.inf
        left = max(0.0, share.goals[0][0] - share.served)
        return self.now + (share.reading + left / share.curve.each(share.count)) / self._mixed()

    def _mixed(self) -> float:
        return self._while_mixed if self._spec.count and self._plain.count else 1.0
