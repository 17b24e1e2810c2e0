"""The rate of arrivals: a mean over a long window, which begins anew when the rate has changed.

A mean over many arrivals is steady and late. So besides it two tests run along, one for a rate that
has risen by half and one for a rate that has fallen as far (CUSUM, Page 1954: the sum of the log
likelihood ratios of the gaps between arrivals, never below 0). When one of them raises the alarm,
the mean goes on from where its sum last was 0. A threefold rise is seen after some forty arrivals.
"""

import math
from dataclasses import dataclass

RISEN, FALLEN = 1.5, 1 / 1.5
"""Rates, as factors, that the tests compare with."""

ALARM = 10.0
"""Of a test's sum. Random arrivals of one rate raise a false alarm once in exp(ALARM)."""

BLEND = 8.0
"""So many arrivals of the old rate count on after an alarm, since what raised it is more than what
comes on the mean."""

QUIET = 5.0
"""So many over the time since the last arrival is more than the rate: else a gap so long would be
one in 150."""

FIRST = 8
"""No test before so many arrivals."""


@dataclass(slots=True)
class _Test:
    factor: float
    total: float = 0.0
    sequences: int = 0
    since: float = 0.0

    def saw(self, sequences: int, expected: float, now: float) -> bool:
        """One arrival after a gap in which the old rate had `expected`; whether it is an alarm."""
        self.total += math.log(self.factor) - (self.factor - 1.0) * expected
        self.sequences += sequences
        if self.total <= 0.0:
            self.begin(now)
        return self.total > ALARM

    def begin(self, now: float) -> None:
        self.total, self.sequences, self.since = 0.0, 0, now


class Arrivals:
    """`now`: monotonic seconds, of calls in the order of time. `window_s`: how far back the mean
    goes, at most."""

    __slots__ = ("_at", "_batch", "_last", "_number", "_span_s", "_sum", "_tests", "changed")

    def __init__(self, now: float) -> None:
        self._at = self._last = now
        self._sum = self._span_s = 0.0
        self._batch = 1.0
        self._number = 0
        self._tests = (_Test(RISEN, since=now), _Test(FALLEN, since=now))
        self.changed = 0
        """How often the rate has changed."""

    def arrived(self, sequences: int, now: float, window_s: float) -> None:
        self.catch_up(now, window_s)
        before = self._sum / self._span_s if self._span_s > 0.0 else 0.0
        gap, self._last = now - self._last, now
        self._sum += sequences
        self._number += 1
        self._batch += max(0.02, 1.0 / self._number) * (sequences - self._batch)
        if self._number <= FIRST or before <= 0.0:
            return
        for test in self._tests:
            if test.saw(sequences, before / self._batch * gap, now):
                self._begin(test, before, now)
                return

    def catch_up(self, now: float, window_s: float) -> None:
        """Time passes."""
        elapsed = now - self._at
        if elapsed > 0.0:
            self._at = now
            kept = math.exp(-elapsed / window_s)
            self._sum *= kept
            self._span_s = self._span_s * kept + window_s * (1.0 - kept)

    def rate(self, least_s: float) -> float:
        """Sequences a second; until the rate has changed once, over no less than `least_s`."""
        span_s = self._span_s if self.changed else max(self._span_s, least_s)
        return self._sum / span_s if span_s > 0.0 else 0.0

    def quiet(self) -> float:
        """Sequences a second that would have shown by now; infinity just after an arrival."""
        gap_s = self._at - self._last
        return QUIET * self._batch / gap_s if gap_s > 0.0 else math.inf

    @property
    def known(self) -> float:
        """How many arrivals the mean rests on."""
        return self._sum / self._batch

    def _begin(self, test: _Test, before: float, now: float) -> None:
        blended = BLEND * self._batch
        self._sum = test.sequences + blended
        self._span_s = now - test.since + blended / before
        self.changed += 1
        for each in self._tests:
            each.begin(now)
