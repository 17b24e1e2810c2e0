"""Regret: what staying on this side has cost so far, held against what a switch would cost.

On one pool a switch costs a drain: for some durations of a sequence both lanes work, each slower,
and what piles up meanwhile is worked off afterwards. So the side that looks better now is not worth
it at once: the gain must have been missed for as long as the switch would hurt. That is the
ski-renter's rule (rent until the rent paid equals the price). All of it is reckoned on the curves
(`core.fluid`), in sequence-seconds: the time that requests lose, over all of them.

    gain    how many sequences fewer the other lane would hold now. Found twice: from what is
            offered (`core.demand`), and from two fluids that got the same arrivals since nothing
            was regretted, one on this lane, one on the other. 0 where the measurement does not say
            which lane is better.
    regret  the gain's sum over time, never below 0.
    price   the cost of a switch with what is in flight now, at what is offered now; and a little
            for noise. Each switch lately makes the next one dearer. To it comes, where it was
            measured, the time that lost prefixes cost (`core.prefixes`).

The lanes are not alike: one can carry more (the higher top of its curve), and being on the other
when much is asked is worse than the reverse when little is. Hence, towards

    the one that carries more     the larger gain of the two counts, and so does what staying would
                                  miss from now on if the load stays as it is: a load that has risen
                                  stays for a while, and the sooner the move the less there is to
                                  drain. What is offered is taken a standard error lower.
    the one that carries less     the price has the way back in it, as it would be at the most that
                                  was offered within the last ten minutes, or what doing without it
                                  would cost. It is not entered at all where more is offered than a
                                  part of what it can carry. Where the lanes part only so near to
                                  its top that it would be left full, nor where nearly all that it
                                  can carry was offered within the last ten minutes.

A gate that has just begun does not know how much is asked: it begins on the lane that carries more.
One with nothing in flight for a second goes to the lane that is best for a single sequence; for
longer where much was offered within the last ten minutes.

The constants were found by trials by hand on training seeds, and frozen; `tests/policy/search.py`
looks for better ones. `docs/explanation/policy.md` has the result on other seeds.
"""

import math
from typing import NamedTuple

from specgate.core.alongside import Alongside
from specgate.core.costs import Costs
from specgate.core.curves import Curves
from specgate.core.demand import Demand
from specgate.core.fluid import duration_s
from specgate.core.lanes import Lane
from specgate.core.peaks import Peaks


class Constants(NamedTuple):
    """See the module; durations are in mean durations of a sequence."""

    leave: float = 0.5
    enter: float = 0.8
    """Weights of the price of leaving the spec side, and the plain side."""
    least: float = 0.2
    """Sequence-durations that any switch costs."""
    stays: float = 40.0
    """A load is taken to stay as it is for so long."""
    guard: float = 0.8
    """Of the top of the lane that carries less: it is not entered where more is offered."""
    guard_most: float = 0.95
    """The same, of the most that was offered within the memory, where the lanes part above the
    guard."""
    memory_s: float = 600.0
    """How long the most that was offered is remembered."""
    doubt: float = 1.0
    """Standard errors that what is offered is taken lower, or higher, against a switch."""
    arrivals: float = 8.0
    """How far back the average of what is offered goes, at most."""
    alongside: float = 0.6
    """Weight of the gain from the two fluids; the one from what is offered has the rest."""
    smoothing: float = 0.5
    """Time constant of the load that is seen."""
    horizon: float = 5.0
    """How far ahead a backlog is reckoned where more is offered than a lane can give."""
    backoff: float = 1.3
    """Factor on the price for each switch that was made lately."""
    forget: float = 120.0
    """Time constant of `lately`."""
    burst: float = 1.2
    """A burst is a count of so many times the paying loads' upper edge,"""
    costly: float = 0.9
    """at which speculation gives no more than this share of what plain does."""
    settled: float = 0.1
    """A drain is over when the old lane's share of the load is no more than this."""
    drain: float = 3.0
    """Or when it has gone on for so long."""
    idle_s: float = 1.0
    idle_after_peak_s: float = 10.0
    """An idle gate goes to the lane that is best for one sequence after so long; the longer where
    the way back would cost something at the most that was offered lately."""


