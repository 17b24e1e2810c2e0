"""How far the gate is from changing side: the edge that is nearest, the way to it, and in words.

For those who show the gate; nothing decides by it. With a threshold the edges are those of the
policy's band. With curves the side is weighed, and an edge is a load at which the better lane
changes; where the measurement leaves open which lane is better about it, the band is that interval.
"""

import math
from typing import NamedTuple

from specgate.core.config import ALWAYS, NEVER, Placement
from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason
from specgate.core.regret import CONSTANTS, closed
from specgate.core.view import GateView
from specgate.core.weighing import Weighed


class Outlook(NamedTuple):
    """low, high: ends of the band that is nearest to the load, in sequences; equal where it is a
    single edge, both None where there is none. away: what the load must change by to reach the end
    at which the side may change, negative: fall; None where no change of the load would do that, or
    it has done so and something else is waited for. words: a sentence's rest, after "the gate"."""

    low: float | None
    high: float | None
    away: float | None
    words: str


def outlook(view: GateView) -> Outlook:
    """Of the gate at one moment."""
    policy, side = view.policy, view.side
    weighed = None if policy.placement is Placement.SPLIT else view.weighed
    if view.mode is not Mode.AUTO:
        low, high = _edges(view)
        return Outlook(low, high, None, f"is held on the {side} side by an operator")
    if view.reason is Reason.SWITCHBACK:
        low, high = _edges(view)
        words = f"is held on the {side} side by a block of the experiment"
        return Outlook(low, high, None, words)
    if view.reason is Reason.FORCED_SHARE:
        low, high = _edges(view)
        words = f"stays on plain while rules force {view.forced_share:.0%} of the sequences there"
        return Outlook(low, high, None, words)
    if weighed is not None and view.curves is not None:
        return _weighed(view, weighed, view.curves)
    low, high = _edges(view)
    if low is None or high is None:
        return Outlook(None, None, None, _fixed(view))
    if policy.placement is Placement.SPLIT:
        away = max(0.0, high - view.counts.spec)
        return Outlook(low, high, away, f"fills the spec lane up to {high:g}: room for {away:g}")
    return _measured(view, low, high)


def _measured(view: GateView, low: float, high: float) -> Outlook:
    if view.side is Lane.SPEC:
        away = max(0.0, high - view.load)
        return Outlook(low, high, away, f"leaves spec at a load of {high:g}: {away:.2f} more")
    if view.load >= low:
        away = low - view.load
        return Outlook(low, high, away, f"returns to spec below {low:g}: {-away:.2f} less")
    since = math.inf if view.since_switch_s is None else view.since_switch_s
    left = max(0.0, view.policy.dwell_s - since)
    when = f"when the dwell is over, in {left:.0f} s" if left else "when the count allows it"
    return Outlook(low, high, None, f"returns to spec {when}")


def _weighed(view: GateView, weighed: Weighed, curves: Curves) -> Outlook:
    low, high = _edges(view)
    if low is None or high is None:
        words = "has no load to switch at: by the profile speculation "
        return Outlook(None, None, None, words + ("always pays" if curves.paying else "never pays"))
    side, load = view.side, view.load
    wanted = 1 if side is Lane.SPEC else -1
    held = _held(view, weighed, curves)
    if held is not None:
        return Outlook(low, high, None, held)
    if weighed.regret > 0.0 or weighed.standing == -wanted:
        cost = f"staying costs {weighed.regret:.0%} of a switch's price"
        return Outlook(low, high, None, f"weighs a switch to {side.other}: {cost}")
    rises = (side is Lane.SPEC) is _pays_below(curves, load)
    edge = high if rises else low
    away = edge - load
    if weighed.standing == 0 or (away > 0.0) is not rises:
        return Outlook(low, high, None, "is where neither lane is measurably better")
    way = f"above {edge:.3g}: {away:.2f} more" if rises else f"below {edge:.3g}: {-away:.2f} less"
    return Outlook(low, high, away, f"weighs going to {side.other} at a load {way}")


def _held(view: GateView, weighed: Weighed, curves: Curves) -> str | None:
    """What the other side waits for where that is neither a load nor what staying costs."""
    side, other, share = view.side, view.side.other, weighed.regret
    if share >= 1.0:
        if weighed.lately >= view.policy.switches_per_h:
            return f"goes to {other} when its hourly limit of switches allows it"
        until = "little is in flight" if weighed.settled else "the last drain is over"
        return f"goes to {other} when {until}"
    if (kept := _closed(weighed, curves, other)) is not None:
        return f"stays on {side}: {kept}"
    if side is not curves.best_idle and not view.counts.total + view.beyond.total:
        best = f"goes to {other}, which serves one request best"
        return f"{best}, if none comes: {share:.0%} of the wait"
    return None


def _closed(weighed: Weighed, curves: Curves, other: Lane) -> str | None:
    """What keeps from the lane that carries less, whatever staying costs."""
    found = closed(curves, other, weighed.offered, weighed.peak)
    if found is None:
        return None
    asked, most = f"{found.asked:.0f} tok/s", f"{found.most:.0f} or less"
    if not found.lately:
        return f"{asked} are asked, and it goes to {other} at {most}"
    within = f"{CONSTANTS.memory_s / 60:.0f} minutes"
    return f"{asked} were asked within {within}, and it goes to {other} after as long at {most}"


def _pays_below(curves: Curves, load: float) -> bool:
    """Whether speculation pays below the edge that is nearest to a load."""
    return any(high == _nearest(curves, load) for _, high in curves.paying)


def _edges(view: GateView) -> tuple[float | None, float | None]:
    """The band that is nearest to the load."""
    policy, curves = view.policy, view.curves
    if view.weighed is not None and curves is not None:
        if policy.placement is Placement.SPLIT:
            edge = _finite(view.weighed.first_edge)
            return edge, edge
        at = _nearest(curves, view.load)
        if at is None:
            return None, None
        return next(((low, high) for low, high in curves.open if low <= at <= high), (at, at))
    return _finite(policy.speculate_below), _finite(policy.plain_above)


def _nearest(curves: Curves, load: float) -> float | None:
    """Of the loads at which the better lane changes."""
    ends = [end for interval in curves.paying for end in interval if 0.0 < end < math.inf]
    return min(ends, key=lambda end: abs(end - load), default=None)


def _finite(edge: float | None) -> float | None:
    return edge if edge is not None and NEVER < edge < ALWAYS else None


def _fixed(view: GateView) -> str:
    threshold = view.policy.threshold
    if threshold is None and view.weighed is None:
        return "stays on plain, since nothing was measured"
    always = view.side is Lane.SPEC
    return "always speculates" if always else "never speculates"
