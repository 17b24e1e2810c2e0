"""The policy: for one arriving request (or none), which lane, and why.

Pure: the same input gives the same output; time is an argument.

Let T be the threshold (sequences, a real number, never rounded), n the instantaneous load and s
the smoothed one (`core.load`, time constant `smoothing_s`). n counts the arriving request itself.
With `smoothing_s` = 0, s is n. Then, in this order:

1. A forced mode ("spec", "plain") is the side; then one that a block of the experiment holds
   (`core.switchback`).
2. No threshold: nothing was measured, so the side is plain (`unmeasured`). T = 0 is `never`,
   T = infinity is `always`. With a profile's curves the side is weighed (below) and T is not used.
3. Leave the spec side when s >= T, or when n >= burst x T (a burst would be over the threshold
   long before an average shows it). The dwell never delays leaving: a slow lane raises the very
   load that is compared, so being late is what costs.
4. Come back when s < T x (1 - band), n < T, and `dwell_s` is over since the last switch. A switch
   costs a drain, in which both lanes share the pool; hence band and dwell.
5. The lane is the side; if that lane is ejected and the other is not, the other (`lane_down`); if
   both are, the side all the same (`last_resort`): whether a lane can serve is then found out by
   asking it, and a request is not refused on an old verdict. A lane that an operator drains gets
   nothing: the other serves (`draining`), as `last_resort` too. Nor does a lane that sleeps: the
   one that is awake serves (`asleep`), even where it drains, until the lanes have taken turns.

Alternate (`placement`): as on a shared pool; the side is the lane that is wanted awake, and the
lanes take turns some time after it switched (`control.alternation`).

Split (`placement`), in place of 3 and 4: the lanes have GPUs of their own, so that they are mixed
freely: a request goes to the spec lane while that lane's own count, the request included, is below
T (with curves, below the first load at which speculation no longer pays), else to the plain one
(`overflow`). The side is spec and does not switch.

Forced share: on a shared pool both lanes at once slow each other down. Where more than
`SPECGATE_FORCED_SHARE` of the recent sequences must go to the plain lane by rules (`core.rules`), 2
to 4 may not choose the spec side; the mode may.

Shadow: 1 to 4 say what the gate would do, and the lane is the one that is named.

Between requests the gate ticks the policy with no request: leaving then looks at what is in
flight, coming back at what is in flight and one more, so that a side is only entered on which the
next request would stay.

Weighed, with the curves of a profile (`core.regret`), in place of 3 and 4:

3w. Leave the spec side at a burst: the count is well above the upper edge of the loads
    where speculation pays. Else leave a side when the regret of staying has reached the price of
    a switch; `over_capacity` where more is offered than the spec lane can give.
4w. The spec side is entered only when the last drain is over (`dwell`), and not after
    `switches_per_h` switches within an hour (`switch_limit`).

Missing input: there is none here. Stale or scraped signals do not reach this function.

Defaults: band 0.2, smoothing 60 s (about five request durations), burst 2, dwell 60 s; simulated
near the crossover these stay within 4 to 7 % of the better lane where a bare count loses up to
59 %. Longer requests want a longer smoothing and dwell, in proportion.
"""

import math
from typing import NamedTuple

from specgate.core.config import Placement, PolicyConfig
from specgate.core.hysteresis import MOVES, Zone, zone
from specgate.core.label import Label
from specgate.core.lanes import Lane
from specgate.core.weighing import Weighed


class Mode(Label):
    """Who decides the side: the policy, or an operator."""

    AUTO = "auto"
    SPEC = "spec"
    PLAIN = "plain"


class Reason(Label):
    """Why a request went where it went. A closed set: metric label, header and log field."""

    BELOW_THRESHOLD = "below_threshold"
    IN_BAND = "in_band"
    ABOVE_THRESHOLD = "above_threshold"
    BURST = "burst"
    DWELL = "dwell"
    PAYS = "pays"
    COSTS = "costs"
    WEIGHING = "weighing"
    OVER_CAPACITY = "over_capacity"
    SWITCH_LIMIT = "switch_limit"
    SWITCHBACK = "switchback"
    OVERFLOW = "overflow"
    SHADOW = "shadow"
    NEVER = "never"
    ALWAYS = "always"
    UNMEASURED = "unmeasured"
    FORCED = "forced"
    LANE_DOWN = "lane_down"
    DRAINING = "draining"
    ASLEEP = "asleep"
    LAST_RESORT = "last_resort"
    REROUTED = "rerouted"
    NOT_GENERATION = "not_generation"
    HELD = "held"
    REQUESTED = "requested"
    SPEC_REFUSES = "spec_refuses"
    SPEC_CHANGES = "spec_changes"
    DESPITE_RULE = "despite_rule"
    STICKY = "sticky"
    FORCED_SHARE = "forced_share"
    BOTH = "both"


