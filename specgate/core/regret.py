"""Regret: what staying on this side has cost so far, held against what a switch would cost.

A switch costs a drain: for about one duration of a sequence both lanes work, each slower, and the
prompts that the old lane has cached are read again. So the side that looks better now is not worth
it at once: the gain must have been missed for as long as the switch would hurt. That is the
ski-renter's rule (rent until the rent paid equals the price); it needs no smoothing, no band and no
dwell that someone must choose: a large gain adds up within a fraction of a duration, a gain of a
few per cent only after many, and noise about zero hardly ever.

    gain    what share of the load (hence, by Little's law, of the mean latency) the other lane
            would spare, from -1 to 1. Half from the load that is seen: this lane gives X tokens a
            second at it; at which load would the other give X? Half from what is offered
            (`core.demand`), which moves before the load does, and while a drain inflates the load
            it alone counts. 0 where the measurement does not say which lane is better.
    regret  the gain's sum over time, never below 0.
    price   leaving the spec side LEAVE, the plain side ENTER mean durations of a sequence; dearer
            with every switch that was made lately, so that whatever keeps the gate going to
            and fro pays ever more for it. The duration is the one when the regret began to grow: an
            overloaded lane's durations grow with its backlog, and would put off its own rescue.
            To it comes what falls short in the drain and takes time to catch up, and, where it was
            measured, the time that lost prefixes cost (`core.prefixes`).

The constants come from a short random search as in `tests/policy/search.py`, on training seed 1,
and some trials by hand; then they were frozen. `docs/explanation/policy.md` has the result on
another seed.
"""

import math
from typing import NamedTuple

from specgate.core.curves import Curves
from specgate.core.demand import Demand
from specgate.core.lanes import Lane


class Constants(NamedTuple):
    """See the module; durations are in mean durations of a sequence."""

    leave: float = 0.3
    enter: float = 1.0
    rescue: float = 0.17
    """The price where more is offered than this lane can give, and less than the other can."""
    drain_price: float = 1.7
    """Weight of what the drain costs in throughput."""
    recovery: float = 5.0
    """At most so many times the shortfall of the drain is reckoned for catching up."""
    arrivals: float = 8.0
    """How far back the average of what is offered goes."""
    seen: float = 0.2
    """Weight of the load that is seen; what is offered has the rest."""
    smoothing: float = 0.5
    """Time constant of the load that is seen."""
    horizon: float = 5.0
    """How far ahead a backlog is reckoned where more is offered than a lane can give."""
    backoff: float = 1.72
    """Factor on the price for each switch that was made lately."""
    forget: float = 120.0
    """Time constant of `lately`."""
    burst: float = 1.2
    """A count of so many times the paying loads' upper edge leaves the spec side at once."""
    settled: float = 0.1
    """A drain is over when the old lane's share of the load is no more than this."""
    drain: float = 3.0
    """Or when it has gone on for so long."""


CONSTANTS = Constants()


