"""What is asked of the pool: offered tokens a second, and how long a sequence takes.

The count in flight answers late, and the lane that serves shapes it: a slow lane raises it. What is
offered does not depend on the lane. It is the rate of arrivals times a sequence's mean work, both
averaged. Nobody needs to tell the work: the curves say how fast a sequence runs at a count, so what
a sequence got from its coming to its going is its work, in the tokens of the measurement, prompts
and all. (Counting completions against time would lag behind a rising load and see the work too
large just when it matters.)
"""

from typing import NamedTuple

from specgate.core.arrivals import Arrivals
from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.core.load import Counts

PRIOR_WEIGHT = 8.0
"""The measurement's own output length counts for so many sequences that have ended."""

FORGET = 0.003
"""Weight of one ended sequence in the average of work, at least: when a load rises the short ones
end first, and work would seem to shrink."""

FORGET_DURATION = 0.02
"""The same for the duration, which follows the load."""

SHORTEST_S = 0.05


class Mark(NamedTuple):
    """Where some sequences came in; `of`: the demand that counts them."""

    of: "Demand"
    lane: Lane
    sequences: int
    served: float
    mixing: int
    at: float


class Demand:
    """`now`: monotonic seconds. `spec`, `plain`: sequences in flight, told at each change."""

    __slots__ = (
        "_alone",
        "_arrivals",
        "_at",
        "_beyond",
        "_counts",
        "_curves",
        "_mixing",
        "_reach",
        "_served",
        "_share",
        "came",
        "duration_s",
        "work",
    )

    def __init__(
        self, curves: Curves, now: float, *, share: float = 0.5, reach: float = 3.0
    ) -> None:
        """share: how fast a lane is while the other works too. reach: the arrivals' average goes
        back so many durations of a sequence."""
        self._curves = curves
        self._share = share
        self._reach = reach
        self._at = now
        self._counts = {Lane.SPEC: 0, Lane.PLAIN: 0}
        self._beyond = {Lane.SPEC: 0, Lane.PLAIN: 0}
        self._served = {Lane.SPEC: 0.0, Lane.PLAIN: 0.0}
        self._mixing = 0
        self._arrivals = Arrivals(now)
        self.came = 0
        """Sequences that have come so far."""
        self.work = curves.output_tokens
        """Mean tokens of a sequence, in the measurement's terms."""
        self.duration_s = max(
            SHORTEST_S, self.work / max(curves.spec.each(1), curves.plain.each(1))
        )
        """Mean time of a sequence from its coming to its going."""
        self._alone = PRIOR_WEIGHT

    def use(self, curves: Curves) -> None:
        """Other curves from now on; what was learnt stays."""
        self._curves = curves

    def beyond(self, counts: Counts, now: float) -> None:
        """So many sequences are in the lanes from now on that did not come by here: they slow the
        others down, and are work that is asked for too."""
        self._catch_up(now)
        self._beyond = {lane: counts.of(lane) for lane in Lane}

    def arrived(self, lane: Lane, sequences: int, now: float) -> Mark:
        self._catch_up(now)
        self._arrivals.arrived(sequences, now, self._reach * self.duration_s)
        self.came += sequences
        self._moved(lane, sequences)
        return Mark(self, lane, sequences, self._served[lane], self._mixing, now)

    def left(self, mark: Mark, now: float) -> None:
        if mark.of is not self:
            return  # it came in before the gate had these curves
        self._catch_up(now)
        lane = mark.lane
        other = self._counts[lane.other] + self._beyond[lane.other]
        alone = mark.mixing == self._mixing and not other
        self._moved(lane, -mark.sequences)
        self._alone += 1.0
        weight = max(FORGET, 1.0 / self._alone)
        longer = now - mark.at - self.duration_s
        self.duration_s = max(SHORTEST_S, self.duration_s + max(FORGET_DURATION, weight) * longer)
        if alone:  # while both lanes worked, nobody knows how fast each was
            self.work += weight * (self._served[lane] - mark.served - self.work)

    def offered(self, now: float) -> float:
        """Tokens a second, averaged over some durations of a sequence; in the beginning over what
        there was of them, but never over less than a tenth."""
        return self.rate(now) * self.work + self.taken()

    def rate(self, now: float) -> float:
        """Sequences a second that come, averaged alike; without those beyond."""
        self._catch_up(now)
        rate = self._arrivals.rate(0.1 * self._reach * self.duration_s)
        if any(self._counts.values()):
            return rate
        # With nothing in hand a gap is the end of what there was, and no mere chance.
        return min(rate, self._arrivals.quiet())

    @property
    def known(self) -> float:
        """How many arrivals the average of what is offered rests on."""
        return self._arrivals.known

    def _moved(self, lane: Lane, by: int) -> None:
        counts = self._counts
        mixed = counts[Lane.SPEC] > 0 and counts[Lane.PLAIN] > 0
        counts[lane] += by
        if mixed != (counts[Lane.SPEC] > 0 and counts[Lane.PLAIN] > 0):
            self._mixing += 1

    def _catch_up(self, now: float) -> None:
        elapsed = now - self._at
        if elapsed <= 0.0:
            return
        self._at = now
        self._arrivals.catch_up(now, self._reach * self.duration_s)
        spec, plain = self._all(Lane.SPEC), self._all(Lane.PLAIN)
        share = self._share if spec and plain else 1.0
        if spec:
            self._served[Lane.SPEC] += self._curves.spec.each(spec) * share * elapsed
        if plain:
            self._served[Lane.PLAIN] += self._curves.plain.each(plain) * share * elapsed

    def _all(self, lane: Lane) -> int:
        return self._counts[lane] + self._beyond[lane]

    def taken(self) -> float:
        """Tokens a second that the sequences beyond would get if the other lane were idle: that it
        is not may well be why there are so many of them."""
        return sum(
            count * self._curves.of(lane).each(self._all(lane))
            for lane, count in self._beyond.items()
            if count
        )