CONSTANTS = Constants()


class Closed(NamedTuple):
    """Why a lane is not to be entered: so many tokens a second are asked, or were lately, and more
    than so many are too many."""

    asked: float
    most: float
    lately: bool


def closed(
    curves: Curves, there: Lane, offered: float, peak: float, constants: Constants = CONSTANTS
) -> Closed | None:
    """Whether a lane carries less than the other, and too little for what is offered, or for the
    most that was offered within the memory; in tokens a second."""
    if there is curves.carries_more:
        return None
    top = curves.of(there).top
    guard, most = constants.guard * top, constants.guard_most * top
    if offered > guard:
        return Closed(offered, guard, lately=False)
    if curves.parting > guard and peak > most:
        return Closed(peak, most, lately=True)
    return None


class Regret:
    """`step` it about every quarter of a second. `now`: monotonic seconds."""

    __slots__ = (
        "_alongside",
        "_at",
        "_busy_at",
        "_constants",
        "_costs",
        "_curves",
        "_lately",
        "_peaks",
        "_switched_at",
        "regret",
        "seen",
        "share",
    )

    def __init__(
        self,
        curves: Curves,
        now: float,
        *,
        share: float = 0.5,
        constants: Constants = CONSTANTS,
    ) -> None:
        self._curves = curves
        self._constants = constants
        self._at = self._busy_at = now
        self.seen = 0.0
        """The load, smoothed."""
        self._lately = 0.0
        self._switched_at = -math.inf
        self._alongside = Alongside()
        self._costs = Costs(curves, share=share, over=constants.stays, horizon=constants.horizon)
        self._peaks = Peaks(constants.memory_s)
        self.regret = 0.0
        """Sequence-seconds."""
        self.share = 0.0
        """The regret as a share of the price: at 1 and above the other side is worth a switch."""

    def use(self, curves: Curves) -> None:
        """Other curves from now on; what was missed by the old ones stays."""
        self._curves = curves
        self._costs.use(curves)

    @property
    def peak(self) -> float:
        """The most that was offered within the memory, in tokens a second."""
        return self._peaks.most

    def step(
        self,
        now: float,
        *,
        side: Lane,
        spec: int,
        plain: int,
        demand: Demand,
        beyond: int = 0,
        seen: bool = True,
    ) -> float:
        """Take the time since the last step into account; returns `share`.

        spec, plain: sequences in flight since then; beyond: those that the gate did not send.
        seen: they are of this side, and not of one that serves in its place.
        """
        elapsed = now - self._at
        if elapsed <= 0.0:
            return self.share
        self._at = now
        constants = self._constants
        load = spec + plain + beyond
        fade = math.exp(-elapsed / (constants.smoothing * demand.duration_s))
        self.seen = load + (self.seen - load) * fade
        self._lately *= math.exp(-elapsed / (constants.forget * demand.duration_s))
        offered = demand.offered(now)
        self._peaks.saw(offered, now)
        settled = seen and self.settled(
            now, side=side, spec=spec, plain=plain, of_one_s=demand.duration_s
        )
        alongside = self._alongside.step(
            self._curves, side, load, demand, elapsed, anew=not settled or self.regret <= 0.0
        )
        doubt = min(0.9, constants.doubt / math.sqrt(max(1.0, demand.known)))
        up = side.other is self._curves.carries_more
        gain = self._gain(side, offered * (1.0 - doubt if up else 1.0 + doubt))
        if settled and self._curves.standing(self.seen):
            both = constants.alongside * alongside + (1.0 - constants.alongside) * gain
            gain = max(gain, alongside) if up and gain > 0.0 else both
        self.regret = max(0.0, self.regret + gain * elapsed)
        held = (spec, plain) if seen else None
        self.share = self._weighed(side, load, held, offered, doubt, demand, now)
        if load:
            self._busy_at = now
        elif side is not self._curves.best_idle:
            self.share = max(self.share, self._idle(side, demand, now))
        return self.share

    def switched(self, now: float) -> None:
        """The side moved: what was missed is paid."""
        self.regret = self.share = 0.0
        self._lately += 1.0
        self._switched_at = now

    def settled(self, now: float, *, side: Lane, spec: int, plain: int, of_one_s: float) -> bool:
        """Whether the drain after the last switch is over."""
        old = plain if side is Lane.SPEC else spec
        constants = self._constants
        if old <= constants.settled * max(1, spec + plain):
            return True
        return now - self._switched_at > constants.drain * of_one_s

    def _weighed(
        self,
        side: Lane,
        load: int,
        held: tuple[int, int] | None,
        offered: float,
        doubt: float,
        demand: Demand,
        now: float,
    ) -> float:
        """The regret as a share of the price. held: sequences in flight on either lane; None where
        they are not where the side would have put them."""
        curves, there = self._curves, side.other
        if held is None:
            here = curves.of(side).load_for(offered, self._constants.horizon)
            held = (round(here), 0) if side is Lane.SPEC else (0, round(here))
            load = round(here)
        old, new = held if side is Lane.SPEC else held[::-1]
        missing, dear = self.regret, offered
        if there is curves.carries_more and offered > 0.0:
            least = offered * (1.0 - doubt)
            ahead = self._costs.missed(side, load, offered=least, work=demand.work)
            if ahead > 0.0:
                missing, dear = missing + ahead, least
        if missing <= 0.0:
            return 0.0
        cost = self._costs.of_going(there, old=old, new=new, offered=dear, work=demand.work)
        if there is not curves.carries_more:
            if self._closed(there, offered):
                return 0.0
            cost += self._way_back(side, demand)
        return missing / self._price(side, cost, demand, now)

    def _closed(self, there: Lane, offered: float) -> Closed | None:
        return closed(self._curves, there, offered, self.peak, self._constants)

    def _price(self, side: Lane, cost: float, demand: Demand, now: float) -> float:
        constants, prefixes = self._constants, self._curves.prefixes
        if prefixes is not None:
            rate, offered = demand.rate(now), demand.offered(now)
            of_one_s = duration_s(self._curves, side.other, offered=offered, work=demand.work)
            cost += prefixes.lost_s(rate) * max(1.0, rate * of_one_s)  # all that are there wait
        weight = constants.leave if side is Lane.SPEC else constants.enter
        often = math.pow(constants.backoff, self._lately)
        return weight * often * cost + constants.least * demand.duration_s

    def _way_back(self, side: Lane, demand: Demand) -> float:
        """What going back costs at the most that was offered lately, or what staying would."""
        curves, constants = self._curves, self._constants
        peak = min(self.peak, 0.98 * curves.top)
        here = curves.of(side).load_for(peak, constants.horizon)
        there = curves.of(side.other).load_for(peak, constants.horizon)
        if here >= there:
            return 0.0
        without = constants.stays * demand.duration_s * (there - here)
        going = self._costs.of_going(side, old=here, new=0.0, offered=peak, work=demand.work)
        return min(without, going)

    def _gain(self, side: Lane, offered: float) -> float:
        """At what is offered, in sequences."""
        if offered <= 0.0:
            return 0.0
        curves, horizon = self._curves, self._constants.horizon
        here = curves.of(side).load_for(offered, horizon)
        there = curves.of(side.other).load_for(offered, horizon)
        if curves.standing(here) == 0 and curves.standing(there) == 0:
            return 0.0
        return here - there

    def _idle(self, side: Lane, demand: Demand, now: float) -> float:
        """How long nothing has been in flight, as a share of what is waited for: there is nothing
        to drain."""
        constants = self._constants
        if self._closed(side.other, demand.offered(now)):
            return 0.0
        feared = self._way_back(side, demand) > 0.0
        waited_for = constants.idle_after_peak_s if feared else constants.idle_s
        return (now - self._busy_at) / waited_for
