"""The two lanes as the gate knows them: where each is, what it runs, and whether it is used.

A lane is used unless its health says that it cannot serve, or an operator drains it: a draining
lane ends what it has and gets nothing new, whatever becomes of the other one. On a pool that holds
one lane at a time the other sleeps, and gets nothing at all.
"""

from dataclasses import dataclass, replace

from specgate.core.events import HealthChanged
from specgate.core.health import Health, LaneHealth, Sign, step
from specgate.core.lanes import Lane
from specgate.core.policy import Decision, Reason
from specgate.core.view import LaneView
from specgate.engines.base import Engine
from specgate.upstream.base import Origin


class LastLaneError(Exception):
    """The other lane drains already; `lane` would be the last one to serve."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(f"the {lane.other} lane is draining: undrain it before the {lane} lane")


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaneState:
    origin: Origin
    health: LaneHealth
    engine: Engine = Engine.UNKNOWN


class Roster:
    """Times are monotonic seconds. A word about a URL that its lane has left changes nothing.

    usable: the lanes that new requests may go to. draining: the lane that an operator drains, never
    both. asleep: those that the pool does not hold now. all_open: none of the two. carried: of each
    lane, exchanges that it has in hand, those that are no load included.
    """

    def __init__(self, origins: dict[Lane, Origin], now: float) -> None:
        self._lanes = {
            lane: _LaneState(origin=origin, health=LaneHealth(since=now))
            for lane, origin in origins.items()
        }
        self.usable: frozenset[Lane] = frozenset(Lane)
        self.draining: Lane | None = None
        self.asleep: frozenset[Lane] = frozenset()
        self.all_open = True
        self.carried = dict.fromkeys(Lane, 0)

    def origin(self, lane: Lane) -> Origin:
        return self._lanes[lane].origin

    def engine(self, lane: Lane) -> Engine:
        return self._lanes[lane].engine

    @property
    def ready(self) -> bool:
        """Whether some lane is known to serve."""
        return any(
            state.health.state is Health.HEALTHY and not self.closed(lane)
            for lane, state in self._lanes.items()
        )

    def saw(self, origin: Origin, sign: Sign, why: str, now: float) -> HealthChanged | None:
        """A sign of a lane's health, and the fact if its state moved."""
        lane = self._lanes[origin.lane]
        if lane.origin is not origin and lane.origin != origin:
            return None
        if origin.lane in self.asleep:
            return None  # that it does not answer says nothing
        after = step(lane.health, sign, now)
        if after is lane.health:
            return None
        self._set(replace(lane, health=after))
        if after.state is lane.health.state:
            return None
        return HealthChanged(lane=origin.lane, was=lane.health.state, now=after.state, why=why)

    def name_engine(self, origin: Origin, engine: Engine) -> None:
        """What a lane runs."""
        lane = self._lanes[origin.lane]
        if lane.origin == origin:
            self._set(replace(lane, engine=engine))

    def move(self, origin: Origin, now: float) -> None:
        """A lane's new URL: nothing is known of it yet. Whether it drains stays."""
        self._set(_LaneState(origin=origin, health=LaneHealth(since=now)))

    def rekey(self, origin: Origin) -> None:
        """The same engine, with the key that it is to be sent from now on."""
        lane = self._lanes[origin.lane]
        if lane.origin.authorization != origin.authorization:
            self._set(replace(lane, origin=origin))

    def drain(self, lane: Lane | None) -> None:
        """The lane that drains from now on; None: neither. Raises LastLaneError if the other one
        does already."""
        if lane is not None and self.draining is lane.other:
            raise LastLaneError(lane)
        self.draining = lane
        self._find_usable()

    def sleep(self, lane: Lane, now: float) -> None:
        """A lane gets nothing from now on, and what is known of its health is over."""
        self.asleep |= {lane}
        self._set(replace(self._lanes[lane], health=LaneHealth(since=now)))

    def wake(self, lane: Lane) -> None:
        self.asleep -= {lane}
        self._find_usable()

    def closed(self, lane: Lane) -> bool:
        """Whether a lane gets nothing new, however well it is."""
        return lane is self.draining or lane in self.asleep

    def opened(self, decision: Decision) -> Decision:
        """A decision, but for a lane that is open: one that drains has what only it holds, one that
        sleeps has nothing."""
        lane, other = decision.lane, decision.lane.other
        if lane in self.asleep:
            return decision._replace(lane=other, reason=Reason.ASLEEP)
        drains = lane is self.draining and other not in self.asleep
        if drains and decision.reason is not Reason.HELD:
            return decision._replace(lane=other, reason=Reason.LAST_RESORT)
        if other in self.asleep and decision.reason is Reason.LANE_DOWN:
            return decision._replace(reason=Reason.ASLEEP)
        return decision

    def views(self) -> dict[Lane, LaneView]:
        return {
            lane: LaneView(
                url=state.origin.url,
                health=state.health.state,
                engine=state.engine,
                draining=lane is self.draining,
                carried=self.carried[lane],
                asleep=lane in self.asleep,
            )
            for lane, state in self._lanes.items()
        }

    def _set(self, state: _LaneState) -> None:
        self._lanes[state.origin.lane] = state
        self._find_usable()

    def _find_usable(self) -> None:
        self.all_open = self.draining is None and not self.asleep
        self.usable = frozenset(
            lane
            for lane, state in self._lanes.items()
            if state.health.usable and not self.closed(lane)
        )
