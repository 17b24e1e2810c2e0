"""What an engine has in hand beyond what the gate gave it: traffic that goes past the gate.

An engine's own count is late (`engines.loads`), so one that is above ours may be of a moment ago.
It is held against the most that the gate had there within LAG_S, and believed only when two
readings in a row are above: the smaller difference counts. It is only ever added: a count below
ours, an old one or none says nothing.
"""

from collections import deque

from specgate.core.lanes import Lane
from specgate.core.load import Counts

LAG_S = 10.0
"""40 decode steps of a quarter of a second: engines are not later than that."""

MOST = 1_000_000
"""Sequences that an engine may say it has; no pool holds so many, and a number that is no count
would move the gate for as long as it is said, or break what is reckoned with it."""

APART_S = 0.5
"""Readings that are less apart are one: the gate counts its own four times a second."""


class _Excess:
    """Of one lane."""

    __slots__ = ("at", "before", "begun", "latest", "ours")

    def __init__(self) -> None:
        self.ours: deque[tuple[float, int]] = deque()
        """(when, how many), each larger than those after it: the first is the most."""
        self.before = self.latest = 0
        self.at: float | None = None
        """Of the last reading; `begun`: of the first of those that are one with it."""
        self.begun = 0.0

    def had(self, count: int, now: float) -> None:
        ours = self.ours
        while ours and ours[-1][1] <= count:
            ours.pop()
        ours.append((now, count))
        while ours[0][0] < now - LAG_S:
            ours.popleft()

    def saw(self, reported: int, now: float, fresh_s: float) -> None:
        most = self.ours[0][1] if self.ours else reported
        excess = max(0, reported - most)
        fresh = self.at is not None and now - self.at <= fresh_s
        self.at = now
        if fresh and now - self.begun < APART_S:
            self.latest = min(self.latest, excess)
            return
        self.before = self.latest if fresh else 0
        self.latest = excess
        self.begun = now

    def now(self, now: float, fresh_s: float) -> int:
        if self.at is None or now - self.at > fresh_s:
            return 0
        return min(self.before, self.latest)


class Beyond:
    """`fresh_s`: older readings are none. Times: monotonic seconds, in order."""

    __slots__ = ("_fresh_s", "_lanes")

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._lanes = {lane: _Excess() for lane in Lane}

    def ours(self, counts: Counts, now: float) -> None:
        """What the gate has in flight now; to be told some times a second."""
        for lane, excess in self._lanes.items():
            excess.had(counts.of(lane), now)

    def saw(self, lane: Lane, reported: int, now: float) -> None:
        """An engine said that it has so many sequences in hand, of whomever. Beyond MOST it said
        nothing."""
        if reported > MOST:
            return
        self._lanes[lane].saw(reported, now, self._fresh_s)

    def forget(self, lane: Lane) -> None:
        """Another engine is in the lane."""
        self._lanes[lane] = _Excess()

    def counts(self, now: float) -> Counts:
        """Sequences in hand that are not the gate's."""
        return Counts(
            spec=self._lanes[Lane.SPEC].now(now, self._fresh_s),
            plain=self._lanes[Lane.PLAIN].now(now, self._fresh_s),
        )