MEANINGS: dict[Reason, str] = {
    Reason.BELOW_THRESHOLD: "the load is below the band: the spec side",
    Reason.IN_BAND: "the load is within the band, or where the profile does not say which lane is "
    "better: the side stays what it was",
    Reason.ABOVE_THRESHOLD: "the load is at the threshold or above it: the plain side",
    Reason.BURST: "the average is still below the threshold, the count of the moment is at burst "
    "times the threshold or above: the plain side",
    Reason.DWELL: "the load is low enough to come back, and the last switch is too recent: the "
    "plain side for now",
    Reason.PAYS: "by the profile speculation pays at this load: the spec side",
    Reason.COSTS: "by the profile speculation costs at this load: the plain side",
    Reason.WEIGHING: "the other side would be better, and staying has so far cost less than a "
    "switch would: the side stays what it was",
    Reason.OVER_CAPACITY: "more is offered than the spec lane can give: the plain side",
    Reason.SWITCH_LIMIT: "the other side would be better, and the gate has switched as often as it "
    "may within an hour: the plain side",
    Reason.SWITCHBACK: "a block of the experiment that measures what the gate gains: its side",
    Reason.OVERFLOW: "lanes of their own GPUs: the spec lane has as much as pays: the plain lane",
    Reason.SHADOW: "in shadow everything goes to the named lane; the side is what would be",
    Reason.NEVER: "the threshold is `never` (0): the plain side",
    Reason.ALWAYS: "the threshold is `always`: the spec side",
    Reason.UNMEASURED: "there is no threshold, so nothing was measured: the plain side",
    Reason.FORCED: "an operator forced the side by the mode",
    Reason.LANE_DOWN: "the side's lane is ejected and the other is not: the other lane",
    Reason.DRAINING: "an operator drains the side's lane: the other lane",
    Reason.ASLEEP: "the side's lane sleeps, on a pool that holds one lane at a time: the lane that "
    "is awake",
    Reason.LAST_RESORT: "no lane is known to serve: the side's is asked all the same, or the other "
    "while that one drains",
    Reason.REROUTED: "the first lane took no connection, or not the whole request, or declined it, "
    "and cannot have worked on it: the other lane",
    Reason.NOT_GENERATION: "the call decodes nothing: the plain lane, or the spec lane while only "
    "the plain one is ejected",
    Reason.HELD: "the lane holds what the request refers to, a session or a stored response: that "
    "lane and no other",
    Reason.REQUESTED: "the client named the lane in `x-specgate-lane`, and that is allowed",
    Reason.SPEC_REFUSES: "the request has a feature that the spec lane's engine refuses under "
    "speculation: the plain lane",
    Reason.SPEC_CHANGES: "the request has a feature that the spec lane's engine silently serves "
    "otherwise under speculation: the plain lane",
    Reason.DESPITE_RULE: "a feature of the request wants the plain lane, which is ejected, asleep "
    "or took no connection: the spec lane, which may refuse it or serve it otherwise",
    Reason.STICKY: "the conversation was served there a short while ago, and its prefix is cached: "
    "that lane",
    Reason.FORCED_SHARE: "so many of the recent sequences must go to the plain lane by rules that "
    "both lanes would run all the time: the plain side",
    Reason.BOTH: "the call was sent to both lanes; the lane is the one whose answer the client got",
}
"""What each says, for people; `docs/reference/reasons.md` prints it."""


class Situation(NamedTuple):
    """What the policy looks at.

    side: the side so far; since_switch_s: seconds since the last switch (infinity: none yet).
    in_flight: sequences, without the arriving ones; arriving: those, 0 on a tick.
    smoothed: the smoothed load now. usable: the lanes that are not ejected. weighed: with curves.
    on_spec: sequences in flight on the spec lane. forced: too large a share of recent sequences
    must go to the plain lane by rules (`core.rules`). draining: the lane that an operator drains.
    trial: the side of a block of the experiment. asleep: the lanes that sleep, of a pool that holds
    one at a time.
    """

    mode: Mode
    side: Lane
    since_switch_s: float
    in_flight: int
    arriving: int
    smoothed: float
    usable: frozenset[Lane]
    weighed: Weighed | None = None
    on_spec: int = 0
    forced: bool = False
    draining: Lane | None = None
    trial: Lane | None = None
    asleep: frozenset[Lane] = frozenset()


class Decision(NamedTuple):
    """A lane and why; `side` and `side_reason` are the policy's own choice, before health."""

    lane: Lane
    reason: Reason
    side: Lane
    side_reason: Reason


