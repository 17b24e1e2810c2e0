"""The load that the policy compares: in-flight sequences, averaged over time."""

import math
from dataclasses import dataclass

from specgate.core.lanes import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sequences in flight by lane."""

    spec: int
    plain: int

    @property
    def total(self) -> int:
        return self.spec + self.plain

    def of(self, lane: Lane) -> int:
        return self.spec if lane is Lane.SPEC else self.plain


class SmoothedLoad:
    """A time-weighted exponential average of a count that changes in steps.

    Between two changes the count is constant, so the average at `now` has a closed form, and
    decay is computed when it is read: an idle hour costs nothing and is not forgotten.

        s(now) = c + (s(at) - c) * exp(-(now - at) / tau)

    c: the count since `at`; tau: `tau_s`, seconds. With tau_s = 0 the average is the count.
    An average over *arrivals* would be biased towards bursts: each burst brings its own samples.
    """

    __slots__ = ("_at", "_tau_s", "_value", "count")

    def __init__(self, tau_s: float, now: float) -> None:
        self._tau_s = tau_s
        self._at = now
        self._value = 0.0
        self.count = 0
        """What was observed last. For reading; `observe` changes it."""

    def read(self, now: float) -> float:
        """The average at `now`, monotonic seconds. A clock that stands still changes nothing."""
        if self._tau_s <= 0.0:
            return float(self.count)
        elapsed = now - self._at
        if elapsed <= 0.0:
            return self._value
        count = self.count
        return count + (self._value - count) * math.exp(-elapsed / self._tau_s)

    def observe(self, count: int, now: float) -> None:
        """From `now` on the count is `count`."""
        self._value = self.read(now)
        if now > self._at:
            self._at = now
        self.count = count

    def retune(self, tau_s: float, now: float) -> None:
        """Change the time constant; what was learnt so far stays."""
        self._value = self.read(now)
        self._at = max(self._at, now)
        self._tau_s = tau_s
