"""The two lanes as the gate knows them: where each is, what it runs, and whether it is used.

A lane is used unless its health says that it cannot serve, or an operator drains it: a draining
lane ends what it has and gets nothing new, whatever becomes of the other one.
"""

from dataclasses import dataclass, replace

from specgate.core.events import HealthChanged
from specgate.core.health import Health, LaneHealth, Sign, step
from specgate.core.lanes import Lane
from specgate.core.view import LaneView
from specgate.engines.base import Engine
from specgate.upstream.base import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaneState:
    origin: Origin
    health: LaneHealth
    engine: Engine = Engine.UNKNOWN


class Roster:
    """Times are monotonic seconds. A word about a URL that its lane has left changes nothing.

    usable: the lanes that new requests may go to. draining: the lane that an operator drains, never
    both. carried: of each lane, exchanges that it has in hand, those that are no load included.
    """

    def __init__(self, origins: dict[Lane, Origin], now: float) -> None:
        self._lanes = {
            lane: _LaneState(origin=origin, health=LaneHealth(since=now))
            for lane, origin in origins.items()
        }
        self.usable: frozenset[Lane] = frozenset(Lane)
        self.draining: Lane | None = None
        self.carried = dict.fromkeys(Lane, 0)

    def origin(self, lane: Lane) -> Origin:
        return self._lanes[lane].origin

    def engine(self, lane: Lane) -> Engine:
        return self._lanes[lane].engine

    @property
    def ready(self) -> bool:
        """Whether some lane is known to serve."""
        return any(
            state.health.state is Health.HEALTHY and lane is not self.draining
            for lane, state in self._lanes.items()
        )

    def saw(self, origin: Origin, sign: Sign, why: str, now: float) -> HealthChanged | None:
        """A sign of a lane's health, and the fact if its state moved."""
        lane = self._lanes[origin.lane]
        if lane.origin is not origin and lane.origin != origin:
            return None
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

    def drain(self, lane: Lane | None) -> None:
        """The lane that drains from now on; None: neither."""
        self.draining = lane
        self._find_usable()

    def views(self) -> dict[Lane, LaneView]:
        return {
            lane: LaneView(
                url=state.origin.url,
                health=state.health.state,
                engine=state.engine,
                draining=lane is self.draining,
                carried=self.carried[lane],
            )
            for lane, state in self._lanes.items()
        }

    def _set(self, state: _LaneState) -> None:
        self._lanes[state.origin.lane] = state
        self._find_usable()

    def _find_usable(self) -> None:
        self.usable = frozenset(
            lane
            for lane, state in self._lanes.items()
            if state.health.usable and lane is not self.draining
        )
