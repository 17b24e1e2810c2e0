"""What the policy weighs where a profile says how both lanes behave: demand, regret, switches."""

from collections import deque
from typing import NamedTuple

from specgate.core.curves import Curves
from specgate.core.demand import Demand, Mark
from specgate.core.lanes import Lane
from specgate.core.load import Counts
from specgate.core.meter import Gain, Meter
from specgate.core.regret import CONSTANTS, Constants, Regret

HOUR_S = 3600.0

NONE = Counts(spec=0, plain=0)


class Weighed(NamedTuple):
    """What the policy looks at with curves, as of the last step.

    regret: as a share of the price of a switch. standing: of the load, as `Curves.standing` says.
    burst: the count that is one, infinity for none. offered, top: tokens
    a second, asked of the pool, and at most given by the spec lane. first_edge: the load up to
    which speculation pays from the first request on. settled: the last drain is over.
    lately: switches within the last hour. duration_s: mean time of a sequence, as observed.
    load: what is in flight, others' of the engines included, smoothed over half of that time.
    peak: the most that was offered within the last ten minutes.
    """

    regret: float
    standing: int
    burst: float
    offered: float
    top: float
    first_edge: float
    settled: bool
    lately: int
    duration_s: float = 0.0
    load: float = 0.0
    peak: float = 0.0


class Weighing:
    """`now`: monotonic seconds. All calls in the order of time."""

    def __init__(
        self,
        curves: Curves,
        now: float,
        *,
        constants: Constants = CONSTANTS,
        share: float = 0.5,
    ) -> None:
        """share: how fast a lane is while both work."""
        self.curves = curves
        self._constants = constants
        self.demand = Demand(curves, now, share=share, reach=constants.arrivals)
        self._regret = Regret(curves, now, share=share, constants=constants)
        self._meter = Meter(curves, now, share=share)
        self._switches: deque[float] = deque(maxlen=1024)
        self.latest = self._read(now, Lane.PLAIN, NONE, NONE)

    @property
    def first_side(self) -> Lane:
        """Where a gate begins that does not know yet how much is asked."""
        return self.curves.carries_more

    def use(self, curves: Curves) -> None:
        """Other curves from now on; what was learnt of the demand stays."""
        if curves != self.curves:
            self.curves = curves
            self.demand.use(curves)
            self._regret.use(curves)
            self._meter.use(curves)

    @property
    def gain(self) -> Gain:
        """What was gained so far."""
        return self._meter.read()

    def arrived(self, lane: Lane, sequences: int, now: float) -> Mark:
        self._meter.arrived(lane, sequences)
        return self.demand.arrived(lane, sequences, now)

    def left(self, mark: Mark, now: float) -> None:
        self.demand.left(mark, now)

    def step(
        self,
        now: float,
        side: Lane,
        counts: Counts,
        beyond: Counts = NONE,
        *,
        seen: bool = True,
        waiting: int = 0,
        serving: Lane | None = None,
    ) -> None:
        """Take the time since the last step into account, some times a second. `beyond`: what the
        lanes have in hand besides `counts`. `seen`: the counts are of this side, and not of one
        that serves in its place. `waiting`: sequences that the gate holds back: their time is
        lost too (`core.meter`), and no load. `serving`: the lane that serves, where that is not the
        side's yet: what is gained is reckoned of it."""
        self.demand.beyond(beyond, now)
        self._regret.step(
            now,
            side=side,
            spec=counts.spec,
            plain=counts.plain,
            demand=self.demand,
            beyond=beyond.total,
            seen=seen,
        )
        self.latest = self._read(now, side, counts, beyond)
        chosen = seen or serving is not None  # what came went where the gate put it
        self._meter.step(now, side=side, work=self.demand.work, seen=chosen, waiting=waiting)

    def switched(self, now: float) -> None:
        self._regret.switched(now)
        self._switches.append(now)
        self.latest = self.latest._replace(regret=0.0, settled=False)

    def _read(self, now: float, side: Lane, counts: Counts, beyond: Counts) -> Weighed:
        switches = self._switches
        while switches and now - switches[0] >= HOUR_S:
            switches.popleft()
        return Weighed(
            self._regret.share,
            # An idle gate is asked about its next request.
            self.curves.standing(max(self._regret.seen, 1.0)),
            self.curves.burst(
                counts.total + beyond.total, self._constants.burst, self._constants.costly
            ),
            self.demand.offered(now),
            self.curves.spec.top,
            self.curves.first_edge,
            self._regret.settled(
                now,
                side=side,
                spec=counts.spec,
                plain=counts.plain,
                of_one_s=self.demand.duration_s,
            ),
            len(switches),
            self.demand.duration_s,
            self._regret.seen,
            self._regret.peak,
        )
