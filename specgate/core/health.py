"""Whether a lane can serve. Every transition is in this file; it knows nothing of I/O.

PROBING: not known yet, at the start. HEALTHY: it answered. EJECTED: it refused, definitely and
repeatedly. Slowness is never a verdict: an engine that prefills a long prompt answers late and is
well, and under load both lanes are slow, so ejecting on time-outs would take down what works.
"""

from dataclasses import dataclass, replace

from specgate.core.label import Label

EJECT_AFTER = 2
"""Definite failures in a row that eject a healthy lane: one may be a restart's last gasp."""


class Health(Label):
    """A lane's state. A PROBING lane is used: what it can do is found out by asking it."""

    PROBING = "probing"
    HEALTHY = "healthy"
    EJECTED = "ejected"


class Sign(Label):
    """What was seen of a lane: READY, NOT_READY and SLOW by a probe, SERVED and BROKE (a connection
    that ended before the first byte of an answer) by traffic, UNREACHED (no connection) by either.
    """

    READY = "ready"
    NOT_READY = "not_ready"
    SLOW = "slow"
    SERVED = "served"
    BROKE = "broke"
    UNREACHED = "unreached"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHealth:
    """state, and since when (monotonic seconds); failures in a row: `unready` of NOT_READY,
    `unreached` of UNREACHED and BROKE."""

    state: Health = Health.PROBING
    since: float = 0.0
    unready: int = 0
    unreached: int = 0

    @property
    def usable(self) -> bool:
        return self.state is not Health.EJECTED


def step(health: LaneHealth, sign: Sign, now: float) -> LaneHealth:
    """The health after a sign.

    READY brings any lane back. SERVED disproves UNREACHED and BROKE, but neither an engine's own
    NOT_READY (SGLang serves on while it drains, and waits for us to stop) nor an ejection: only a
    probe ends that. A lane that never answered is ejected by its first refusal: it is not up yet.
    """
    match sign:
        case Sign.SLOW:
            return health
        case Sign.READY:
            return _moved(replace(health, unready=0, unreached=0), Health.HEALTHY, now)
        case Sign.SERVED:
            if health.state is Health.HEALTHY and health.unreached == 0:
                return health  # the common case, once a request
            heard = replace(health, unreached=0)
            return _moved(heard, Health.HEALTHY, now) if heard.state is Health.PROBING else heard
        case Sign.NOT_READY:
            return _failed(replace(health, unready=health.unready + 1), now)
        case Sign.UNREACHED | Sign.BROKE:
            return _failed(replace(health, unreached=health.unreached + 1), now)


def _failed(health: LaneHealth, now: float) -> LaneHealth:
    limit = 1 if health.state is Health.PROBING else EJECT_AFTER
    over = max(health.unready, health.unreached) >= limit
    return _moved(health, Health.EJECTED, now) if over else health


def _moved(health: LaneHealth, state: Health, now: float) -> LaneHealth:
    return health if health.state is state else replace(health, state=state, since=now)