def decide(config: PolicyConfig, now: Situation) -> Decision:
    """Apply the rules above; raises nothing."""
    side, side_reason = _side(config, now)
    if now.forced and side is Lane.SPEC and _is_moved(config, now):
        side, side_reason = Lane.PLAIN, Reason.FORCED_SHARE
    lane, reason = side, side_reason
    if config.shadow is not None:
        lane, reason = config.shadow, Reason.SHADOW
    elif side is Lane.SPEC and config.placement is Placement.SPLIT and now.mode is Mode.AUTO:
        lane, reason = _placed(config, now, reason)
    if lane in now.usable:
        return Decision(lane, reason, side, side_reason)
    other = lane.other
    if other in now.usable:
        return Decision(other, _why_away(lane, now), side, side_reason)
    if lane in now.asleep:
        return Decision(other, Reason.ASLEEP, side, side_reason)
    asked = other if lane is now.draining and other not in now.asleep else lane
    return Decision(asked, Reason.LAST_RESORT, side, side_reason)


def _why_away(lane: Lane, now: Situation) -> Reason:
    """Why the side's lane gets nothing while the other can."""
    if lane in now.asleep:
        return Reason.ASLEEP
    return Reason.DRAINING if lane is now.draining else Reason.LANE_DOWN


def _side(config: PolicyConfig, now: Situation) -> tuple[Lane, Reason]:
    if now.mode is not Mode.AUTO:
        return Lane(now.mode.value), Reason.FORCED
    if now.trial is not None and now.weighed is not None:  # unmeasured, nothing is tried
        return now.trial, Reason.SWITCHBACK
    threshold = config.threshold
    if now.weighed is not None:
        if config.placement is not Placement.SPLIT:
            return _weighed_side(config, now, now.weighed)
        threshold = now.weighed.first_edge
    if threshold is None:
        return Lane.PLAIN, Reason.UNMEASURED
    if threshold <= 0.0:
        return Lane.PLAIN, Reason.NEVER
    if math.isinf(threshold):
        return Lane.SPEC, Reason.ALWAYS
    if config.placement is Placement.SPLIT:
        return Lane.SPEC, Reason.BELOW_THRESHOLD
    return _measured_side(config, threshold, now)


def _is_moved(config: PolicyConfig, now: Situation) -> bool:
    """Whether a share of forced requests moves the side: nobody forced it, and the lanes share."""
    return now.mode is Mode.AUTO and config.placement is not Placement.SPLIT


def _placed(config: PolicyConfig, now: Situation, reason: Reason) -> tuple[Lane, Reason]:
    """A request's lane where each lane has its own GPUs."""
    threshold = config.threshold if now.weighed is None else now.weighed.first_edge
    if threshold is None or now.on_spec + now.arriving < threshold:
        return Lane.SPEC, reason
    return Lane.PLAIN, Reason.OVERFLOW


_REASON_OF = {
    Zone.LOW: Reason.BELOW_THRESHOLD,
    Zone.MIDDLE: Reason.IN_BAND,
    Zone.HIGH: Reason.ABOVE_THRESHOLD,
}


def _measured_side(config: PolicyConfig, threshold: float, now: Situation) -> tuple[Lane, Reason]:
    entering = now.side is Lane.PLAIN
    count = now.in_flight + (max(1, now.arriving) if entering else now.arriving)
    load = count if config.smoothing_s <= 0.0 else now.smoothed
    edge = threshold * (1.0 - config.band)
    where = zone(load, speculate_below=edge, plain_above=threshold)
    reason = _REASON_OF[where]

    if where is not Zone.HIGH and count >= config.burst * threshold:
        return Lane.PLAIN, Reason.BURST
    if entering and where is Zone.LOW:
        if count >= threshold:
            return Lane.PLAIN, Reason.ABOVE_THRESHOLD
        if now.since_switch_s < config.dwell_s:
            return Lane.PLAIN, Reason.DWELL
    return MOVES[now.side][where], reason


def _weighed_side(config: PolicyConfig, now: Situation, weighed: Weighed) -> tuple[Lane, Reason]:
    worth = weighed.regret >= 1.0
    if now.side is Lane.SPEC:
        # A backlog that came along with a switch is no burst.
        if weighed.settled and now.in_flight + now.arriving >= weighed.burst:
            return Lane.PLAIN, Reason.BURST
        if worth:
            over = weighed.offered >= weighed.top
            return Lane.PLAIN, Reason.OVER_CAPACITY if over else Reason.COSTS
        return Lane.SPEC, _STAYS[now.side][weighed.standing]
    if worth:
        if weighed.lately >= config.switches_per_h:
            return Lane.PLAIN, Reason.SWITCH_LIMIT
        if not weighed.settled:
            return Lane.PLAIN, Reason.DWELL
        if now.in_flight + max(1, now.arriving) < weighed.burst:
            return Lane.SPEC, Reason.PAYS
    return Lane.PLAIN, _STAYS[now.side][weighed.standing]


_STAYS: dict[Lane, dict[int, Reason]] = {
    Lane.SPEC: {1: Reason.PAYS, 0: Reason.IN_BAND, -1: Reason.WEIGHING},
    Lane.PLAIN: {1: Reason.WEIGHING, 0: Reason.IN_BAND, -1: Reason.COSTS},
}
