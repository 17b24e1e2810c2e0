"""Lanes as fluids on a profile's curves: what a switch costs, and what staying misses.

Sequences come at a rate; in a lane with n of them each leaves at the rate that the curve gives one
of n, over a sequence's work. By Little's law the load summed over time is the time that sequences
take, over all of them; so all costs here are sums of loads over time, in sequence-seconds.

While both lanes of a pool work each has a share of its speed, however few sequences the other has:
the last one to end of a drain slows a full lane as much as the first. That is what makes a switch
dear, and why it costs more by far where the lanes are nearly full: what piles up in the drain is
then worked off for minutes. On the other hand it costs next to nothing while little is in flight.
"""

import math

from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane

FIRST_STEP, GROWTH = 0.1, 1.1
"""Of what is reckoned ahead, in durations of a sequence: fine at first, where much happens."""

DRAINED = 0.05
"""Sequences: a lane with fewer is idle."""


def each(curve: Curve, load: float) -> float:
    """Tokens a second of one of `load` sequences; as at the lowest level below it."""
    load = max(load, curve.loads[0])
    return curve.rate(load) / load


def flow(load: float, came: float, leaving: float, elapsed: float) -> tuple[float, float]:
    """The load after `elapsed` seconds, and its sum over them.

    came: sequences a second. leaving: the rate at which each leaves, a second, above 0.
    """
    kept = math.exp(-leaving * elapsed)
    steady = came / leaving
    after = max(0.0, load * kept + steady * (1.0 - kept))
    return after, max(0.0, steady * elapsed + (load - steady) * (1.0 - kept) / leaving)


def speed(other: float, share: float) -> float:
    """Of a lane while the other has a load of `other`, which varies about that: of its own."""
    return 1.0 - (1.0 - math.exp(-other)) * (1.0 - share)


def duration_s(curves: Curves, lane: Lane, *, offered: float, work: float) -> float:
    """Of a sequence, on a lane that is asked for so many tokens a second, or is full by it."""
    curve = curves.of(lane)
    return work / each(curve, max(1.0, curve.load_at(min(offered, curve.top))))


def switch_cost(
    curves: Curves,
    there: Lane,
    *,
    old: float,
    new: float,
    offered: float,
    work: float,
    share: float,
    over: float,
) -> float:
    """Sequence-seconds that going to `there` costs against having been there: while the lane that
    is left drains both are slow, and what piled up is worked off afterwards.

    old, new: sequences in the lane that is left, and in the other. offered: tokens a second. work:
    tokens of a sequence. share: of its speed that a lane has while both work. over: how far ahead
    is looked, in durations of a sequence.
    """
    came = offered / work
    to, back = curves.of(there), curves.of(there.other)
    alone = old + new
    of_one_s = duration_s(curves, there, offered=offered, work=work)
    step_s, left_s, cost = FIRST_STEP * of_one_s, over * of_one_s, 0.0
    while left_s > 0.0:
        slow_old, slow_new = speed(new, share), speed(old, share)
        old, drained = flow(old, 0.0, each(back, old) / work * slow_old, step_s)
        new, area = flow(new, came, each(to, new) / work * slow_new, step_s)
        alone, without = flow(alone, came, each(to, alone) / work, step_s)
        cost += drained + area - without
        if old < DRAINED and old + new - alone < 0.01 * alone:
            break
        left_s -= step_s
        step_s *= GROWTH
    return max(0.0, cost)


def missed(
    curves: Curves, here: Lane, *, load: float, offered: float, work: float, over: float
) -> float:
    """Sequence-seconds that staying `here` loses against having the same load on the other lane
    from now on; negative where the other would be worse. The rest as for `switch_cost`."""
    came = offered / work
    stay, go = curves.of(here), curves.of(here.other)
    staying = going = load
    of_one_s = duration_s(curves, here.other, offered=offered, work=work)
    step_s, left_s, loss = FIRST_STEP * of_one_s, over * of_one_s, 0.0
    while left_s > 0.0:
        step_s = min(step_s, left_s)
        staying, area = flow(staying, came, each(stay, staying) / work, step_s)
        going, other = flow(going, came, each(go, going) / work, step_s)
        loss += area - other
        left_s -= step_s
        step_s *= GROWTH
    return loss