class Regret:
    """`step` it about every quarter of a second. `now`: monotonic seconds."""

    __slots__ = (
        "_at",
        "_constants",
        "_curves",
        "_duration_s",
        "_gains",
        "_lately",
        "_share",
        "_switched_at",
        "regret_s",
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
        self._share = share
        self._at = now
        self.seen = 0.0
        """The load, smoothed."""
        self._lately = 0.0
        self._switched_at = -math.inf
        self._duration_s = 0.0
        self._gains: dict[tuple[Lane, int, int], float] = {}
        self.regret_s = 0.0
        self.share = 0.0
        """The regret as a share of the price: at 1 and above the other side is worth a switch."""

    def use(self, curves: Curves) -> None:
        """Other curves from now on; what was missed by the old ones stays."""
        self._curves = curves
        self._gains.clear()

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
        constants, duration_s = self._constants, demand.duration_s
        load = spec + plain + beyond
        fade = math.exp(-elapsed / (constants.smoothing * duration_s))
        self.seen = load + (self.seen - load) * fade
        self._lately *= math.exp(-elapsed / (constants.forget * duration_s))
        offered = demand.offered(now)
        settled = seen and self.settled(
            now, side=side, spec=spec, plain=plain, duration_s=duration_s
        )
        gain = self._gain(side, self.seen if settled else None, offered)
        if self.regret_s <= 0.0:
            self._duration_s = duration_s
        self.regret_s = max(0.0, self.regret_s + gain * elapsed)
        self.share = self.regret_s / self._price_s(side, offered, demand, now)
        return self.share

    def switched(self, now: float) -> None:
        """The side moved: what was missed is paid."""
        self.regret_s = self.share = 0.0
        self._lately += 1.0
        self._switched_at = now

    def settled(self, now: float, *, side: Lane, spec: int, plain: int, duration_s: float) -> bool:
        """Whether the drain after the last switch is over."""
        old = plain if side is Lane.SPEC else spec
        constants = self._constants
        if old <= constants.settled * max(1, spec + plain):
            return True
        return now - self._switched_at > constants.drain * duration_s

    def _price_s(self, side: Lane, offered: float, demand: Demand, now: float) -> float:
        constants, curves = self._constants, self._curves
        duration_s = min(self._duration_s, demand.duration_s)
        price = constants.leave if side is Lane.SPEC else constants.enter
        if offered > 0.0:
            there = curves.of(side.other).load_for(offered, constants.horizon)
            duration_s = min(duration_s, there * demand.work / offered)
            if curves.of(side).top <= offered < curves.of(side.other).top:
                price = min(price, constants.rescue)
            else:
                lost_s = (
                    0.0 if curves.prefixes is None else curves.prefixes.lost_s(demand.rate(now))
                )
                drain = self._drain(side.other, there, offered, lost_s / max(duration_s, 1e-9))
                price += constants.drain_price * drain
        often = math.pow(constants.backoff, self._lately)
        return max(1e-9, price * often * duration_s)

    def _drain(self, there: Lane, load: float, offered: float, lost: float) -> float:
        """What falls short while both lanes work, as a share of what is offered, and the time that
        the new lane takes to catch up, in drains; `lost`: its time for prompts anew, in drains."""
        curves, half = self._curves, load / 2
        both = self._share * (curves.spec.rate(half) + curves.plain.rate(half))
        short = max(0.0, 1.0 - both / offered) + lost
        spare = max(0.01, curves.of(there).top / offered - 1.0)
        return short * (1.0 + min(self._constants.recovery, short / spare))

    def _gain(self, side: Lane, seen: float | None, offered: float) -> float:
        """Looked up on a grid of two per cent: it is asked four times a second for ever."""
        top = self._curves.plain.top
        load = -1 if seen is None else round(seen * 4) if seen < 20 else round(seen) * 4
        key = (side, load, round(offered / top * 50))
        found = self._gains.get(key)
        if found is None:
            if len(self._gains) > 4096:
                self._gains.clear()
            found = self._offered_gain(side, key[2] / 50 * top)
            if seen is not None:
                weight = self._constants.seen
                found = weight * self._seen_gain(side, load / 4) + (1.0 - weight) * found
            self._gains[key] = found
        return found

    def _seen_gain(self, side: Lane, load: float) -> float:
        """From the load: positive where the other lane would be the better one."""
        curves = self._curves
        if load <= 0.0 or curves.standing(load) == 0:
            return 0.0
        here, there = curves.of(side), curves.of(side.other)
        given = here.rate(load)
        if given >= here.top * 0.999 or given > there.top:
            # Saturated: what it gives says no more how much is asked. The higher top wins.
            return _limited(5.0 * math.log(there.top / here.top))
        return _limited(1.0 - there.load_at(given) / load)

    def _offered_gain(self, side: Lane, offered: float) -> float:
        if offered <= 0.0:
            return 0.0
        horizon = self._constants.horizon
        here = self._curves.of(side).load_for(offered, horizon)
        there = self._curves.of(side.other).load_for(offered, horizon)
        if self._curves.standing(here) == 0 and self._curves.standing(there) == 0:
            return 0.0
        return _limited(1.0 - there / here)


def _limited(gain: float) -> float:
    return max(-1.0, min(1.0, gain))
